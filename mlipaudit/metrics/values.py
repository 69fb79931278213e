# SPDX-License-Identifier: Apache-2.0
"""Predicted and labelled values of one quantity, of any number of systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Quantity:
    """What is predicted and labelled."""

    name: str
    needs: str
    """Property of a system that it is made from."""
    unit: str
    width: int
    """Components per row; rows are systems or, of forces, atoms."""


ENERGY = Quantity("energy_per_atom", "energy", "eV/atom", 1)
FORCES = Quantity("forces", "forces", "eV/Å", 3)
STRESS = Quantity("stress", "stress", "eV/Å³", 6)
"""Components xx, yy, zz, yz, xz, xy; positive where the cell pulls inwards, as in ase."""
QUANTITIES = {quantity.name: quantity for quantity in (ENERGY, FORCES, STRESS)}


@dataclass(frozen=True)
class Values:
    """Rows of predicted and labelled components. A component that has no label is NaN, and takes no part."""

    predicted: np.ndarray
    """[rows, width], float64"""
    labelled: np.ndarray
    """[rows, width], float64"""
    owner: np.ndarray
    """[rows]: the system that each row belongs to, ascending."""
    num_systems: int

    @classmethod
    def of_system(cls, predicted: np.ndarray, labelled: np.ndarray) -> Values:
        """Those of a single one; arrays are [rows, width]."""
        return cls(predicted, labelled, np.zeros(len(labelled), int), 1)

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """Those of several, one after the other."""
        starts = np.cumsum([0, *(part.num_systems for part in parts)])
        return cls(
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.labelled for part in parts]),
            np.concatenate([part.owner + start for part, start in zip(parts, starts, strict=False)]),
            int(starts[-1]),
        )

    def only(self, rows: np.ndarray) -> Values:
        """The rows where a mask is true, of the same systems."""
        return Values(self.predicted[rows], self.labelled[rows], self.owner[rows], self.num_systems)

    def alone(self, system: int) -> Values:
        """Those of one of the systems."""
        first, last = np.searchsorted(self.owner, [system, system + 1])
        return Values.of_system(self.predicted[first:last], self.labelled[first:last])

    @cached_property
    def known(self) -> np.ndarray:
        """[rows, width]: whether a component has a label."""
        return np.isfinite(self.labelled)

    @cached_property
    def x(self) -> np.ndarray:
        """[components]: the labels that there are."""
        return self.labelled[self.known]

    @cached_property
    def y(self) -> np.ndarray:
        """[components]: their predictions."""
        return self.predicted[self.known]

    @cached_property
    def errors(self) -> np.ndarray:
        """[components]: prediction minus label."""
        return self.y - self.x

    @cached_property
    def systems(self) -> np.ndarray:
        """[components]: the system that each belongs to."""
        return np.repeat(self.owner, self.known.sum(axis=1))

    @cached_property
    def counts(self) -> np.ndarray:
        """[systems]: components that have a label."""
        return np.bincount(self.systems, minlength=self.num_systems)

    @cached_property
    def whole_rows(self) -> np.ndarray:
        """[rows]: whether all components have a label."""
        return np.asarray(self.known.all(axis=1))
