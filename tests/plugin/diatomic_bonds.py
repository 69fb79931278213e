"""Bond lengths of diatomic molecules.

The energy is computed along a stretch from 0.7 to 1.5 times the experimental bond length; a parabola through the
lowest point and its neighbours gives the minimum. Where the lowest point is an end of the scan, that end is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from mlipaudit import (
    Benchmark,
    BenchmarkResult,
    Failure,
    Metric,
    ModelOutput,
    RunMode,
    SoftThreshold,
    SystemResult,
)
from mlipaudit.backends.contract import set_charge_and_spin
from mlipaudit.scoring import score_systems
from pydantic import BaseModel, TypeAdapter

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend


@dataclass(frozen=True)
class Stretch:
    """A scan of the bond length."""

    num_points: int
    max_molecules: int | None = None
    """The first so many; None takes all."""

    def distances(self, bond_length: float) -> np.ndarray:
        """Å"""
        return bond_length * np.linspace(0.7, 1.5, self.num_points)


class Molecule(BaseModel):
    """Reference data of one molecule."""

    symbols: tuple[str, str]
    bond_length: float
    """Å"""


Molecules = dict[str, Molecule]


class MoleculeResult(SystemResult):
    """One molecule."""

    name: str
    error: Annotated[
        float | None, Metric(unit="Å", score=SoftThreshold(0.05), source="chosen for this tutorial")
    ] = None
    """Absolute error of the bond length."""
    bond_length: float | None = None
    """Å"""


class DiatomicBondsResult(BenchmarkResult):
    """Errors over all molecules."""

    molecules: list[MoleculeResult]
    mae: Annotated[float | None, Metric(unit="Å")] = None
    """Mean absolute error of the bond length, over the molecules that have one."""


class DiatomicBondsModelOutput(ModelOutput):
    """Energies of every molecule along its stretch."""

    energies: dict[str, list[float]]
    """eV; a molecule that failed is absent, its reason is in `failures`."""


class DiatomicBondsBenchmark(Benchmark):
    """How good are the bond lengths of diatomic molecules?"""

    name = "diatomic_bonds"
    category = "Small Molecules"
    version = "1"
    result_class = DiatomicBondsResult
    model_output_class = DiatomicBondsModelOutput
    required_elements = {"H", "C", "N", "O", "F"}
    protocols = {
        RunMode.DEV: Stretch(num_points=9, max_molecules=2),
        RunMode.FAST: Stretch(num_points=33),
        RunMode.STANDARD: Stretch(num_points=33),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: Stretch) -> Molecules:
        """The molecules that the protocol asks for."""
        molecules = TypeAdapter(Molecules).validate_json((data_dir / "molecules.json").read_bytes())
        return dict(list(molecules.items())[: protocol.max_molecules])

    def ask(self, backend: Backend, reference: Molecules) -> DiatomicBondsModelOutput:
        """All energies of all molecules in one call: the backend batches them."""
        from ase import Atoms

        systems, owners = [], []
        for name, molecule in reference.items():
            for r in self.protocol.distances(molecule.bond_length):
                atoms = Atoms(molecule.symbols, positions=[[0, 0, 0], [0, 0, r]])
                systems.append(set_charge_and_spin(atoms, charge=0, spin=1))
                owners.append(name)
        answers = backend.predict(systems, progress=lambda done, total: self.progress("energies", done, total))
        output = DiatomicBondsModelOutput(energies={})
        for name, answer in zip(owners, answers, strict=True):
            if isinstance(answer, Failure):
                output.failures.setdefault(name, answer)
            else:
                output.energies.setdefault(name, []).append(answer.energy)
        for name in output.failures:
            output.energies.pop(name, None)
        return output

    @classmethod
    def judge(
        cls, output: DiatomicBondsModelOutput, reference: Molecules, protocol: Stretch
    ) -> DiatomicBondsResult:
        """Bond lengths, their errors, and the score."""
        molecules = [cls._judge_one(name, molecule, output, protocol) for name, molecule in reference.items()]
        errors = [m.error for m in molecules if m.error is not None]
        return DiatomicBondsResult(
            molecules=molecules,
            mae=float(np.mean(errors)) if errors else None,
            failures=output.failures,
            **DiatomicBondsResult.fields_of(score_systems(molecules)),
        )

    @classmethod
    def _judge_one(
        cls, name: str, molecule: Molecule, output: DiatomicBondsModelOutput, protocol: Stretch
    ) -> MoleculeResult:
        if failure := output.failures.get(name):
            return MoleculeResult(name=name, failed=True, failure=failure)
        found = minimum(protocol.distances(molecule.bond_length), output.energies[name])
        return MoleculeResult(name=name, bond_length=found, error=abs(found - molecule.bond_length))


def minimum(distances: Sequence[float], energies: Sequence[float]) -> float:
    """Where a curve on an even grid is lowest."""
    lowest = int(np.argmin(energies))
    if lowest in (0, len(energies) - 1):
        return float(distances[lowest])
    left, middle, right = energies[lowest - 1 : lowest + 2]
    curvature = left - 2 * middle + right
    shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return float(distances[lowest] + shift * (distances[1] - distances[0]))
