# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan: in supervised worker processes, in the calling process, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from mlipaudit.errors import UsageError
from mlipaudit.failures import Failure
from mlipaudit.record import TaskRecord
from mlipaudit.run_mode import RunMode
from mlipaudit.running.backlog import Backlog, Job, Portion
from mlipaudit.running.chunks import (
    ChunkCounter,
    Part,
    ReferenceData,
    forget_part,
    join_parts,
    stored_parts,
    write_part,
)
from mlipaudit.running.crew import Crew, Done
from mlipaudit.running.devices import Place, places
from mlipaudit.running.events import (
    DataProgress,
    Emit,
    Event,
    RunStarted,
    TaskFinished,
    TaskKept,
    TaskPartlyDone,
    TaskProgress,
    TaskRepeated,
    TaskStarted,
)
from mlipaudit.running.plan import Plan, Task
from mlipaudit.running.provenance import Surroundings, failed_record
from mlipaudit.running.resume import reason_to_repeat
from mlipaudit.running.schedulers import Cluster
from mlipaudit.running.shards import Shard, portions
from mlipaudit.store import ResultStore, Unreadable

SHARD = "shard"
"""In the run's record: which shard a results folder holds."""

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
    shard: Shard | None = None
    """The part of the plan that is done; None: all of it."""
    cluster: Cluster | None = None
    """Whose workers do it; None: those of this machine."""


def execute(plan: Plan, store: ResultStore, emit: Emit, settings: Settings | None = None) -> list[TaskRecord]:
    """Run what the store does not hold yet, and store each result as soon as it is there.

    Returns:
        The records of all tasks in the order of the plan, those of earlier runs included; of a shard those of its
        own tasks, and of what it did of others if that failed.

    Raises:
        StoreError: results cannot be written, or another run is writing there.
        UsageError: the shard cannot be told from others, or there is no such cluster.
    """
    settings = settings or Settings()
    with store.locked():
        emit(RunStarted(plan))
        plan = plan.with_data(lambda name, done, total: emit(DataProgress(name, done, total)))
        _require_same_shard(store, settings.shard)
        shares = _shares(plan, store, settings)
        about = {SHARD: str(settings.shard)} if settings.shard else {}
        store.write_run({**plan.as_dict(), **about})
        return Execution(store, emit, settings).carry_out(shares)


def _require_same_shard(store: ResultStore, shard: Shard | None) -> None:
    before = (store.read_run() or {}).get(SHARD)
    if shard and before not in (None, str(shard)):
        raise UsageError(
            f"{store.root} holds shard {before}, and not {shard}: give every shard an --output of its own"
        )


def _shares(plan: Plan, store: ResultStore, settings: Settings) -> list[Portion]:
    """What is to be done of the plan: by this shard, and where several share a task, in chunks."""
    numbered = list(enumerate(plan.tasks, start=1))
    counter = ChunkCounter()
    if settings.shard:
        _require_data(plan)
        found = portions(numbered, counter.count, settings.shard)
    else:
        found = [Portion(index, task) for index, task in numbered]
    shared = settings.cluster is not None or (settings.workers != 0 and len(places(settings.workers)) > 1)
    return [_in_chunks(portion, counter, store, shared=shared) for portion in found]


def _require_data(plan: Plan) -> None:
    """Without data nobody knows how many chunks there are, and each shard would work out another division."""
    for task in plan.tasks:
        if isinstance(task.data, Failure) and task.benchmark_class.is_split():
            raise UsageError(
                f"the data of {task.benchmark} is not to be had here ({task.data.message}), "
                "and shards that see different data divide the work differently"
            )


def _in_chunks(portion: Portion, counter: ChunkCounter, store: ResultStore, *, shared: bool) -> Portion:
    """A whole task in its chunks, where several processes may share it or an earlier run did some of them."""
    task = portion.task
    if portion.chunks is None and (shared or store.parts(task.model.name, task.benchmark).is_dir()):
        count = counter.count(task) or 1
        if count > 1:
            return replace(portion, chunks=range(1, count + 1), count=count)
    return portion


