# SPDX-License-Identifier: Apache-2.0
"""The contract every benchmark keeps: `run_model()` asks a force field, `analyze()` judges the answers.

The base class holds the only state. Our own benchmarks implement three hooks without any: `load` reads reference
data, `ask` puts questions to a backend and returns a `ModelOutput`, `judge` turns that into a `BenchmarkResult`. A
subclass written for mlipaudit 0.1.x overrides `run_model` and `analyze` instead and works unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from mlipaudit.data import DataSet, Local, parse_edition
from mlipaudit.errors import ChemicalElementsMissingError, DataUnavailableError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import SCORING_VERSION, Interval, Score
from mlipaudit.views import View

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.checkpoints import Checkpoints
    from mlipaudit.backends.contract import Backend

DEFAULT_CHARGE = 0
"""Total charge of a system whose data does not give one."""
DEFAULT_SPIN = 1
"""Spin multiplicity 2S+1 of a system whose data does not give one."""


class Progress(Protocol):
    """Called with what is being done, how many are done, of how many."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


class Record(BaseModel):
    """Data that survives the round trip through strict JSON for every value, NaN and infinity included."""

    model_config = ConfigDict(ser_json_inf_nan="strings")


class SystemResult(Record):
    """What is known about one system of a benchmark; subclasses add an id and metrics."""

    failed: bool = False
    failure: Failure | None = None
    """The reason, when failed."""


class BenchmarkResult(Record):
    """Outcome of a benchmark. Subclasses add metrics and one entry per system."""

    failed: bool = False
    """Whether nothing could be analysed."""
    score: float | None = Field(ge=0, le=1, default=None)
    """Between 0 and 1."""
    score_interval: Interval | None = None
    """95 % interval of the score; None when fewer than two systems carry it."""
    num_systems: int | None = None
    """Systems the run mode asks for."""
    num_failed: int | None = None
    """How many of them failed, each counting 0 in the score."""
    num_skipped: int = 0
    """How many of them the model was not asked, for it does not cover their elements; they count 0 as well."""
    failures: dict[str, Failure] = {}
    """Reason by system id."""
    failure: Failure | None = None
    """The reason when the benchmark as a whole could not be run."""
    warnings: list[str] = []
    """What a reader of the score should know."""
    scoring_version: int = SCORING_VERSION

    @staticmethod
    def fields_of(score: Score) -> dict[str, Any]:
        """The base fields that a generic score fills."""
        failed = score.num_failed == score.num_systems
        nothing = Failure(kind=FailureKind.DATA_UNAVAILABLE, message="the data set has no systems")
        return {
            "failure": None if score.num_systems else nothing,
            "score": 0.0 if failed else score.value,
            "score_interval": None if failed else score.interval,
            "num_systems": score.num_systems,
            "num_failed": score.num_failed,
            "failed": failed,
        }


class ModelOutput(Record):
    """Raw answers of a model, before any judgement."""

    failures: dict[str, Failure] = {}
    """Reason by system id, for systems without an answer."""


