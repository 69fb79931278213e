# SPDX-License-Identifier: Apache-2.0
"""What one evaluation of a model costs, counted and not timed: the answer of `Backend.cost`. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

PARAMETERS, OPERATIONS, PARTS = "parameters", "operations", "operations by part"
ACTIVATIONS, MESSAGES, MEMORY = "activations", "messages", "memory"
QUANTITIES = (PARAMETERS, OPERATIONS, PARTS, ACTIVATIONS, MESSAGES, MEMORY)
"""What may not apply to a model. `PARTS` are modules, and the energy without the forces."""


@dataclass(frozen=True)
class Size:
    """How large a problem is."""

    atoms: int
    edges: int
    """Directed neighbour pairs."""
    structures: int = 1
    long_range_edges: int = 0

    def __getitem__(self, name: str) -> int:
        return getattr(self, name)


DIMENSIONS = ("atoms", "edges", "structures", "long_range_edges")
"""Fields of a size, in the order of `Term.powers`."""


@dataclass(frozen=True)
class Term:
    """`count` operations for each product of sizes; atoms alone for powers of (1, 0, 0, 0)."""

    count: int
    powers: tuple[int, int, int, int] = (0, 0, 0, 0)

    def at(self, size: Size) -> int:
        """Operations at a size."""
        number = self.count
        for name, power in zip(DIMENSIONS, self.powers, strict=True):
            number *= size[name] ** power
        return number


def operations_at(terms: Iterable[Term], size: Size) -> int:
    """The sum of terms at a size."""
    return sum(term.at(size) for term in terms)


def coefficient_of(terms: Iterable[Term], *dimensions: str) -> int:
    """Operations for each product of some dimensions, each to the power of one."""
    powers = tuple(int(name in dimensions) for name in DIMENSIONS)
    return sum(term.count for term in terms if term.powers == powers)


@dataclass(frozen=True)
class Weights:
    """Parameters of a part of a model, those that are shared counted where they first occur."""

    parameters: int = 0
    num_bytes: int = 0
    connections: int = 0
    """Parameters but for biases."""
    zeros: int = 0
    """Connections that are exactly zero."""


@dataclass(frozen=True)
class Activations:
    """What enters the innermost modules, over all atoms and edges of some structures."""

    values: int = 0
    zeros: int = 0
    """Values that are exactly zero."""
    channels: int = 0
    dead: int = 0
    """Channels that are zero everywhere, within 1e-6 of the largest value beside them."""

    def __add__(self, other: Activations) -> Activations:
        return Activations(
            self.values + other.values,
            self.zeros + other.zeros,
            self.channels + other.channels,
            self.dead + other.dead,
        )


@dataclass(frozen=True)
class ModuleCost:
    """A part of a model, named after its place in it."""

    name: str
    weights: Weights = field(default_factory=Weights)
    forward: tuple[Term, ...] = ()
    """Multiply–accumulates of the energy."""
    whole: tuple[Term, ...] = ()
    """The same, of energy and forces."""
    activations: Activations | None = None


@dataclass(frozen=True)
class Memory:
    """What the compiled program of energy and forces needs, as the compiler says."""

    at: Size
    """Size it was compiled for."""
    arguments: int
    """Bytes of weights and inputs."""
    temporary: int
    """Bytes of what lies in between."""
    peak: int
    """Bytes at the worst moment; on a CPU all of it together, for there the compiler does not say when it is used."""


@dataclass(frozen=True)
class SystemSize:
    """A system as the model sees it, and the padded shape that it is evaluated in by itself."""

    real: Size
    padded: Size


@dataclass(frozen=True)
class Cost:
    """The price of a model; what is not known is left at its default, and `not_applicable` says why."""

    parameters_by_type: dict[str, int] = field(default_factory=dict)
    """Parameters by floating-point type."""
    modules: tuple[ModuleCost, ...] = ()
    products: tuple[Term, ...] = ()
    """Elementwise multiplications of energy and forces, which are no multiply–accumulates."""
    systems: tuple[SystemSize, ...] = ()
    """One for each system that was asked about; empty where nobody knows the edges."""
    measured_macs: tuple[int | None, ...] = ()
    """Multiply–accumulates of energy and forces of each system, where they were counted while it ran."""
    cutoff: float | None = None
    """Å"""
    message_steps: int | None = None
    """How often atoms pass on what they have heard from their neighbours."""
    memory: Memory | None = None
    uncounted: tuple[str, ...] = ()
    """Operations of whose inside nothing is known, and that are not counted."""
    not_applicable: dict[str, str] = field(default_factory=dict)
    """What is not known -> why not."""
