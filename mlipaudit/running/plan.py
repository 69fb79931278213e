# SPDX-License-Identifier: Apache-2.0
"""Which tasks a run consists of, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark
from mlipaudit.data import EditionKind, parse_edition
from mlipaudit.errors import UnknownNameError, UsageError
from mlipaudit.models import ModelSpec
from mlipaudit.run_mode import RunMode


@dataclass(frozen=True)
class Task:
    """One model on one benchmark."""

    model: ModelSpec
    benchmark: str

    @property
    def benchmark_class(self) -> type[Benchmark]:
        """The benchmark's class."""
        return registry.load(registry.BENCHMARKS, self.benchmark)  # type: ignore[return-value]


@dataclass(frozen=True)
class Plan:
    """All tasks of a run and the settings they share."""

    tasks: tuple[Task, ...]
    run_mode: RunMode
    data: str | None
    seed: int
    command: str = ""
    data_input_dir: str | None = None
    """Folder in which a benchmark's own data folder takes precedence over `data` (mlipaudit 0.1.x)."""

    @property
    def edition(self) -> str:
        """Kind of edition that was asked for."""
        if self.data_input_dir is not None:
            return EditionKind.LOCAL
        return parse_edition(self.data, self.run_mode).kind

    @property
    def models(self) -> list[ModelSpec]:
        """The models, in order."""
        return list(dict.fromkeys(task.model for task in self.tasks))

    def as_dict(self) -> dict[str, Any]:
        """What the run's record says: settings, and which model a name stands for."""
        return {
            "run_mode": self.run_mode,
            "data": self.edition,
            "seed": self.seed,
            "command": self.command,
            "models": {m.name: _about(m) for m in self.models},
            "benchmarks": list(dict.fromkeys(task.benchmark for task in self.tasks)),
        }


def _about(model: ModelSpec) -> dict[str, Any]:
    return {"source": model.basename, "sha256": model.sha256, "kind": model.kind, "options": model.options}


def choose_benchmarks(
    *, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None, suite: str = "core"
) -> list[str]:
    """Names of the benchmarks to run: those named, in that order, or an installed suite less the excluded ones.

    Raises:
        UnknownNameError: a name that is not registered.
        UsageError: nothing is left to run.
    """
    known = registry.names(registry.BENCHMARKS)
    for name in [*(include or ()), *(exclude or ())]:
        if name not in known:
            raise UnknownNameError("benchmark", name, known)
    members: Any = include or registry.load(registry.SUITES, suite)
    chosen = [name for name in dict.fromkeys(members) if name in known and name not in (exclude or ())]
    if not chosen:
        raise UsageError("no benchmark is left to run")
    return chosen


def make_plan(models: Sequence[ModelSpec], benchmarks: Sequence[str], **settings: Any) -> Plan:
    """Every model on every benchmark, model by model; those that need a quiet machine come last.

    Raises:
        UserError: a benchmark cannot be imported.
    """
    tasks = [Task(model, benchmark) for model in models for benchmark in benchmarks]
    tasks.sort(key=lambda task: task.benchmark_class.runs_alone)
    return Plan(tuple(tasks), **settings)
