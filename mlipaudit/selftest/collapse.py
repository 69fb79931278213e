# SPDX-License-Identifier: Apache-2.0
"""A force field of mlip in which everything attracts everything: the list of neighbours has no natural end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.ops import segment_sum
from mlip.graph import Graph
from mlip.models import ForceField
from mlip.typing import Prediction

CUTOFF = 5.0
DEPTH = 0.1
"""eV per pair: binds the self-test's atoms against their heat, and has more than tripled their neighbours long before
they are hot enough to count as exploding."""


@dataclass(frozen=True, eq=False)
class Collapsing(ForceField):
    """E = -depth (1 - (r / CUTOFF)^2)^2 per pair, eV and Å: soft, and without a core."""

    depth: float = DEPTH
    allowed_atomic_numbers = frozenset(range(1, 119))
    cutoff_distance = CUTOFF
    long_range_cutoff_distance = None
    config = None

    def __call__(self, graph: Graph) -> Prediction:
        """Energies and forces of a batch."""
        gradient = jax.grad(lambda positions: _energies(positions, graph, self.depth).sum())(graph.nodes.positions)
        return Prediction(energy=_energies(graph.nodes.positions, graph, self.depth), forces=-gradient)


def _energies(positions: jax.Array, graph: Graph, depth: float) -> jax.Array:
    """Of each graph of the batch."""
    numbers = jnp.arange(len(graph.n_node))
    own = jnp.repeat(numbers, graph.n_node, total_repeat_length=len(positions))[graph.senders]
    vectors = positions[graph.receivers] - positions[graph.senders]
    if graph.edges.shifts is not None:
        vectors += jnp.einsum("ei,eij->ej", graph.edges.shifts, graph.globals.cell[own])
    x = jnp.sum(vectors**2, axis=-1) / CUTOFF**2
    inside = (graph.senders != graph.receivers) & (x < 1)
    # Every pair is listed from both ends.
    pairs = -0.5 * depth * jnp.where(inside, (1 - x) ** 2, 0.0)
    return segment_sum(pairs, own, len(graph.n_node))


def collapsing(depth: float = DEPTH) -> Any:
    """The force field; `depth` in eV."""
    return Collapsing(predictor=None, params={"none": jnp.zeros(1)}, depth=depth)
