# SPDX-License-Identifier: Apache-2.0
"""An analytic potential for tests and plugin authors: every pair is a Morse oscillator, cut off smoothly.

Fast, differentiable by hand, right for no chemistry. It covers every element and ignores charge.
"""

from __future__ import annotations

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.neighborlist import neighbor_list


class ToyCalculator(Calculator):
    """E = sum over pairs of D [(1 - exp(-a (r - r0)))^2 - 1] (1 - (r/rc)^2)^2, in eV and Å."""

    implemented_properties = ["energy", "forces"]
    allowed_atomic_numbers = frozenset(range(1, 119))

    def __init__(self, depth: float = 0.2, width: float = 1.5, distance: float = 1.5, cutoff: float = 4.0) -> None:
        super().__init__()
        self.depth, self.width, self.distance, self.cutoff = depth, width, distance, cutoff

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | None = None,
        system_changes: list[str] = all_changes,
    ) -> None:
        """Energy (eV) and forces (eV/Å) of one structure."""
        super().calculate(atoms, properties, system_changes)
        i, vectors, r = neighbor_list("iDd", self.atoms, self.cutoff)
        decay = np.exp(-self.width * (r - self.distance))
        morse, morse_slope = (1 - decay) ** 2 - 1, 2 * self.width * decay * (1 - decay)
        x = 1 - (r / self.cutoff) ** 2
        taper, taper_slope = x**2, -4 * x * r / self.cutoff**2
        slope = self.depth * (morse_slope * taper + morse * taper_slope)
        forces = np.zeros((len(self.atoms), 3))
        np.add.at(forces, i, (slope / r)[:, None] * vectors)
        # Every pair is listed from both ends.
        self.results = {"energy": float(0.5 * self.depth * (morse * taper).sum()), "forces": forces}


def toy(depth: float = 0.2, width: float = 1.5, distance: float = 1.5, cutoff: float = 4.0) -> ToyCalculator:
    """Analytic pair potential for tests: no chemistry, every element."""
    return ToyCalculator(depth, width, distance, cutoff)
