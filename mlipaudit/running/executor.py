# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan: in supervised worker processes, or in the calling process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mlipaudit.failures import Failure
from mlipaudit.record import TaskRecord
from mlipaudit.run_mode import RunMode
from mlipaudit.running.crew import Crew, Job
from mlipaudit.running.devices import Place, places
from mlipaudit.running.events import (
    DataProgress,
    Emit,
    RunStarted,
    TaskFinished,
    TaskKept,
    TaskProgress,
    TaskRepeated,
    TaskStarted,
)
from mlipaudit.running.plan import Plan, Task
from mlipaudit.running.provenance import Surroundings, failed_record
from mlipaudit.running.resume import reason_to_repeat
from mlipaudit.store import ResultStore, Unreadable

DEFAULT_LIMIT_S = {RunMode.DEV: 1800.0, RunMode.FAST: 6 * 3600.0, RunMode.STANDARD: 7 * 86400.0}
"""Time limit of a task unless told otherwise: whatever a model does, the audit ends."""


@dataclass(frozen=True)
class Settings:
    """How a plan is carried out; no result depends on it."""

    workers: int | None = None
    """Processes; 0: the calling one; None: one per device."""
    limit: float | None = None
    """Seconds that a task may take; None: no limit."""
    fresh: bool = False
    """Whether stored results do not count."""
    verbose: bool = False
    """Whether to let workers' standard error through."""


def execute(plan: Plan, store: ResultStore, emit: Emit, settings: Settings | None = None) -> list[TaskRecord]:
    """Run what the store does not hold yet, and store each result as soon as it is there.

    Returns:
        The records of all tasks in the order of the plan, those of earlier runs included.

    Raises:
        StoreError: results cannot be written, or another run is writing there.
    """
    settings = settings or Settings()
    with store.locked():
        emit(RunStarted(plan))
        plan = plan.with_data(lambda name, done, total: emit(DataProgress(name, done, total)))
        store.write_run(plan.as_dict())
        jobs = [Job(index, task) for index, task in enumerate(plan.tasks, start=1)]
        records = dict(_kept(jobs, store, emit, settings))
        for job, record in _carry_out([job for job in jobs if job.index not in records], store, emit, settings):
            record.provenance.time_limit_seconds = settings.limit
            store.write(record)
            records[job.index] = record
            emit(TaskFinished(job.index, job.task, record))
    return [records[job.index] for job in jobs]


def _kept(
    jobs: Sequence[Job], store: ResultStore, emit: Emit, settings: Settings
) -> Iterator[tuple[int, TaskRecord]]:
    """Stored results that count, by number; says of the others why they do not."""
    for job in jobs:
        stored = _best_stored(job.task, store, settings)
        if settings.fresh:
            store.forget_unfinished(job.task.model.name, job.task.benchmark)
        if stored is None:
            continue
        why = "--fresh" if settings.fresh else reason_to_repeat(stored, job.task, limit=settings.limit)
        if why is None and isinstance(stored, TaskRecord):
            store.tidy(stored)
            note = f"; today: {job.task.data}" if isinstance(job.task.data, Failure) else ""
            emit(TaskKept(job.index, job.task, stored, note))
            yield job.index, stored
        elif why is not None:
            emit(TaskRepeated(job.index, job.task, why))
            if isinstance(stored, Unreadable):
                store.set_aside(stored)


def _best_stored(task: Task, store: ResultStore, settings: Settings) -> TaskRecord | Unreadable | None:
    """The result in the store, in whose place an earlier one comes if that is what the task asks for."""
    name, benchmark = task.model.name, task.benchmark
    stored = store.find(name, benchmark)
    if settings.fresh or (stored and reason_to_repeat(stored, task, limit=settings.limit) is None):
        return stored
    for earlier in store.earlier(name, benchmark):
        if reason_to_repeat(earlier, task, limit=settings.limit) is None:
            return store.bring_back(earlier)
    return stored


def _carry_out(
    jobs: Sequence[Job], store: ResultStore, emit: Emit, settings: Settings
) -> Iterator[tuple[Job, TaskRecord]]:
    """Tasks without data fail at once; benchmarks that need a quiet machine come last, one at a time."""
    for job in jobs:
        if isinstance(job.task.data, Failure):
            emit(TaskStarted(job.index, job.task))
            yield job, _without_data(job, job.task.data)
    ready = [job for job in jobs if not isinstance(job.task.data, Failure)]
    if settings.workers == 0:
        yield from _in_this_process(ready, store, emit, settings)
        return
    for seats, share in _phases(ready, places(settings.workers)):
        crew = Crew(seats[: len(share)], store, emit, limit=settings.limit, verbose=settings.verbose)
        yield from crew.work_off(share)


def _phases(jobs: Sequence[Job], seats: Sequence[Place]) -> list[tuple[Sequence[Place], Sequence[Job]]]:
    """Who works on what. A single worker does everything, and keeps its model; of several one stays at the end."""
    if len(seats) == 1:
        return [(seats, jobs)]
    alone = [job for job in jobs if job.task.benchmark_class.runs_alone]
    together = [job for job in jobs if job not in alone]
    return [(seats, together), ([replace(seats[0], workers_on_gpu=1, cores=())], alone)]


def _in_this_process(
    jobs: Sequence[Job], store: ResultStore, emit: Emit, settings: Settings
) -> Iterator[tuple[Job, TaskRecord]]:
    if not jobs:
        return
    from mlipaudit.running.worker import Worker

    worker = Worker(store)
    for job in jobs:
        emit(TaskStarted(job.index, job.task))

        def progress(what: str, done: int, total: int, *, index: int = job.index) -> None:
            emit(TaskProgress(index, what, done, total))

        yield job, worker.run(job.task, progress, limit=settings.limit)


def _without_data(job: Job, failure: Failure) -> TaskRecord:
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    surroundings = Surroundings.without_device()
    return failed_record(job.task, failure, surroundings, started_at=started_at, wall_seconds=0.0)
