# SPDX-License-Identifier: Apache-2.0
"""Which tasks a run consists of, in which order, and what each of them rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark
from mlipaudit.data import DataSet, EditionKind, Hub, Local, parse_edition
from mlipaudit.errors import DataCorruptError, DataUnavailableError, UnknownNameError, UsageError
from mlipaudit.failures import Failure
from mlipaudit.models import ModelSpec
from mlipaudit.record import Identity, protocol_as_dict
from mlipaudit.run_mode import RunMode
from mlipaudit.running.own_files import NO_FILE, OwnFile, with_own_files

DownloadProgress = Callable[[str, int, int], None]
"""Called with a data name, how many bytes have come, of how many."""


@dataclass(frozen=True)
class Task:
    """One model on one benchmark, with everything that its result may depend on."""

    model: ModelSpec
    benchmark: str
    run_mode: RunMode = RunMode.STANDARD
    seed: int = 0
    edition: str = EditionKind.EMBEDDED
    """Kind of edition that was asked for."""
    data: DataSet | Failure | None = None
    """Verified input data, or why there is none; None for a benchmark of the 0.1.x kind that brings its own."""
    command: str = ""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Of a benchmark on a file of the user's."""

    @property
    def benchmark_class(self) -> type[Benchmark]:
        """The benchmark's class."""
        return registry.load(registry.BENCHMARKS, self.benchmark)  # type: ignore[return-value]

    @property
    def dataset(self) -> DataSet | None:
        """The input data, where there is any."""
        return self.data if isinstance(self.data, DataSet) else None

    @property
    def protocol(self) -> Any:
        """Settings under which the model is asked, and its answers are judged."""
        return self.benchmark_class.protocol_of(self.run_mode, self.options)

    @property
    def identity(self) -> Identity:
        """What the result will be filed under; the precision is known once the model is loaded."""
        cls = self.benchmark_class
        return Identity(
            model_sha256=self.model.sha256,
            benchmark=self.benchmark,
            benchmark_version=cls.version,
            data_sha256=self.dataset.sha256 if self.dataset else None,
            protocol=protocol_as_dict(self.protocol),
            run_mode=self.run_mode,
            seed=self.seed,
        )


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

    def with_data(self, progress: DownloadProgress) -> Plan:
        """The plan with the input data of every task found and verified, or the reason why it is not."""
        classes = {task.benchmark: task.benchmark_class for task in self.tasks if task.data is None}
        found = {name: self._fetch(cls, progress=progress) for name, cls in classes.items()}
        return replace(
            self, tasks=tuple(replace(t, data=found[t.benchmark]) if t.data is None else t for t in self.tasks)
        )

    def _fetch(self, benchmark_class: type[Benchmark], *, progress: DownloadProgress) -> DataSet | Failure | None:
        name = benchmark_class.data_folder_name()
        own = Path(self.data_input_dir) if self.data_input_dir is not None else None
        try:
            if own and (own / name).is_dir():
                return Local(own).fetch(name)
            edition = parse_edition(self.data, self.run_mode)
            if isinstance(edition, Hub):
                edition = replace(edition, progress=progress)
            return edition.fetch(name)
        except DataUnavailableError as error:
            return Failure.from_exception(error) if benchmark_class.uses_hooks() else None
        except (DataCorruptError, OSError) as error:
            return Failure.from_exception(error)


def _about(model: ModelSpec) -> dict[str, Any]:
    return {"source": model.basename, "sha256": model.sha256, "kind": model.kind, "options": model.options}


def choose_benchmarks(
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    suite: str = "core",
    files: Mapping[str, OwnFile] = MappingProxyType({}),
) -> list[str]:
    """Names of the benchmarks to run: those named, in that order, or an installed suite, and those on files of the
    user's; less the excluded ones.

    Raises:
        UnknownNameError: a name that is not registered.
        UsageError: nothing is left to run.
    """
    known = [*registry.names(registry.BENCHMARKS), *files, *(name.partition(":")[0] for name in files)]
    for name in [*(include or ()), *(exclude or ())]:
        if name not in known:
            raise _unknown(name, known)
    members: Any = include or registry.load(registry.SUITES, suite)
    members = with_own_files([name for name in members if name in known], files)
    chosen = [name for name in members if not {name, name.partition(":")[0]} & set(exclude or ())]
    if not chosen:
        raise UsageError("no benchmark is left to run")
    return chosen


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    stem = name.partition(":")[0]
    if stem in registry.names(registry.FILE_BENCHMARKS):
        return UsageError(f"benchmark {name!r} works on a file of yours: pass --{stem} FILE")
    return UnknownNameError("benchmark", name, known)


def make_plan(
    models: Sequence[ModelSpec],
    benchmarks: Sequence[str],
    *,
    run_mode: RunMode,
    data: str | None,
    seed: int,
    command: str = "",
    data_input_dir: str | None = None,
    files: Mapping[str, OwnFile] = MappingProxyType({}),
) -> Plan:
    """Every model on every benchmark, model by model; those that need a quiet machine come last.

    `files` are those of the benchmarks that work on a file of the user's.

    Raises:
        UserError: a benchmark cannot be imported, or there is no such edition.
    """
    plan = Plan((), run_mode, data, seed, command, data_input_dir)
    own = {benchmark: files.get(benchmark, NO_FILE) for benchmark in benchmarks}
    tasks = [
        Task(model, name, run_mode, seed, plan.edition, own[name].data, command, own[name].options)
        for model in models
        for name in benchmarks
    ]
    tasks.sort(key=lambda task: task.benchmark_class.runs_alone)
    return replace(plan, tasks=tuple(tasks))
