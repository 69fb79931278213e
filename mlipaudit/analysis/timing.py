# SPDX-License-Identifier: Apache-2.0
"""What a series of repeated timings says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

TRIM_FRACTION = 0.2


def trim_slowest(times: Sequence[float], fraction: float = TRIM_FRACTION) -> list[float]:
    """The fastest `1 - fraction` of `times`, ascending, at least one; the rest is scheduling noise."""
    keep = max(1, round((1.0 - fraction) * len(times)))
    return sorted(times)[:keep]


def trimmed_mean(times: ArrayLike) -> float:
    """Mean of what `trim_slowest` keeps."""
    kept = trim_slowest(np.asarray(times).tolist())
    return sum(kept) / len(kept)


def trend(times: Sequence[float]) -> float | None:
    """Relative change from the first to the last third of a series (medians); None below six timings."""
    third = len(times) // 3
    if third < 2:
        return None
    return float(np.median(times[-third:]) / np.median(times[:third]) - 1.0)


def interquartile_range(times: Sequence[float]) -> float:
    """Distance between the quartiles."""
    low, high = np.percentile(times, [25, 75])
    return float(high - low)


def scaling_exponent(sizes: Sequence[int], times: Sequence[float]) -> float | None:
    """Slope of log time over log size; None for fewer than two sizes."""
    if len(set(sizes)) < 2:
        return None
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
