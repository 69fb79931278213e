# SPDX-License-Identifier: Apache-2.0
"""What a metric promises: it is told of one system after the other, in the order of the data, and then gives a number.

What it needs of a system decides when it is told. Energy, forces and stress are kept, so that such a metric is computed
from the answers of all systems, wherever they came from. Of anything else (activations, dipoles, …) only the metric's
`state` for the system is kept, and `merge`d in the order of the data. Either way a number depends neither on who did
what nor on batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

if TYPE_CHECKING:
    from ase import Atoms

Direction = Literal["lower", "higher", "neither"]
KEPT = ("energy", "forces", "stress")
"""Properties of which the answers themselves are stored."""


@dataclass(frozen=True)
class Sample:
    """One system as a model predicts it, or as it is labelled; what is not known is None, or NaN in an array."""

    atoms: Atoms
    """Of a prediction: as the model saw it. Of a label: as in the file, `info` and `arrays` included."""
    energy: float | None = None
    """eV, of the whole system."""
    forces: np.ndarray | None = None
    """eV/Å, [atoms, 3]"""
    stress: np.ndarray | None = None
    """eV/Å³: xx, yy, zz, yz, xz, xy."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else a metric needs and the model gives, by name; of predictions only."""

    def has(self, what: str) -> bool:
        """Whether a property is there."""
        return (getattr(self, what) if what in KEPT else self.others.get(what)) is not None


class DatasetMetric(ABC):
    """A number that says how good predictions are.

    A subclass is made without arguments, or with the text behind the colon of its name.
    """

    unit: ClassVar[str | None] = ""
    direction: ClassVar[Direction] = "lower"
    """Which way is better."""
    needs: ClassVar[tuple[str, ...]] = KEPT[:1]
    """Properties that a system must have: `energy`, `forces` and `stress` on both sides, others as predicted."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all systems."""

    @abstractmethod
    def update(self, prediction: Sample, reference: Sample) -> None:
        """Take one system in."""

    @abstractmethod
    def compute(self) -> float:
        """The number for all systems since `reset`. One that is not finite, or an exception, is null with a reason."""

    def state(self) -> Any:
        """Sufficient statistics of all systems since `reset`: numbers and texts in lists and mappings."""
        raise NotImplementedError(f"{type(self).__name__} has no state()")

    def merge(self, state: Any) -> None:
        """Take in the systems that a `state` stands for, as if `update` had been called with each of them."""
        raise NotImplementedError(f"{type(self).__name__} has no merge()")
