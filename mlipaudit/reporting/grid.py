# SPDX-License-Identifier: Apache-2.0
"""Cells in columns, for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Lines of a table; the columns numbered in `right` are aligned there."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        placed = (
            f"{c:{'>' if i in right else '<'}{w}}" for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(placed).rstrip()

    return [line(header), line(["─" * width for width in widths]), *map(line, rows)]
