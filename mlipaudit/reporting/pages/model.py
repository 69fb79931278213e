# SPDX-License-Identifier: Apache-2.0
"""A page per model: its card, and how it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Block, Cell, Column, Facts, Heading, Link, Notice, Page, Table
from mlipaudit.reporting.contents import Contents, category_of
from mlipaudit.reporting.pages.parts import (
    NOTHING,
    TASK_COLUMNS,
    benchmark_id,
    failure_table,
    model_id,
    record_link,
    settings_of,
    task_cells,
    value_text,
    warnings_of,
)
from mlipaudit.reporting.rows import Row, rows_of
from mlipaudit.reporting.tables import seconds, size_text


def model_page(contents: Contents, name: str) -> Page:
    """What it is, on what it was run, and its scores."""
    own = contents.only(models=[name])
    blocks: list[Block] = []
    if own.records:
        blocks.append(Facts(_card(own.records)))
    else:
        blocks.append(Notice("It has no result that can be read.", "failure"))
    blocks += [Heading("Scores"), _tasks(own)]
    if failures := failure_table(own.records, name="failures", with_benchmark=True):
        blocks += [Heading("Failures"), failures]
    if warnings := warnings_of(own.records):
        blocks += [Heading("Remarks"), *warnings]
    return Page(model_id(name), name, tuple(blocks), subtitle=settings_of(own), section="Models", names=(name,))


def _card(records: Sequence[TaskRecord]) -> tuple[tuple[str, Cell], ...]:
    """The latest provenance; what differs between results is listed in full."""
    provenances = sorted((r.provenance for r in records), key=lambda p: p.started_at)
    latest = provenances[-1]
    peak = max((p.peak_memory_bytes for p in provenances if p.peak_memory_bytes), default=None)
    compiling = sum(p.compile_seconds for p in provenances)
    items: list[tuple[str, str]] = [
        ("source", _listed(p.model_source for p in provenances)),
        ("options", ", ".join(f"{key}={value}" for key, value in latest.model_options.items())),
        ("sha256", _listed(p.identity.model_sha256[:16] for p in provenances)),
        ("precision", _listed(p.identity.precision for p in provenances)),
        ("device", _listed(p.device for p in provenances)),
        ("seed", _listed(value_text(p.identity.seed) for p in provenances)),
        ("run", f"{provenances[0].started_at[:16]} to {latest.started_at[:16]} UTC"),
        ("time", f"{seconds(sum(p.wall_seconds for p in provenances))}, of it compiling {seconds(compiling)}"),
        ("peak memory", size_text(peak) if peak else ""),
        ("versions", ", ".join(f"{name} {version}" for name, version in latest.versions.items())),
        ("command", f"`{latest.command}`" if latest.command else ""),
    ]
    return tuple((name, text) for name, text in items if text)


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def _tasks(contents: Contents) -> Table:
    rows = rows_of(contents.records, contents.gaps)
    columns = (
        Column("benchmark"),
        Column("category"),
        *TASK_COLUMNS,
        Column("settings"),
        Column("record"),
    )
    return Table(columns, tuple(_task(row, contents) for row in rows), "scores")


def _task(row: Row, contents: Contents) -> tuple[Cell, ...]:
    settings = f"{row.run_mode} · {row.edition or 'none'}"
    if row.benchmark is None:
        return ("overall", "", *task_cells(row), settings, "")
    record = next(iter(contents.records_of(benchmark=row.benchmark)), None)
    return (
        Link(row.benchmark, page=benchmark_id(row.benchmark)),
        category_of(row.benchmark),
        *task_cells(row),
        settings,
        record_link(record) if record else NOTHING,
    )
