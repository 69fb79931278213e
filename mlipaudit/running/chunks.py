# SPDX-License-Identifier: Apache-2.0
"""Chunks of a task: how many there are, how their answers are kept, and how they become one result.

    <output>/<model>/<benchmark>/parts/<number>.json    the answers for one chunk, or why there are none

Chunks are fixed beforehand and joined in their order, so that a result does not depend on who did which of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput, Record
from mlipaudit.errors import UserError
from mlipaudit.failures import Failure
from mlipaudit.record import Provenance, TaskRecord
from mlipaudit.running.plan import Task
from mlipaudit.store import CHECKSUM, ResultStore, Unreadable, checksum, unsealed, write_text


@dataclass(frozen=True)
class Chunk:
    """One of the chunks of a task, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"chunk {self.number} of {self.count}"


class Part(Record):
    """The model's answers for one chunk of a task."""

    chunk: int
    """Counted from 1."""
    count: int
    """Chunks that the task has."""
    output: dict[str, Any] | None = None
    """JSON content of a `ModelOutput`; None when the chunk failed."""
    failure: Failure | None = None
    provenance: Provenance

    @property
    def record(self) -> TaskRecord:
        """The chunk as if it were a task of its own, without metrics."""
        failed = self.failure is not None
        result = BenchmarkResult(failed=failed, score=0.0 if failed else None, failure=self.failure)
        return TaskRecord.model_construct(result=result, provenance=self.provenance)

    @classmethod
    def of_failed(cls, chunk: Chunk, record: TaskRecord) -> Part:
        """The part that stands for a chunk that came to nothing."""
        return cls(
            chunk=chunk.number, count=chunk.count, failure=record.result.failure, provenance=record.provenance
        )


# Which chunks there are


class ReferenceData:
    """Reads reference data, and keeps what was read last: many models are asked the same."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._last: Any = None

    def of(self, task: Task) -> Any:
        """What the task's benchmark judges by.

        Raises:
            UserError: the data cannot be read.
        """
        assert task.dataset is not None
        identity = task.identity
        key = (
            task.benchmark,
            task.dataset.path,
            identity.data_sha256,
            json.dumps(identity.protocol, sort_keys=True),
        )
        if key != self._key:
            self._last = task.benchmark_class.load(task.dataset.path, task.protocol)
            self._key = key
        return self._last


class ChunkCounter:
    """Says how many chunks tasks have; the data of a benchmark is read once."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], int | None] = {}

    def count(self, task: Task) -> int | None:
        """How many chunks a task has; None where it is one piece of work, or where its data cannot be read.

        Who carries it out will find that again, and say so in the task's result.
        """
        if task.dataset is None or not task.benchmark_class.is_split():
            return None
        identity = task.identity
        key = task.benchmark, identity.data_sha256, json.dumps(identity.protocol, sort_keys=True)
        if key not in self._counts:
            self._counts[key] = _count(task)
        return self._counts[key]


def _count(task: Task) -> int | None:
    try:
        return len(task.benchmark_class.chunks(ReferenceData().of(task)))
    except (UserError, OSError, ValueError, KeyError, TypeError):
        return None


# How they are kept


def write_part(store: ResultStore, part: Part) -> None:
    """Store the answers for one chunk.

    Raises:
        StoreError: the file system refuses.
    """
    content = json.loads(part.model_dump_json())
    text = json.dumps({**content, CHECKSUM: checksum(content)}, allow_nan=False, ensure_ascii=False)
    write_text(_part_path(store, part), text + "\n")


def _part_path(store: ResultStore, part: Part) -> Path:
    p = part.provenance
    return store.parts(p.model, p.identity.benchmark) / f"{part.chunk:06d}.json"


def stored_parts(store: ResultStore, model: str, benchmark: str) -> Iterator[Part | Unreadable]:
    """The chunks of a task that are there, one after the other, in their order."""
    for path in sorted(store.parts(model, benchmark).glob("[0-9]*.json")):
        yield read_part(path)


