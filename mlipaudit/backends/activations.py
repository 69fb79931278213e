# SPDX-License-Identifier: Apache-2.0
"""What flows between the innermost flax modules of a model while it runs: zeros, and channels that are dead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from mlipaudit.backends.cost import Activations

DEAD = 1e-6
"""Of the largest value beside it: a channel that never exceeds this is dead."""


class _Seen(NamedTuple):
    """Values that entered a module."""

    module: tuple[str, ...]
    values: int
    channels: int
    zeros: Array
    dead: Array


class Probe:
    """An interceptor for `flax.linen.intercept_methods`: looks at what enters modules that call no other module.

    What leaves a linear map is not yet an activation; what enters the next module is, whatever stood in between.
    """

    def __init__(self, rows: Mapping[int, int]) -> None:
        """Look at arrays whose first dimension is a key of `rows`: so many of their rows are real, the first ones."""
        self._rows = rows
        self._calls: list[bool] = []
        self._known: dict[int, Array] = {}
        self._seen: list[_Seen] = []

    def __call__(self, call: Callable, args: tuple, kwargs: dict, context: Any) -> Any:
        """One call of a method of a module."""
        if context.method_name != "__call__":
            return call(*args, **kwargs)
        if self._calls:
            self._calls[-1] = True
        self._calls.append(False)
        result = call(*args, **kwargs)
        if not self._calls.pop():
            self._look(context.module.path, [*args, *kwargs.values()])
        return result

    def statistics(self) -> list[tuple[Array, Array]]:
        """Zeros and dead channels of everything that was seen: outputs of the traced function."""
        return [(seen.zeros, seen.dead) for seen in self._seen]

    def collect(
        self, statistics: list[tuple[Array, Array]], module_of: Callable[[tuple[str, ...]], str]
    ) -> dict[str, Activations]:
        """By module, once the numbers have been computed."""
        found: dict[str, Activations] = {}
        for seen, (zeros, dead) in zip(self._seen, statistics, strict=True):
            own = Activations(seen.values, int(zeros), seen.channels, int(dead))
            name = module_of(seen.module)
            found[name] = found.get(name, Activations()) + own
        return found

    def _look(self, module: tuple[str, ...], arguments: Sequence[Any]) -> None:
        leaves = [jax.tree.leaves(argument) for argument in arguments]
        for array in (own[0] for own in leaves if len(own) == 1):  # a whole graph is no activation
            shape: tuple[int, ...] = getattr(array, "shape", ())
            if len(shape) < 2 or shape[0] not in self._rows or not jnp.issubdtype(array.dtype, jnp.floating):
                continue
            if id(array) not in self._known:  # several modules may read one array
                self._known[id(array)] = array
                real = array[: self._rows[shape[0]]].reshape(-1, shape[-1])
                self._seen.append(_Seen(tuple(module), math.prod(real.shape), shape[-1], *_statistics(real)))


def _statistics(values: Array) -> tuple[Array, Array]:
    peaks = jnp.max(jnp.abs(values), axis=0, initial=0.0)
    return jnp.sum(values == 0), jnp.sum(peaks <= DEAD * jnp.max(peaks, initial=0.0))
