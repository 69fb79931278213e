# SPDX-License-Identifier: Apache-2.0
"""Carries jobs out on a Dask cluster. Only the client writes the results folder.

A Dask worker runs no model itself: it keeps one worker process of ours, with its model, supervised as in any other
run. So a model that crashes or hangs costs its task and not the Dask worker; and the job of a Dask worker that dies is
given to another by the scheduler, a bounded number of times. Workers may come and go.
"""

from __future__ import annotations

import json
import logging
import queue
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from mlipaudit.errors import UsageError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.models import ModelKind, ModelSpec
from mlipaudit.record import TaskRecord
from mlipaudit.running.backlog import Backlog, Job, Portion
from mlipaudit.running.chunks import Chunk, Part
from mlipaudit.running.crew import Crew, Done
from mlipaudit.running.devices import Place, places
from mlipaudit.running.events import Emit, TaskStarted
from mlipaudit.running.plan import Task
from mlipaudit.running.provenance import Surroundings, failed_record
from mlipaudit.store import ResultStore, content_of, parse_record

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK_INTERVAL_S = 1.0
"""How often to look for workers that have come or gone."""
CONNECT_S = 20.0
TRIES = 3
"""Times that a job is begun whose worker process died; Dask itself counts the deaths of its own workers."""
LOCAL, ANYWHERE = "local:", ""


@dataclass(frozen=True)
class Order:
    """What a Dask worker is asked to do."""

    job: Job
    limit: float | None
    workers_here: int | None
    """Dask workers that share this machine as numbered places; None: the worker has what it sees."""
    answers: tuple[tuple[str, str], ...] = ()
    """Records and model outputs, JSON text, of benchmarks that ask the model the same."""


@dataclass
class Flight:
    """An order on its way."""

    job: Job
    address: str
    """Dask worker that it was meant for."""
    started_at: str


