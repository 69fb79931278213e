# SPDX-License-Identifier: Apache-2.0
"""Do molecules keep their reference geometries when the model minimises them?

Every molecule starts from its reference geometry and is minimised; what scores is how far its heavy atoms have moved. A
molecule that comes apart scores 0, and so does one that nothing holds: pushed by 0.05 Å at random, the
energy of a real molecule rises by about 100 meV per atom, that of a model without forces not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import BaseModel, NonNegativeFloat, TypeAdapter

from mlipaudit.analysis.superposition import superposed_rmsd
from mlipaudit.benchmark import DEFAULT_CHARGE, Benchmark, BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.relaxations import (
    RelaxedState,
    energy_rises,
    relaxed_state,
    structure,
    why_apart,
    why_not_held,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import Minimisation, Relaxations
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import score_systems
from mlipaudit.views import Axis, Scatter

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend

FILES = {"openff_neutral": "openff_n200_neutral.json", "openff_charged": "openff_n20_charged.json"}
SOURCE = "mlipaudit 0.1.8 (arXiv:2511.20487)"
BAD_RMSD = 0.3
"""Å"""
MIN_RISE = 0.01
"""eV per atom: a tenth of what pushing molecules costs in GFN2-xTB, twenty times what it costs in random weights."""


class Molecule(BaseModel):
    """A molecule at its reference geometry."""

    atom_symbols: list[str]
    coordinates: list[tuple[float, float, float]]
    """Å"""
    smiles: str = ""
    charge: float = DEFAULT_CHARGE


Molecules = dict[str, Molecule]
Sets = dict[str, Molecules]
"""Name of the set -> name of the molecule -> molecule."""
_MOLECULES = TypeAdapter(Molecules)


class MoleculeModelOutput(Record):
    """Where one molecule ended."""

    molecule_name: str
    simulation_state: RelaxedState | None = None
    """None when there is a failure instead."""
    failed: bool = False


class ReferenceGeometryStabilityModelOutput(ModelOutput):
    """Where all molecules ended; failures are called `set/molecule`, for both sets use the same names."""

    openff_neutral: list[MoleculeModelOutput]
    openff_charged: list[MoleculeModelOutput]


class ReferenceGeometryStabilityMoleculeResult(SystemResult):
    """One molecule."""

    molecule_name: str
    rmsd: Annotated[NonNegativeFloat | None, Metric(unit="Å", score=SoftThreshold(0.075), source=SOURCE)] = None
    """Of the heavy atoms from the reference, after the best rigid motion."""
    num_heavy_atoms: int | None = None
    """An RMSD of fewer than three says little: one bond, or nothing."""
    converged: bool | None = None
    num_steps: int | None = None
    max_force: Annotated[float | None, Metric(unit="eV/Å")] = None
    """The largest that was left."""
    energy_rise: Annotated[float | None, Metric(unit="meV/atom", better="neither")] = None
    """Of the relaxed geometry, pushed by 0.05 Å at random."""


class ReferenceGeometryStabilityDatasetResult(Record):
    """One set of molecules."""

    rmsd_values: list[NonNegativeFloat | None]
    """Å, one per molecule; None where it failed or came apart."""
    avg_rmsd: Annotated[NonNegativeFloat | None, Metric(unit="Å")] = None
    """Over the molecules that have one."""
    num_exploded: int = 0
    """Molecules that failed, came apart or are not held."""
    num_bad_rmsds: int = 0
    """RMSD above 0.3 Å."""
    num_not_converged: int = 0
    """Forces still above the limit at the last step; they score all the same."""
    failed: bool = False
    """Whether no molecule has an RMSD."""
    molecules: list[ReferenceGeometryStabilityMoleculeResult] = []


class ReferenceGeometryStabilityResult(BenchmarkResult):
    """Both sets, and the score over all molecules."""

    openff_neutral: ReferenceGeometryStabilityDatasetResult
    openff_charged: ReferenceGeometryStabilityDatasetResult
    avg_rmsd: Annotated[NonNegativeFloat | None, Metric(unit="Å")] = None
    """Mean over the sets that have one, as published."""


class ReferenceGeometryStabilityBenchmark(Benchmark):
    """Do molecules keep their reference geometries when minimised?

    `fast` takes the first 30 neutral and the first 10 charged molecules and at most 200 steps.
    """

    name = "reference_geometry_stability"
    category = "Small Molecules"
    result_class = ReferenceGeometryStabilityResult
    model_output_class = ReferenceGeometryStabilityModelOutput
    required_elements = {"H", "C", "N", "O", "S", "F", "P", "Cl", "Br"}
    views = (Scatter("RMSD by size", Axis("num_heavy_atoms", "heavy atoms"), Axis("rmsd", "RMSD", "Å")),)
    protocols = {
        RunMode.DEV: Relaxations(Minimisation(max_steps=10), max_systems=(2, 2)),
        RunMode.FAST: Relaxations(Minimisation(max_steps=200), max_systems=(30, 10)),
        RunMode.STANDARD: Relaxations(Minimisation(max_steps=1000)),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: Relaxations) -> Sets:
        """The molecules of both sets that the protocol asks for."""
        limits = protocol.max_systems or [None] * len(FILES)
        return {
            key: dict(list(read_json(data_dir, file, _MOLECULES).items())[:limit])
            for (key, file), limit in zip(FILES.items(), limits, strict=True)
        }

    @classmethod
    def geometries(cls, reference: Sets, system: str) -> list[Atoms]:
        """The reference geometry."""
        key, _, name = system.partition("/")
        m = reference.get(key, {}).get(name)
        return [structure(m.atom_symbols, m.coordinates, m.charge)] if m else []

    def ask(self, backend: Backend, reference: Sets) -> ReferenceGeometryStabilityModelOutput:
        """Minimise all molecules of both sets together, then push them."""
        molecules = [molecule for group in reference.values() for molecule in group.values()]
        systems = [structure(m.atom_symbols, m.coordinates, m.charge) for m in molecules]
        relaxed = backend.minimise(systems, self.protocol.minimisation, progress=self.progress)
        rises = energy_rises(
            backend, systems, relaxed, self.protocol.push, seed=self.seed,
            progress=lambda done, total: self.progress("pushed geometries", done, total),
        )  # fmt: skip
        ends = iter(zip(systems, relaxed, rises, strict=True))
        states: dict[str, list[MoleculeModelOutput]] = {}
        failures: dict[str, Failure] = {}
        for key, group in reference.items():
            found = {name: relaxed_state(*next(ends)) for name in group}
            failures |= {f"{key}/{name}": end for name, end in found.items() if isinstance(end, Failure)}
            states[key] = [_entry(name, end) for name, end in found.items()]
        return ReferenceGeometryStabilityModelOutput(**states, failures=failures)

    @classmethod
    def judge(
        cls, output: ReferenceGeometryStabilityModelOutput, reference: Sets, protocol: Relaxations
    ) -> ReferenceGeometryStabilityResult:
        """RMSD of every molecule, and the score over both sets together."""
        sets = {key: _judge_set(key, getattr(output, key), group, output) for key, group in reference.items()}
        entries = [entry for one in sets.values() for entry in one.molecules]
        averages = [one.avg_rmsd for one in sets.values() if one.avg_rmsd is not None]
        failures = {
            f"{k}/{m.molecule_name}": m.failure for k, one in sets.items() for m in one.molecules if m.failure
        }
        return ReferenceGeometryStabilityResult(
            openff_neutral=sets["openff_neutral"],
            openff_charged=sets["openff_charged"],
            avg_rmsd=float(np.mean(averages)) if averages else None,
            failures=failures,
            warnings=_warnings(entries, protocol.minimisation),
            **BenchmarkResult.fields_of(score_systems(entries)),
        )


def _entry(name: str, end: RelaxedState | Failure) -> MoleculeModelOutput:
    if isinstance(end, Failure):
        return MoleculeModelOutput(molecule_name=name, failed=True)
    return MoleculeModelOutput(molecule_name=name, simulation_state=end)


def _judge_set(
    key: str, outputs: list[MoleculeModelOutput], molecules: Molecules, output: ModelOutput
) -> ReferenceGeometryStabilityDatasetResult:
    states = {entry.molecule_name: entry.simulation_state for entry in outputs if not entry.failed}
    entries = [
        _judge_molecule(name, states.get(name), molecule, output.failures.get(f"{key}/{name}"))
        for name, molecule in molecules.items()
    ]
    known = [entry.rmsd for entry in entries if entry.rmsd is not None]
    return ReferenceGeometryStabilityDatasetResult(
        rmsd_values=[entry.rmsd for entry in entries],
        avg_rmsd=float(np.mean(known)) if known else None,
        num_exploded=sum(entry.failed for entry in entries),
        num_bad_rmsds=sum(rmsd > BAD_RMSD for rmsd in known),
        num_not_converged=sum(entry.converged is False for entry in entries),
        failed=not known,
        molecules=entries,
    )


def _judge_molecule(
    name: str, state: RelaxedState | None, molecule: Molecule, failure: Failure | None
) -> ReferenceGeometryStabilityMoleculeResult:
    if state is None or state.positions is None or not len(state.positions):
        unknown = Failure(
            kind=FailureKind.INCOMPLETE, message="the model output holds no geometry of this molecule"
        )
        return ReferenceGeometryStabilityMoleculeResult(
            molecule_name=name, failed=True, failure=failure or unknown
        )
    last, reference = np.asarray(state.positions[-1]), np.array(molecule.coordinates)
    failure = why_apart(last, reference, molecule.atom_symbols) or why_not_held(state.energy_rise, MIN_RISE)
    heavy = np.array([symbol != "H" for symbol in molecule.atom_symbols])
    chosen = heavy if heavy.any() else ~heavy
    return ReferenceGeometryStabilityMoleculeResult(
        molecule_name=name,
        failed=failure is not None,
        failure=failure,
        rmsd=None if failure else superposed_rmsd(last[chosen], reference[chosen]),
        num_heavy_atoms=int(heavy.sum()),
        converged=state.converged,
        num_steps=state.num_steps,
        max_force=state.max_force,
        energy_rise=None if state.energy_rise is None else 1000 * state.energy_rise,
    )


def _warnings(entries: list[ReferenceGeometryStabilityMoleculeResult], protocol: Minimisation) -> list[str]:
    moving = sum(entry.converged is False for entry in entries)
    if not moving:
        return []
    return [
        f"{moving} of {len(entries)} minimisations had forces above {protocol.max_force} eV/Å after their last step "
        f"({protocol.max_steps} at most)"
    ]
