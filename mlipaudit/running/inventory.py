# SPDX-License-Identifier: Apache-2.0
"""What several results folders hold together: which tasks and chunks, where, and whether they belong to one run.

A chunk takes a few bytes here, so that millions of them fit; what they hold is read when they are put together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mlipaudit.errors import UsageError
from mlipaudit.failures import FailureKind
from mlipaudit.record import Identity, Provenance, TaskRecord
from mlipaudit.running.chunks import Part, stored_parts
from mlipaudit.running.resume import TRIED_AGAIN
from mlipaudit.store import PARTS, ResultStore, Unreadable

NOWHERE, FAILED, DONE = 0, 1, 2
"""What is known of a chunk."""


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words: `1, 3-5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def seconds_since_epoch(started_at: str) -> float:
    """A time of a provenance as a number; 0 where it is none."""
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        return 0.0


class Pieces:
    """Which chunks of one task there are, and in which folder each is taken from: a finished one, and the newest."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._state = bytearray(count)
        self._folder = array("i", [-1]) * count
        self._started = array("d", [0.0]) * count
        self.twice: dict[tuple[int, int], list[int]] = {}
        """(folder that it is taken from, other folder) -> chunks."""

    def add(self, number: int, folder: int, *, started: float, failed: bool) -> None:
        """Note a chunk. Folders are added in their order, so that of equals the one in the first folder is taken."""
        i, state = number - 1, FAILED if failed else DONE
        if self._state[i] == NOWHERE:
            self._put(i, state, folder, started)
            return
        known = self._folder[i]
        better = (state, started) > (self._state[i], self._started[i])
        taken, other = (folder, known) if better else (known, folder)
        self.twice.setdefault((taken, other), []).append(number)
        if better:
            self._put(i, state, folder, started)

    def _put(self, i: int, state: int, folder: int, started: float) -> None:
        self._state[i], self._folder[i], self._started[i] = state, folder, started

    def folder(self, number: int) -> int:
        """The folder that a chunk is taken from."""
        return self._folder[number - 1]

    @property
    def there(self) -> list[int]:
        """All chunks that there are."""
        return [i + 1 for i, state in enumerate(self._state) if state != NOWHERE]

    @property
    def last(self) -> int:
        """The chunk that the task ends with: the first that failed, as if they were done one after the other."""
        failed = self._state.find(FAILED)
        return self.count if failed < 0 else failed + 1

    @property
    def missing(self) -> list[int]:
        """Chunks without which there is no result."""
        if self._state.find(NOWHERE, 0, self.last) < 0:
            return []
        return [i + 1 for i in range(self.last) if self._state[i] == NOWHERE]

    @property
    def failed(self) -> bool:
        """Whether the task as a whole comes to nothing."""
        return FAILED in self._state

    @property
    def started(self) -> float:
        """When the first of the chunks was begun."""
        return min(self._started[number - 1] for number in self.there)


@dataclass(frozen=True)
class Whole:
    """A stored result of a task."""

    folder: int
    started: float
    final: bool
    """Whether another try could change nothing."""
    wall_seconds: float


@dataclass
class Entry:
    """Everything that there is of one task."""

    wholes: list[Whole] = field(default_factory=list)
    pieces: Pieces | None = None


@dataclass(frozen=True)
class Folder:
    """A results folder, under the name by which it was given."""

    name: str
    store: ResultStore


