# SPDX-License-Identifier: Apache-2.0
"""A force field of mlip in which everything attracts everything: the list of neighbours has no natural end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from mlip.graph import Graph
from mlip.models import ForceField
from mlip.typing import Prediction

CUTOFF = 5.0
DEPTH = 0.5
"""eV per pair: binds the self-test's atoms against their heat, and has tripled their neighbours long before they are
hot enough to count as exploding."""


@dataclass(frozen=True, eq=False)
class Collapsing(ForceField):
    """E = -DEPTH (1 - (r / CUTOFF)^2)^2 per pair, eV and Å: soft, and without a core."""

    allowed_atomic_numbers = frozenset(range(1, 119))
    cutoff_distance = CUTOFF
    long_range_cutoff_distance = None
    config = None

    def __call__(self, graph: Graph) -> Prediction:
        """Energies and forces of a batch."""
        energy, gradient = jax.value_and_grad(_energy, has_aux=False)(graph.nodes.positions, graph)
        return Prediction(energy=jnp.stack([energy, jnp.zeros_like(energy)]), forces=-gradient)


def _energy(positions: jax.Array, graph: Graph) -> jax.Array:
    vectors = positions[graph.receivers] - positions[graph.senders]
    x = jnp.sum(vectors**2, axis=-1) / CUTOFF**2
    inside = (graph.senders != graph.receivers) & (x < 1)
    # Every pair is listed from both ends.
    return -0.5 * DEPTH * jnp.sum(jnp.where(inside, (1 - x) ** 2, 0.0))


def collapsing() -> Any:
    """The force field."""
    return Collapsing(predictor=None, params={"none": jnp.zeros(1)})
