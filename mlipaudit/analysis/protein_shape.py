# SPDX-License-Identifier: Apache-2.0
"""Size of a structure, and how much of it lies where a reference has it."""

from __future__ import annotations

import numpy as np

SMALLEST_SCALE = 0.5
"""Å: of the TM-score, for chains of up to 21 residues."""
SHORTEST_SEED = 4
"""Residues of the shortest pieces that are superposed to begin with."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-9


def radii_of_gyration(positions: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Mass-weighted, [frames], in the unit of positions [frames, atoms, 3]."""
    x, weights = np.asarray(positions, np.float64), np.asarray(masses, np.float64) / np.sum(masses)
    centres = np.einsum("a,fad->fd", weights, x)
    return np.sqrt(np.einsum("a,fad->f", weights, (x - centres[:, None]) ** 2))


def tm_scale(num_residues: int) -> float:
    """Å: distance at which a residue counts half, so that the score of unrelated structures is that of no length."""
    return max(SMALLEST_SCALE, 1.24 * float(np.cbrt(num_residues - 15)) - 1.8)


def tm_score(positions: np.ndarray, reference: np.ndarray) -> float:
    """TM-score of two geometries of one chain, Cα positions in Å, [residues, 3] each: 1 where they are equal.

    The largest value over rigid motions of the mean of 1 / (1 + (d/d0)²), residue i of one paired with residue i of the
    other (Zhang & Skolnick 2004, 10.1002/prot.20264). As there, pieces of the whole, half, quarter… length are
    superposed at every place, and each superposition is improved. How it is improved is ours: fit again with
    the weights 1 / (1 + (d/d0)²)², under which the score never falls, for it is convex in d².

    Raises:
        ValueError: the shapes differ, or there are no residues.
    """
    x, y = np.asarray(positions, np.float64), np.asarray(reference, np.float64)
    if x.shape != y.shape or not len(x):
        raise ValueError(f"cannot compare chains of shapes {x.shape} and {y.shape}")
    weights = _seeds(len(x))
    scale = tm_scale(len(x))
    best = 0.0
    for _ in range(MAX_ITERATIONS):
        closeness = 1.0 / (1.0 + _squared_distances(x, y, weights) / scale**2)
        scores = closeness.mean(axis=1)
        if scores.max() - best < TOLERANCE:
            break
        best = float(scores.max())
        weights = closeness**2
    return max(best, float(scores.max()))


def _seeds(num_residues: int) -> np.ndarray:
    """Weights of the pieces, [pieces, residues]."""
    rows, length = [], num_residues
    while True:
        for start in range(num_residues - length + 1):
            rows.append(np.zeros(num_residues))
            rows[-1][start : start + length] = 1.0
        if length <= SHORTEST_SEED:
            return np.array(rows)
        length = max(length // 2, SHORTEST_SEED)


def _squared_distances(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of each pair, [fits, residues], after the best superposition under each row of weights [fits, residues]."""
    share = weights / weights.sum(axis=1, keepdims=True)
    moved = x - (share @ x)[:, None]
    fixed = y - (share @ y)[:, None]
    left, _, right = np.linalg.svd(np.einsum("fr,frd,fre->fde", share, moved, fixed))
    left[:, :, 2] *= np.sign(np.linalg.det(left) * np.linalg.det(right))[:, None]
    return np.sum((moved @ (left @ right) - fixed) ** 2, axis=-1)