class Agreement:
    """Finds out whether everything belongs to one run."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[Any, str]] = {}
        self._seen: set[tuple[str, ...]] = set()

    def check_run(self, folder: str, run: dict[str, Any]) -> None:
        """Compare a run's settings and models with those seen before.

        Raises:
            UsageError: they differ.
        """
        for key, word in (("run_mode", "run mode"), ("data", "data edition"), ("seed", "seed")):
            self._require_equal((word,), run.get(key), folder, f"differ in {word}")
        for name, about in run["models"].items():
            self._require_model(name, about.get("sha256"), folder)

    def check(self, folder: str, p: Provenance, *, scoring_version: int | None = None) -> None:
        """Compare how something was made with what was seen before; a part has no scoring version yet.

        Raises:
            UsageError: they differ.
        """
        key = (folder, p.model, p.identity.benchmark, p.task_id, str(p.data_edition), str(scoring_version))
        if key in self._seen:
            return
        self._seen.add(key)
        identity = p.identity
        self._require_model(p.model, identity.model_sha256, folder)
        self._require_equal(("run mode",), identity.run_mode, folder, "differ in run mode")
        self._require_equal(("seed",), identity.seed, folder, "differ in seed")
        what = f"differ in data edition of {identity.benchmark}"
        self._require_equal(("edition", identity.benchmark), p.data_edition, folder, what)
        self._require_same_task(identity, folder)
        if scoring_version is not None:
            self._require_equal(("scoring",), scoring_version, folder, "differ in scoring version")

    @property
    def scoring(self) -> tuple[int, str] | None:
        """Scoring version of the results, and a folder that has them; None where there are none."""
        return self._first.get(("scoring",))

    def _require_model(self, name: str, sha256: Any, folder: str) -> None:
        self._require_equal(("model", name), sha256, folder, f"have different models called {name}", short=True)

    def _require_same_task(self, identity: Identity, folder: str) -> None:
        first, where = self._first.setdefault(("benchmark", identity.benchmark), (identity, folder))
        masked: dict[str, Any] = {"model_sha256": first.model_sha256, "precision": first.precision}
        if first.data_sha256 is None:  # it was not to be had there
            self._first["benchmark", identity.benchmark] = identity, folder
        if None in (first.data_sha256, identity.data_sha256):
            masked["data_sha256"] = first.data_sha256
        different = first.differences(identity.model_copy(update=masked))
        if different:
            raise _refusal(where, folder, f"differ in {', '.join(different)} of {identity.benchmark}")

    def _require_equal(
        self, key: tuple[str, ...], value: Any, folder: str, words: str, *, short: bool = False
    ) -> None:
        first, where = self._first.setdefault(key, (value, folder))
        if first != value:
            values = [str(v)[:8] if short else str(v) for v in (first, value)]
            raise _refusal(where, folder, f"{words} ({values[0]} and {values[1]})")


def _refusal(one: str, other: str, words: str) -> UsageError:
    both = f"{one} and {other}" if one != other else f"results in {one}"
    return UsageError(f"cannot merge: {both} {words}")


class Inventory:
    """Everything in several folders, checked to belong to one run."""

    def __init__(self, folders: Sequence[Folder]) -> None:
        """Read them, in this order.

        Raises:
            UsageError: they do not belong to one run.
        """
        self.folders = folders
        self.tasks: dict[tuple[str, str], Entry] = {}
        self.runs: list[dict[str, Any]] = []
        self.unreadable: list[str] = []
        self.agreement = Agreement()
        for folder in folders:  # before their contents, for it says best in which way whole folders differ
            self._read_run(folder)
        for number, folder in enumerate(folders):
            self._read(number, folder)

    def _read_run(self, folder: Folder) -> None:
        run = folder.store.read_run()
        if run is not None:
            self.agreement.check_run(folder.name, run)
            self.runs.append(run)

    def _read(self, number: int, folder: Folder) -> None:
        for record in folder.store.records():
            if isinstance(record, Unreadable):
                self._note(record)
            else:
                self._add_whole(number, folder, record)
        for path in sorted(folder.store.root.glob(f"[!.]*/[!.]*/{PARTS}")):
            for part in stored_parts(folder.store, path.parents[1].name, path.parent.name):
                if isinstance(part, Unreadable):
                    self._note(part)
                else:
                    self._add_part(number, folder, part)

    def _note(self, unreadable: Unreadable) -> None:
        self.unreadable.append(f"{unreadable.path}: {unreadable.reason}")

    def _add_whole(self, number: int, folder: Folder, record: TaskRecord) -> None:
        p, failure = record.provenance, record.result.failure
        self.agreement.check(folder.name, p, scoring_version=record.result.scoring_version)
        final = failure is None or failure.kind not in {*TRIED_AGAIN, FailureKind.TIMEOUT}
        whole = Whole(number, seconds_since_epoch(p.started_at), final, p.wall_seconds)
        self.entry(p.model, p.identity.benchmark).wholes.append(whole)

    def _add_part(self, number: int, folder: Folder, part: Part) -> None:
        p = part.provenance
        self.agreement.check(folder.name, p)
        entry = self.entry(p.model, p.identity.benchmark)
        pieces = entry.pieces = entry.pieces or Pieces(part.count)
        if part.count != pieces.count:
            other = self.folders[pieces.folder(pieces.there[0])].name
            words = f"have {p.model} · {p.identity.benchmark} in {pieces.count} and in {part.count} chunks"
            raise _refusal(other, folder.name, words)
        pieces.add(part.chunk, number, started=seconds_since_epoch(p.started_at), failed=part.failure is not None)

    def entry(self, model: str, benchmark: str) -> Entry:
        """What there is of a task."""
        return self.tasks.setdefault((model, benchmark), Entry())

    def expected(self) -> Iterator[tuple[str, str]]:
        """Tasks that the runs consist of, and others that are there; in their order, each once."""
        runs = sorted(self.runs, key=lambda run: (-len(run["models"]), -len(run["benchmarks"]), str(run)))
        planned = ((m, b) for run in runs for m in run["models"] for b in run["benchmarks"])
        yield from dict.fromkeys([*planned, *sorted(self.tasks)])
