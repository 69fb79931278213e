# SPDX-License-Identifier: Apache-2.0
"""Tables of the metrics of one benchmark: models against metrics, with units in the header.

There is a row for each model and way of averaging, and for each group where a result has groups. Cells are in full
precision for programs (CSV, JSON), and with four digits for people (Markdown, LaTeX).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.measurement import Measurement, measurements_of
from mlipaudit.metric import metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.export import markdown_table
from mlipaudit.reporting.tables import NOTHING

POOLED, OVER_SYSTEMS = "pooled", "mean over systems"
ALL = "all"
KEYS = ("model", "group", "average")


@dataclass(frozen=True)
class Head:
    """A column of numbers."""

    quantity: str
    """Empty for a metric that is of the result as a whole."""
    name: str
    unit: str

    @property
    def title(self) -> str:
        """Quantity, name and unit."""
        words = f"{self.quantity} {self.name}".strip().replace("_", " ")
        said = self.unit in ("", "1") or words.endswith(self.unit)
        return words if said else f"{words} ({self.unit})"


@dataclass
class Row:
    """Numbers of one model in one group, averaged in one way."""

    model: str
    group: str
    average: str
    cells: dict[Head, float | None] = field(default_factory=dict)
    reasons: dict[Head, str] = field(default_factory=dict)
    """Why a number is not there."""


@dataclass(frozen=True)
class MetricTable:
    """All metrics of a benchmark."""

    heads: tuple[Head, ...]
    rows: tuple[Row, ...]

    def as_csv(self) -> str:
        """One table; what is not known is empty."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow([*KEYS, *(head.title for head in self.heads)])
        for row in self.rows:
            values = [row.cells.get(head) for head in self.heads]
            known = ("" if value is None else repr(value) for value in values)
            lines.writerow([row.model, row.group, row.average, *known])
        return text.getvalue()

    def as_json(self) -> str:
        """A list of rows; what is not known is null, with a reason where there is one."""
        return json.dumps([_plain(row) for row in self.rows], indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    def as_markdown(self) -> str:
        """A table for each quantity."""
        return "\n\n".join(self._by_quantity(_markdown)) + "\n"

    def as_latex(self) -> str:
        """A `tabular` for each quantity, which needs no package."""
        return "\n\n".join(self._by_quantity(_latex)) + "\n"

    def _by_quantity(self, draw: Callable[[list[str], list[list[str]]], str]) -> Iterable[str]:
        for quantity in dict.fromkeys(head.quantity for head in self.heads):
            heads = [head for head in self.heads if head.quantity == quantity]
            rows = [row for row in self.rows if any(head in row.cells for head in heads)]
            grouped = any(row.group != ALL for row in rows)
            shown = [key for key in KEYS if grouped or key != "group"]
            lines = [
                [*(getattr(row, key) for key in shown), *(_short(row.cells.get(head)) for head in heads)]
                for row in rows
            ]
            yield draw([*shown, *(head.title for head in heads)], lines)


FORMATS: dict[str, Callable[[MetricTable], str]] = {
    "csv": MetricTable.as_csv,
    "json": MetricTable.as_json,
    "markdown": MetricTable.as_markdown,
    "latex": MetricTable.as_latex,
}


def tables(records: Sequence[TaskRecord], *, groups: bool = False) -> dict[str, str]:
    """The metrics of some models on one benchmark, in every format.

    Args:
        records: the results.
        groups: whether groups have rows too.
    """
    table = metric_table(records, groups=groups)
    return {name: draw(table) for name, draw in FORMATS.items()}


def metric_table(records: Sequence[TaskRecord], *, groups: bool = False) -> MetricTable:
    """The same as data."""
    rows: dict[tuple[str, str, str], Row] = {}
    for record in records:
        _add(record.provenance.model, record.result, rows, groups=groups)
    heads = dict.fromkeys(head for row in rows.values() for head in row.cells)
    order = {model: i for i, model in enumerate(dict.fromkeys(model for model, _, _ in rows))}
    found = sorted(rows.values(), key=lambda row: (row.group != ALL, order[row.model]))
    return MetricTable(tuple(heads), tuple(found))


def _add(model: str, result: BenchmarkResult, rows: dict[tuple[str, str, str], Row], *, groups: bool) -> None:
    def put(group: str, average: str, head: Head, value: float | None, reason: str | None) -> None:
        row = rows.setdefault((model, group, average), Row(model, group, average))
        row.cells[head] = value if value is not None and math.isfinite(value) else None
        if reason:
            row.reasons[head] = reason

    measured = list(measurements_of(result))
    if not measured:
        for name, metric in metrics_of(type(result)).items():
            value = getattr(result, name)
            put(ALL, POOLED, Head("", name, metric.unit), value if isinstance(value, int | float) else None, None)
    for path, m in measured:
        group, head = _group(path), _head(path, m)
        if group == ALL or groups:
            put(group, POOLED, head, m.value, m.reason)
            put(group, OVER_SYSTEMS, head, m.mean_over_systems, m.reason_of_mean)


def _head(path: Sequence[str], measurement: Measurement) -> Head:
    return Head(path[-2] if len(path) > 2 else "", path[-1], measurement.unit)


def _group(path: Sequence[str]) -> str:
    """What lies between the field and the quantity: nothing, or a key and its value."""
    return " = ".join(path[1:-2]) or ALL


def _plain(row: Row) -> dict[str, object]:
    metrics = [
        {"quantity": h.quantity, "metric": h.name, "unit": h.unit, "value": value}
        | ({"reason": row.reasons[h]} if value is None and h in row.reasons else {})
        for h, value in row.cells.items()
    ]
    return {**{key: getattr(row, key) for key in KEYS}, "metrics": metrics}


def _short(value: float | None) -> str:
    """Counts in full, other numbers with four digits."""
    if value is None:
        return NOTHING
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _markdown(header: list[str], lines: list[list[str]]) -> str:
    return markdown_table(header, lines, left={i for i, key in enumerate(header) if key in KEYS})


_TEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "Å": r"\AA{}", "²": "$^2$", "³": "$^3$", "–": "--",
}  # fmt: skip


def _latex(header: list[str], lines: list[list[str]]) -> str:
    columns = "".join("l" if key in KEYS else "r" for key in header)
    rows = [
        " & ".join("".join(_TEX.get(c, c) for c in cell) for cell in line) + r" \\" for line in (header, *lines)
    ]
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}"]
    )
