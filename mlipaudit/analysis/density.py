# SPDX-License-Identifier: Apache-2.0
"""Density of a box of molecules."""

from __future__ import annotations

import numpy as np

AVOGADRO_PER_CM3 = 0.602214076
"""Molecules per mole, times cm³ per Å³."""


def number_density(density: float, *, molar_mass: float) -> float:
    """Molecules per Å³ at a density in g/cm³."""
    return density * AVOGADRO_PER_CM3 / molar_mass


def volumes(boxes: np.ndarray) -> np.ndarray:
    """Å³, of boxes given by their lengths, [..., 3]."""
    return np.prod(np.asarray(boxes, np.float64), axis=-1)


def densities(boxes: np.ndarray, *, num_molecules: float, molar_mass: float) -> np.ndarray:
    """g/cm³ of boxes [..., 3] with so many molecules of a mass in g/mol."""
    return num_molecules * molar_mass / (AVOGADRO_PER_CM3 * volumes(boxes))
