# SPDX-License-Identifier: Apache-2.0
"""Rows as text for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.rows import Row

if TYPE_CHECKING:
    from mlipaudit.reporting.leaderboard import Ranking, Standing

NOTHING = "–"
HEADER = ("model", "benchmark", "score", "95 % interval", "coverage", "failures", "time")
RIGHT = {2, 3, 4, 6}
MAX_REASONS, MAX_NAMES = 10, 3
LEADERS = ("rank", "model", "score", "95 % interval", "covered")
WIDTH, INDENT = 100, "  "
"""Of a leaderboard, in columns; names of categories and models are cut to keep to it."""
CATEGORY_WIDTHS, MIN_NAME_WIDTH = (7, 12), 12
OTHER_WIDTHS = len(INDENT) + sum((4, 6, 15, 7)) + 2 * 4
"""Of all columns but those for names and categories: rank, score, interval and coverage, and the gaps between them."""
TIES = "= not shown to be worse than the first of its rank: the paired interval covers zero or is unknown"


def leaderboards(rankings: Sequence[Ranking]) -> str:
    """Every ranking that has something to compare, or to average; empty where none has."""
    return "\n".join(_leaderboard(ranking) for ranking in rankings if _says_something(ranking))


def _says_something(ranking: Ranking) -> bool:
    tasks = sum(len(standing.tasks) for standing in ranking.standings)
    return tasks > 1 and any(standing.overall.score is not None for standing in ranking.standings)


def _leaderboard(ranking: Ranking) -> str:
    names = _short_names(ranking)
    heads = [_short_category(category, ranking) for category in ranking.categories]
    table = [
        [*[""] * len(LEADERS), *(above for above, _ in heads)],
        [*LEADERS, *(below for _, below in heads)],
        *(_leader(standing, name) for standing, name in zip(ranking.standings, names, strict=True)),
    ]
    lines = _grid(table, right={*range(len(table[0]))} - {LEADERS.index("model")}, heads=2)
    ties = [TIES] if any(standing.tied for standing in ranking.standings) else []
    notes = [line for text in (*ties, *(f"note: {text}" for text in ranking.remarks)) for line in _wrapped(text)]
    title = f"leaderboard · run mode {ranking.run_mode} · data {ranking.edition}"
    body = lines if lines[0] else lines[1:]
    return "\n".join([title, "", *(INDENT + line for line in body), "", *notes, *([""] if notes else [])])


def _leader(standing: Standing, name: str) -> list[str]:
    row = standing.overall
    return [
        rank_text(standing),
        name,
        score_of(row.score),
        interval_text(row),
        coverage_text(row),
        *(score_of(category.score) for category in standing.categories),
    ]


def _short_names(ranking: Ranking) -> list[str]:
    """Names of the models, cut where they would make the table too wide and remain different."""
    names = [standing.model for standing in ranking.standings]
    categories = sum(_category_width(ranking) + 2 for _ in ranking.categories)
    width = max(WIDTH - OTHER_WIDTHS - categories, MIN_NAME_WIDTH)
    short = [name if len(name) <= width else f"{name[: width - 5]}…{name[-4:]}" for name in names]
    return short if len(set(short)) == len(set(names)) else names


def _category_width(ranking: Ranking) -> int:
    """As much as long names of models leave, within limits."""
    longest = max(len(standing.model) for standing in ranking.standings)
    least, most = CATEGORY_WIDTHS
    return min(max((WIDTH - OTHER_WIDTHS - longest) // len(ranking.categories) - 2, least), most)


def _short_category(category: str, ranking: Ranking) -> tuple[str, str]:
    """A category's name on two lines."""
    above, _, below = category.rpartition(" ")
    width = _category_width(ranking)
    above, below = (word if len(word) <= width else f"{word[: width - 1]}." for word in (above, below))
    return above, below


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=INDENT, subsequent_indent=2 * INDENT, break_on_hyphens=False)


def rank_text(standing: Standing) -> str:
    """A rank, with a mark where it is shared."""
    return NOTHING if standing.rank is None else f"{standing.rank}{'=' if standing.tied else ''}"


