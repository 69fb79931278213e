# SPDX-License-Identifier: Apache-2.0
"""Supervises worker processes: one task at a time each, one model per process.

A process that dies, hangs or does not even start costs the task that it had. A model gets a process of its own, for
it may change more than itself: the precision of jax, the working directory, the state of a random generator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import wait
from typing import Any

from mlipaudit.errors import StoreError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.models import ModelSpec
from mlipaudit.record import TaskRecord
from mlipaudit.running.backlog import Backlog, Job
from mlipaudit.running.chunks import Part
from mlipaudit.running.devices import Place
from mlipaudit.running.events import Emit, TaskProgress, TaskStarted
from mlipaudit.running.provenance import failed_record
from mlipaudit.running.worker_process import WorkerProcess
from mlipaudit.store import ResultStore, parse_record

START_LIMIT_S = 600.0
"""How long a worker may take to begin: importing jax from a cold network disk."""
LOOK_INTERVAL_S = 0.5
"""How often to look for processes that died without a word."""


Done = tuple[Job, TaskRecord | Part]
"""A job and what came of it: a part, if it is a chunk."""


@dataclass
class Seat:
    """A place for a worker, the worker in it, and what that is doing."""

    place: Place
    worker: WorkerProcess | None = None
    model: ModelSpec | None = None
    job: Job | None = None
    since: float = 0.0
    """When the worker was started or, once it is ready, when it got its task; monotonic."""
    started_at: str = ""

    def begin(self, job: Job, store: ResultStore, *, verbose: bool) -> None:
        """Give a job to the worker that has its model, or to a new one."""
        if self.worker is None or self.model != job.task.model or not self.worker.alive:
            self.dismiss()
            self.worker = WorkerProcess(self.place, store.root, verbose=verbose)
        self.job, self.model = job, job.task.model
        self.since, self.started_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        self.worker.give(job.task, job.chunk)

    def dismiss(self) -> None:
        """End the worker, whatever it does."""
        if self.worker is not None:
            self.worker.stop()
        self.worker = self.model = self.job = None

    def time_left(self, limit: float | None) -> float:
        """Seconds until the job is overdue."""
        ready = self.worker is not None and self.worker.ready
        allowed = limit if ready else START_LIMIT_S
        return float("inf") if allowed is None else self.since + allowed - time.monotonic()

    def failed(self, failure: Failure) -> Done:
        """What the job came to when its worker could not say; the worker is dismissed."""
        job, worker = self.job, self.worker
        assert job is not None and worker is not None
        times: dict[str, Any] = {"started_at": self.started_at, "wall_seconds": time.monotonic() - self.since}
        record = failed_record(job.task, failure, worker.surroundings, **times)
        self.dismiss()
        return job, Part.of_failed(job.chunk, record) if job.chunk else record


class Crew:
    """Works a backlog off on a number of places."""

    def __init__(
        self, places: Sequence[Place], store: ResultStore, emit: Emit, *, limit: float | None, verbose: bool
    ) -> None:
        self._seats = [Seat(place) for place in places]
        self._store, self._emit = store, emit
        self._limit, self._verbose = limit, verbose

    def work_off(self, backlog: Backlog) -> Iterator[Done]:
        """Each job and what came of it, as they finish. No process outlives this, however it ends.

        Raises:
            StoreError: a worker could not store a model's answers.
        """
        try:
            yield from self.work(backlog)
        finally:
            self.dismiss()

    def work(self, backlog: Backlog) -> Iterator[Done]:
        """The same, but the workers stay, with the models that they have loaded."""
        while backlog or any(seat.job for seat in self._seats):
            self._hand_out(backlog)
            self._wait()
            for seat in self._seats:
                yield from self._look_at(seat)

    def dismiss(self) -> None:
        """End all workers, whatever they do."""
        for seat in self._seats:
            seat.dismiss()

    def kill(self) -> None:
        """Let all workers die, from another thread than the one that looks after them."""
        for seat in self._seats:
            if seat.worker is not None:
                seat.worker.kill()

    def _hand_out(self, backlog: Backlog) -> None:
        for seat in self._seats:
            others = [other for other in self._seats if other is not seat]
            job = None
            if seat.job is None and backlog:
                job = backlog.take(
                    loaded=seat.model,
                    elsewhere={other.model for other in others},
                    running=[other.job for other in others],
                )
            if job is not None:
                self._emit(TaskStarted(job.index, job.task))
                seat.begin(job, self._store, verbose=self._verbose)

    def _wait(self) -> None:
        busy = [seat for seat in self._seats if seat.job]
        patience = min([LOOK_INTERVAL_S, *(seat.time_left(self._limit) for seat in busy)])
        wait([seat.worker.connection for seat in busy if seat.worker], max(patience, 0.0))

    def _look_at(self, seat: Seat) -> Iterator[Done]:
        worker = seat.worker
        if worker is None or seat.job is None:
            return
        # Asked first: what a process said before it died is still to be read.
        alive = worker.alive
        try:
            for kind, content in worker.messages():
                yield from self._react(seat, kind, content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"the worker process sent what cannot be read: {str(error).splitlines()[0]}"
            yield seat.failed(Failure(kind=FailureKind.CRASHED, message=message))
            return
        if seat.job is None:
            return
        if not alive:
            yield seat.failed(worker.cause_of_death())
        elif seat.time_left(self._limit) <= 0:
            yield seat.failed(self._overdue(worker))

    def _react(self, seat: Seat, kind: str, content: Any) -> Iterator[Done]:
        assert seat.job is not None
        match kind:
            case "ready":
                seat.since = time.monotonic()
            case "progress":
                self._emit(TaskProgress(seat.job.index, *content))
            case "store_error":
                # The worker knows the folder by its absolute path, the user by what was typed.
                raise StoreError(content.replace(str(self._store.root.absolute()), str(self._store.root)))
            case "finished":
                outcome = Part.model_validate(content) if seat.job.chunk else parse_record(content)
                job, seat.job = seat.job, None
                yield job, outcome

    def _overdue(self, worker: WorkerProcess) -> Failure:
        where = worker.where_it_hangs()
        if not worker.ready:
            message = f"the worker process did not begin within {START_LIMIT_S:g} s"
            return Failure(kind=FailureKind.CRASHED, message=message, where=where)
        return Failure(kind=FailureKind.TIMEOUT, message=f"not done after {self._limit:g} s", where=where)
