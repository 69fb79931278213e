# SPDX-License-Identifier: Apache-2.0
"""Errors of averages over a correlated time series, from the means of blocks of it.

A series is cut into blocks that are long beside its correlation time, so that their means are nearly independent: the
error of the mean follows from their spread, with Student's distribution (batch means; Flyvbjerg and Petersen 1989,
10.1063/1.457480, show how the length matters). What neighbouring blocks still share is put back. A series that is too
short or never changes has no error: better none than one too small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mlipaudit.analysis.drift import statistical_inefficiency

Interval = tuple[float, float]
EQUILIBRATION = 5
"""One in so many frames, the first ones, is equilibration (mlipaudit 0.1.8)."""
MIN_BLOCKS, MAX_BLOCKS = 5, 30
BLOCK_LENGTH = 5.0
"""Independent points that a block holds at least."""
NUM_DRAWS = 1000


class Estimate(NamedTuple):
    """A number with its standard error and 95 % interval; None where the series is too short to tell."""

    value: float
    error: float | None = None
    interval: Interval | None = None


def num_equilibration(num_frames: int) -> int:
    """Frames at the beginning that count for nothing: the first fifth."""
    return num_frames // EQUILIBRATION


def num_blocks(*series: np.ndarray) -> int | None:
    """Blocks that the slowest of some series of equal length can be cut into; None where that is too few.

    A series that never changes says nothing.
    """
    slow = [_inefficiency(np.asarray(x, np.float64)) for x in series if np.ptp(x) > 0]
    if not slow or not np.isfinite(slow).all():
        return None
    number = min(int(len(series[0]) / (BLOCK_LENGTH * max(slow))), MAX_BLOCKS)
    return number if number >= MIN_BLOCKS else None


def block_starts(num_frames: int, number: int) -> np.ndarray:
    """First frames of blocks of equal length, [blocks]; what does not fill a block is left out at the beginning."""
    return num_frames % number + np.arange(number) * (num_frames // number)


def block_mean(series: np.ndarray) -> Estimate:
    """Mean of a series, with its error."""
    x = np.asarray(series, np.float64)
    mean, number = float(x.mean()), num_blocks(x)
    if number is None:
        return Estimate(mean)
    length = len(x) // number
    means = x[len(x) % number :].reshape(number, length).mean(axis=1)
    shared = min(_inefficiency(x) - 1.0, length) * (1 + 1 / number) / (2 * length)
    error = float(means.std(ddof=1) / np.sqrt(number * (1.0 - shared)))
    return Estimate(mean, error, _interval(mean, error, number))


def jackknife(number: int, statistic: Callable[[np.ndarray], float]) -> Estimate:
    """A smooth function of all blocks, with the error that leaving out one after the other shows.

    Args:
        number: of blocks.
        statistic: of their weights, [blocks].
    """
    value = float(statistic(np.ones(number)))
    left_out = np.array([statistic(weights) for weights in 1.0 - np.eye(number)])
    error = float(np.sqrt((number - 1) / number * np.sum((left_out - left_out.mean()) ** 2)))
    return Estimate(value, error, _interval(value, error, number))


def resampling_weights(number: int, *, seed: int = 0) -> np.ndarray:
    """How often each block is drawn in a bootstrap, [draws, blocks]."""
    return np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), NUM_DRAWS).astype(float)


def resampled_interval(value: float, samples: np.ndarray, number: int) -> Interval:
    """95 % interval from a bootstrap of few blocks.

    It is widened around the value by what resampling so few of them and their unknown spread take away.
    """
    from scipy.stats import norm, t

    widened = np.sqrt(number / (number - 1)) * t.ppf(0.975, number - 1) / norm.ppf(0.975)
    low, high = np.percentile(samples, [2.5, 97.5])
    return value - widened * max(value - float(low), 0.0), value + widened * max(float(high) - value, 0.0)


def _inefficiency(x: np.ndarray) -> float:
    """Points per independent one, rather too many than too few.

    An estimated mean hides some of the correlation, which is put back. And short series look less correlated than they
    are half of the time: about a standard error is added, or those that do would be the ones with an interval.
    """
    n = len(x)
    raw = statistical_inefficiency(x - x.mean())
    if raw <= 1.0:
        return 1.0
    left = 1.0 - 4.0 * raw / n
    return raw * (1.0 + 2.0 * np.sqrt(raw / n)) / left if left > 0 else np.inf


def _interval(value: float, error: float, number: int) -> Interval:
    from scipy.stats import t

    half = float(t.ppf(0.975, number - 1)) * error
    return value - half, value + half
