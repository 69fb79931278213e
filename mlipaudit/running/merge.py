# SPDX-License-Identifier: Apache-2.0
"""Puts the results folders of several shards together: one folder, as one run would have left it.

Results are copied, chunks joined in their order and judged; no model is asked. The order of the folders makes no
difference: they are read in the order of their paths, and of two results of the same task the newest whole one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlipaudit.errors import StoreError, UsageError, UserError
from mlipaudit.record import Provenance, TaskRecord, protocol_as_dict
from mlipaudit.rejudge import Basis, basis_of
from mlipaudit.running.chunks import Part, join_parts, read_part, write_part
from mlipaudit.running.executor import SHARD
from mlipaudit.running.inventory import Entry, Folder, Inventory, Pieces, Whole, ranges
from mlipaudit.scoring import SCORING_VERSION
from mlipaudit.store import CHECKSUM, RESULT, ResultStore, Unreadable, write_text


@dataclass
class Merged:
    """What came of a merge, in words where a person has to know."""

    num_copied: int = 0
    num_joined: int = 0
    """Results that were made from chunks."""
    missing: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every task of the run has its result."""
        return not (self.missing or self.unusable)


def merge(parts: Sequence[Path], output: Path, *, data: Path | None = None) -> Merged:
    """Assemble results folders in `output`, whose own results take part.

    Args:
        parts: results folders.
        output: where everything goes.
        data: folder with the input data, for results on a folder of the user's.

    Raises:
        UsageError: a folder holds no results, or they do not belong to one run; nothing was written.
        StoreError: `output` cannot be written, or a run is at work there.
    """
    store = ResultStore(output)
    inventory = Inventory(_folders(parts, output))
    _require_present_scoring(inventory)
    with store.locked():
        return _Assembler(inventory, store, output, data).assemble()


def _folders(parts: Sequence[Path], output: Path) -> list[Folder]:
    """Each folder once, by path, so that the order in which they are given makes no difference."""
    for part in parts:
        if not part.is_dir():
            raise UsageError(f"no results folder {part}")
        if not (part / "run.json").is_file() and not any(part.glob(f"*/*/{RESULT}")):
            raise UsageError(f"{part} holds no results of mlipaudit")
    given = {path.resolve(): path for path in reversed(parts)}
    if output.is_dir():
        given.setdefault(output.resolve(), output)
    return [Folder(str(given[path]), ResultStore(given[path])) for path in sorted(given)]


def _require_present_scoring(inventory: Inventory) -> None:
    """Chunks are judged here and now, results were judged elsewhere: by the same rules, or not in one table."""
    joins = any(entry.pieces for entry in inventory.tasks.values())
    version, where = inventory.agreement.scoring or (SCORING_VERSION, "")
    if joins and version != SCORING_VERSION:
        raise UsageError(
            f"cannot merge: results in {where} have scoring version {version}, and chunks would be judged with "
            f"version {SCORING_VERSION}, which is the installed one"
        )


