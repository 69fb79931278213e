# SPDX-License-Identifier: Apache-2.0
"""Samples of dihedral angles compared with reference points: histograms, and distances to the nearest point.

Points are [n, angles] in degrees, periodic in 360°. Histograms hold their occupied bins only: four angles have six
million bins.
"""

from __future__ import annotations

import numpy as np

PERIOD = 360.0
NUM_BINS = 50
"""Per angle, over [-180°, 180°]."""
OUTLIER = 10.0
"""Degrees from the nearest reference point, Euclidean over the angles."""


def _shares(sampled: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Shares of either in the bins that one of them has points in, [bins] each, and the number of all bins."""
    both = np.concatenate([sampled, reference])
    edges = np.linspace(-PERIOD / 2, PERIOD / 2, NUM_BINS + 1)
    beyond = np.abs(both) > PERIOD / 2
    both = np.where(beyond, (both + PERIOD / 2) % PERIOD - PERIOD / 2, both)
    bins = np.clip(np.searchsorted(edges, both, side="right") - 1, 0, NUM_BINS - 1)
    _, bin_of = np.unique(bins, axis=0, return_inverse=True)
    bin_of, size = bin_of.reshape(-1), bin_of.max() + 1
    ours, theirs = bin_of[: len(sampled)], bin_of[len(sampled) :]
    p, q = (np.bincount(part, minlength=size) / len(part) for part in (ours, theirs))
    return p, q, NUM_BINS ** both.shape[1]


def histogram_rmsd(sampled: np.ndarray, reference: np.ndarray) -> float:
    """Root-mean-square difference of the normalised histograms over all bins."""
    p, q, num_bins = _shares(sampled, reference)
    return float(np.sqrt(np.sum((p - q) ** 2) / num_bins))


def hellinger_distance(sampled: np.ndarray, reference: np.ndarray) -> float:
    """Of the normalised histograms: 0 where they are equal, 1 where they share no bin."""
    p, q, _ = _shares(sampled, reference)
    return float(np.sqrt(max(0.0, 1.0 - np.sum(np.sqrt(p * q)))))


def _within_period(points: np.ndarray) -> np.ndarray:
    angles = np.asarray(points, np.float64) % PERIOD
    return np.where(angles < PERIOD, angles, 0.0)  # the remainder of -1e-17 is 360


def outliers(sampled: np.ndarray, reference: np.ndarray, *, threshold: float = OUTLIER) -> np.ndarray:
    """Whether each sampled point is farther than `threshold` from every reference point, [n]."""
    from scipy.spatial import cKDTree

    tree = cKDTree(_within_period(reference), boxsize=PERIOD)
    return tree.query(_within_period(sampled))[0] > threshold


def null_rate(reference: np.ndarray, *, threshold: float = OUTLIER) -> float:
    """Share of outliers in a sample of the reference distribution itself: each reference point against the others.

    1 for a single point, which has no others.
    """
    from scipy.spatial import cKDTree

    if len(reference) < 2:
        return 1.0
    points = _within_period(reference)
    distances = cKDTree(points, boxsize=PERIOD).query(points, k=2)[0][:, 1]
    return float(np.mean(distances > threshold))


def excess_rate(rate: float, null: float) -> float | None:
    """Outliers beyond those that the reference distribution itself would give: 0 for such a sample, 1 if all are.

    None where the test flags every sample, and says nothing.
    """
    return max(0.0, (rate - null) / (1.0 - null)) if null < 1.0 else None
