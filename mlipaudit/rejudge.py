# SPDX-License-Identifier: Apache-2.0
"""Judging stored model outputs again: no model, the same on any machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark, BenchmarkResult
from mlipaudit.data import DataSet, EditionKind, parse_edition
from mlipaudit.errors import DataCorruptError, DataUnavailableError, StoreError, UsageError
from mlipaudit.record import TaskRecord, protocol_as_dict
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
    benchmark: Any = registry.load(registry.BENCHMARKS, record.provenance.identity.benchmark)
    _require_same_benchmark(record, benchmark)
    dataset = dataset_of(record, data)
    text = store.read_output(record)
    protocol = benchmark.protocols.get(RunMode(record.provenance.identity.run_mode))
    try:
        output = benchmark.model_output_class.model_validate_json(text)
        return benchmark.judge(output, benchmark.load(dataset.path, protocol), protocol)
    except (ValidationError, ValueError, KeyError, IndexError, TypeError) as error:
        raise StoreError(f"the model output cannot be judged: {str(error).splitlines()[0]}") from error


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
    if identity.protocol != protocol_as_dict(benchmark.protocols.get(RunMode(identity.run_mode))):
        raise UsageError("made under another protocol than the installed one: run it again")


def dataset_of(record: TaskRecord, data: Path | None) -> DataSet:
    """The very input data that a result was made with.

    Args:
        record: the stored task.
        data: folder with the input data, for results on a folder of the user's.

    Raises:
        UserError: it cannot be had, or is not the same any more.
    """
    p = record.provenance
    if p.data_edition == EditionKind.LOCAL and data is None:
        raise UsageError("made on a folder of yours: pass it with --data PATH")
    edition = p.data_edition
    if edition == EditionKind.HUB and "commit" in p.data_origin:
        edition = f"{EditionKind.HUB}@{p.data_origin['commit']}"
    if edition == EditionKind.LOCAL:
        edition = str(data)
    try:
        dataset = parse_edition(edition, RunMode(p.identity.run_mode)).fetch(p.data_name or p.identity.benchmark)
        sha256 = dataset.sha256
    except OSError as error:
        raise DataUnavailableError(f"the input data cannot be read: {error.strerror}") from error
    if sha256 != p.identity.data_sha256:
        raise DataCorruptError("the input data is not what the result was made with")
    return dataset
