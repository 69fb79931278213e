# SPDX-License-Identifier: Apache-2.0
"""Rows as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.rows import Row

HEADER = ("model", "benchmark", "score", "95 % interval", "coverage", "failures", "time")
RIGHT = {2, 3, 4, 6}
MAX_REASONS, MAX_NAMES = 10, 3


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
    """A duration for people."""
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
        "–" if row.score is None else number(row.score),
        "–" if row.interval is None else " … ".join(map(number, row.interval)),
        f"{row.covered}/{row.asked}" if row.asked else "–",
        ", ".join(row.failures) or ("" if row.benchmark else " "),
        seconds(row.seconds),
    )


def score_text(result: BenchmarkResult) -> str:
    """A result's score in words."""
    return "no score" if result.score is None else f"score {number(result.score)}"


def number(score: float) -> str:
    """Three decimals; a small score is not shown as none."""
    return "<0.001" if 0 < score < 0.0005 else f"{score:.3f}"


def _grid(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]

    def line(row: Sequence[str]) -> str:
        cells = (
            c.rjust(w) if i in RIGHT else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(table[0]), line(["─" * width for width in widths]), *map(line, table[1:])]
