# SPDX-License-Identifier: Apache-2.0
"""Structures behind systems, and where they come from: read again from the input data that a result was made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlipaudit.benchmark import Benchmark
from mlipaudit.data import DataSet
from mlipaudit.errors import UserError
from mlipaudit.record import Identity, TaskRecord
from mlipaudit.rejudge import dataset_of
from mlipaudit.reporting.blocks import Molecule
from mlipaudit.reporting.contents import benchmark_class
from mlipaudit.run_mode import RunMode

if TYPE_CHECKING:
    from ase import Atoms

MAX_SHOWN = 3
"""Structures of one system: both ends and the middle of a path, two tautomers, the first conformers."""


@dataclass
class Source:
    """Input data of a benchmark, or why it cannot be had."""

    dataset: DataSet | None = None
    why_not: str = ""
    identity: Identity | None = None
    benchmark: type[Benchmark] | None = None
    """None for one that cannot read reference data by itself."""

    @cached_property
    def reference(self) -> Any:
        """What the benchmark reads from it, when it is first asked for; None where it cannot."""
        if self.dataset is None or self.benchmark is None or self.identity is None:
            return None
        try:
            protocol = self.benchmark.protocol_of(RunMode(self.identity.run_mode), self.identity.protocol)
            return self.benchmark.load(self.dataset.path, protocol)
        except (UserError, NotImplementedError, OSError, ValueError, KeyError, TypeError) as error:
            self.why_not = str(error).split("\n", maxsplit=1)[0]
            return None


@dataclass
class Structures:
    """Reads input data once per benchmark."""

    data: Path | None = None
    """Folder with the input data, for results on a folder of the user's."""
    _sources: dict[tuple, Source] = field(default_factory=dict)

    def source(self, record: TaskRecord) -> Source:
        """The input data of a result."""
        identity = record.provenance.identity
        key = identity.benchmark, identity.run_mode, identity.data_sha256
        if key not in self._sources:
            self._sources[key] = _read(record, self.data)
        return self._sources[key]

    def of(self, records: Sequence[TaskRecord], system: str) -> tuple[list[Molecule], str]:
        """Structures of a system of one benchmark, and why there are none."""
        why_not = "the input data is not at hand"
        for record in records:
            source = self.source(record)
            declared = benchmark_class(record.provenance.identity.benchmark)
            if source.reference is None or declared is None:
                why_not = source.why_not or why_not
                continue
            if geometries := _geometries(declared, source.reference, system):
                shown = geometries[:MAX_SHOWN]
                captions = [f"{i} of {len(geometries)}" if len(geometries) > 1 else "" for i in range(1, 4)]
                return [molecule(a, system, c) for a, c in zip(shown, captions, strict=False)], ""
            why_not = "this benchmark names no structure for it"
        return [], why_not


def molecule(atoms: Atoms, name: str, caption: str = "") -> Molecule:
    """A structure to be drawn; its cell where it is periodic."""
    lines = [
        f"{symbol} {x:.4f} {y:.4f} {z:.4f}"
        for symbol, (x, y, z) in zip(atoms.get_chemical_symbols(), atoms.positions, strict=True)
    ]
    vectors = tuple((float(x), float(y), float(z)) for x, y, z in atoms.cell) if atoms.pbc.any() else None
    formula = atoms.get_chemical_formula(empirical=False)
    return Molecule(
        "\n".join([str(len(lines)), name, *lines]), name, ", ".join(filter(None, [formula, caption])), vectors
    )


def _read(record: TaskRecord, data: Path | None) -> Source:
    identity = record.provenance.identity
    declared = benchmark_class(identity.benchmark)
    if declared is None:
        return Source(why_not=f"{identity.benchmark} is not installed here")
    try:
        dataset = dataset_of(record, data)
    except (UserError, ValueError) as error:
        return Source(why_not=str(error))
    if not declared.uses_hooks() or identity.run_mode not in set(RunMode):
        return Source(dataset)
    return Source(dataset, identity=identity, benchmark=declared)


def _geometries(declared: Any, reference: Any, system: str) -> list[Atoms]:
    try:
        return declared.geometries(reference, system)
    except Exception:  # around a plug-in's picture, without which the page still says everything
        return []
