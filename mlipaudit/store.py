# SPDX-License-Identifier: Apache-2.0
"""The results folder: the only state a run has.

    <output>/run.json                          models, names and settings of the last run
    <output>/<model>/<benchmark>/result.json   fields of the result, and `provenance`
    <output>/<model>/score.json                score by benchmark, and `overall_score`

Every file is written to a temporary neighbour and moved into place, so that a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.errors import StoreError, UserError
from mlipaudit.record import Provenance, TaskRecord
from mlipaudit.scoring import compute_model_score

RESULT, SCORE, RUN = "result.json", "score.json", "run.json"
OVERALL_SCORE = "overall_score"
PROVENANCE = "provenance"


@dataclass(frozen=True)
class Unreadable:
    """A result file that cannot be read."""

    path: Path
    reason: str


class ResultStore:
    """Reads and writes one results folder."""

    def __init__(self, root: str | os.PathLike) -> None:
        self.root = Path(root)

    def prepare(self) -> None:
        """Create the folder and try it, before anything is computed.

        Raises:
            StoreError: nothing can be written there.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".probe-{os.getpid()}"
            probe.write_text("", encoding="utf-8")
            probe.unlink()
        except OSError as error:
            raise StoreError(f"cannot write to {self.root}: {error.strerror}; choose another --output") from error

    def write(self, record: TaskRecord) -> Path:
        """Store one finished task and bring its model's score up to date.

        Raises:
            StoreError: the file system refuses.
        """
        provenance = record.provenance
        path = self.root / provenance.model / provenance.identity.benchmark / RESULT
        # Through JSON text: only there NaN and infinity become what strict JSON can hold.
        content = json.loads(record.result.model_dump_json())
        content[PROVENANCE] = json.loads(provenance.model_dump_json())
        write_json(path, content)
        write_json(self.root / provenance.model / SCORE, self._scores(provenance))
        return path

    def write_run(self, content: dict[str, Any]) -> None:
        """Store the settings of a run."""
        write_json(self.root / RUN, content)

    def records(self) -> Iterator[TaskRecord | Unreadable]:
        """Every stored task, by model and benchmark; those that cannot be read come as `Unreadable`.

        Raises:
            StoreError: there is no such folder.
        """
        if not self.root.is_dir():
            raise StoreError(f"no results folder {self.root}")
        for path in sorted(self.root.glob(f"*/*/{RESULT}")):
            if not any(part.startswith(".") for part in path.relative_to(self.root).parts):
                yield read_record(path)

    def _scores(self, latest: Provenance) -> dict[str, float | None]:
        """Scores of the stored tasks that may be averaged with the latest one."""
        folder = self.root / latest.model
        records = (read_record(path) for path in sorted(folder.glob(f"*/{RESULT}")))
        scores = {
            record.provenance.identity.benchmark: record.result.score
            for record in records
            if isinstance(record, TaskRecord) and record.provenance.comparable == latest.comparable
        }
        return {**scores, OVERALL_SCORE: compute_model_score(scores)}


def read_record(path: Path) -> TaskRecord | Unreadable:
    """A stored result in its benchmark's own class where that is installed, else in the base class."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        provenance = Provenance.model_validate(content.pop(PROVENANCE))
        result = _result_class(provenance, content).model_validate(content)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ValidationError) as error:
        return Unreadable(path, f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return TaskRecord.model_construct(result=result, provenance=provenance)


def _result_class(provenance: Provenance, content: dict[str, Any]) -> type[BenchmarkResult]:
    from mlipaudit import registry

    if content.get("failure"):
        return BenchmarkResult
    try:
        benchmark: Any = registry.load(registry.BENCHMARKS, provenance.identity.benchmark)
    except UserError:  # not installed, or broken: the scores can still be shown
        return BenchmarkResult
    return benchmark.result_class


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON atomically.

    Raises:
        StoreError: the file system refuses.
    """
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
