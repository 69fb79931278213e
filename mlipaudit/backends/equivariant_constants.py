# SPDX-License-Identifier: Apache-2.0
"""Constants of equivariant networks, computed by numpy.

e3j, the library under mlip's networks, merges the coefficients of its tensor products by a hundred small jax programs,
each compiled for itself: seven seconds of the first trace of a MACE. The same sums take numpy milliseconds. And e3nn
normalises activations over a million points between -1 and 1, which the compiler computes beforehand and puts into
the program: a second, and half of what a run adds to the cache of compiled programs. Where these libraries
have changed, or the numbers are not known yet, their own functions do the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax.experimental import sparse

NAME, POINTS = "sparse_bcoo", "normalspace"


def use_numpy() -> None:
    """Let e3j and e3nn, as far as they are loaded, compute their constants in numpy; twice does no harm."""
    _merge_with_numpy()
    activation = sys.modules.get("e3nn_jax._src.activation")
    if hasattr(activation, POINTS):
        setattr(activation, POINTS, normal_points)


@cache
def normal_points(n: int) -> jax.Array:
    """The n points that divide the normal distribution into parts of equal weight; bit for bit those of e3nn."""
    with jax.ensure_compile_time_eval():
        return jnp.sqrt(2) * jax.scipy.special.erfinv(jnp.asarray(evenly_spaced(n + 2)[1:-1]))


def evenly_spaced(n: int) -> np.ndarray:
    """n numbers from -1 to 1 in single precision, rounded as a compiled `jax.numpy.linspace`."""
    step = np.arange(n - 1, dtype=np.float32) * (np.float32(1) / np.float32(n - 1))
    return np.append(step - (np.float32(1) - step), np.float32(1))


def _merge_with_numpy() -> None:
    home = sys.modules.get("e3j.utils.sparse")
    original = getattr(home, NAME, None)
    if original is None or hasattr(original, "__wrapped__") or not hasattr(home, "narrow_index_dtype"):
        return
    replacement = _in_numpy(original, home.narrow_index_dtype)  # type: ignore[union-attr]
    for name, module in list(sys.modules.items()):
        if name.startswith("e3j.") and getattr(module, NAME, None) is original:
            setattr(module, NAME, replacement)


def _in_numpy(original: Callable, index_dtype: Callable) -> Callable:
    @wraps(original)
    def merge(values: Any, indices: Any, shape: tuple[int, ...], coalesce: bool = True) -> sparse.BCOO:
        if not coalesce or any(isinstance(array, jax.core.Tracer) for array in (values, indices)):
            return original(values, indices, shape, coalesce)
        merged, where = merged_coefficients(np.asarray(values), np.asarray(indices), shape)
        with jax.ensure_compile_time_eval():
            entries = jnp.asarray(merged), jnp.asarray(where.astype(index_dtype(shape)))
            return sparse.BCOO(entries, shape=shape, indices_sorted=True, unique_indices=True)

    return merge


def merged_coefficients(
    values: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Entries of a sparse array without its zeros, sorted by index, those of one index added up."""
    values, indices = values[values != 0], indices[values != 0]
    flat = np.ravel_multi_index(tuple(indices.astype(np.int64).T), shape)
    unique, place = np.unique(flat, return_inverse=True)
    sums = np.zeros(len(unique), values.dtype)
    np.add.at(sums, place, values)
    return sums, np.stack(np.unravel_index(unique, shape), axis=-1)
