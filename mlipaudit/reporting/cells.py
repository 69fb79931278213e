# SPDX-License-Identifier: Apache-2.0
"""Edges of a periodic box, to be drawn around a structure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

Vector = Sequence[float]


def edges_of(cell: Sequence[Vector] | None) -> list[list[dict[str, float]]]:
    """The twelve edges of a cell as pairs of points (Å); none without a cell."""
    if cell is None:
        return []
    corners = list(product((0, 1), repeat=3))
    return [
        [_point(start, cell), _point(end, cell)]
        for start in corners
        for end in corners
        if start < end and sum(a != b for a, b in zip(start, end, strict=True)) == 1
    ]


def _point(corner: Sequence[int], cell: Sequence[Vector]) -> dict[str, float]:
    place = (sum(n * vector[i] for n, vector in zip(corner, cell, strict=True)) for i in range(3))
    return dict(zip("xyz", place, strict=True))
