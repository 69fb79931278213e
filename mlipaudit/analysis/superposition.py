# SPDX-License-Identifier: Apache-2.0
"""Root-mean-square distance of two geometries after the best rigid motion."""

from __future__ import annotations

import numpy as np


def superposed_rmsd(positions: np.ndarray, reference: np.ndarray) -> float:
    """RMSD in the unit of the input, [atoms, 3] each; rotations only, so that a mirror image is another molecule.

    After Kabsch (10.1107/S0567739476001873).

    Raises:
        ValueError: the shapes differ, or there are no atoms.
    """
    x, y = np.asarray(positions, np.float64), np.asarray(reference, np.float64)
    if x.shape != y.shape or not len(x):
        raise ValueError(f"cannot superpose geometries of shapes {x.shape} and {y.shape}")
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    left, _, right = np.linalg.svd(x.T @ y)
    # A reflection would fit better: turn the least important axis back.
    handedness = np.sign(np.linalg.det(left) * np.linalg.det(right))
    rotation = left @ np.diag([1.0, 1.0, handedness]) @ right
    # From the differences, not from the singular values: those cancel near zero.
    return float(np.sqrt(np.mean(np.sum((x @ rotation - y) ** 2, axis=1))))
