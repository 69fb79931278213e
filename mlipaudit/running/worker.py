# SPDX-License-Identifier: Apache-2.0
"""Runs tasks, one at a time, and always comes back with a record. Here jax may be imported."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from mlipaudit.benchmark import Benchmark, BenchmarkResult
from mlipaudit.failures import Failure
from mlipaudit.models import ModelSpec
from mlipaudit.record import Identity, Provenance, TaskRecord, protocol_as_dict
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
    _loaded: dict[str, tuple[Any, Backend]] = field(default_factory=dict)
    _compilations: Compilations = field(default_factory=Compilations)

    def __post_init__(self) -> None:
        from mlipaudit.backends.compilation_cache import use_compilation_cache

        use_compilation_cache()
        self._compilations.listen()

    def run(self, task: Task, progress: Callable[[str, int, int], None]) -> TaskRecord:
        """Run one task; whatever goes wrong becomes part of its record."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock, count, seconds = time.perf_counter(), self._compilations.count, self._compilations.seconds
        benchmark: Benchmark | None = None
        try:
            benchmark = self._prepare(task, progress)
            benchmark.run_model()
            result = benchmark.analyze()
        except Exception as error:  # around a task: it costs only itself
            result = BenchmarkResult(failed=True, score=0.0, failure=Failure.from_exception(error))
        identity = self._identity(task, benchmark)
        provenance = Provenance(
            task_id=identity.task_id,
            identity=identity,
            model=task.model.name,
            model_source=task.model.source.rsplit("/", maxsplit=1)[-1],
            data_edition=benchmark.dataset.edition if benchmark and benchmark.dataset else None,
            data_name=benchmark.data_folder_name() if benchmark else None,
            versions=_versions(),
            device=_device(),
            started_at=started,
            wall_seconds=time.perf_counter() - clock,
            compile_seconds=self._compilations.seconds - seconds,
            num_compilations=self._compilations.count - count,
            peak_memory_bytes=_peak_memory(),
            command=self.plan.command,
        )
        return TaskRecord.model_construct(result=result, provenance=provenance)

    def _prepare(self, task: Task, progress: Callable[[str, int, int], None]) -> Benchmark:
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
        """The force field and its backend; the last ones are kept, with what they have compiled."""
        if model.name not in self._loaded:
            from mlipaudit.backends.contract import backend_for

            force_field = model.load()
            self._loaded = {model.name: (force_field, backend_for(force_field))}
        return self._loaded[model.name]

    def _identity(self, task: Task, benchmark: Benchmark | None) -> Identity:
        cls = task.benchmark_class
        return Identity(
            model_sha256=task.model.sha256,
            benchmark=task.benchmark,
            benchmark_version=cls.version,
            data_sha256=benchmark.dataset.sha256 if benchmark and benchmark.dataset else None,
            protocol=protocol_as_dict(cls.protocols.get(self.plan.run_mode)),
            run_mode=self.plan.run_mode,
            seed=self.plan.seed,
        )


_NOWHERE = "/nonexistent"


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

    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind}"


def _peak_memory() -> int:
    """Highest resident size of this process so far, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
