# SPDX-License-Identifier: Apache-2.0
"""Counting what a traced program computes, without compiling it.

A jaxpr is walked through calls, scans (times their length), loops (times their trip count, where it is a constant),
conditions (the dearest branch), rematerialised and custom-derivative blocks. XLA's own estimate counts the body of a
loop once.

How a count depends on the problem's size is read off one trace. It is made at sizes that are different prime numbers,
none of which divides a dimension of the weights, so that the powers in which the primes divide a product of dimensions
say how often atoms and edges are factors of it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params
from jax.interpreters.partial_eval import dce_jaxpr

from mlipaudit.backends.cost import DIMENSIONS, Size, Term

ModuleOf = Callable[[Sequence[str]], str]
"""Name of the module that the scopes around an operation stand for, outermost first."""
OPAQUE = (
    "pallas_call",
    "ffi_call",
    "tpu_custom_call",
    "custom_call",
    "pure_callback",
    "io_callback",
    "fft",
    "cholesky",
    "eigh",
    "eig",
    "lu",
    "qr",
    "householder_product",
    "svd",
    "triangular_solve",
)
"""Operations whose multiplications a jaxpr does not show."""
_LEAVES = ("scatter", "reduce", "sort", "cum", "arg")
"""Beginnings of names of operations whose inner programs combine two scalars."""
_WRAPPERS = re.compile(r"\w+\(|\)")


@dataclass
class Tally:
    """Operations by module and by the powers in which they depend on each size."""

    sizes: Size
    macs: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)
    products: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)

    def terms(self, module: str | None = None) -> tuple[Term, ...]:
        """Multiply–accumulates of one module, or of all."""
        return _terms(self.macs, module)

    @property
    def modules(self) -> list[str]:
        """Names of modules with multiply–accumulates, in their order."""
        return list(dict.fromkeys(name for name, _ in self.macs))

    @property
    def num_macs(self) -> int:
        """Multiply–accumulates at the traced sizes."""
        return sum(term.at(self.sizes) for term in self.terms())

    def powers(self, number: int) -> tuple[int, tuple[int, ...]]:
        """A number without the primes of the sizes, and the powers of these in it."""
        found = []
        for name in DIMENSIONS:
            prime, power = self.sizes[name], 0
            while prime > 1 and number % prime == 0:
                number, power = number // prime, power + 1
            found.append(power)
        return number, tuple(found)

    def add(self, kind: Counter, module: str, factors: Iterable[int]) -> None:
        """Count a product of dimensions."""
        number = math.prod(factors)
        if number:
            rest, powers = self.powers(number)
            kind[module, powers] += rest

    def merge(self, other: Tally) -> None:
        """Add what another one holds."""
        self.macs += other.macs
        self.products += other.products
        self.uncounted += other.uncounted


def prime_size(at_least: Size, *, dimensions: Iterable[int] = (), long_range: bool = False) -> Size:
    """A size of different primes, not below another size, none of which divides one of `dimensions`."""
    taken = {d for d in dimensions if d > 1}
    floors = {"structures": max(at_least.structures, 101), "atoms": max(at_least.atoms, 211)}
    floors["edges"] = max(at_least.edges, 1009)
    if long_range:
        floors["long_range_edges"] = max(at_least.long_range_edges, 2003)
    chosen: dict[str, int] = {}
    for name, floor in floors.items():
        number = floor
        while not _is_prime(number) or any(d % number == 0 for d in taken):
            number += 1
        chosen[name] = number
        taken.add(number)
    return Size(**chosen)


def count_operations(
    program: ClosedJaxpr, sizes: Size, module_of: ModuleOf, *, outputs: Sequence[bool] | None = None
) -> Tally:
    """What a program computes to arrive at its outputs, or at some of them.

    Args:
        program: traced at `sizes`.
        sizes: see `prime_size`; a size of 1 is not looked for.
        module_of: names modules.
        outputs: which outputs are wanted; what only the others need does not count.
    """
    tally = Tally(sizes)
    _walk(needed_for(program, outputs), tally, module_of, (), ())
    return tally


def needed_for(program: ClosedJaxpr, outputs: Sequence[bool] | None = None) -> Jaxpr:
    """A program without what its outputs, or those that are marked, do not need."""
    wanted = [True] * len(program.jaxpr.outvars) if outputs is None else list(outputs)
    return dce_jaxpr(program.jaxpr, wanted, instantiate=True)[0]


def trip_count(eqn: Any) -> int | None:
    """How often the body of a `while` is done: known where a constant counts up or down to a constant."""
    params = eqn.params
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    if len(condition.eqns) != 1 or condition.eqns[0].primitive.name not in ("lt", "gt", "le", "ge"):
        return None
    test = condition.eqns[0]
    carried = condition.invars[params["cond_nconsts"] :]
    if not isinstance(test.invars[1], Literal) or test.invars[0] not in carried:
        return None
    place = carried.index(test.invars[0])
    start = eqn.invars[params["cond_nconsts"] + params["body_nconsts"] + place]
    step = _step(body, body.invars[params["body_nconsts"] + place], body.outvars[place])
    if not isinstance(start, Literal) or not step:
        return None
    inclusive = test.primitive.name in ("le", "ge")
    upwards = test.primitive.name in ("lt", "le")
    distance = (test.invars[1].val - start.val) * (1 if upwards else -1)
    stride = step if upwards else -step
    trips = math.floor(distance / stride) + 1 if inclusive else math.ceil(distance / stride)
    return max(int(trips), 0) if stride > 0 else None


def _step(body: Jaxpr, before: Any, after: Any) -> float | None:
    """What a loop adds to its counter; None where it does something else with it."""
    made = next((eqn for eqn in body.eqns if eqn.outvars[0] is after), None)
    if made is None or made.primitive.name not in ("add", "sub") or made.invars[0] is not before:
        return None
    by = made.invars[1]
    if not isinstance(by, Literal):
        return None
    return by.val if made.primitive.name == "add" else -by.val


def _walk(
    jaxpr: Jaxpr, tally: Tally, module_of: ModuleOf, scopes: tuple[str, ...], factors: tuple[int, ...]
) -> None:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        inside = (*scopes, *_scopes(str(eqn.source_info.name_stack)))
        if name in OPAQUE:
            tally.uncounted[name] += 1
        elif name == "while":
            _walk_loop(eqn, tally, module_of, inside, factors)
        elif name == "cond":
            _walk_branches(eqn, tally, module_of, inside, factors)
        elif name.startswith(_LEAVES) or not (inner := list(jaxprs_in_params(eqn.params))):
            _count(eqn, tally, module_of(inside), factors)
        else:
            times = (eqn.params["length"],) if name == "scan" else ()
            for body in inner:
                _walk(body, tally, module_of, inside, (*factors, *times))


def _walk_loop(
    eqn: Any, tally: Tally, module_of: ModuleOf, scopes: tuple[str, ...], factors: tuple[int, ...]
) -> None:
    trips = trip_count(eqn)
    body, condition = eqn.params["body_jaxpr"].jaxpr, eqn.params["cond_jaxpr"].jaxpr
    inner, rounds = Tally(tally.sizes), 1 if trips is None else trips
    for jaxpr, times in ((body, rounds), (condition, rounds + 1)):
        _walk(jaxpr, inner, module_of, scopes, (*factors, times))
    if trips is None and (inner.macs or inner.products or inner.uncounted):
        tally.uncounted["while"] += 1
        return
    tally.merge(inner)


def _walk_branches(
    eqn: Any, tally: Tally, module_of: ModuleOf, scopes: tuple[str, ...], factors: tuple[int, ...]
) -> None:
    branches = []
    for branch in eqn.params["branches"]:
        branches.append(Tally(tally.sizes))
        _walk(branch.jaxpr, branches[-1], module_of, scopes, factors)
    tally.merge(max(branches, key=lambda branch: branch.num_macs))


def _count(eqn: Any, tally: Tally, module: str, factors: tuple[int, ...]) -> None:
    macs = _MACS.get(eqn.primitive.name)
    if macs is not None:
        tally.add(tally.macs, module, (*factors, *macs(eqn)))
    elif eqn.primitive.name == "mul" and np.issubdtype(eqn.outvars[0].aval.dtype, np.inexact):
        tally.add(tally.products, module, (*factors, *eqn.outvars[0].aval.shape))


def _of_dot(eqn: Any) -> Iterator[int]:
    """Of a product of two arrays: all dimensions of one, and those of the other that only it has."""
    (_, contracted), (_, batch) = eqn.params["dimension_numbers"]
    left, right = (var.aval.shape for var in eqn.invars[:2])
    yield from left
    yield from _without(right, (*contracted, *batch))


def _of_ragged_dot(eqn: Any) -> Iterator[int]:
    """Every row meets the matrix of one group."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    left, right = (var.aval.shape for var in eqn.invars[:2])
    yield from left
    yield from _without(right, (*contracted, *batch, *numbers.rhs_group_dimensions))