class _Assembler:
    """Writes one folder from many."""

    def __init__(self, inventory: Inventory, store: ResultStore, output: Path, data: Path | None) -> None:
        self._inventory, self._store, self._data = inventory, store, data
        self._own = next(
            (i for i, folder in enumerate(inventory.folders) if folder.store.root.resolve() == output.resolve()),
            -1,
        )
        self._merged = Merged(unusable=list(inventory.unreadable))
        self._reference: tuple[Any, Any] = (None, None)
        """Of the last benchmark: many models are judged by the same."""
        self._latest: dict[str, Provenance] = {}

    def assemble(self) -> Merged:
        """Everything that there is, and what is missing in words."""
        for model, benchmark in self._inventory.expected():
            entry = self._inventory.tasks.get((model, benchmark), Entry())
            self._assemble(model, benchmark, entry)
        for provenance in self._latest.values():
            self._store.update_scores(provenance)
        if self._inventory.runs:
            self._store.write_run(_joined_run(self._inventory))
        return self._merged

    def _assemble(self, model: str, benchmark: str, entry: Entry) -> None:
        """One task: from the newest of its results and chunks that are whole."""
        label, pieces = f"{model} · {benchmark}", entry.pieces
        ready = pieces is not None and not pieces.missing
        whole = max(entry.wholes, key=lambda whole: (whole.final, whole.started), default=None)
        if whole and pieces and ready and self._own != whole.folder:
            self._report_both(label, pieces, whole)
        if whole and not (ready and pieces and _is_better(pieces, whole)):
            self._report_twice(label, entry, whole)
            self._guarded(label, lambda: self._copy(model, benchmark, whole))
        elif pieces is None:
            self._merged.missing.append(label)
        else:
            self._report_twice_chunks(label, pieces)
            if ready:
                self._guarded(label, lambda: self._join(model, benchmark, pieces))
            else:
                self._keep(model, benchmark, pieces)
                self._merged.missing.append(f"{label}: {_chunks(pieces.missing)} of {pieces.count}")

    def _guarded(self, label: str, action: Any) -> None:
        try:
            action()
        except UserError as error:
            self._merged.unusable.append(f"{label}: {error}")

    def _copy(self, model: str, benchmark: str, whole: Whole) -> None:
        source = self._inventory.folders[whole.folder].store
        record = source.find(model, benchmark)
        if not isinstance(record, TaskRecord):
            raise StoreError("its result is gone")
        output = source.read_output(record)
        if whole.folder != self._own:
            if output is not None:
                self._store.write_output(model, benchmark, output)
            text = (source.folder(model, benchmark) / RESULT).read_text(encoding="utf-8")
            write_text(self._store.folder(model, benchmark) / RESULT, text)
        self._store.clear_beside(record)
        self._done(record)
        self._merged.num_copied += 1

    def _join(self, model: str, benchmark: str, pieces: Pieces) -> None:
        """The result of a task from its chunks; they are kept where it cannot be had now."""
        parts = [self._read(model, benchmark, number, pieces) for number in range(1, pieces.last + 1)]
        try:
            basis = basis_of(parts[0].record, self._data)
        except UserError:
            self._keep(model, benchmark, pieces)
            raise
        record = join_parts(parts, self._store, basis.benchmark, lambda: self._reference_of(basis), basis.protocol)
        self._store.write(record)
        self._done(record)
        self._merged.num_joined += 1

    def _done(self, record: TaskRecord) -> None:
        self._latest[record.provenance.model] = record.provenance

    def _read(self, model: str, benchmark: str, number: int, pieces: Pieces) -> Part:
        store = self._inventory.folders[pieces.folder(number)].store
        part = read_part(store.parts(model, benchmark) / f"{number:06d}.json")
        if isinstance(part, Unreadable):
            raise StoreError(f"{part.path}: {part.reason}")
        return part

    def _reference_of(self, basis: Basis) -> Any:
        key = basis.benchmark, basis.dataset.sha256, json.dumps(protocol_as_dict(basis.protocol), sort_keys=True)
        if self._reference[0] != key:
            self._reference = key, basis.reference()
        return self._reference[1]

    def _keep(self, model: str, benchmark: str, pieces: Pieces) -> None:
        """Copy the chunks that there are: a later merge, or a run there, needs the others only."""
        for number in pieces.there:
            if pieces.folder(number) != self._own:
                write_part(self._store, self._read(model, benchmark, number, pieces))

    def _report_twice(self, label: str, entry: Entry, taken: Whole) -> None:
        for other in entry.wholes:
            same = (other.started, other.wall_seconds) == (taken.started, taken.wall_seconds)
            if other is not taken and not same and self._own not in (other.folder, taken.folder):
                self._merged.twice.append(f"{label} is in {self._both(taken.folder, other.folder)}")

    def _report_twice_chunks(self, label: str, pieces: Pieces) -> None:
        for (taken, other), numbers in sorted(pieces.twice.items()):
            if self._own not in (taken, other):
                verb = "is" if len(numbers) == 1 else "are"
                words = f"{label}: {_chunks(sorted(set(numbers)))} {verb} in {self._both(taken, other)}"
                self._merged.twice.append(words)

    def _report_both(self, label: str, pieces: Pieces, whole: Whole) -> None:
        names = list(dict.fromkeys(self._inventory.folders[pieces.folder(n)].name for n in pieces.there))
        taken = "from its chunks" if _is_better(pieces, whole) else "as a whole"
        where = self._inventory.folders[whole.folder].name
        self._merged.twice.append(f"{label} is in {where} and, in chunks, in {', '.join(names)}; taken {taken}")

    def _both(self, taken: int, other: int) -> str:
        one, two = (self._inventory.folders[number].name for number in (taken, other))
        return f"{one} and in {two}; taken from {one}, the newest that is whole"


def _is_better(pieces: Pieces, whole: Whole) -> bool:
    return (not pieces.failed, pieces.started) > (whole.final, whole.started)


def _chunks(numbers: Sequence[int]) -> str:
    return f"chunk{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"


def _joined_run(inventory: Inventory) -> dict[str, Any]:
    """The record of the run that would have done all of it."""
    runs = sorted(inventory.runs, key=lambda run: (-len(run["models"]), -len(run["benchmarks"]), str(run)))
    benchmarks = dict.fromkeys(benchmark for run in runs for benchmark in run["benchmarks"])
    models: dict[str, Any] = {}
    for run in runs:
        models = {**run["models"], **models}
    content = {**runs[0], "models": models, "benchmarks": list(benchmarks)}
    return {key: value for key, value in content.items() if key not in (SHARD, CHECKSUM)}
