# SPDX-License-Identifier: Apache-2.0
"""Runs tasks, one at a time, and always comes back with a record. Here jax may be imported."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mlipaudit.backends.checkpoints import Checkpoints
from mlipaudit.benchmark import Benchmark, BenchmarkResult, Progress
from mlipaudit.errors import ModelLoadError, StoreError
from mlipaudit.failures import Failure, TaskTimeoutError
from mlipaudit.models import ModelSpec
from mlipaudit.record import UNKNOWN, TaskRecord
from mlipaudit.running.limits import time_limit
from mlipaudit.running.plan import Task
from mlipaudit.running.provenance import Surroundings, peak_memory_bytes, provenance_of
from mlipaudit.store import ResultStore

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend


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


@dataclass
class Worker:
    """Keeps the loaded model and its compiled programs between tasks, until a task of another model comes."""

    store: ResultStore
    surroundings: Surroundings = field(init=False)
    _loaded: dict[ModelSpec, tuple[Any, Backend] | ModelLoadError] = field(default_factory=dict)
    _compilations: Compilations = field(default_factory=Compilations)

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
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock, before = time.perf_counter(), replace(self._compilations)
        benchmark, source = None, None
        try:
            with time_limit(limit):
                benchmark = self._prepare(task, progress)
                source = self._use_shared_output(task, benchmark, progress)
                if source is None:
                    benchmark.run_model()
                result = benchmark.analyze()
        except (Exception, SystemExit, TaskTimeoutError) as error:  # around a task: it costs only itself
            result = BenchmarkResult(failed=True, score=0.0, failure=Failure.from_exception(error))
        provenance = provenance_of(
            task,
            self.surroundings,
            precision=benchmark.backend.precision if benchmark else UNKNOWN,
            started_at=started,
            wall_seconds=time.perf_counter() - clock,
            compile_seconds=self._compilations.seconds - before.seconds,
            num_compilations=self._compilations.count - before.count,
            peak_memory_bytes=peak_memory_bytes(),
            output_sha256=None if result.failure else self._store_output(task, benchmark),
            output_from=source,
        )
        return TaskRecord.model_construct(result=result, provenance=provenance)

    def _prepare(self, task: Task, progress: Progress) -> Benchmark:
        force_field, backend = self._load(task.model)
        return task.benchmark_class(
            force_field,
            data_input_dir=_NOWHERE,
            run_mode=task.run_mode,
            seed=task.seed,
            progress=progress,
            backend=backend,
            input_data=task.dataset,
            checkpoints=Checkpoints(self.store.unfinished(task.model.name, task.benchmark), task.identity.task_id),
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