def score_of(score: float | None) -> str:
    """A score, or that there is none."""
    return NOTHING if score is None else number(score)


def interval_text(row: Row) -> str:
    """The interval of a score, or that there is none."""
    return NOTHING if row.interval is None else " … ".join(map(number, row.interval))


def coverage_text(row: Row) -> str:
    """How many gave a number, of how many."""
    return f"{row.covered}/{row.asked}" if row.asked else NOTHING


def score_table(rows: Sequence[Row]) -> str:
    """Score, interval, coverage, failures and time of every task; run mode and edition above."""
    settings = sorted({(row.run_mode, row.edition or "none") for row in rows})
    lines = []
    for mode, edition in settings:
        chosen = [row for row in rows if (row.run_mode, row.edition or "none") == (mode, edition)]
        lines += [f"run mode {mode} · data {edition}", "", *_grid([HEADER, *map(_cells, chosen)]), ""]
    return "\n".join(lines).rstrip()


def failure_lines(records: Sequence[TaskRecord], where: str) -> list[str]:
    """What failed, reason by reason, and where to look; empty when nothing did."""
    failed = [record for record in records if record.reasons]
    if not failed:
        return []
    lines = [f"{len(failed)} of {len(records)} tasks had failures:"]
    for record in failed:
        p = record.provenance
        reasons = _by_reason(record)
        lines += [f"  {p.model} · {p.identity.benchmark}{who}: {why}" for why, who in reasons[:MAX_REASONS]]
        if len(reasons) > MAX_REASONS:
            more = f"{len(reasons) - MAX_REASONS} more reasons"
            lines.append(f"  … and {more} in {where}/{p.model}/{p.identity.benchmark}/result.json")
    return [*lines, f"Full records: {where}/<model>/<benchmark>/result.json"]


def _by_reason(record: TaskRecord) -> list[tuple[str, str]]:
    """Each reason once, and whom it befell."""
    names: dict[str, list[str]] = {}
    for name, failure in record.reasons.items():
        at = f" ({failure.where})" if failure.where else ""
        names.setdefault(f"{failure}{at}", []).append(name)
    benchmark = record.provenance.identity.benchmark
    return [(reason, _subject(systems, benchmark)) for reason, systems in names.items()]


def _subject(systems: Sequence[str], benchmark: str) -> str:
    if systems == [benchmark]:
        return ""
    if len(systems) == 1:
        return f" {systems[0]}"
    shown = ", ".join(systems[:MAX_NAMES]) + (", …" if len(systems) > MAX_NAMES else "")
    return f", {len(systems)} systems ({shown})"


def warning_lines(records: Sequence[TaskRecord]) -> list[str]:
    """What a reader of the scores should know."""
    return [
        f"note: {r.provenance.model} · {r.provenance.identity.benchmark}: {text}"
        for r in records
        for text in r.result.warnings
    ]


def seconds(value: float) -> str:
    """A duration for people; NaN is not known."""
    if math.isnan(value):
        return NOTHING
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def size_text(num_bytes: float) -> str:
    """An amount of data for people."""
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} GB"


def download_text(name: str, done: int, total: int) -> str:
    """How far a download is; a total of 0 is not known."""
    return f"{name}: {size_text(done)} of {size_text(total)}" if total else f"{name}: {size_text(done)}"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.model,
        row.benchmark or "overall",
        score_of(row.score),
        interval_text(row),
        coverage_text(row),
        ", ".join(row.failures) or ("" if row.benchmark else " "),
        seconds(row.seconds),
    )


def score_text(result: BenchmarkResult) -> str:
    """A result's score in words."""
    return "no score" if result.score is None else f"score {number(result.score)}"


def number(score: float) -> str:
    """Three decimals; a small score is not shown as none."""
    return "<0.001" if 0 < score < 0.0005 else f"{score:.3f}"


def _grid(table: Sequence[Sequence[str]], *, right: Collection[int] = RIGHT, heads: int = 1) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]

    def line(row: Sequence[str]) -> str:
        cells = (
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [*map(line, table[:heads]), line(["─" * width for width in widths]), *map(line, table[heads:])]