@dataclass
class Assembly:
    """The chunks of a task that a run does, as they come in."""

    portion: Portion
    come: dict[int, Failure | None] = field(default_factory=dict)
    """Chunk -> why it failed."""
    over: bool = False
    """Whether the task has its result, or what this run has to give to it."""

    @property
    def whole(self) -> bool:
        """Whether the run does all chunks of the task."""
        return self.portion.num_jobs == self.portion.count

    @property
    def last(self) -> int:
        """The chunk that the task ends with: the first that failed, as if they were done one after the other."""
        return min((number for number, failure in self.come.items() if failure), default=self.portion.count)

    @property
    def settled(self) -> bool:
        """Whether nothing that still comes makes a difference."""
        last = self.last
        return all(number in self.come for number in self.portion.chunks or () if number <= last)


class Execution:
    """One carrying out of a plan."""

    def __init__(self, store: ResultStore, emit: Emit, settings: Settings) -> None:
        self._store, self._emit, self._settings = store, emit, settings
        self._records: dict[int, TaskRecord] = {}
        self._assemblies: dict[int, Assembly] = {}
        self._started: set[int] = set()
        self._backlog = Backlog(())
        self._reference_data = ReferenceData()

    def carry_out(self, shares: Sequence[Portion]) -> list[TaskRecord]:
        """The records of all tasks, in order; each is stored as soon as it is there."""
        self._records |= _kept(shares, self._store, self._emit, self._settings)
        left = [self._less_what_is_there(p) for p in shares if p.index not in self._records]
        for job, outcome in self._work(left):
            outcome.provenance.time_limit_seconds = self._settings.limit
            if isinstance(outcome, Part):
                self._take_in(job, outcome)
            else:
                self._finish(job.index, job.task, outcome)
        return [self._records[index] for index in sorted(self._records)]

    def _less_what_is_there(self, portion: Portion) -> Portion:
        """What is left of a task whose chunks were done in part by an earlier run; chunks that do not count go."""
        if portion.chunks is None:
            return portion
        assembly = self._assemblies[portion.index] = Assembly(portion)
        task = portion.task
        for part in stored_parts(self._store, task.model.name, task.benchmark):
            if isinstance(part, Part) and self._counts(part, portion):
                assembly.come[part.chunk] = part.failure
            else:
                forget_part(self._store, part)
        last = assembly.last
        left = [number for number in portion.chunks if number <= last and number not in assembly.come]
        if assembly.settled:
            self._tell(TaskStarted(portion.index, task))
            self._settle(assembly)
        return replace(portion, chunks=left)

    def _counts(self, part: Part, portion: Portion) -> bool:
        mine = part.count == portion.count and part.chunk in (portion.chunks or ())
        return mine and reason_to_repeat(part.record, portion.task, limit=self._settings.limit) is None

    def _take_in(self, job: Job, part: Part) -> None:
        """Store a chunk, and the task's result once it is certain."""
        assembly = self._assemblies[job.index]
        if assembly.over:  # by a chunk before this one, which failed
            return
        write_part(self._store, part)
        assembly.come[part.chunk] = part.failure
        if part.failure:
            self._backlog.give_up(job.index)
        self._emit(TaskProgress(job.index, "chunks", len(assembly.come), assembly.portion.num_jobs))
        if assembly.settled:
            self._settle(assembly)

    def _settle(self, assembly: Assembly) -> None:
        """Make the result of a task whose chunks are there; of one that others have a share in, say how far it is."""
        assembly.over = True
        index, task = assembly.portion.index, assembly.portion.task
        stored = list(stored_parts(self._store, task.model.name, task.benchmark))
        parts = [part for part in stored if isinstance(part, Part) and part.chunk <= assembly.last]
        if assembly.whole:
            reference = partial(self._reference_data.of, task)
            self._finish(
                index, task, join_parts(parts, self._store, task.benchmark_class, reference, task.protocol)
            )
            return
        failed = next((part for part in parts if part.failure), None)
        if failed:
            self._records[index] = failed.record
        failure = failed.failure if failed else None
        self._emit(TaskPartlyDone(index, task, len(assembly.come), assembly.portion.count, failure))

    def _finish(self, index: int, task: Task, record: TaskRecord) -> None:
        self._store.write(record)
        self._records[index] = record
        self._emit(TaskFinished(index, task, record))

    def _tell(self, event: Event) -> None:
        """Pass an event on; a task begins once, and says how many of its chunks are done rather than what each does."""
        if isinstance(event, TaskStarted):
            if event.index in self._started:
                return
            self._started.add(event.index)
        elif isinstance(event, TaskProgress) and event.index in self._assemblies:
            return
        self._emit(event)

    def _work(self, shares: Sequence[Portion]) -> Iterator[Done]:
        """Tasks without data fail at once; benchmarks that need a quiet machine come last, one at a time."""
        for share in shares:
            if isinstance(share.task.data, Failure):
                self._tell(TaskStarted(share.index, share.task))
                yield Job(share.index, share.task), _without_data(share.task, share.task.data)
        ready = [share for share in shares if not isinstance(share.task.data, Failure) and share.num_jobs]
        settings = self._settings
        if settings.cluster is not None:
            yield from self._on_cluster(ready, settings.cluster)
        elif settings.workers == 0:
            yield from self._in_this_process(ready)
        else:
            for seats, group in _phases(ready, places(settings.workers)):
                jobs = sum(share.num_jobs for share in group)
                crew = Crew(seats[:jobs], self._store, self._tell, limit=settings.limit, verbose=settings.verbose)
                yield from crew.work_off(self._backlog_of(group))

    def _backlog_of(self, shares: Sequence[Portion]) -> Backlog:
        self._backlog = Backlog(shares)
        return self._backlog

    def _on_cluster(self, shares: Sequence[Portion], cluster: Cluster) -> Iterator[Done]:
        if not shares:
            return
        settings = self._settings
        alone = [share for share in shares if share.runs_alone]
        together = [share for share in shares if not share.runs_alone]
        with cluster.open(self._store, self._tell, limit=settings.limit, verbose=settings.verbose) as workers:
            yield from workers.work_off(self._backlog_of(together))
            yield from workers.work_off(self._backlog_of(alone), one_per_host=True)

    def _in_this_process(self, shares: Sequence[Portion]) -> Iterator[Done]:
        if not shares:
            return
        from mlipaudit.running.worker import Worker

        worker, backlog, limit = Worker(self._store), self._backlog_of(shares), self._settings.limit
        while job := backlog.take():
            self._tell(TaskStarted(job.index, job.task))

            def progress(what: str, done: int, total: int, *, index: int = job.index) -> None:
                self._tell(TaskProgress(index, what, done, total))

            if job.chunk is None:
                yield job, worker.run(job.task, progress, limit=limit)
            else:
                yield job, worker.run_chunk(job.task, job.chunk, progress, limit=limit)


