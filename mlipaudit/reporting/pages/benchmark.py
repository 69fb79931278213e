# SPDX-License-Identifier: Apache-2.0
"""A page per benchmark: what it asks, who does well, where it goes wrong, and how it is measured."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from mlipaudit.benchmark import Benchmark, SystemResult
from mlipaudit.metric import metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Folded,
    Heading,
    Link,
    ModelName,
    Notice,
    Page,
    Paragraph,
    ScoreBar,
    Table,
)
from mlipaudit.reporting.charts import charts_of, curves_of
from mlipaudit.reporting.charts.grammar import in_words
from mlipaudit.reporting.contents import Contents, benchmark_class, category_of
from mlipaudit.reporting.declared import body_of, describe_rule, field_docs, first_line, one_line
from mlipaudit.reporting.pages.parts import (
    NOTHING,
    TASK_COLUMNS,
    benchmark_id,
    failure_table,
    headline,
    record_link,
    system_id,
    task_cells,
    value_text,
    warnings_of,
    with_unit,
    worst_first,
)
from mlipaudit.reporting.rows import Row, rows_of
from mlipaudit.reporting.structures import Structures
from mlipaudit.reporting.systems import scores_of, systems_of

NUM_WORST = 10


def benchmark_page(
    contents: Contents, name: str, structures: Structures, *, linked: Collection[str] | None = None
) -> Page:
    """Results, pictures, worst systems, failures, and how it is measured.

    Args:
        contents: of a results folder.
        name: of the benchmark.
        structures: reads input data.
        linked: systems that have a page; None for all.
    """
    declared = benchmark_class(name)
    records = contents.records_of(benchmark=name)
    blocks: list[Block] = [*warnings_of(records), *_results(contents.only(benchmarks=[name]))]
    blocks += charts_of(name, records, contents.coloured)
    worst = worst_first(records)[:NUM_WORST]
    if worst:
        blocks += [Heading("Worst systems"), _worst_table(records, name, worst, linked)]
        blocks += curves_of(name, records, contents.coloured, worst[0])
    if failures := failure_table(records, name="failures", with_benchmark=False):
        blocks += [Heading("Failures"), failures]
    blocks += [Heading("How it is measured"), *_about(declared, records, structures)]
    question = (
        first_line(declared) if declared else "This benchmark is not installed here; its scores can be shown."
    )
    names = tuple(dict.fromkeys(r.provenance.model for r in records))
    return Page(
        benchmark_id(name),
        name,
        tuple(blocks),
        question,
        section="Benchmarks",
        group=category_of(name),
        names=names,
    )


def _results(contents: Contents) -> Iterator[Block]:
    """A table per run mode and edition: what differs in these is not compared."""
    rows = [row for row in rows_of(contents.records, contents.gaps) if row.benchmark]
    settings = sorted({(row.run_mode, row.edition or "none") for row in rows})
    for number, (mode, edition) in enumerate(settings, start=1):
        chosen = [row for row in rows if (row.run_mode, row.edition or "none") == (mode, edition)]
        chosen.sort(key=lambda row: -1.0 if row.score is None else row.score, reverse=True)
        yield Heading(f"Run mode {mode} · data {edition}")
        yield _result_table(chosen, contents, f"results-{number}")


def _result_table(rows: Sequence[Row], contents: Contents, name: str) -> Table:
    records = [_record_of(row, contents) for row in rows]
    metrics = [headline(r.result) if r else {} for r in records]
    shown = {field: unit for found in metrics for field, (unit, _) in found.items()}
    columns = (
        Column("model"),
        *TASK_COLUMNS,
        *(Column(with_unit(field, unit), numeric=True) for field, unit in shown.items()),
        Column("record"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            ModelName(row.model),
            *task_cells(row),
            *(found.get(field, ("", NOTHING))[1] for field in shown),
            record_link(record) if record else NOTHING,
        )
        for row, record, found in zip(rows, records, metrics, strict=True)
    ]
    return Table(columns, tuple(cells), name)


def _record_of(row: Row, contents: Contents) -> TaskRecord | None:
    same = (row.run_mode, row.edition)
    return next(
        (
            r
            for r in contents.records_of(model=row.model)
            if (r.provenance.identity.run_mode, r.provenance.data_edition) == same
        ),
        None,
    )


def _worst_table(
    records: Sequence[TaskRecord], name: str, worst: Sequence[str], linked: Collection[str] | None
) -> Table:
    """Scores of the worst systems; of a benchmark that gives systems no score, their first error that is known."""
    scores = [scores_of(record.result) for record in records]
    entries = [systems_of(record.result) for record in records]
    error = "" if any(scores) else _error_of([found[s] for found in entries for s in worst if s in found])
    columns = (Column("system"), *(Column(r.provenance.model, numeric=True) for r in records))
    rows = []
    for system in worst:
        has_page = linked is None or system in linked
        first: Cell = Link(system, page=system_id(name, system)) if has_page else system
        cells = (
            _system_cell(record, known, found.get(system), system, error)
            for record, known, found in zip(records, scores, entries, strict=True)
        )
        rows.append((first, *cells))
    caption = "Lowest scores first, averaged over the models."
    if error:
        unit = next(metrics_of(type(e))[error].unit for found in entries for e in found.values())
        caption = f"Those that the results name, with {with_unit(in_words(error), unit)}."
    return Table(columns, tuple(rows), "worst-systems", caption=caption)


def _error_of(entries: Sequence[SystemResult]) -> str:
    """The first field with an error that one of the entries has; empty for none."""
    for field, metric in metrics_of(type(entries[0])).items() if entries else ():
        if metric.better == "lower" and any(getattr(entry, field, None) is not None for entry in entries):
            return field
    return ""


def _system_cell(
    record: TaskRecord, scores: dict[str, float], entry: SystemResult | None, system: str, error: str
) -> Cell:
    if failure := record.result.failures.get(system):
        return str(failure.kind)
    if entry is None:
        return NOTHING
    if error:
        return value_text(getattr(entry, error, None))
    return ScoreBar(scores.get(system), None, record.provenance.model)


# How it is measured


def _about(
    declared: type[Benchmark] | None, records: Sequence[TaskRecord], structures: Structures
) -> Iterator[Block]:
    if declared is not None:
        yield from (Paragraph(text) for text in _paragraphs(body_of(inspect.getmodule(declared))))
    results = [r.result for r in records if not r.result.failed] or [r.result for r in records[:1]]
    if results and (table := _metric_table(results[0])):
        yield table
    if records:
        yield from _data(records[0], structures)
        yield Folded("Protocol", (Facts(tuple(_flat(records[0].provenance.identity.protocol))),))


def _paragraphs(text: str) -> list[str]:
    """Of a docstring: lines joined, and double back-quotes made single ones."""
    return [one_line(part).replace("``", "`") for part in re.split(r"\n\s*\n", text) if part.strip()]


def _metric_table(result: BaseModel) -> Table | None:
    systems = systems_of(result)  # type: ignore[arg-type]
    models = [type(result), *([type(next(iter(systems.values())))] if systems else [])]
    rows: list[tuple[Cell, ...]] = []
    for model, scope in zip(models, ("all", "each system"), strict=False):
        docs = field_docs(model)
        for field, metric in metrics_of(model).items():
            rule = describe_rule(metric.score, metric.unit)
            unit = metric.unit if metric.unit not in ("", "1") else "none"
            rows.append((field, scope, unit, metric.better, rule, docs.get(field, ""), metric.source))
    titles = ("metric", "of", "unit", "better", "score", "meaning", "source")
    return Table(tuple(map(Column, titles)), tuple(rows), "metrics") if rows else None


def _data(record: TaskRecord, structures: Structures) -> Iterator[Block]:
    source = structures.source(record)
    manifest = source.dataset.manifest if source.dataset else None
    if manifest is None:
        if source.why_not:
            yield Notice(f"About its data: {source.why_not}")
        return
    about = manifest.about
    dois = about.get("doi", ())
    items = [
        ("data", one_line(about.get("title"))),
        ("edition", f"{record.provenance.data_edition}, version {manifest.version}"),
        ("level of theory", one_line(about.get("level_of_theory"))),
        ("source", one_line(about.get("source"))),
        ("DOI", ", ".join([dois] if isinstance(dois, str) else dois)),
        ("licence", one_line(about.get("license"))),
        ("sha256", (record.provenance.identity.data_sha256 or "")[:16]),
    ]
    yield Facts(tuple((name, text) for name, text in items if text))
    if description := about.get("description", "").strip():
        yield Folded("About the data", tuple(Paragraph(text) for text in _paragraphs(description)))


def _flat(settings: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings, with a dot."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, NOTHING if value is None else str(value)
