# SPDX-License-Identifier: Apache-2.0
"""Runs tasks, one at a time, and always comes back with a record. Here jax may be imported."""

from __future__ import annotations

import platform
import resource
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from mlipaudit.benchmark import Benchmark, BenchmarkResult, Progress
from mlipaudit.errors import ModelLoadError
from mlipaudit.failures import Failure
from mlipaudit.models import ModelSpec
from mlipaudit.record import Identity, Provenance, TaskRecord, protocol_as_dict
from mlipaudit.running.environment import uses_huge_pages
from mlipaudit.running.plan import Plan, Task

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend

PACKAGES = ("mlipaudit", "mlip", "jax", "jaxlib", "jax-md", "ase", "numpy", "scipy", "tblite")


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
    """Keeps loaded models and compiled programs between tasks."""

    plan: Plan
    _loaded: dict[str, tuple[Any, Backend] | ModelLoadError] = field(default_factory=dict)
    _compilations: Compilations = field(default_factory=Compilations)

    def __post_init__(self) -> None:
        from mlipaudit.backends.compilation_cache import use_compilation_cache

        use_compilation_cache()
        self._compilations.listen()

    def run(self, task: Task, progress: Progress) -> TaskRecord:
        """Run one task; whatever goes wrong becomes part of its record."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock, before = time.perf_counter(), replace(self._compilations)
        benchmark: Benchmark | None = None
        try:
            benchmark = self._prepare(task, progress)
            benchmark.run_model()
            result = benchmark.analyze()
        except (Exception, SystemExit) as error:  # around a task: it costs only itself
            result = BenchmarkResult(failed=True, score=0.0, failure=Failure.from_exception(error))
        provenance = Provenance(
            started_at=started,
            wall_seconds=time.perf_counter() - clock,
            compile_seconds=self._compilations.seconds - before.seconds,
            num_compilations=self._compilations.count - before.count,
            **self._about(task, benchmark),
        )
        self._forget_after(task)
        return TaskRecord.model_construct(result=result, provenance=provenance)

    def _about(self, task: Task, benchmark: Benchmark | None) -> dict[str, Any]:
        identity = self._identity(task, benchmark)
        dataset = benchmark.dataset if benchmark else None
        return {
            "task_id": identity.task_id,
            "identity": identity,
            "model": task.model.name,
            "model_source": task.model.basename,
            "model_options": task.model.options,
            "data_edition": dataset.edition if dataset else self.plan.edition,
            "data_name": task.benchmark_class.data_folder_name(),
            "versions": _versions(),
            "device": _device(),
            "huge_pages": uses_huge_pages(),
            "peak_memory_bytes": _peak_memory(),
            "command": self.plan.command,
        }

    def _prepare(self, task: Task, progress: Progress) -> Benchmark:
        force_field, backend = self._load(task.model)
        return task.benchmark_class(
            force_field,
            data_input_dir=self.plan.data_input_dir or _NOWHERE,
            run_mode=self.plan.run_mode,
            data=self.plan.data,
            seed=self.plan.seed,
            progress=progress,
            backend=backend,
        )

    def _load(self, model: ModelSpec) -> tuple[Any, Backend]:
        """The force field and its backend, which keeps what it has compiled; a failure to load is kept too."""
        if model.name not in self._loaded:
            self._loaded[model.name] = _try_to_load(model)
        loaded = self._loaded[model.name]
        if isinstance(loaded, ModelLoadError):
            raise loaded
        return loaded

    def _forget_after(self, task: Task) -> None:
        """Free a model after the last of its tasks."""
        last = max(i for i, other in enumerate(self.plan.tasks) if other.model == task.model)
        if self.plan.tasks[last] == task:
            self._loaded.pop(task.model.name, None)

    def _identity(self, task: Task, benchmark: Benchmark | None) -> Identity:
        cls, dataset = task.benchmark_class, benchmark.dataset if benchmark else None
        return Identity(
            model_sha256=task.model.sha256,
            benchmark=task.benchmark,
            benchmark_version=cls.version,
            data_sha256=dataset.sha256 if dataset else None,
            protocol=protocol_as_dict(cls.protocols.get(self.plan.run_mode)),
            run_mode=self.plan.run_mode,
            seed=self.plan.seed,
            precision=benchmark.backend.precision if benchmark else "unknown",
        )


_NOWHERE = "/nonexistent"
"""A folder without data: the edition decides."""


def _try_to_load(model: ModelSpec) -> tuple[Any, Backend] | ModelLoadError:
    from mlipaudit.backends.contract import backend_for

    try:
        force_field = model.load()
        return force_field, backend_for(force_field)
    except ModelLoadError as error:
        return error
    except ValueError as error:
        return ModelLoadError(f"{model.basename}: {error}")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _device() -> str:
    import jax

    try:
        device = jax.devices()[0]
    except RuntimeError as error:  # jax found no device: whatever needed one has failed by name
        return f"none: {error}"
    return f"{device.platform}: {device.device_kind}"


def _peak_memory() -> int:
    """Highest resident size of this process so far, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
