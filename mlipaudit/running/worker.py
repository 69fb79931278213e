# SPDX-License-Identifier: Apache-2.0
"""Runs tasks, one at a time, and always comes back with a record. Here jax may be imported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mlipaudit.backends.checkpoints import Checkpoints
from mlipaudit.benchmark import Benchmark, BenchmarkResult, Progress
from mlipaudit.errors import ModelLoadError, StoreError
from mlipaudit.failures import Failure, TaskTimeoutError
from mlipaudit.models import ModelSpec
from mlipaudit.record import UNKNOWN, TaskRecord
from mlipaudit.running.chunks import Chunk, Part, ReferenceData
from mlipaudit.running.limits import time_limit
from mlipaudit.running.plan import Task
from mlipaudit.running.provenance import Surroundings, peak_memory_bytes, provenance_of
from mlipaudit.store import ResultStore

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend

T = TypeVar("T")


@dataclass
class Compilations:
    """How often and how long XLA has compiled in this process."""

    count: int = 0
    seconds: float = 0.0

    def listen(self) -> None:
        """Count from now on."""
        from jax import monitoring

        monitoring.register_event_duration_secs_listener(self._on_event)

    def _on_event(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.count += 1
            self.seconds += duration_secs


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """What came of a task."""

    value: T | None
    failure: Failure | None
    """Why there is no value."""
    benchmark: Benchmark | None
    about: dict[str, Any]
    """What only the one who did it knows of its provenance."""


@dataclass
class Worker:
    """Keeps the loaded model and its compiled programs between tasks, until a task of another model comes."""

    store: ResultStore
    surroundings: Surroundings = field(init=False)
    _loaded: dict[ModelSpec, tuple[Any, Backend] | ModelLoadError] = field(default_factory=dict)
    _compilations: Compilations = field(default_factory=Compilations)
    _reference_data: ReferenceData = field(default_factory=ReferenceData)

    def __post_init__(self) -> None:
        from mlipaudit.backends.compilation_cache import use_compilation_cache

        use_compilation_cache()
        self._compilations.listen()
        self.surroundings = Surroundings.of_this_process()

    def run(self, task: Task, progress: Progress, *, limit: float | None = None) -> TaskRecord:
        """Run one task and store the model's answers; whatever goes wrong becomes part of the record.

        Args:
            task: the task; one whose input data is a failure ends with that.
            progress: called as work advances.
            limit: seconds it may take, where it is run in a main thread.

        Raises:
            StoreError: the answers cannot be written.
        """
        source: str | None = None

        def audit(benchmark: Benchmark) -> BenchmarkResult:
            nonlocal source
            source = self._use_shared_output(task, benchmark, progress)
            if source is None:
                benchmark.run_model()
            return benchmark.analyze()

        done = self._attempt(task, progress, audit, limit=limit)
        result = done.value or task.benchmark_class.result_of_failure(done.failure, task.protocol)
        output = None if result.failure else self._store_output(task, done.benchmark)
        about = {**done.about, "output_sha256": output, "output_from": source}
        return TaskRecord.model_construct(
            result=result, provenance=provenance_of(task, self.surroundings, **about)
        )

    def run_chunk(self, task: Task, chunk: Chunk, progress: Progress, *, limit: float | None = None) -> Part:
        """The model's answers for one chunk of a task; whatever goes wrong becomes part of them.

        Args: as those of `run`.
        """

        def ask(benchmark: Benchmark) -> dict[str, Any]:
            reference = self._reference_data.of(task)
            chunks = benchmark.chunks(reference)
            if len(chunks) != chunk.count:
                raise ValueError(
                    f"the data has {len(chunks)} chunks here, and {chunk.count} where the run was planned"
                )
            output = benchmark.ask_chunk(benchmark.backend, reference, chunks[chunk.number - 1])
            return json.loads(output.model_dump_json())

        done = self._attempt(task, progress, ask, limit=limit)
        return Part(
            chunk=chunk.number,
            count=chunk.count,
            output=done.value,
            failure=done.failure,
            provenance=provenance_of(task, self.surroundings, **done.about),
        )

    def _attempt(
        self, task: Task, progress: Progress, action: Callable[[Benchmark], T], *, limit: float | None
    ) -> Attempt[T]:
        """What an action on the task's benchmark comes to, and how long it took."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock, before = time.perf_counter(), replace(self._compilations)
        benchmark, value, failure = None, None, None
        try:
            with time_limit(limit):
                benchmark = self._prepare(task, progress)
                value = action(benchmark)
        except (Exception, SystemExit, TaskTimeoutError) as error:  # around a task: it costs only itself
            failure = Failure.from_exception(error)
        about = {
            "precision": benchmark.backend.precision if benchmark else UNKNOWN,
            "started_at": started,
            "wall_seconds": time.perf_counter() - clock,
            "compile_seconds": self._compilations.seconds - before.seconds,
            "num_compilations": self._compilations.count - before.count,
            "peak_memory_bytes": peak_memory_bytes(),
        }
        return Attempt(value, failure, benchmark, about)

    def _prepare(self, task: Task, progress: Progress) -> Benchmark:
        force_field, backend = self._load(task.model)
        more: dict[str, Any] = {"options": task.options} if task.options else {}  # others may not know it
        return task.benchmark_class(
            force_field,
            data_input_dir=_NOWHERE,
            run_mode=task.run_mode,
            seed=task.seed,
            progress=progress,
            backend=backend,
            input_data=task.dataset,
            checkpoints=Checkpoints(self.store.unfinished(task.model.name, task.benchmark), task.identity.task_id),
            **more,
        )

    def _use_shared_output(self, task: Task, benchmark: Benchmark, progress: Progress) -> str | None:
        """Take the model's answers from a benchmark that asked the same, where there is one; its name."""
        cls = task.benchmark_class
        for name in cls.reusable_output_id or ():
            text = None if name == task.benchmark else shared_output(self.store, task, name)
            if text is not None and cls.model_output_class is not None:
                benchmark.model_output = cls.model_output_class.model_validate_json(text)
                progress(f"judging the model's answers to {name}", 0, 0)
                return name
        return None

    def _load(self, model: ModelSpec) -> tuple[Any, Backend]:
        """The force field and its backend, which keeps what it has compiled; a failure to load is kept too."""
        if model not in self._loaded:
            self._forget()
            self._loaded[model] = _try_to_load(model)
        loaded = self._loaded[model]
        if isinstance(loaded, ModelLoadError):
            raise loaded
        return loaded

    def _forget(self) -> None:
        """Free what the last model held."""
        if self._loaded:
            import jax

            self._loaded.clear()
            jax.clear_caches()

    def _store_output(self, task: Task, benchmark: Benchmark | None) -> str | None:
        if benchmark is None or benchmark.model_output is None or not benchmark.uses_hooks():
            return None
        text = benchmark.model_output.model_dump_json()
        return self.store.write_output(task.model.name, task.benchmark, text)


def shared_output(store: ResultStore, task: Task, other: str) -> str | None:
    """Stored answers of the task's model to another benchmark that asked it the very same, if there are any."""
    record = store.find(task.model.name, other)
    if not isinstance(record, TaskRecord) or record.result.failure is not None:
        return None
    wanted = replace(task, benchmark=other).identity
    same = not record.provenance.identity.differences(wanted) and wanted.protocol == task.identity.protocol
    if not same or wanted.data_sha256 is None:
        return None
    try:
        return store.read_output(record)
    except StoreError:
        return None  # then the model is asked


_NOWHERE = "/nonexistent"
"""A folder without data: the task brings its own."""


def _try_to_load(model: ModelSpec) -> tuple[Any, Backend] | ModelLoadError:
    from mlipaudit.backends.contract import backend_for

    try:
        force_field = model.load()
        return force_field, backend_for(force_field)
    except ModelLoadError as error:
        return error
    except ValueError as error:
        return ModelLoadError(f"{model.basename}: {error}")
