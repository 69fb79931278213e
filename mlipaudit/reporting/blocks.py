# SPDX-License-Identifier: Apache-2.0
"""A page as data: report and GUI draw the same blocks, each in its own way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mlipaudit.scoring import Interval


@dataclass(frozen=True)
class Link:
    """Text that leads to a page of the same report, or to a file beside the results."""

    text: str
    page: str = ""
    """Id of a page; empty for a link to `href`."""
    href: str = ""
    """Relative path from the results folder to a raw record."""


@dataclass(frozen=True)
class ScoreBar:
    """A score from 0 to 1 with its interval, drawn as a bar in the model's colour."""

    score: float | None
    interval: Interval | None = None
    model: str = ""


@dataclass(frozen=True)
class ModelName:
    """A model's name with a swatch of its colour, leading to its page."""

    model: str


Cell = str | Link | ScoreBar | ModelName


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    numeric: bool = False
    """Right-aligned, and sorted as numbers."""
    hint: str = ""
    """Shown when the title is pointed at."""


@dataclass(frozen=True)
class Table:
    """Rows of cells."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    name: str
    """Of the file it is downloaded as, without ending; unique on its page."""
    caption: str = ""


@dataclass(frozen=True)
class Heading:
    """Title of a section."""

    text: str
    level: Literal[2, 3] = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text; back-quotes mark code."""

    text: str


@dataclass(frozen=True)
class Notice:
    """Something that must not be missed."""

    text: str
    kind: Literal["note", "warning", "failure"] = "note"


@dataclass(frozen=True)
class Facts:
    """Short labelled values: a card."""

    items: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Chart:
    """A picture as a Vega-Lite specification with its data inside, and no colours of its own but those of models."""

    spec: dict[str, Any]
    name: str
    """Of the file it is downloaded as, without ending; unique on its page."""
    caption: str = ""
    """What it shows, also for those who do not see it."""


@dataclass(frozen=True)
class Molecule:
    """A structure in three dimensions, as the text of an XYZ file (Å)."""

    xyz: str
    name: str
    caption: str = ""
    cell: tuple[tuple[float, float, float], ...] | None = None
    """Å: vectors of the periodic box, drawn around it."""


@dataclass(frozen=True)
class Folded:
    """Blocks that are seen when asked for."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Notice | Facts | Table | Chart | Molecule | Folded


@dataclass(frozen=True)
class Page:
    """One page of a report."""

    id: str
    """`overview`, `benchmark/<name>`, `model/<name>`, `system/<benchmark>/<name>`."""
    title: str
    blocks: tuple[Block, ...]
    subtitle: str = ""
    section: Literal["", "Benchmarks", "Models", "Systems"] = ""
    """Where it stands in the navigation; pages of systems are not listed there."""
    group: str = ""
    """Under which heading of its section: the category of a benchmark."""
    names: tuple[str, ...] = field(default=())
    """Models with a result on it."""
