# SPDX-License-Identifier: Apache-2.0
"""How often a program passes messages: the longest chain of sums over edges into atoms on the way to its outputs.

Read off the flow of data, not off a setting: some architectures send a message more in their embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

from mlipaudit.backends.cost import Size
from mlipaudit.backends.operations import needed_for


def count_message_steps(program: ClosedJaxpr, sizes: Size, *, outputs: Sequence[bool] | None = None) -> int:
    """Sums over edges into atoms, one after the other, before the outputs.

    Args:
        program: traced at `sizes`.
        sizes: atoms and edges, by which their dimensions are told from others.
        outputs: which outputs are wanted.
    """
    jaxpr = needed_for(program, outputs)
    return max(_flow(jaxpr, [0] * len(jaxpr.invars), sizes), default=0)


def _flow(jaxpr: Jaxpr, depths: Sequence[int], sizes: Size) -> list[int]:
    """Messages passed before each output, from those before each input."""
    known: dict[Any, int] = dict(zip(jaxpr.invars, depths, strict=True))

    def depth(var: Any) -> int:
        return 0 if isinstance(var, Literal) else known.get(var, 0)

    for eqn in jaxpr.eqns:
        found = _through(eqn, [depth(var) for var in eqn.invars], sizes)
        known.update(zip(eqn.outvars, found, strict=True))
    return [depth(var) for var in jaxpr.outvars]


def _through(eqn: Any, depths: list[int], sizes: Size) -> list[int]:
    """The same, of one operation."""
    name = eqn.primitive.name
    if name == "scan":
        return _through_scan(eqn, depths, sizes)
    if name == "cond":
        branches = [_flow(branch.jaxpr, depths[1:], sizes) for branch in eqn.params["branches"]]
        return [max(found) for found in zip(*branches, strict=True)]
    inner = [] if name == "while" else list(jaxprs_in_params(eqn.params))
    if len(inner) == 1 and len(inner[0].invars) == len(depths) and len(inner[0].outvars) == len(eqn.outvars):
        return _flow(inner[0], depths, sizes)
    own = int(name.startswith("scatter") and _sums_edges(eqn, sizes))
    return [max(depths, default=0) + own] * len(eqn.outvars)


def _through_scan(eqn: Any, depths: list[int], sizes: Size) -> list[int]:
    """What a round carries over enters the next one."""
    params = eqn.params
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    found = [0] * len(eqn.outvars)
    for _ in range(params["length"]):
        found = _flow(params["jaxpr"].jaxpr, depths, sizes)
        carried = found[: params["num_carry"]]
        if carried == depths[first:last]:
            break
        depths = [*depths[:first], *carried, *depths[last:]]
    return found


def _sums_edges(eqn: Any, sizes: Size) -> bool:
    into, _, what = (var.aval.shape for var in eqn.invars[:3])
    edges = {sizes.edges, sizes.long_range_edges} - {0}
    return sizes.atoms in into and bool(edges.intersection(what))
