# SPDX-License-Identifier: Apache-2.0
"""A table of a page as what Streamlit shows and what people download."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import streamlit as st

from mlipaudit.reporting.blocks import Cell, Column, Link, ModelName, ScoreBar, Table
from mlipaudit.reporting.colours import REFERENCE, Mark
from mlipaudit.reporting.pages.parts import NOTHING, model_id
from mlipaudit.reporting.tables import number

SIGNS = {"circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "cross": "✚"}
MAX_COLUMNS = 8
"""Intervals are hidden where a table would become wider; its menu brings them back."""
BESIDE = " beside"
"""End of the key of a column with what is said beside a score: its interval, or why there is none."""
LINK = "text-decoration: underline; color: {colour}; font-weight: 600"
LINK_COLOUR = "#2b7de9"


@dataclass
class Frame:
    """Columns by key, as they are drawn."""

    data: dict[str, list[Any]] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    styles: dict[str, list[str]] = field(default_factory=dict)

    def styled(self) -> Any:
        """For `st.dataframe`: links and models in their colours."""
        frame = pd.DataFrame(self.data)
        styles = pd.DataFrame("", index=frame.index, columns=frame.columns)
        for key, column in self.styles.items():
            styles[key] = column
        return frame.style.apply(lambda _: styles, axis=None)

    @property
    def order(self) -> list[str]:
        """Keys of the columns that are seen at first."""
        return [key for key in self.data if key not in self.hidden]


def frame_of(table: Table, marks: Mapping[str, Mark]) -> Frame:
    """Scores become bars with their interval in words beside them; what leads to a page looks like it."""
    frame = Frame()
    models: dict[str, set[str]] = {}
    for i, column in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        bars = [cell for cell in cells if isinstance(cell, ScoreBar)]
        if 2 * len(bars) > len(cells):
            _add_scores(frame, str(i), column, cells, marks)
            models[str(i)] = {bar.model for bar in bars}
        else:
            _add_words(frame, str(i), column, cells, marks)
    if len(frame.data) > MAX_COLUMNS:
        frame.hidden = _dispensable(frame, models)
    return frame


def _dispensable(frame: Frame, models: Mapping[str, set[str]]) -> set[str]:
    """Columns with nothing but intervals; that of the first score stays, unless each score is another model's."""
    first, *others = models
    hidden = {key + BESIDE for key in (others if all(models[key] == models[first] for key in others) else models)}
    return {
        key
        for key in hidden & frame.data.keys()
        if all(word in ("", NOTHING) or "…" in word for word in frame.data[key])
    }


def target_of(cell: Cell) -> str:
    """Id of the page that a cell leads to; empty for none."""
    if isinstance(cell, ModelName):
        return model_id(cell.model)
    if isinstance(cell, Link):
        return cell.page or f"record/{cell.href}"
    return ""


def csv_of(table: Table) -> str:
    """Scores in full precision, each with columns for its interval where one has it."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    wide = [any(isinstance(c, ScoreBar) and c.interval for c in cells) for cells in columns]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        name
        for column, is_wide in zip(table.columns, wide, strict=True)
        for name in ([column.title, f"{column.title} low", f"{column.title} high"] if is_wide else [column.title])
    )
    for row in table.rows:
        writer.writerow(value for cell, w in zip(row, wide, strict=True) for value in _values(cell, w))
    return text.getvalue()


def text_of(cell: Cell) -> str:
    """A cell in words."""
    if isinstance(cell, ModelName):
        return cell.model
    if isinstance(cell, Link):
        return cell.text
    if isinstance(cell, ScoreBar):
        return NOTHING if cell.score is None else " ".join(filter(None, [number(cell.score), _interval(cell)]))
    return cell


def sign_of(model: str, marks: Mapping[str, Mark]) -> str:
    """A model's shape, as in pictures."""
    return SIGNS[marks[model].shape] if model in marks else ""


def _values(cell: Cell, is_wide: bool) -> list[str | float | None]:
    if not isinstance(cell, ScoreBar):
        return [text_of(cell), *([None, None] if is_wide else [])]
    return [cell.score, *((cell.interval or (None, None)) if is_wide else ())]


def _interval(cell: ScoreBar) -> str:
    return " … ".join(map(number, cell.interval)) if cell.interval else ""


def _add_scores(frame: Frame, key: str, column: Column, cells: Sequence[Cell], marks: Mapping[str, Mark]) -> None:
    frame.data[key] = [cell.score if isinstance(cell, ScoreBar) else None for cell in cells]
    models = {cell.model for cell in cells if isinstance(cell, ScoreBar)}
    one = marks.get(next(iter(models))) if len(models) == 1 else None
    frame.config[key] = st.column_config.ProgressColumn(
        column.title,
        help=column.hint or None,
        min_value=0.0,
        max_value=1.0,
        format="%.3f",
        color=one.colour if one else REFERENCE,
    )
    words = [_interval(cell) if isinstance(cell, ScoreBar) else text_of(cell) for cell in cells]
    if any(words):
        frame.data[key + BESIDE] = words
        title = "95 % interval" if any("…" in word for word in words) else "failure"
        frame.config[key + BESIDE] = st.column_config.TextColumn(title, help=f"of {column.title}")


def _add_words(frame: Frame, key: str, column: Column, cells: Sequence[Cell], marks: Mapping[str, Mark]) -> None:
    frame.data[key] = [_named(cell, marks) for cell in cells]
    frame.styles[key] = [_style(cell, marks) for cell in cells]
    if column.numeric and (numbers := _numbers(cells)):
        frame.data[key] = numbers
        frame.config[key] = st.column_config.NumberColumn(column.title, help=column.hint or None, format="%.4g")
        return
    frame.config[key] = st.column_config.TextColumn(
        column.title, help=column.hint or None, alignment="right" if column.numeric else None
    )


def _named(cell: Cell, marks: Mapping[str, Mark]) -> str:
    if isinstance(cell, ModelName):
        return f"{sign_of(cell.model, marks)} {cell.model}"
    return text_of(cell)


def _style(cell: Cell, marks: Mapping[str, Mark]) -> str:
    if isinstance(cell, ModelName) and cell.model in marks:
        return LINK.format(colour=marks[cell.model].colour)
    return LINK.format(colour=LINK_COLOUR) if target_of(cell) else ""


def _numbers(cells: Sequence[Cell]) -> list[float | None]:
    """Cells as numbers, to be sorted as such; empty where one is none."""
    try:
        return [None if cell in ("", NOTHING) else float(text_of(cell)) for cell in cells]
    except ValueError:
        return []
