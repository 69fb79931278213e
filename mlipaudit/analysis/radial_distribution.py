# SPDX-License-Identifier: Apache-2.0
"""Radial distribution function of equal atoms in a box that may change from frame to frame.

Pairs are counted by distance in each frame, as integers: frames may be counted in pieces, cut into blocks or weighted
afterwards. The counts are divided by those of an ideal gas in the volumes of the same frames. There is no
distribution beyond half the smallest length of a box: part of such a shell lies outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mlipaudit.analysis.blocks import block_starts
from mlipaudit.analysis.density import volumes

WIDTH = 0.01
"""Å: of a bin. Bins are centred on its multiples, from 0 (mlipaudit 0.1.8)."""
FARTHEST = 19.99
"""Å: centre of the last bin, in boxes that are large enough (mlipaudit 0.1.8)."""
PAIRS_AT_ONCE = 30_000
"""As many as stay in the cache of a processor."""
SMOOTH, FITTED = 0.2, 0.15
"""Å: a distribution is averaged over the one to find its highest region, and a parabola fitted to as much on each
side of it."""


@dataclass(frozen=True)
class PairCounts:
    """Pairs of atoms by distance, in several frames or blocks of them."""

    counts: np.ndarray
    """[frames, bins], integers."""
    gas: np.ndarray
    """Pairs of an ideal gas per Å³, [frames]."""
    num_atoms: int

    @property
    def radii(self) -> np.ndarray:
        """Å: centres of the bins."""
        return WIDTH * np.arange(self.counts.shape[1])

    @property
    def shells(self) -> np.ndarray:
        """Å³: volumes of the bins."""
        return shells(self.radii)

    @property
    def density(self) -> float:
        """1/Å³: of the others that an atom has around it, on average over frames."""
        return 2.0 * float(self.gas.mean()) / self.num_atoms

    def distribution(self, weights: np.ndarray | None = None) -> np.ndarray:
        """g(r) over all frames, [bins], or for each row of weights [..., frames] of them."""
        weights = np.ones(len(self.counts)) if weights is None else weights
        return (weights @ self.counts) / ((weights @ self.gas)[..., None] * self.shells)

    def within(self, radius: float) -> np.ndarray:
        """Neighbours that an atom has on average within a radius, [frames]."""
        return 2.0 * self.counts[:, self.radii < radius].sum(axis=1) / self.num_atoms

    def in_blocks(self, number: int) -> PairCounts:
        """Frames summed up in so many blocks of equal length."""
        starts = block_starts(len(self.counts), number)
        counts = np.add.reduceat(self.counts.astype(np.int64), starts)
        return replace(self, counts=counts, gas=np.add.reduceat(self.gas, starts))


def shells(radii: np.ndarray) -> np.ndarray:
    """Å³: volumes of spherical shells one bin wide; the innermost counts as published, both sides of its centre."""
    return 4.0 / 3.0 * np.pi * ((radii + WIDTH / 2) ** 3 - (radii - WIDTH / 2) ** 3)


def count_pairs(positions: np.ndarray, boxes: np.ndarray, *, at_once: int = PAIRS_AT_ONCE) -> PairCounts:
    """Count the pairs of a trajectory.

    Args:
        positions: Å, [frames, atoms, 3], wrapped into the box or not.
        boxes: Å, its lengths, [frames, 3].
        at_once: pairs held in memory together.
    """
    boxes = np.asarray(boxes, np.float64)
    num_frames, num_atoms = positions.shape[:2]
    bins = num_bins(float(boxes.min()) / 2)
    counts = np.zeros((num_frames, bins), np.int32)
    first, second = np.triu_indices(num_atoms, 1)
    for pairs in _pieces(len(first), at_once):
        i, j = first[pairs], second[pairs]
        for rows in _pieces(num_frames, max(1, at_once // len(i))):
            counts[rows] += _histograms(np.asarray(positions[rows], np.float64), i, j, boxes[rows], bins)
    return PairCounts(counts, len(first) / volumes(boxes), num_atoms)


def num_bins(limit: float) -> int:
    """Bins that lie within a distance in Å."""
    return int(min(np.floor(limit / WIDTH + 0.5 + 1e-9), round(FARTHEST / WIDTH) + 1))


def first_peak(radii: np.ndarray, g: np.ndarray, window: tuple[float, float]) -> np.ndarray:
    """Radius of the largest value within a window, of each of [..., bins], as published: that of the noisiest bin.

    Raises:
        ValueError: there is no bin in the window.
    """
    inside = (radii > window[0]) & (radii <= window[1])
    return radii[inside][np.argmax(g[..., inside], axis=-1)]


class Peak(NamedTuple):
    """The top of a peak."""

    radius: float
    height: float


def smooth_peak(radii: np.ndarray, g: np.ndarray) -> Peak:
    """The highest peak beyond 1 Å: a parabola through the values around the largest average of a few bins."""
    shown = smoothed(g, SMOOTH) * (radii > 1.0)
    centre = int(np.argmax(shown))
    near = np.abs(radii - radii[centre]) <= FITTED + WIDTH / 2
    x = radii[near] - radii[centre]
    a, b, c = np.polyfit(x, g[near], 2) if near.sum() > 2 else (0.0, 0.0, float(shown[centre]))
    if a >= 0:
        return Peak(float(radii[centre]), float(shown[centre]))
    top = float(np.clip(-b / (2 * a), x[0], x[-1]))
    return Peak(float(radii[centre]) + top, float(a * top**2 + b * top + c))


def smoothed(g: np.ndarray, width: float) -> np.ndarray:
    """Averages over as many bins as a width in Å holds, fewer at the ends."""
    half = round(width / WIDTH) // 2
    total = np.concatenate([[0.0], np.cumsum(g)])
    here = np.arange(len(g))
    low, high = np.maximum(here - half, 0), np.minimum(here + half + 1, len(g))
    return (total[high] - total[low]) / (high - low)


def coordination_number(radii: np.ndarray, g: np.ndarray, *, density: float, within: float) -> float:
    """Neighbours within a radius in Å, by integration of g(r) at a number density in 1/Å³."""
    inside = radii < within
    return float(density * np.sum(g[inside] * shells(radii[inside])))


def _histograms(x: np.ndarray, i: np.ndarray, j: np.ndarray, boxes: np.ndarray, bins: int) -> np.ndarray:
    """Pairs i, j by distance, [frames, bins], of positions [frames, atoms, 3]."""
    squared = np.zeros((len(x), len(i)))
    for axis in range(3):
        apart = x[:, i, axis] - x[:, j, axis]
        length = boxes[:, axis, None]
        apart -= length * np.rint(apart / length)
        squared += apart**2
    place = np.floor(np.sqrt(squared) / WIDTH + 0.5).astype(np.int64)
    near = place < bins
    place += bins * np.arange(len(x))[:, None]
    return np.bincount(place[near], minlength=len(x) * bins).reshape(len(x), bins).astype(np.int32)


def _pieces(total: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, total)) for start in range(0, total, step))
