# SPDX-License-Identifier: Apache-2.0
"""Energies, forces and stress against the labels of a file of yours.

Any file that ase reads will do: extended xyz, a database, a trajectory. Labels are found by their usual names, or where
the configuration says; units that it declares are converted to eV and Å. Frames and components without a label, and
labels that are not finite, take no part and are counted.

Every metric is given twice: pooled over all components of all frames, and as the mean of the metrics of single frames.
Intervals are those of a bootstrap over frames. There is no score unless the configuration gives thresholds: then a
frame's score is the mean over them of its soft thresholds, and a frame that failed scores 0.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlipaudit.benchmark import Benchmark
from mlipaudit.benchmarks.dataset import asking, judgement
from mlipaudit.benchmarks.dataset.config import DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Reference
from mlipaudit.benchmarks.dataset.options import DEV_SYSTEMS, full_options, protocol_of
from mlipaudit.benchmarks.dataset.reading import make_reference, read_reference
from mlipaudit.benchmarks.dataset.schemas import VIEWS, DatasetModelOutput, DatasetResult, FrameResult
from mlipaudit.data import DataSet, EditionKind
from mlipaudit.errors import UnknownNameError
from mlipaudit.run_mode import RunMode

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend

__all__ = ["DatasetBenchmark", "DatasetModelOutput", "DatasetProtocol", "DatasetResult", "FrameResult"]

OVERRIDES = ("dataset", "config", "metrics", "preprocessors", "postprocessors")


class DatasetBenchmark(Benchmark):
    """How well are the labels of a data set of yours predicted?"""

    name = "dataset"
    category = "Data Sets"
    result_class = DatasetResult
    model_output_class = DatasetModelOutput
    required_elements = set()
    skip_if_elements_missing = False
    scored = False
    chunk_systems = 200
    protocols = {
        RunMode.DEV: DatasetProtocol(max_systems=DEV_SYSTEMS),
        RunMode.FAST: DatasetProtocol(),
        RunMode.STANDARD: DatasetProtocol(),
    }
    views = VIEWS
    _images: tuple[Atoms, ...] | None = None
    """Frames that were handed over in Python."""

    def __init__(
        self,
        force_field: Any,
        dataset: str | os.PathLike | Sequence[Atoms] | None = None,
        *,
        metrics: Iterable[Any] | None = None,
        preprocessors: Iterable[Any] | None = None,
        postprocessors: Iterable[Any] | None = None,
        config: str | os.PathLike | Mapping[str, Any] | None = None,
        run_mode: RunMode | str = RunMode.STANDARD,
        **settings: Any,
    ) -> None:
        """Read the data and check what is asked for; nothing is computed yet.

        Args:
            force_field: an `mlip.models.ForceField`, an ASE calculator, or a backend.
            dataset: a file that ase reads, or frames with their labels.
            metrics: names, as in a configuration, or the things themselves; those of `config` by default.
            preprocessors: of structures; names or functions.
            postprocessors: of predictions; names or functions.
            config: options, or a TOML file of them.
            run_mode: `dev` takes the first hundred frames, unless told otherwise.
            settings: as of any benchmark.

        Raises:
            UserError: the file cannot be read, or something is called by a name that is not there.
        """
        if dataset is not None:
            plugged = {"metrics": metrics, "preprocessors": preprocessors, "postprocessors": postprocessors}
            options = full_options(config, plugged, RunMode(run_mode))
            settings |= {"input_data": self._take(dataset), "options": options}
        super().__init__(force_field, run_mode=run_mode, **settings)
        if dataset is not None:
            self.reference  # noqa: B018 - what is wrong with the data is said now

    def _take(self, dataset: str | os.PathLike | Sequence[Atoms]) -> DataSet:
        if isinstance(dataset, str | os.PathLike):
            return DataSet.of_file(Path(dataset))
        self._images = tuple(dataset)
        return DataSet("frames", EditionKind.LOCAL, Path("frames"), None, verified={})

    @classmethod
    def protocol_of(cls, run_mode: RunMode, options: Mapping[str, Any]) -> DatasetProtocol:
        """What the options of a task stand for."""
        return protocol_of(options) if options else cls.protocols[run_mode]

    @classmethod
    def options_for(cls, file: Path, config: Path | None, run_mode: RunMode) -> dict[str, Any]:
        """All options for a file, with their defaults, once the file has been read and everything named was found."""
        options = full_options(config, {}, run_mode)
        read_reference(file, protocol_of(options))
        return options

    @cached_property
    def reference(self) -> Reference:
        """The labelled frames."""
        if self._images is not None:
            return make_reference(self._images, self.protocol, "the data set")
        return self.load(self.data_dir, self.protocol)

    @property
    def data_dir(self) -> Path:
        """The file."""
        assert self.input_data is not None
        return self.input_data.path

    @classmethod
    def load(cls, data_dir: Path, protocol: DatasetProtocol) -> Reference:
        """The labelled frames of a file."""
        return read_reference(data_dir, protocol)

    @classmethod
    def system_names(cls, reference: Reference) -> list[str]:
        """Frames with a label, in the order of the file."""
        return [frame.name for frame in reference.frames]

    def ask_chunk(self, backend: Backend, reference: Reference, names: Sequence[str]) -> DatasetModelOutput:
        """Predictions for some frames."""
        before = self.system_names(reference).index(names[0]) if names else 0

        def tell(done: int, total: int) -> None:
            self.progress("frames", before + done, len(reference.frames))

        return asking.ask(backend, reference, names, self.protocol, tell)

    join = staticmethod(asking.join)
    judge = staticmethod(judgement.judge)

    @classmethod
    def is_scored(cls, protocol: DatasetProtocol | None) -> bool:
        """Whether there are thresholds."""
        return protocol is not None and bool(protocol.thresholds)

    @classmethod
    def geometries(cls, reference: Reference, system: str) -> list[Atoms]:
        """The frame."""
        return [reference.by_name[system].atoms] if system in reference.by_name else []

    def run(
        self, *, quiet: bool = False, verbose: bool = False, device: str | None = None, **overrides: Any
    ) -> dict[str, Any]:
        """Ask the model and judge its answers.

        Args:
            quiet: print nothing.
            verbose: print the values of each batch by itself.
            device: `cpu`, `gpu` or `gpu:1`, for a model that can be told.
            overrides: `dataset`, `config`, `metrics`, `preprocessors` and `postprocessors`, for this call only.

        Returns:
            The fields of a `DatasetResult`.

        Raises:
            UserError: something is called by a name that is not there, or the model cannot be put on that device.
        """
        from mlipaudit.benchmarks.dataset.calling import call

        return call(self._with(overrides), quiet=quiet, verbose=verbose, device=device).model_dump()

    def _with(self, overrides: Mapping[str, Any]) -> DatasetBenchmark:
        """Another benchmark of the same model, as it would be with these arguments."""
        for name in overrides:
            if name not in OVERRIDES:
                raise UnknownNameError("option of run()", name, ("quiet", "verbose", "device", *OVERRIDES))
        once = copy.copy(self)
        if not overrides:
            return once
        once.__dict__.pop("reference", None)
        config = overrides.get("config", self.options)
        plugged = {name: overrides.get(name) for name in OVERRIDES[2:]}
        once.options = full_options(config, plugged, self.run_mode)
        if "dataset" in overrides:
            once._images = None
            once.input_data = once._take(overrides["dataset"])
        return once
