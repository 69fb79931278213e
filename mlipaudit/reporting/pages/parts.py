# SPDX-License-Identifier: Apache-2.0
"""What several pages have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from mlipaudit.metric import metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Cell, Column, Link, ModelName, Notice, ScoreBar, Table
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.rows import Row
from mlipaudit.reporting.systems import scores_of, systems_of
from mlipaudit.reporting.tables import seconds
from mlipaudit.scoring import Interval
from mlipaudit.store import RESULT

NOTHING = "–"
MAX_FAILURES = 200


def benchmark_id(benchmark: str) -> str:
    """Id of a benchmark's page."""
    return f"benchmark/{benchmark}"


def model_id(model: str) -> str:
    """Id of a model's page."""
    return f"model/{model}"


def system_id(benchmark: str, system: str) -> str:
    """Id of a system's page."""
    return f"system/{benchmark}/{system}"


def record_link(record: TaskRecord, text: str = RESULT) -> Link:
    """To the raw record of a result."""
    p = record.provenance
    return Link(text, href=f"{p.model}/{p.identity.benchmark}/{RESULT}")


def value_text(value: Any, interval: Interval | None = None) -> str:
    """A number, with its interval where it has one, in four digits."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        text = f"{value:.4g}"
        return f"{text} ({interval[0]:.3g} … {interval[1]:.3g})" if interval else text
    return str(value)


def with_unit(field: str, unit: str) -> str:
    """Name of a field for people."""
    name = field.replace("_", " ")
    return f"{name} ({unit})" if unit and unit != "1" else name


def score_cell(row: Row) -> ScoreBar:
    """The score of a row."""
    return ScoreBar(row.score, row.interval, row.model)


def coverage_text(row: Row) -> str:
    """How many gave a number, of how many."""
    return f"{row.covered}/{row.asked}" if row.asked else NOTHING


def task_cells(row: Row) -> tuple[Cell, ...]:
    """Score, coverage, failures and time of one task."""
    return score_cell(row), coverage_text(row), ", ".join(row.failures), seconds(row.seconds)


TASK_COLUMNS = (
    Column("score", numeric=True, hint="with its 95 % interval"),
    Column("coverage", numeric=True, hint="systems that gave a number, of those asked for"),
    Column("failures"),
    Column("time", numeric=True, hint="wall time, start-up and compilation included"),
)


def headline(result: BaseModel) -> dict[str, tuple[str, str]]:
    """Metrics of the whole result: field -> unit and value as text."""
    intervals = getattr(result, "intervals", {})
    return {
        field: (metric.unit, value_text(getattr(result, field), intervals.get(field)))
        for field, metric in metrics_of(type(result)).items()
    }


def failure_table(records: Iterable[TaskRecord], *, name: str, with_benchmark: bool) -> Table | None:
    """Everything that failed, and why; None when nothing did."""
    rows: list[tuple[Cell, ...]] = []
    for record in records:
        benchmark = record.provenance.identity.benchmark
        first = (
            Link(benchmark, page=benchmark_id(benchmark)) if with_benchmark else ModelName(record.provenance.model)
        )
        known = systems_of(record.result) if record.reasons else {}
        for system, failure in record.reasons.items():
            subject: Cell = Link(system, page=system_id(benchmark, system)) if system in known else system
            rows.append((first, "" if system == benchmark else subject, str(failure.kind), failure.message))
    if not rows:
        return None
    more = (
        f"The first {MAX_FAILURES} of {len(rows)}; all are in the raw records." if len(rows) > MAX_FAILURES else ""
    )
    columns = (
        Column("benchmark" if with_benchmark else "model"),
        Column("system"),
        Column("failure"),
        Column("reason"),
    )
    return Table(columns, tuple(rows[:MAX_FAILURES]), name, caption=more)


def warnings_of(records: Iterable[TaskRecord]) -> list[Notice]:
    """What a reader of the scores should know."""
    return [
        Notice(f"{r.provenance.model} on {r.provenance.identity.benchmark}: {text}")
        for r in records
        for text in r.result.warnings
    ]


def worst_first(records: Sequence[TaskRecord]) -> list[str]:
    """Systems of one benchmark, by their mean score over models; then those that a result names as its worst, then
    the others."""
    scores: dict[str, list[float]] = {}
    for record in records:
        for name in systems_of(record.result):
            scores.setdefault(name, [])
        for name, score in scores_of(record.result).items():
            scores[name].append(score)
    named = [name for record in records for name in getattr(record.result, "worst_systems", ())]
    worst = {name: place for place, name in reversed(list(enumerate(named)))}

    def rank(name: str) -> tuple[float, int]:
        own = scores[name]
        return sum(own) / len(own) if own else 2.0, worst.get(name, len(named)) if not own else 0

    return sorted(scores, key=rank)


def settings_of(contents: Contents) -> str:
    """Run modes and editions that occur, in words."""
    pairs = {(r.provenance.identity.run_mode, r.provenance.data_edition or "none") for r in contents.records}
    pairs |= {(gap.run_mode, gap.edition or "none") for gap in contents.gaps}
    return "; ".join(f"run mode {mode} · data {edition}" for mode, edition in sorted(pairs)) or "no results"
