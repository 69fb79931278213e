# SPDX-License-Identifier: Apache-2.0
"""The results folder: the only state a run has.

    <output>/run.json                                        models, names and settings of the last run
    <output>/<model>/<benchmark>/result.json                 fields of the result, `provenance`, `checksum`
    <output>/<model>/<benchmark>/model_output.<hash>.json    the model's raw answers, to be judged again
    <output>/<model>/<benchmark>/earlier/<task id>/          the same of another identity, replaced by a later run
    <output>/<model>/<benchmark>/unfinished/                 simulations on their way, while the task has no result
    <output>/<model>/<benchmark>/parts/                      chunks of a split task, until all of them are there
    <output>/<model>/score.json                              score by benchmark, and `overall_score`

Every file is written to a temporary neighbour and moved into place, so that a reader never sees half of one. A
result names its model output by hash, and is written after it: a run that dies in between leaves the old pair whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.errors import StoreError, UserError
from mlipaudit.record import Provenance, TaskRecord
from mlipaudit.scoring import compute_model_score

RESULT, SCORE, RUN, LOCK = "result.json", "score.json", "run.json", ".lock"
OVERALL_SCORE = "overall_score"
PROVENANCE, CHECKSUM = "provenance", "checksum"
TEMPORARY = ".writing-"
"""Beginning of the names of files that are not finished."""
SET_ASIDE, EARLIER, UNFINISHED, PARTS = "unreadable", "earlier", "unfinished", "parts"


@dataclass(frozen=True)
class Unreadable:
    """A result file that cannot be used."""

    path: Path
    reason: str

    @property
    def model(self) -> str:
        """The model's folder."""
        return self.path.parent.parent.name

    @property
    def benchmark(self) -> str:
        """The benchmark's folder."""
        return self.path.parent.name