def _of_convolution(eqn: Any) -> Iterator[int]:
    """Each value of the output meets the whole kernel but for its output features."""
    kernel = eqn.invars[1].aval.shape
    yield from eqn.outvars[0].aval.shape
    yield from _without(kernel, eqn.params["dimension_numbers"].rhs_spec[:1])


_MACS: dict[str, Callable[[Any], Iterator[int]]] = {
    "dot_general": _of_dot,
    "ragged_dot": _of_ragged_dot,
    "ragged_dot_general": _of_ragged_dot,
    "conv_general_dilated": _of_convolution,
}


def _without(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [length for axis, length in enumerate(shape) if axis not in axes]


def _scopes(name_stack: str) -> list[str]:
    """Names in a name stack, without those of transformations around them."""
    return [name for name in _WRAPPERS.sub("", name_stack).split("/") if name and name != "rematted_computation"]


def _terms(counts: Counter[tuple[str, tuple[int, ...]]], module: str | None) -> tuple[Term, ...]:
    summed: Counter[tuple[int, ...]] = Counter()
    for (name, powers), number in counts.items():
        if module in (None, name):
            summed[powers] += number
    return tuple(Term(number, powers) for powers, number in sorted(summed.items()))  # type: ignore[arg-type]


def product_terms(tally: Tally) -> tuple[Term, ...]:
    """Elementwise multiplications of all modules."""
    return _terms(tally.products, None)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