def _kept(
    shares: Sequence[Portion], store: ResultStore, emit: Emit, settings: Settings
) -> Iterator[tuple[int, TaskRecord]]:
    """Stored results that count, by number; says of the others why they do not."""
    for share in shares:
        task = share.task
        stored = _best_stored(task, store, settings)
        if settings.fresh:
            store.forget_unfinished(task.model.name, task.benchmark)
        if stored is None:
            continue
        why = "--fresh" if settings.fresh else reason_to_repeat(stored, task, limit=settings.limit)
        if why is None and isinstance(stored, TaskRecord):
            store.tidy(stored)
            note = f"; today: {task.data}" if isinstance(task.data, Failure) else ""
            emit(TaskKept(share.index, task, stored, note))
            yield share.index, stored
        elif why is not None:
            emit(TaskRepeated(share.index, task, why))
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


def _phases(shares: Sequence[Portion], seats: Sequence[Place]) -> list[tuple[Sequence[Place], Sequence[Portion]]]:
    """Who works on what. A single worker does everything, and keeps its model; of several one stays at the end."""
    if len(seats) == 1:
        return [(seats, shares)]
    alone = [share for share in shares if share.runs_alone]
    together = [share for share in shares if not share.runs_alone]
    return [(seats, together), ([replace(seats[0], workers_on_gpu=1, cores=())], alone)]


def _without_data(task: Task, failure: Failure) -> TaskRecord:
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    surroundings = Surroundings.without_device()
    return failed_record(task, failure, surroundings, started_at=started_at, wall_seconds=0.0)
