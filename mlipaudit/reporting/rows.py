# SPDX-License-Identifier: Apache-2.0
"""Tidy rows: the one place where numbers for people are taken from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlipaudit.failures import FailureKind
from mlipaudit.record import TaskRecord
from mlipaudit.scoring import Interval, combine_intervals, compute_model_score
from mlipaudit.store import Unreadable


@dataclass(frozen=True)
class Row:
    """One model on one benchmark, or on all of them (`benchmark` is then None)."""

    model: str
    benchmark: str | None
    score: float | None
    interval: Interval | None
    covered: int
    """Systems that gave a number; on an overall row, benchmarks that did."""
    asked: int
    """Systems, or benchmarks, that the run mode asks for."""
    failures: tuple[str, ...]
    """Names of the failures, most frequent first."""
    seconds: float
    """NaN where it is not known."""
    failed: bool
    """Whether nothing could be analysed."""
    edition: str | None
    run_mode: str


@dataclass(frozen=True)
class Gap:
    """A task without a result that can be shown."""

    model: str
    benchmark: str
    why: str
    """`missing` or `unreadable`."""
    run_mode: str
    edition: str | None

    @property
    def row(self) -> Row:
        """A row without numbers; on the overall row it counts as asked for."""
        return Row(
            self.model, self.benchmark, None, None, 0, 0, (self.why,), 0.0, True, self.edition, self.run_mode
        )


def rows_of(records: Sequence[TaskRecord], gaps: Sequence[Gap] = ()) -> list[Row]:
    """One row per task and, for a model with more than one in the same mode and edition, an overall row."""
    groups: dict[tuple, list[Row]] = {}
    for record in records:
        groups.setdefault(record.provenance.comparable, []).append(_row(record))
    for gap in gaps:
        row = gap.row
        home = next((tasks for tasks in groups.values() if _belongs(row, tasks[0])), None)
        if home is None:
            home = groups[gap.model, gap.run_mode, gap.edition] = []
        home.append(row)
    rows: list[Row] = []
    for tasks in groups.values():
        rows += tasks
        if len(tasks) > 1:
            rows.append(overall_of(tasks))
    return rows


def gaps_of(
    run: dict[str, Any] | None, records: Sequence[TaskRecord], unreadable: Sequence[Unreadable]
) -> list[Gap]:
    """Tasks of the last run that have no result, or none that can be read."""
    run = run or {}
    settings = {"run_mode": run.get("run_mode", "unknown"), "edition": run.get("data")}
    gaps = [Gap(bad.model, bad.benchmark, "unreadable", **settings) for bad in unreadable]
    there = {(r.provenance.model, r.provenance.identity.benchmark) for r in records}
    there |= {(gap.model, gap.benchmark) for gap in gaps}
    asked = [(model, benchmark) for model in run.get("models", {}) for benchmark in run.get("benchmarks", [])]
    return gaps + [Gap(*task, "missing", **settings) for task in asked if task not in there]


def _belongs(row: Row, other: Row) -> bool:
    return (row.model, row.run_mode, row.edition) == (other.model, other.run_mode, other.edition)


def _row(record: TaskRecord) -> Row:
    result, p = record.result, record.provenance
    asked = result.num_systems or 0
    return Row(
        model=p.model,
        benchmark=p.identity.benchmark,
        score=result.score,
        interval=result.score_interval,
        covered=max(asked - (result.num_failed or 0) - result.num_skipped, 0),
        asked=asked,
        failures=_by_frequency(failure.kind for failure in record.reasons.values()),
        seconds=p.wall_seconds,
        failed=result.failed,
        edition=p.data_edition,
        run_mode=p.identity.run_mode,
    )


def _by_frequency(kinds: Iterable[FailureKind]) -> tuple[str, ...]:
    listed = [str(kind) for kind in kinds]
    return tuple(sorted(dict.fromkeys(listed), key=lambda kind: -listed.count(kind)))


def overall_of(rows: Sequence[Row]) -> Row:
    """The mean over several tasks of one model; one without a score enters no mean."""
    scored = [row for row in rows if row.score is not None]
    counted = [row for row in rows if row.score is not None or row.failed]
    scores = {row.benchmark or "": row.score for row in scored}
    # A benchmark that failed wholly scores 0, whatever would have been drawn.
    intervals = [row.interval or ((0.0, 0.0) if row.failed else None) for row in scored]
    return Row(
        model=rows[0].model,
        benchmark=None,
        score=compute_model_score(scores) if scores else None,
        interval=combine_intervals(intervals, [row.score or 0.0 for row in scored]),
        covered=sum(not row.failed for row in counted),
        asked=len(counted),
        failures=(),
        seconds=sum(row.seconds for row in rows),
        failed=all(row.failed for row in rows),
        edition=rows[0].edition,
        run_mode=rows[0].run_mode,
    )
