# SPDX-License-Identifier: Apache-2.0
"""Judging stored model outputs again: no model, the same on any machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark, BenchmarkResult
from mlipaudit.data import DataSet, EditionKind, parse_edition
from mlipaudit.errors import DataCorruptError, DataUnavailableError, StoreError, UsageError
from mlipaudit.record import Provenance, TaskRecord, protocol_as_dict
from mlipaudit.run_mode import RunMode
from mlipaudit.store import ResultStore


def judge_again(record: TaskRecord, store: ResultStore, *, data: Path | None = None) -> BenchmarkResult | None:
    """The result that a stored model output has now; None for a task that ended without one.

    Args:
        record: the stored task.
        store: where it is stored.
        data: folder with the input data, for results on a folder of the user's.

    Raises:
        UserError: the output, the data or the benchmark is not what the result was made with; the message says which.
    """
    if record.provenance.output_sha256 is None:
        return None
    by = basis_of(record, data)
    text = store.read_output(record)
    try:
        output = by.benchmark.model_output_class.model_validate_json(text)
        return by.benchmark.judge(output, by.reference(), by.protocol)
    except (ValidationError, ValueError, KeyError, IndexError, TypeError) as error:
        raise StoreError(f"the model output cannot be judged: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class Basis:
    """What a task's answers are judged by."""

    benchmark: Any
    protocol: Any
    dataset: DataSet

    def reference(self) -> Any:
        """The reference data."""
        return self.benchmark.load(self.dataset.path, self.protocol)


def basis_of(record: TaskRecord, data: Path | None) -> Basis:
    """What a stored task was judged by, or is to be.

    Raises:
        UserError: the data or the benchmark is not what the task was done with; the message says which.
    """
    benchmark: Any = registry.load(registry.BENCHMARKS, record.provenance.identity.benchmark)
    _require_same_benchmark(record, benchmark)
    protocol = _protocol_today(record, benchmark)
    return Basis(benchmark, protocol, dataset_of(record, data))


def differences(stored: BenchmarkResult, again: BenchmarkResult) -> Iterator[str]:
    """Fields in which two results differ, with their values where those are short."""
    # Through JSON text, where NaN is a word and equals itself.
    one, other = (json.loads(result.model_dump_json()) for result in (stored, again))
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            before, now = repr(one.get(name)), repr(other.get(name))
            short = len(before) + len(now) < 80
            yield f"{name} (stored {before}, now {now})" if short else name


def _require_same_benchmark(record: TaskRecord, benchmark: type[Benchmark]) -> None:
    identity = record.provenance.identity
    if identity.run_mode not in set(RunMode):
        raise UsageError(f"made in run mode {identity.run_mode!r}, which this version does not have")
    if identity.benchmark_version != benchmark.version:
        raise UsageError(
            f"made with version {identity.benchmark_version} of the benchmark, installed is {benchmark.version}: "
            "run it again"
        )
    if identity.protocol != protocol_as_dict(_protocol_today(record, benchmark)):
        raise UsageError("made under another protocol than the installed one: run it again")


def _protocol_today(record: TaskRecord, benchmark: type[Benchmark]) -> Any:
    identity = record.provenance.identity
    return benchmark.protocol_of(RunMode(identity.run_mode), identity.protocol)


def dataset_of(record: TaskRecord, data: Path | None) -> DataSet:
    """The very input data that a result was made with.

    Args:
        record: the stored task.
        data: folder with the input data, for results on a folder of the user's; of a file its folder or itself.

    Raises:
        UserError: it cannot be had, or is not the same any more.
    """
    p = record.provenance
    if registry.is_of_file(p.identity.benchmark):
        return _require_same(_own_file(p, data), record)
    if p.data_edition == EditionKind.LOCAL and data is None:
        raise UsageError("made on a folder of yours: pass it with --data PATH")
    edition = p.data_edition
    if edition == EditionKind.HUB and "commit" in p.data_origin:
        edition = f"{EditionKind.HUB}@{p.data_origin['commit']}"
    if edition == EditionKind.LOCAL:
        edition = str(data)
    try:
        dataset = parse_edition(edition, RunMode(p.identity.run_mode)).fetch(p.data_name or p.identity.benchmark)
        return _require_same(dataset, record)
    except OSError as error:
        raise DataUnavailableError(f"the input data cannot be read: {error.strerror}") from error


def _require_same(dataset: DataSet, record: TaskRecord) -> DataSet:
    if dataset.sha256 != record.provenance.identity.data_sha256:
        raise DataCorruptError("the input data is not what the result was made with")
    return dataset


def _own_file(provenance: Provenance, data: Path | None) -> DataSet:
    name = provenance.data_name or "a file"
    if data is None:
        raise UsageError(f"made on a file of yours, {name}: pass it, or its folder, with --data PATH")
    return DataSet.of_file(data / name if data.is_dir() else data)
