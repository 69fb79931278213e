# SPDX-License-Identifier: Apache-2.0
"""One colour per model, the same everywhere, which colour-blind people can tell apart.

Okabe and Ito's palette (Color Universal Design, 2008) without black and yellow, which vanish on a dark or a light page;
further models repeat it with other shapes and dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 1))
REFERENCE = "#808080"
"""Of what a model is compared with."""


class Mark(NamedTuple):
    """How a model is drawn."""

    colour: str
    shape: str
    dash: tuple[int, ...]


def marks_of(models: Sequence[str]) -> dict[str, Mark]:
    """How each model is drawn; depends on the names of all models in the results folder alone."""
    marks = {}
    for i, model in enumerate(sorted(set(models))):
        turn = i // len(PALETTE) % len(SHAPES)
        marks[model] = Mark(PALETTE[i % len(PALETTE)], SHAPES[turn], DASHES[turn])
    return marks
