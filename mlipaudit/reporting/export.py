# SPDX-License-Identifier: Apache-2.0
"""What a results folder says, for programs and for pull requests: the numbers of tables and reports, in full precision.

JSON is strict and has this shape; what is not known is null, a metric that is not finite the string `NaN`, `Infinity`
or `-Infinity`:

    {"mlipaudit": version, "results": name of the folder,
     "rankings": [{"run_mode", "edition", "remarks": [text],
                   "models": [{"model", "rank", "tied", "score", "interval": [low, high], "covered", "asked",
                               "categories": {name: {"score", "interval", "covered", "asked"}},
                               "benchmarks": {name: {"score", "interval", "covered", "asked", "failed",
                                                     "failures": [kind], "seconds",
                                                     "metrics": {field: {"value", "unit", "better", "interval"}}}}}]}],
     "unreadable": [{"model", "benchmark", "reason"}], "missing": [{"model", "benchmark"}]}

Models come best first. Coverage counts benchmarks for a model and its categories, systems for a benchmark. A metric has
an `interval` only where the benchmark gives one.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.metric import metrics_of
from mlipaudit.reporting.contents import Contents, category_of
from mlipaudit.reporting.leaderboard import Ranking, Standing, rankings
from mlipaudit.reporting.rows import Row
from mlipaudit.reporting.tables import NOTHING, coverage_text, interval_text, number, rank_text, score_of
from mlipaudit.scoring import Interval

OVERALL = "overall"
COLUMNS = (
    "run_mode", "edition", "model", "benchmark", "category", "score", "low", "high", "covered", "asked", "failures",
    "seconds",
)  # fmt: skip


# JSON


def as_json(contents: Contents) -> dict[str, Any]:
    """Everything as plain data, which strict JSON can hold."""
    from mlipaudit import __version__

    return {
        "mlipaudit": __version__,
        "results": contents.root.resolve().name,
        "rankings": [_ranking(ranking, contents) for ranking in rankings(contents)],
        "unreadable": [
            {"model": bad.model, "benchmark": bad.benchmark, "reason": bad.reason} for bad in contents.unreadable
        ],
        "missing": [
            {"model": gap.model, "benchmark": gap.benchmark} for gap in contents.gaps if gap.why == "missing"
        ],
    }


def _ranking(ranking: Ranking, contents: Contents) -> dict[str, Any]:
    return {
        "run_mode": ranking.run_mode,
        "edition": ranking.edition,
        "remarks": list(ranking.remarks),
        "models": [_standing(standing, contents) for standing in ranking.standings],
    }


def _standing(standing: Standing, contents: Contents) -> dict[str, Any]:
    return {
        "model": standing.model,
        "rank": standing.rank,
        "tied": standing.tied,
        **_numbers(standing.overall),
        "categories": {category.name: _numbers(category) for category in standing.categories},
        "benchmarks": {name: _task(row, contents) for name, row in standing.tasks.items()},
    }


class _Scored(Protocol):
    """What a row and the score of a category have in common."""

    @property
    def score(self) -> float | None: ...
    @property
    def interval(self) -> Interval | None: ...
    @property
    def covered(self) -> int: ...
    @property
    def asked(self) -> int: ...


def _numbers(row: _Scored) -> dict[str, Any]:
    return {
        "score": row.score,
        "interval": list(row.interval) if row.interval else None,
        "covered": row.covered,
        "asked": row.asked,
    }


def _task(row: Row, contents: Contents) -> dict[str, Any]:
    records = contents.records_of(model=row.model, benchmark=row.benchmark)
    return {
        **_numbers(row),
        "failed": row.failed,
        "failures": list(row.failures),
        "seconds": _known(row.seconds),
        "metrics": _metrics(records[0].result) if records else {},
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _metrics(result: BenchmarkResult) -> dict[str, Any]:
    """What the result itself measures; metrics of single systems are in its own file."""
    values = json.loads(result.model_dump_json())  # there NaN and infinity become strings
    intervals = values.get("intervals")
    metrics = {}
    for field, metric in metrics_of(type(result)).items():
        metrics[field] = {"value": values[field], "unit": metric.unit, "better": metric.better}
        if isinstance(intervals, dict) and field in intervals:
            metrics[field]["interval"] = intervals[field]
    return metrics


# CSV


def as_csv(contents: Contents) -> str:
    """A line per task and an overall one per model; what is not known is empty."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for ranking in rankings(contents):
        for standing in ranking.standings:
            for row in (*standing.tasks.values(), standing.overall):
                lines.writerow((ranking.run_mode, ranking.edition, *_fields(row)))
    return text.getvalue()


def _fields(row: Row) -> tuple[Any, ...]:
    low, high = row.interval or (None, None)
    category = category_of(row.benchmark) if row.benchmark else ""
    failures = " ".join(row.failures) if row.benchmark else ""
    known = (row.score, low, high, row.covered, row.asked, failures, _known(row.seconds))
    return row.model, row.benchmark or OVERALL, category, *known


# Markdown


def as_markdown(contents: Contents) -> str:
    """For each ranking, a leaderboard and a table of benchmarks and models."""
    parts = [part for ranking in rankings(contents) for part in _sections(ranking)]
    return "\n\n".join(parts or ["No results."]) + "\n"


def _sections(ranking: Ranking) -> Iterator[str]:
    yield f"### Run mode {ranking.run_mode}, data {escaped(ranking.edition)}"
    yield _leaderboard(ranking)
    yield _by_benchmark(ranking)
    if ranking.remarks:
        yield "\n".join(f"- {escaped(remark)}" for remark in ranking.remarks)


def _leaderboard(ranking: Ranking) -> str:
    header = ("rank", "model", "score", "95 % interval", "benchmarks", *ranking.categories)
    lines = [
        (
            rank_text(standing),
            standing.model,
            score_of(standing.overall.score),
            interval_text(standing.overall),
            coverage_text(standing.overall),
            *(score_of(category.score) for category in standing.categories),
        )
        for standing in ranking.standings
    ]
    return markdown_table(header, lines, left={1})


def _by_benchmark(ranking: Ranking) -> str:
    header = ("benchmark", *(standing.model for standing in ranking.standings))
    lines = [
        (name, *(_with_error(standing.tasks.get(name)) for standing in ranking.standings))
        for name in ranking.benchmarks
    ]
    return markdown_table(header, lines, left={0})


def _with_error(row: Row | None) -> str:
    """A score ± half the width of its 95 % interval."""
    if row is None:
        return NOTHING
    if row.score is None:
        return ", ".join(row.failures) or NOTHING
    half = f" ± {number((row.interval[1] - row.interval[0]) / 2)}" if row.interval else ""
    return number(row.score) + half


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]], *, left: set[int]) -> str:
    """A table in GitHub's Markdown; columns that are not `left` are aligned right."""
    rule = [":---" if i in left else "---:" for i in range(len(header))]
    rows = [map(escaped, header), rule, *(map(escaped, line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def escaped(text: str) -> str:
    """Text that Markdown takes as it is."""
    return re.sub(r"[\\|`*<>\[\]~]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text.replace("\n", " "))