def forget_part(store: ResultStore, part: Part | Unreadable) -> None:
    """Delete a stored chunk that does not count."""
    path = part.path if isinstance(part, Unreadable) else _part_path(store, part)
    path.unlink(missing_ok=True)


def read_part(path: Path) -> Part | Unreadable:
    """A stored chunk, which must be that of the model and benchmark that its folders are named after."""
    try:
        part = Part.model_validate(unsealed(json.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        return Unreadable(path, error.strerror or "cannot be opened")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return Unreadable(path, str(error).splitlines()[0])
    p = part.provenance
    if (p.model, p.identity.benchmark) != (path.parents[2].name, path.parents[1].name):
        return Unreadable(path, f"is a chunk of {p.model} · {p.identity.benchmark}, which belongs elsewhere")
    if not 1 <= part.chunk <= part.count or path.stem != f"{part.chunk:06d}":
        return Unreadable(path, f"is chunk {part.chunk} of {part.count}, which belongs elsewhere")
    return part


# How they become one result


def join_outputs(parts: Sequence[Part], benchmark: type[Benchmark]) -> ModelOutput:
    """The model output of all chunks together.

    Raises:
        ValueError: a chunk's answers are not what the benchmark asks for.
    """
    assert benchmark.model_output_class is not None
    in_order = sorted(parts, key=lambda part: part.chunk)
    outputs = [benchmark.model_output_class.model_validate_json(json.dumps(part.output)) for part in in_order]
    return benchmark.join(outputs)


def join_provenance(parts: Sequence[Part]) -> Provenance:
    """How the result of several chunks was made: times added up, the largest memory, every device."""
    in_order = [part.provenance for part in sorted(parts, key=lambda part: part.chunk)]
    first = in_order[0]
    peaks = [p.peak_memory_bytes for p in in_order if p.peak_memory_bytes is not None]
    compilations = [p.num_compilations for p in in_order]
    limits = [p.time_limit_seconds for p in in_order]
    return first.model_copy(
        update={
            "started_at": min(p.started_at for p in in_order),
            "wall_seconds": sum(p.wall_seconds for p in in_order),
            "compile_seconds": sum(p.compile_seconds for p in in_order),
            "num_compilations": None if None in compilations else sum(n for n in compilations if n),
            "peak_memory_bytes": max(peaks, default=None),
            "time_limit_seconds": None if None in limits else max(limit for limit in limits if limit),
            "huge_pages": all(p.huge_pages for p in in_order),
            "device": _all_of(p.device for p in in_order),
            "versions": _versions(in_order),
        }
    )


def _versions(provenances: Sequence[Provenance]) -> dict[str, str]:
    packages = dict.fromkeys(package for p in provenances for package in p.versions)
    return {package: _all_of(p.versions.get(package, "none") for p in provenances) for package in packages}


def _all_of(values: Iterable[str]) -> str:
    return " + ".join(dict.fromkeys(values))


def join_parts(
    parts: Sequence[Part],
    store: ResultStore,
    benchmark: type[Benchmark],
    reference: Callable[[], Any],
    protocol: Any,
) -> TaskRecord:
    """The result of a task from all its chunks, or from those up to the one it failed with; its output is stored.

    Args:
        parts: the chunks.
        store: where the output goes.
        benchmark: the task's.
        reference: gives what it judges by.
        protocol: of the task.

    Raises:
        StoreError: the output cannot be written.
    """
    provenance = join_provenance(parts)
    failed = next((part for part in parts if part.failure), None)
    if failed is not None:
        return TaskRecord.model_construct(
            result=benchmark.result_of_failure(failed.failure, protocol), provenance=provenance
        )
    try:
        output = join_outputs(parts, benchmark)
        result = benchmark.judge(output, reference(), protocol)
    except Exception as error:  # around a task: it costs only itself
        result = benchmark.result_of_failure(Failure.from_exception(error), protocol)
        return TaskRecord.model_construct(result=result, provenance=provenance)
    if result.failure is None:
        text = output.model_dump_json()
        provenance.output_sha256 = store.write_output(provenance.model, provenance.identity.benchmark, text)
    return TaskRecord.model_construct(result=result, provenance=provenance)
