# SPDX-License-Identifier: Apache-2.0
"""Everything in a results folder, read once: what tables, pages and comparisons are made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark
from mlipaudit.errors import UserError
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.published import published_record
from mlipaudit.reporting.rows import Gap, gaps_of
from mlipaudit.store import ResultStore, Unreadable

NO_CATEGORY = "General"


@dataclass(frozen=True)
class Contents:
    """Results that can be shown, and what is missing."""

    root: Path
    records: tuple[TaskRecord, ...]
    unreadable: tuple[Unreadable, ...]
    gaps: tuple[Gap, ...]
    """Tasks of the last run without a result, unreadable ones included."""
    folder_models: tuple[str, ...] = ()
    """Names of all models of the folder, where this is a part of it."""

    @property
    def coloured(self) -> list[str]:
        """Names on which colours depend: a model has the same in any part of a folder."""
        return sorted({*self.models, *self.folder_models})

    @property
    def models(self) -> list[str]:
        """Names of all models, sorted."""
        return sorted({r.provenance.model for r in self.records} | {gap.model for gap in self.gaps})

    @property
    def benchmarks(self) -> list[str]:
        """Names of all benchmarks: by category, then by name."""
        found = {r.provenance.identity.benchmark for r in self.records} | {gap.benchmark for gap in self.gaps}
        return sorted(found, key=lambda name: (category_of(name), name))

    def records_of(self, *, model: str | None = None, benchmark: str | None = None) -> list[TaskRecord]:
        """The results of one model, or on one benchmark, or both."""
        return [
            r
            for r in self.records
            if model in (None, r.provenance.model) and benchmark in (None, r.provenance.identity.benchmark)
        ]

    def only(
        self, *, models: Collection[str] | None = None, benchmarks: Collection[str] | None = None
    ) -> Contents:
        """A part of it; None leaves all in."""

        def chosen(model: str, benchmark: str) -> bool:
            return (models is None or model in models) and (benchmarks is None or benchmark in benchmarks)

        return replace(
            self,
            records=tuple(r for r in self.records if chosen(r.provenance.model, r.provenance.identity.benchmark)),
            unreadable=tuple(bad for bad in self.unreadable if chosen(bad.model, bad.benchmark)),
            gaps=tuple(gap for gap in self.gaps if chosen(gap.model, gap.benchmark)),
            folder_models=tuple(self.coloured),
        )


def open_results(root: str | Path) -> Contents:
    """Read a results folder, also one of mlipaudit 0.1.x.

    Raises:
        StoreError: there is no such folder.
    """
    store = ResultStore(root)
    stored = [_or_published(record) for record in store.records()]
    records = [record for record in stored if isinstance(record, TaskRecord)]
    unreadable = [record for record in stored if isinstance(record, Unreadable)]
    gaps = gaps_of(store.read_run(), records, unreadable)
    return Contents(Path(root), tuple(records), tuple(unreadable), tuple(gaps))


def _or_published(record: TaskRecord | Unreadable) -> TaskRecord | Unreadable:
    """A result that only mlipaudit 0.1.x can have written is no unreadable one."""
    return published_record(record.path) or record if isinstance(record, Unreadable) else record


def benchmark_class(name: str) -> type[Benchmark] | None:
    """The class of a benchmark; None where it is not installed, or broken: its scores can still be shown."""
    try:
        return registry.load(registry.BENCHMARKS, name)  # type: ignore[return-value]
    except UserError:
        return None


def is_scored(benchmark: str) -> bool:
    """Whether a benchmark gives scores, as one that is not installed is taken to do."""
    declared = benchmark_class(benchmark)
    return declared is None or declared.scored


def category_of(benchmark: str) -> str:
    """The category that a benchmark declares."""
    declared = benchmark_class(benchmark)
    return declared.category if declared else NO_CATEGORY