@dataclass
class DaskCluster:
    """A Dask cluster, one that is there or one of this machine's own, and what its workers do for a run."""

    schemes: ClassVar[tuple[str, ...]] = ("tcp", "tls", "ucx", "ws", "wss")
    text: str
    """Address of a scheduler, or `local:N`."""
    store: ResultStore
    emit: Emit
    limit: float | None = None
    verbose: bool = False
    _flying: dict[Future, Flight] = field(default_factory=dict)
    _landed: queue.SimpleQueue[Future] = field(default_factory=queue.SimpleQueue)
    _models: dict[str, ModelSpec] = field(default_factory=dict)
    """Address -> the model that is loaded there."""
    _again: list[tuple[Job, str]] = field(default_factory=list)
    """Jobs to begin anew, and where they came to nothing."""
    _tries: dict[tuple[int, Chunk | None], int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise UsageError("a Dask cluster needs the extra: pip install 'mlipaudit[dask]'") from error
        if not self.verbose:
            _silence()
        self._own, self._num_local = None, None
        if self.text.startswith(LOCAL):
            self._num_local = int(self.text.removeprefix(LOCAL))
            self._own = LocalCluster(
                n_workers=self._num_local, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            )
        try:
            self._client: Client = Client(self._own or self.text, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(f"--scheduler {self.text}: no Dask scheduler answers there") from error
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, TimeoutError, RuntimeError):
            self._client.cancel(list(self._flying))
            if self._own is None:
                self._client.run(_dismiss, on_error="ignore")
        self._client.close()
        if self._own is not None:
            self._own.close()

    def work_off(self, backlog: Backlog, *, one_per_host: bool = False) -> Iterator[Done]:
        """Each job and what came of it, as they finish; waits where no worker is there yet.

        Args:
            backlog: the jobs.
            one_per_host: whether to let each machine do one at a time, for what needs a quiet one.

        Raises:
            UsageError: the scheduler is gone, or its workers cannot do this work.
        """
        while backlog or self._flying or self._again:
            self._hand_out(backlog, one_per_host=one_per_host)
            with suppress(queue.Empty):
                future = self._landed.get(timeout=LOOK_INTERVAL_S)
                yield from self._receive(future, self._flying.pop(future))

    def _hand_out(self, backlog: Backlog, *, one_per_host: bool) -> None:
        busy = {flight.address for flight in self._flying.values()}
        hosts = {_host(address) for address in busy}
        there = self._workers()
        for address in there:
            if address in busy or (one_per_host and _host(address) in hosts):
                continue
            job = self._anew(address, alone=len(there) == 1) or self._take(address, backlog)
            if job is not None:
                self._begin(job, address)
                hosts.add(_host(address))
        if not there and not self._flying:  # a cluster that adapts itself asks for workers once there is work
            job = self._anew(ANYWHERE, alone=True) or self._take(ANYWHERE, backlog)
            if job is not None:
                self._begin(job, ANYWHERE)

    def _workers(self) -> list[str]:
        """Addresses of the Dask workers that are there now."""
        try:
            there = sorted(self._client.nthreads())
        except (OSError, TimeoutError) as error:
            raise _lost(self.text) from error
        self._models = {address: model for address, model in self._models.items() if address in there}
        return there

    def _anew(self, address: str, *, alone: bool) -> Job | None:
        """A job to try again, not where it came to nothing unless there is no other worker."""
        for entry in self._again:
            if alone or entry[1] != address:
                self._again.remove(entry)
                return entry[0]
        return None

    def _take(self, address: str, backlog: Backlog) -> Job | None:
        if not backlog:
            return None
        elsewhere = {model for other, model in self._models.items() if other != address}
        running = [*(flight.job for flight in self._flying.values()), *(job for job, _ in self._again)]
        return backlog.take(loaded=self._models.get(address), elsewhere=elsewhere, running=running)

    def _begin(self, job: Job, address: str) -> None:
        self.emit(TaskStarted(job.index, job.task))
        order = Order(replace(job, task=_portable(job.task)), self.limit, self._num_local, self._answers(job.task))
        where = {} if address == ANYWHERE else {"workers": [address], "allow_other_workers": True}
        future = self._client.submit(work, order, key=f"mlipaudit-{uuid.uuid4()}", pure=False, **where)
        self._models[address] = job.task.model
        self._flying[future] = Flight(job, address, datetime.now(UTC).isoformat(timespec="seconds"))
        future.add_done_callback(self._landed.put)

    def _answers(self, task: Task) -> tuple[tuple[str, str], ...]:
        """What other benchmarks that ask the same have heard from the model."""
        found = []
        for name in task.benchmark_class.reusable_output_id or ():
            record = self.store.find(task.model.name, name) if name != task.benchmark else None
            if isinstance(record, TaskRecord) and record.provenance.output_sha256:
                found.append((json.dumps(content_of(record)), self.store.read_output(record) or ""))
        return tuple(found)

    def _receive(self, future: Future, flight: Flight) -> Iterator[Done]:
        outcome = self._outcome(future, flight)
        job, failure = flight.job, _failure_of(outcome)
        key = job.index, job.chunk
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        if failure and failure.kind is FailureKind.CRASHED and future.status == "finished" and tries < TRIES:
            self._again.append((job, flight.address))
        else:
            yield job, outcome

    def _outcome(self, future: Future, flight: Flight) -> TaskRecord | Part:
        from distributed.scheduler import KilledWorker

        if future.status != "finished":
            error = future.exception() if future.status == "error" else None
            if isinstance(error, KilledWorker):
                return _lost_with_its_workers(flight)
            raise _lost(self.text) if error is None else UsageError(f"the Dask workers cannot do this: {error}")
        content = json.loads(future.result())
        if flight.job.chunk:
            return Part.model_validate(content["part"])
        record = parse_record(content["record"])
        if content["output"] is not None:
            self.store.write_output(flight.job.task.model.name, flight.job.task.benchmark, content["output"])
        return record


def _silence() -> None:
    """Dask's loggers have levels of their own, each; what happens to workers and scheduler is said in our words."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _lost(where: str) -> UsageError:
    return UsageError(
        f"the Dask scheduler {where} is gone; finished results are kept, and the same command goes on"
    )


def _lost_with_its_workers(flight: Flight) -> TaskRecord | Part:
    failure = Failure(kind=FailureKind.CRASHED, message="every Dask worker that was given this died over it")
    times: dict[str, Any] = {"started_at": flight.started_at, "wall_seconds": float("nan")}
    record = failed_record(flight.job.task, failure, Surroundings.without_device(), **times)
    return Part.of_failed(flight.job.chunk, record) if flight.job.chunk else record


def _failure_of(outcome: TaskRecord | Part) -> Failure | None:
    return outcome.failure if isinstance(outcome, Part) else outcome.result.failure


def _host(address: str) -> str:
    return urlsplit(address).hostname or address


def _portable(task: Task) -> Task:
    """The task with full paths: other processes have other working directories."""
    model, data = task.model, task.data
    if model.kind is not ModelKind.NAMED:
        model = replace(model, source=str(Path(model.source).absolute()))
    if task.dataset is not None:
        data = replace(task.dataset, path=task.dataset.path.absolute())
    return replace(task, model=model, data=data)


# On the Dask worker


@dataclass
class Bench:
    """The place of a Dask worker, and the process that works there."""

    place: Place
    limit: float | None
    store: ResultStore
    crew: Crew

    def carry_out(self, order: Order) -> str:
        """What came of a job, as JSON text."""
        job = order.job
        for record, output in order.answers:
            self._lay_out(parse_record(json.loads(record)), output)
        portion = Portion(job.index, job.task)
        if job.chunk:
            portion = replace(portion, chunks=[job.chunk.number], count=job.chunk.count)
        ((_, outcome),) = self.crew.work(Backlog([portion]))
        if isinstance(outcome, Part):
            return json.dumps({"part": json.loads(outcome.model_dump_json())})
        text = json.dumps({"record": content_of(outcome), "output": self.store.read_output(outcome)})
        shutil.rmtree(self.store.root / job.task.model.name, ignore_errors=True)
        return text

    def _lay_out(self, record: TaskRecord, output: str) -> None:
        p = record.provenance
        self.store.write_output(p.model, p.identity.benchmark, output)
        self.store.write(record)


_bench: Bench | None = None
_one_at_a_time = threading.Lock()


def work(order: Order) -> str:
    """Runs in a Dask worker: carries out an order in the worker process that is kept there."""
    with _one_at_a_time:
        return _bench_for(order).carry_out(order)


def _bench_for(order: Order) -> Bench:
    global _bench
    place = _place(order.workers_here)
    if _bench is None or (_bench.place, _bench.limit) != (place, order.limit):
        if _bench is not None:
            _bench.crew.dismiss()
        from distributed import get_worker

        store = ResultStore(mkdtemp(prefix="mlipaudit-", dir=get_worker().local_directory))
        crew = Crew([place], store, lambda event: None, limit=order.limit, verbose=False)
        _bench = Bench(place, order.limit, store, crew)
    return _bench


def _place(workers_here: int | None) -> Place:
    if workers_here is None:
        return places(1)[0]
    from distributed import get_worker

    return places(workers_here)[int(get_worker().name)]


def _dismiss() -> None:
    """End the worker process; a job that it has ends as crashed, in the thread that waits for it."""
    global _bench
    bench = _bench
    if bench is None:
        return
    if not _one_at_a_time.acquire(blocking=False):
        bench.crew.kill()
        return
    try:
        bench.crew.dismiss()
        shutil.rmtree(bench.store.root, ignore_errors=True)
        _bench = None
    finally:
        _one_at_a_time.release()
