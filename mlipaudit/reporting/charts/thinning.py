# SPDX-License-Identifier: Apache-2.0
"""Fewer marks than numbers, without losing what a reader looks for: the extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_POINTS = 400
"""Of one model's curve."""
MAX_MARKS = 600
"""One per system, of one model."""


def of_curve(values: Sequence[float | None], *, limit: int = MAX_POINTS) -> list[int]:
    """Indices of at most `limit` values: both ends, and the smallest and the largest of each of equal parts.

    A part without any value keeps one index, so that the gap is seen.
    """
    n = len(values)
    if n <= limit:
        return list(range(n))
    numbers = np.array([np.nan if value is None else value for value in values])
    parts = np.array_split(np.arange(1, n - 1), (limit - 2) // 2)
    inner = (index for part in parts for index in _extremes(numbers, part))
    return sorted({0, n - 1, *inner})


def of_marks(values: Sequence[float], *, limit: int = MAX_MARKS) -> list[int]:
    """Indices of at most `limit` values: the largest and smallest, and the others evenly by rank."""
    n = len(values)
    if n <= limit:
        return list(range(n))
    order = np.argsort(np.asarray(values, float), kind="stable")
    tail = limit // 20
    middle = np.linspace(tail, n - tail - 1, limit - 2 * tail).round().astype(int)
    ranks = {*range(tail), *middle.tolist(), *range(n - tail, n)}
    return sorted(int(order[rank]) for rank in ranks)


def _extremes(numbers: np.ndarray, part: np.ndarray) -> list[int]:
    known = part[np.isfinite(numbers[part])]
    if not known.size:
        return [int(part[0])]
    return [int(known[np.argmin(numbers[known])]), int(known[np.argmax(numbers[known])])]
