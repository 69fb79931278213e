# SPDX-License-Identifier: Apache-2.0
"""A page per system: the structure behind a score, what every model said, and where the numbers came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlipaudit.benchmark import SystemResult
from mlipaudit.metric import metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Block, Cell, Column, Facts, Heading, Link, Notice, Page, ScoreBar, Table
from mlipaudit.reporting.charts import curves_of
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.declared import one_line
from mlipaudit.reporting.pages.parts import (
    NOTHING,
    benchmark_id,
    record_link,
    system_id,
    value_text,
    with_unit,
)
from mlipaudit.reporting.structures import Structures
from mlipaudit.reporting.systems import name_of, scores_of, systems_of

OF_EVERY_SYSTEM = {*SystemResult.model_fields, "score"}
"""Shown in rows of their own."""


def system_page(contents: Contents, benchmark: str, system: str, structures: Structures) -> Page:
    """One system of one benchmark."""
    records = contents.records_of(benchmark=benchmark)
    blocks: list[Block] = [*_failures(records, system)]
    drawn, why_not = structures.of(records, system)
    blocks += drawn or [Notice(f"No structure to show: {why_not}.")]
    blocks += [Heading("What the models said"), _numbers(records, system)]
    blocks += curves_of(benchmark, records, contents.coloured, system)
    blocks += [
        Heading("Where this comes from"),
        Facts((*_origin(records, structures), ("benchmark", Link(benchmark, page=benchmark_id(benchmark))))),
    ]
    names = tuple(dict.fromkeys(r.provenance.model for r in records))
    return Page(system_id(benchmark, system), system, tuple(blocks), benchmark, section="Systems", names=names)


def _failures(records: Sequence[TaskRecord], system: str) -> Iterator[Notice]:
    for record in records:
        failure = record.result.failures.get(system) or record.result.failure
        if failure:
            yield Notice(f"{record.provenance.model}: {failure}", "failure")


def _numbers(records: Sequence[TaskRecord], system: str) -> Table:
    """A row per number, a column per model; references are the same in all."""
    entries = {r.provenance.model: systems_of(r.result).get(system) for r in records}
    found = {model: _numbers_of(entry) for model, entry in entries.items()}
    fields = dict.fromkeys(field for numbers in found.values() for field in numbers)
    scores: tuple[Cell, ...] = tuple(
        ScoreBar(scores_of(r.result).get(system), None, r.provenance.model) for r in records
    )
    records_row = tuple(record_link(r) for r in records)
    rows: list[tuple[Cell, ...]] = [("score", *scores)]
    rows += [(field, *(numbers.get(field, NOTHING) for numbers in found.values())) for field in fields]
    rows.append(("raw record", *records_row))
    columns = (Column(""), *(Column(model, numeric=True) for model in entries))
    return Table(columns, tuple(rows), "numbers")


def _numbers_of(entry: SystemResult | None) -> dict[str, str]:
    """Single numbers and short texts of an entry, by name with unit."""
    if entry is None:
        return {}
    metrics = metrics_of(type(entry))
    found = {}
    for field in type(entry).model_fields:
        value = getattr(entry, field)
        if field in OF_EVERY_SYSTEM or isinstance(value, list | dict) or value == name_of(entry):
            continue
        if value is None and field not in metrics:
            continue
        unit = metrics[field].unit if field in metrics else ""
        is_interval = isinstance(value, tuple) and len(value) == 2
        found[with_unit(field, unit)] = " … ".join(map(value_text, value)) if is_interval else value_text(value)
    return found


def _origin(records: Sequence[TaskRecord], structures: Structures) -> Iterator[tuple[str, Cell]]:
    for record in records[:1]:
        source = structures.source(record)
        p = record.provenance
        yield "data", f"{p.data_name or p.identity.benchmark}, edition {p.data_edition or 'none'}"
        manifest = source.dataset.manifest if source.dataset else None
        about = manifest.about if manifest else {}
        for name in ("level_of_theory", "source", "license"):
            if text := one_line(about.get(name)):
                yield name.replace("_", " "), text