class ResultStore:
    """Reads and writes one results folder."""

    def __init__(self, root: str | os.PathLike) -> None:
        self.root = Path(root)

    def prepare(self) -> None:
        """Create the folder and try it, before anything is computed.

        Raises:
            StoreError: nothing can be written there.
        """
        probe = self.root / f"{TEMPORARY}probe-{os.getpid()}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe.write_text("probe", encoding="utf-8")
            probe.unlink()
        except OSError as error:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            raise StoreError(f"cannot write to {self.root}: {error.strerror}; choose another --output") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder, which is prepared and freed of what a dead run left unfinished.

        Raises:
            StoreError: nothing can be written there, or another run is at work.
        """
        self.prepare()
        with self._open_lock() as lock:
            if not _try_lock(lock.fileno()):
                raise StoreError(f"another run is writing to {self.root}; wait for it or choose another --output")
            self._clear_unfinished()
            try:
                yield
            finally:
                self._clear_unfinished()

    def folder(self, model: str, benchmark: str) -> Path:
        """Where a task's files are."""
        return self.root / model / benchmark

    def unfinished(self, model: str, benchmark: str) -> Path:
        """Where simulations are kept until their task is done."""
        return self.folder(model, benchmark) / UNFINISHED

    def parts(self, model: str, benchmark: str) -> Path:
        """Where the chunks of a split task are kept until all of them are there."""
        return self.folder(model, benchmark) / PARTS

    def forget_unfinished(self, model: str, benchmark: str) -> None:
        """Let the next run of a task begin at its beginning."""
        shutil.rmtree(self.unfinished(model, benchmark), ignore_errors=True)
        shutil.rmtree(self.parts(model, benchmark), ignore_errors=True)

    def write(self, record: TaskRecord) -> Path:
        """Store one finished task and bring its model's score up to date.

        Raises:
            StoreError: the file system refuses.
        """
        provenance = record.provenance
        folder = self.folder(provenance.model, provenance.identity.benchmark)
        self._put_away(folder, other_than=provenance)
        content = content_of(record)
        write_json(folder / RESULT, {**content, CHECKSUM: checksum(content)})
        self.tidy(record)
        return folder / RESULT

    def tidy(self, record: TaskRecord) -> None:
        """Leave one model output beside a stored result, its own, and bring the score file up to date.

        Raises:
            StoreError: the file system refuses.
        """
        self.clear_beside(record)
        self.update_scores(record.provenance)

    def clear_beside(self, record: TaskRecord) -> None:
        """Leave one model output beside a stored result, its own, and nothing unfinished if it is whole."""
        p = record.provenance
        folder = self.folder(p.model, p.identity.benchmark)
        own = self._output_path(folder, p.output_sha256) if p.output_sha256 else None
        for path in folder.glob("model_output.*.json"):
            if path != own:
                _remove(path)
        if not record.result.failure:  # else they may go on with more time, or more memory
            self.forget_unfinished(p.model, p.identity.benchmark)

    def write_output(self, model: str, benchmark: str, text: str) -> str:
        """Store a model output, as JSON text, beside the result that will name it; returns its sha256.

        Raises:
            StoreError: the file system refuses.
        """
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        write_text(self._output_path(self.folder(model, benchmark), sha256), text)
        return sha256

    def read_output(self, record: TaskRecord) -> str | None:
        """The stored model output of a result, as JSON text; None when it has none.

        Raises:
            StoreError: the file is missing or was changed.
        """
        p = record.provenance
        if p.output_sha256 is None:
            return None
        path = self._output_path(self.folder(p.model, p.identity.benchmark), p.output_sha256)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != p.output_sha256:
            raise StoreError(f"{path}: changed after it was written")
        return content.decode()

    def write_run(self, content: dict[str, Any]) -> None:
        """Store the settings of a run."""
        write_json(self.root / RUN, {**content, CHECKSUM: checksum(content)})

    def read_run(self) -> dict[str, Any] | None:
        """The settings of the last run; None when there are none, or none that can be trusted."""
        try:
            content = unsealed(json.loads((self.root / RUN).read_text(encoding="utf-8")))
            whole = isinstance(content.get("models"), dict) and isinstance(content.get("benchmarks"), list)
            return content if whole else None
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def update_scores(self, latest: Provenance) -> None:
        """Bring a model's score file up to date with its stored tasks.

        Raises:
            StoreError: the file system refuses.
        """
        path, scores = self.root / latest.model / SCORE, self.scores(latest)
        before = self.read_scores(latest.model)
        if before and _only_own_files(scores) and not _only_own_files(before):
            return  # what a model scores on a file of the user's takes no benchmark's place
        if scores != before:
            write_json(path, scores)

    def models_with_scores(self) -> set[str]:
        """Models that have a score file."""
        return {path.parent.name for path in self.root.glob(f"[!.]*/{SCORE}")}

    def read_scores(self, model: str) -> dict[str, float | None] | None:
        """A model's score file; None when it cannot be read."""
        try:
            return json.loads((self.root / model / SCORE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def scores(self, latest: Provenance) -> dict[str, float | None]:
        """Scores of the stored tasks that may be averaged with the latest one, and their mean."""
        folder = self.root / latest.model
        records = (read_record(path) for path in sorted(folder.glob(f"*/{RESULT}")))
        scores = {
            record.provenance.identity.benchmark: record.result.score
            for record in records
            if isinstance(record, TaskRecord) and record.provenance.comparable == latest.comparable
        }
        some = any(score is not None for score in scores.values())
        return {**scores, OVERALL_SCORE: compute_model_score(scores) if some else None}

    def find(self, model: str, benchmark: str) -> TaskRecord | Unreadable | None:
        """The stored task of a model; None when there is none."""
        path = self.folder(model, benchmark) / RESULT
        return read_record(path) if path.exists() else None

    def earlier(self, model: str, benchmark: str) -> Iterator[TaskRecord]:
        """Results of other identities that later runs replaced."""
        for path in sorted((self.folder(model, benchmark) / EARLIER).glob(f"*/{RESULT}")):
            record = read_record(path, folder=path.parent.parent.parent)
            if isinstance(record, TaskRecord):
                yield record

    def bring_back(self, earlier: TaskRecord) -> TaskRecord:
        """Put an earlier result in the place of the present one, which becomes an earlier one.

        Raises:
            StoreError: the file system refuses.
        """
        p = earlier.provenance
        folder = self.folder(p.model, p.identity.benchmark)
        try:
            self._put_away(folder, other_than=p)
            source = folder / EARLIER / p.task_id
            for path in sorted(source.iterdir(), key=lambda path: path.name == RESULT):
                path.replace(folder / path.name)
            source.rmdir()
        except OSError as error:
            raise StoreError(f"cannot move {source}: {error.strerror}") from error
        return earlier

    def _put_away(self, folder: Path, *, other_than: Provenance) -> None:
        """Move a result of another identity and its output out of the way of a new one."""
        stored = read_record(folder / RESULT)
        if not isinstance(stored, TaskRecord) or not stored.provenance.identity.differences(other_than.identity):
            return
        target = folder / EARLIER / stored.provenance.task_id
        try:
            target.mkdir(parents=True, exist_ok=True)
            # First a copy, which `tidy` makes the only one: whenever this is cut short, result and output are together.
            own = self._output_path(folder, stored.provenance.output_sha256 or "")
            if own.exists():
                write_text(target / own.name, own.read_text(encoding="utf-8", errors="replace"))
            (folder / RESULT).replace(target / RESULT)
        except OSError as error:
            raise StoreError(f"cannot move {folder / RESULT}: {error.strerror}") from error

    def set_aside(self, unreadable: Unreadable) -> None:
        """Move a result that cannot be used out of the way; it is kept for whoever changed it.

        Raises:
            StoreError: the file system refuses.
        """
        try:
            unreadable.path.rename(unreadable.path.with_name(f"{RESULT}.{SET_ASIDE}"))
        except OSError as error:
            raise StoreError(f"cannot move {unreadable.path}: {error.strerror}") from error

    def records(self) -> Iterator[TaskRecord | Unreadable]:
        """Every stored task, by model and benchmark; those that cannot be read come as `Unreadable`.

        Raises:
            StoreError: there is no such folder.
        """
        try:
            there = self.root.is_dir()
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror}") from error
        if not there:
            raise StoreError(f"no results folder {self.root}")
        for path in sorted(self.root.glob(f"*/*/{RESULT}")):
            if not any(part.startswith(".") for part in path.relative_to(self.root).parts):
                yield read_record(path)

    def _open_lock(self) -> TextIO:
        try:
            return (self.root / LOCK).open("a", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot open {self.root / LOCK}: {error.strerror}") from error

    def _output_path(self, folder: Path, sha256: str) -> Path:
        return folder / f"model_output.{sha256[:12]}.json"

    def _clear_unfinished(self) -> None:
        for pattern in (f"{TEMPORARY}*", f"*/{TEMPORARY}*", f"*/*/{TEMPORARY}*", f"*/*/{PARTS}/{TEMPORARY}*"):
            for leftover in self.root.glob(pattern):
                _remove(leftover)


def _only_own_files(scores: dict[str, float | None]) -> bool:
    from mlipaudit import registry

    return all(registry.is_of_file(name) for name in scores if name != OVERALL_SCORE)


def read_record(path: Path, *, folder: Path | None = None) -> TaskRecord | Unreadable:
    """A stored result in its benchmark's own class where that is installed, else in the base class.

    It must be that of the model and benchmark that `folder`, by default its own, is named after.
    """
    folder = folder or path.parent
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        record = parse_record(unsealed(content))
    except OSError as error:
        return Unreadable(path, error.strerror or "cannot be opened")
    except json.JSONDecodeError as error:
        return Unreadable(path, f"not JSON, or cut short: {error}")
    except ValidationError as error:
        return Unreadable(path, _first_problem(error))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        return Unreadable(path, str(error).splitlines()[0] if isinstance(error, ValueError) else "not a result")
    p = record.provenance
    if (p.model, p.identity.benchmark) != (folder.parent.name, folder.name):
        return Unreadable(path, f"is the result of {p.model} · {p.identity.benchmark}, which belongs elsewhere")
    return record


def content_of(record: TaskRecord) -> dict[str, Any]:
    """A task as JSON content: the fields of the result, and `provenance`."""
    # Through JSON text: only there NaN and infinity become what strict JSON can hold.
    content = json.loads(record.result.model_dump_json())
    return {**content, PROVENANCE: json.loads(record.provenance.model_dump_json())}


def parse_record(content: dict[str, Any]) -> TaskRecord:
    """A task from its JSON content: the fields of the result, and `provenance`.

    Raises:
        ValidationError, KeyError, TypeError, AttributeError: it is not the content of a task.
    """
    fields = dict(content)
    provenance = Provenance.model_validate(fields.pop(PROVENANCE))
    result = _result_class(provenance, fields).model_validate(fields)
    return TaskRecord.model_construct(result=result, provenance=provenance)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{' → '.join(str(part) for part in first['loc'])}: {first['msg']}"


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


def checksum(content: dict[str, Any]) -> str:
    """sha256 of JSON content, however it is laid out."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    """Content without its checksum.

    Raises:
        ValueError: the checksum is missing or belongs to other content.
        TypeError, AttributeError: this is no JSON object.
    """
    fields = dict(content)
    stated = fields.pop(CHECKSUM, None)
    if stated is None:
        raise ValueError("has no checksum: not written by this version of mlipaudit")
    if stated != checksum(fields):
        raise ValueError("changed after it was written (its checksum does not match)")
    return fields


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON atomically.

    Raises:
        StoreError: the file system refuses.
    """
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        StoreError: the file system refuses.
    """
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror}") from error


def _remove(path: Path) -> None:
    """Delete a file; what is none, or cannot be deleted, is not ours and harms nothing."""
    with suppress(OSError):
        path.unlink()


def _try_lock(descriptor: int) -> bool:
    """Lock a file for this process, until it closes it or dies; False when another has it."""
    import errno
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks is no reason to refuse a run.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