class Benchmark:
    """One question put to a model, and how its answers are judged.

    Final subclasses set the class attributes below and implement either the hooks `load`, `ask` and `judge`, or
    `run_model` and `analyze`. A family, which owns an algorithm and no data, is declared with
    `class Family(Benchmark, abstract=True)`.
    """

    name: ClassVar[str] = ""
    """Unique; also the name on the command line, of the output folder and of the docs page."""
    category: ClassVar[str] = "General"
    version: ClassVar[str] = "1"
    """Raised whenever the numbers of this benchmark could change."""
    result_class: ClassVar[type[BenchmarkResult] | None] = None
    model_output_class: ClassVar[type[ModelOutput] | None] = None
    required_elements: ClassVar[set[str] | None] = None
    """Elements in the public dataset. An edition whose manifest lists its elements overrides this."""
    skip_if_elements_missing: ClassVar[bool] = True
    """False for a benchmark that handles missing elements system by system."""
    reusable_output_id: ClassVar[tuple[str, ...] | None] = None
    """Benchmarks with the same id can share one model output."""
    data_name: ClassVar[str | None] = None
    """Folder of the input data, where it differs from `name`."""
    protocols: ClassVar[Mapping[RunMode, Any]] = {}
    """How the model is asked, per run mode."""
    chunk_systems: ClassVar[int | None] = None
    """Systems per chunk, the smallest part of this benchmark that another process can do; None: it is not split.

    What a chunk holds never depends on who does it, so that the answers are the same however the work is split.
    """
    scored: ClassVar[bool] = True
    """False for one that only describes: its result has no score and enters no average, not even where it failed."""
    runs_alone: ClassVar[bool] = False
    """Whether it needs a quiet machine."""
    views: ClassVar[tuple[View, ...]] = ()
    """Pictures of its result, besides the distribution of each scored metric."""

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        for attribute in ("name", "result_class", "model_output_class", "required_elements"):
            if not getattr(cls, attribute) and getattr(cls, attribute) != set():
                raise NotImplementedError(f"{cls.__name__} must set the class attribute {attribute!r}")

    def __init__(
        self,
        force_field: Any,
        data_input_dir: str | os.PathLike = "./data",
        run_mode: RunMode | str = RunMode.STANDARD,
        *,
        data: str | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        backend: Backend | None = None,
        input_data: DataSet | None = None,
        checkpoints: Checkpoints | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare a benchmark; nothing is computed yet.

        Args:
            force_field: an `mlip.models.ForceField`, an ASE calculator, or a backend.
            data_input_dir: if it has a folder named after the benchmark's data, that is used.
            run_mode: `dev`, `fast` or `standard`.
            data: otherwise, the edition: `embedded`, `hub`, `hub@<revision>`, or a folder. Unless told, `dev` takes
                `embedded` and the others `hub`.
            seed: of everything random.
            progress: called as work advances.
            backend: what runs `force_field`, with the programs it has compiled; made anew by default.
            input_data: the input data itself, already verified; found through the two above by default.
            checkpoints: where unfinished simulations are kept, and continued from; nowhere by default.
            options: of a benchmark on a file of the user's.

        Raises:
            ValueError: `force_field` is none of the above.
            ChemicalElementsMissingError: it does not cover the elements of the data.
            DataUnavailableError, DataCorruptError: the input data is not there, or not what it should be.
        """
        from mlipaudit.backends.contract import backend_for

        self.run_mode = RunMode(run_mode)
        self.force_field = force_field
        self.backend: Backend = backend or backend_for(force_field)
        self.data_input_dir = Path(data_input_dir)
        self.seed = seed
        self.progress: Progress = progress or (lambda what, done, total: None)
        self.model_output: ModelOutput | None = None
        self.input_data: DataSet | None = input_data
        self.checkpoints = checkpoints
        self.options = dict(options or {})
        self._data = data
        self._download_data()
        self._require_elements()

    @classmethod
    def data_folder_name(cls) -> str:
        """Name of the input data folder."""
        return cls.data_name or cls.name

    @classmethod
    def uses_hooks(cls) -> bool:
        """Whether `ask` and `judge` are implemented, rather than `run_model` and `analyze` overridden."""
        asks = cls.ask is not Benchmark.ask or cls.ask_chunk is not Benchmark.ask_chunk
        return asks and cls.judge is not Benchmark.judge

    @classmethod
    def is_split(cls) -> bool:
        """Whether the chunks of this benchmark can be done apart; not if a subclass asks in its own way."""
        as_here = cls.ask is Benchmark.ask and cls.run_model is Benchmark.run_model
        return cls.chunk_systems is not None and as_here and cls.uses_hooks()

    @classmethod
    def get_missing_element_types(cls, force_field: Any) -> set[str]:
        """Elements of the public dataset that a force field does not cover; empty where it does not say."""
        return missing_elements(force_field, cls.required_elements or set())

    @classmethod
    def check_can_run_model(cls, force_field: Any) -> bool:
        """Whether a force field covers what this benchmark needs."""
        return not (cls.skip_if_elements_missing and cls.get_missing_element_types(force_field))

    @property
    def data_dir(self) -> Path:
        """Folder with this benchmark's input files."""
        return self.data_input_dir / self.data_folder_name()

    @cached_property
    def reference(self) -> Any:
        """Reference data, as `load` returns it."""
        return self.load(self.data_dir, self.protocol)

    @property
    def protocol(self) -> Any:
        """Settings of this run mode; None for a benchmark that declares none."""
        return self.protocol_of(self.run_mode, self.options)

    @classmethod
    def protocol_of(cls, run_mode: RunMode, options: Mapping[str, Any]) -> Any:
        """Settings of a run mode; of a benchmark on a file of the user's, what its options stand for.

        Those of a stored result give the protocol that the same options have today.
        """
        return cls.protocols.get(run_mode)

    @classmethod
    def options_for(cls, file: Path, config: Path | None, run_mode: RunMode) -> dict[str, Any]:
        """All options with their defaults, for a file of the user's; plain data, and the protocol of the result.

        Raises:
            UserError: the file or the configuration is not what this benchmark can work with.
        """
        raise NotImplementedError(f"{cls.__name__} takes no file")

    def run_model(self) -> None:
        """Ask the force field; the answers are kept in `model_output`."""
        self.model_output = self.ask(self.backend, self.reference)

    def analyze(self) -> BenchmarkResult:
        """Judge the answers.

        Raises:
            RuntimeError: `run_model` was not called.
        """
        if self.model_output is None:
            raise RuntimeError("Must call run_model() first.")
        return self.judge(self.model_output, self.reference, self.protocol)

    @classmethod
    def load(cls, data_dir: Path, protocol: Any) -> Any:
        """Read the reference data that a protocol asks for."""
        raise NotImplementedError(f"{cls.__name__} implements neither load() nor run_model()")

    def ask(self, backend: Backend, reference: Any) -> ModelOutput:
        """Put the questions to a backend. Reads `protocol`, `seed` and `progress`; changes nothing.

        That of a split benchmark is this one: chunk by chunk, as any number of processes would do it.
        """
        if self.chunk_systems is None:
            raise NotImplementedError(f"{type(self).__name__} implements neither ask() nor run_model()")
        return self.join([self.ask_chunk(backend, reference, names) for names in self.chunks(reference)])

    @classmethod
    def system_names(cls, reference: Any) -> list[str]:
        """All systems of a split benchmark, in the order of its model output."""
        raise NotImplementedError(f"{cls.__name__} is split and does not implement system_names()")

    @classmethod
    def chunks(cls, reference: Any) -> list[list[str]]:
        """The systems of a split benchmark, chunk by chunk; at least one chunk, even if nothing is in it."""
        names = cls.system_names(reference)
        size = cls.chunk_systems or max(len(names), 1)
        return [names[start : start + size] for start in range(0, len(names), size)] or [[]]

    def ask_chunk(self, backend: Backend, reference: Any, names: Sequence[str]) -> ModelOutput:
        """The answers for some systems of a split benchmark; a pure function of backend and systems, as `ask` is."""
        raise NotImplementedError(f"{type(self).__name__} is split and does not implement ask_chunk()")

    @classmethod
    def join(cls, parts: Sequence[Any]) -> ModelOutput:
        """One model output from those of all chunks, in their order."""
        raise NotImplementedError(f"{cls.__name__} is split and does not implement join()")

    @classmethod
    def judge(cls, output: Any, reference: Any, protocol: Any) -> BenchmarkResult:
        """Judge answers against reference data: no force field, the same on any machine."""
        raise NotImplementedError(f"{cls.__name__} implements neither judge() nor analyze()")

    @classmethod
    def is_scored(cls, protocol: Any) -> bool:
        """Whether results under a protocol have a score."""
        return cls.scored

    @classmethod
    def result_of_failure(cls, failure: Failure | None, protocol: Any = None) -> BenchmarkResult:
        """The result of a task that came to nothing."""
        score = 0.0 if cls.is_scored(protocol) else None
        return BenchmarkResult(failed=True, score=score, failure=failure)

    @classmethod
    def geometries(cls, reference: Any, system: str) -> list[Atoms]:
        """Structures of one system, by its name in the result, to be drawn; none where there is nothing to draw."""
        return []

    def _download_data(self) -> None:
        """Find and verify the input data (a name of 0.1.x, which subclasses may override)."""
        name = self.data_folder_name()
        if self.input_data is not None:
            self.data_input_dir = self.input_data.path.parent
            return
        if (self.data_input_dir / name).is_dir():
            self.input_data = Local(self.data_input_dir).fetch(name)
            return
        try:
            self.input_data = parse_edition(self._data, self.run_mode).fetch(name)
        except DataUnavailableError:
            if self.uses_hooks():
                raise
            return  # a subclass of the 0.1.x kind may bring its data in its own way
        self.data_input_dir = self.input_data.path.parent

    def _require_elements(self) -> None:
        needed = self.input_data.elements if self.input_data else None
        missing = missing_elements(self.force_field, self.required_elements if needed is None else needed)
        if self.skip_if_elements_missing and missing:
            raise ChemicalElementsMissingError(
                f"the model does not cover {', '.join(sorted(missing))}, which {self.name} needs"
            )


def missing_elements(force_field: Any, needed: Any) -> set[str]:
    """Symbols in `needed` that a force field says it does not cover; empty where it says nothing."""
    covered = getattr(force_field, "allowed_atomic_numbers", None)
    if covered is None:
        return set()
    from ase.data import chemical_symbols

    return set(needed or ()) - {chemical_symbols[number] for number in covered}
