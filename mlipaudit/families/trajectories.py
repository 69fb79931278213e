# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of several systems, judged from the sampled frames.

A family member says which systems are simulated. The family runs them together and hands the trajectories back by
name. No number of a trajectory counts before it has passed `why_unstable`: no recorded failure, everything finite,
all frames there, a temperature near the thermostat's, and every molecule still in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter

from mlipaudit.analysis.molecules import bond_lengths, find_bonds, isolated_atoms
from mlipaudit.analysis.temperatures import HOT, JUMP, explosion_frame, hot_from
from mlipaudit.arrays import Array
from mlipaudit.benchmark import DEFAULT_SPIN, Benchmark, BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.relative_energies import mean_of
from mlipaudit.protocol import MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import Interval, block_bootstrap, interval_of, score_systems

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, Trajectory

BROKEN = 1.5
"""A bond that ends longer than this many times its starting length is broken: no vibration does that."""
NUM_NAMED = 3
"""Bonds or atoms that a message names."""
T = TypeVar("T")
M = TypeVar("M", bound="Molecule")


class SimulationState(Record):
    """Sampled frames of one system without the starting one, in the fields of mlip's simulation state."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    atomic_numbers: Array | None = None
    positions: Array | None = None
    """Å, [frames, atoms, 3]."""
    forces: Array | None = None
    velocities: Array | None = None
    temperature: Array | None = None
    """K, [frames]."""
    kinetic_energy: Array | None = None
    """eV, [frames]."""
    cell: Array | None = None
    """Å: three lengths per frame where the box changes, [frames, 3]; else the one cell, [3, 3]."""
    potential_energy: Array | None = None
    """eV, [frames]."""
    partial_charges: Array | None = None
    step: int = 0
    """Steps done."""
    compute_time_seconds: float = 0.0
    """Kept for readers of 0.1.x; times are in the provenance of a result."""

    @property
    def num_frames(self) -> int:
        """Frames that there are."""
        return 0 if self.positions is None else len(self.positions)

    @classmethod
    def of(cls, atoms: Atoms, trajectory: Trajectory) -> SimulationState:
        """What a backend returned, less the starting frame."""
        return cls(
            atomic_numbers=atoms.numbers,
            positions=np.asarray(trajectory.positions, np.float32).reshape(-1, len(atoms), 3)[1:],
            temperature=np.array(trajectory.temperature[1:], float),
            kinetic_energy=np.array(trajectory.kinetic_energy[1:], float),
            potential_energy=np.array(trajectory.potential_energy[1:], float),
            cell=_cell_of(atoms, trajectory),
            step=trajectory.steps[-1] if trajectory.steps else 0,
        )


def _cell_of(atoms: Atoms, trajectory: Trajectory) -> np.ndarray | None:
    if trajectory.cells:
        return np.array(trajectory.cells, float).reshape(-1, 3)[1:]
    return np.asarray(atoms.cell[:]) if atoms.pbc.any() else None


class TrajectoryBenchmark(Benchmark, abstract=True):
    """Simulates all systems of the benchmark together."""

    keep_positions: ClassVar[bool] = True
    """Whether trajectories hold positions, or energies only."""

    @classmethod
    def systems(cls, reference: Any) -> dict[str, Atoms]:
        """Name -> starting structure, with charge, spin, and cell where it is periodic."""
        raise NotImplementedError

    @classmethod
    def geometries(cls, reference: Any, system: str) -> list[Atoms]:
        """Where the dynamics start."""
        return [atoms for name, atoms in cls.systems(reference).items() if name == system]

    def collect(self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]) -> ModelOutput:
        """Model output from what became of each system."""
        raise NotImplementedError

    def prepare(self, backend: Backend, systems: dict[str, Atoms]) -> dict[str, Atoms]:
        """The systems as the dynamics start from them."""
        return systems

    def ask(self, backend: Backend, reference: Any) -> ModelOutput:
        """One call for the dynamics of every system."""
        systems = self.prepare(backend, self.systems(reference))
        outcomes = backend.simulate(
            list(systems.values()),
            self.protocol.md,
            seed=self.seed,
            names=list(systems),
            progress=self.progress,
            checkpoints=self.checkpoints,
            keep_positions=self.keep_positions,
        )
        return self.collect(dict(zip(systems, outcomes, strict=True)), systems)


def states_of(
    outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]
) -> dict[str, SimulationState | None]:
    """Name -> frames; None where the dynamics never began."""
    return {
        name: None if isinstance(outcome, Failure) else SimulationState.of(systems[name], outcome)
        for name, outcome in outcomes.items()
    }


def failures_of(outcomes: Mapping[str, Trajectory | Failure]) -> dict[str, Failure]:
    """Name -> why the dynamics never began, or ended early."""
    reasons = {name: o if isinstance(o, Failure) else o.failure for name, o in outcomes.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def first_systems(systems: Mapping[str, T], protocol: Trajectories) -> dict[str, T]:
    """As many as the protocol asks for, in their order."""
    return dict(list(systems.items())[: protocol.max_systems])


def system(atoms: Atoms, charge: float, box: tuple[float, float, float] | None = None) -> Atoms:
    """The same atoms with a charge where models look for it, and in a box where one is given."""
    from mlipaudit.backends.contract import set_charge_and_spin

    if box is not None:
        atoms.set_cell(box)
    atoms.pbc = box is not None
    return set_charge_and_spin(atoms, charge, DEFAULT_SPIN)


def read_structure(file: Path, *, with_cell: bool = False) -> Atoms:
    """The structure in an xyz or pdb file, without what its comment may say, and without its cell unless asked for.

    Raises:
        DataCorruptError: the file cannot be read.
    """
    from ase import Atoms
    from ase.io import read

    kind = {".xyz": "xyz", ".pdb": "proteindatabank"}[file.suffix]
    try:
        atoms: Any = read(file, format=kind)
    except (ValueError, IndexError, KeyError, StopIteration) as error:
        raise DataCorruptError(f"{file.parent.name}/{file.name} is not a readable {file.suffix} file") from error
    return Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell if with_cell else None)


def box_of(atoms: Atoms) -> np.ndarray | None:
    """Lengths of an orthorhombic cell in Å; None without periodicity."""
    return atoms.cell.lengths() if atoms.pbc.all() else None


# Is it a trajectory at all?


def unanswered(name: str, failures: Mapping[str, Failure]) -> Failure:
    """Why a system has no frames: the recorded reason, or that none was recorded."""
    unknown = Failure(kind=FailureKind.INCOMPLETE, message="the model output holds no trajectory for this system")
    return failures.get(name, unknown)


def why_unstable(
    state: SimulationState | None, start: Atoms, md: MolecularDynamics, recorded: Failure | None
) -> Failure | None:
    """The first reason not to judge a trajectory, in an order that leaves no number to chance; None if there is none.

    Args:
        state: what the model answered.
        start: the starting structure.
        md: what it was asked for.
        recorded: failure of the dynamics, if any.
    """
    if recorded or state is None or not state.num_frames:
        return recorded or unanswered("", {})
    return (
        not_finite(state)
        or not_enough(state.num_frames, md.num_frames)
        or too_hot(state.temperature, md)
        or in_pieces(state, start)
    )


def not_finite(state: SimulationState) -> Failure | None:
    """At the first frame where a position or the temperature is not finite."""
    if state.positions is None or state.temperature is None or len(state.temperature) != state.num_frames:
        message = "the model output does not hold positions and a temperature for every frame"
        return Failure(kind=FailureKind.INCOMPLETE, message=message, frame=0)
    finite = np.isfinite(state.positions).all(axis=(1, 2)) & np.isfinite(state.temperature)
    if finite.all():
        return None
    frame = int(np.argmin(finite))
    message = f"positions or temperature are not finite in frame {frame}"
    return Failure(kind=FailureKind.NON_FINITE, message=message, frame=frame)


def not_enough(num_frames: int, num_expected: int) -> Failure | None:
    """At the last frame of a trajectory that has fewer than its protocol asks for."""
    if num_frames >= num_expected:
        return None
    message = f"{num_frames} frames of {num_expected}"
    return Failure(kind=FailureKind.INCOMPLETE, message=message, frame=max(num_frames - 1, 0))


def too_hot(temperatures: Any, md: MolecularDynamics, *, jump: float | None = JUMP) -> Failure | None:
    """At the frame where the temperature explodes or from which it stays far above the target, whichever is first."""
    target = md.temperature_kelvin
    limits = {"once": target + md.max_temperature_rise_kelvin, "for long": HOT * target}
    frames = [
        explosion_frame(temperatures, limits["once"], jump=jump),
        hot_from(temperatures, limits["for long"]),
    ]
    frame = min((frame for frame in frames if frame is not None), default=None)
    if frame is None:
        return None
    allowed = ", ".join(f"{limit:.0f} K {when}" for when, limit in limits.items())
    allowed += f", {jump:.0f} times the frame before" if jump else ""
    message = (
        f"{temperatures[frame]:.0f} K in frame {frame}, {np.mean(temperatures[frame:]):.0f} K on average from"
    )
    message += f" there on; limits: {allowed}"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)


def in_pieces(state: SimulationState, start: Atoms) -> Failure | None:
    """Whether a bond of the starting structure is broken in the last frame, or an atom far from all others."""
    last = np.asarray(state.positions)[-1]
    box = box_of(start)
    bonds = find_bonds(start.numbers, start.positions, box)
    before, after = (bond_lengths(x[None], bonds, box)[0] for x in (start.positions, last))
    broken = np.flatnonzero(after > BROKEN * before)
    frame = state.num_frames - 1
    if broken.size:
        lengths = [f"{bond_name(start, bonds[i])} {before[i]:.2f} → {after[i]:.2f} Å" for i in broken[:NUM_NAMED]]
        message = f"{broken.size} of {len(bonds)} bonds broken at the end: {', '.join(lengths)}"
        return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)
    alone = isolated_atoms(last, box) if len(last) > 1 else np.zeros(0, int)
    if not alone.size:
        return None
    names = ", ".join(atom_name(start, atom) for atom in alone[:NUM_NAMED])
    message = f"{alone.size} atoms far from all others at the end: {names}"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)


def atom_name(atoms: Atoms, index: int) -> str:
    """Symbol and index, from 0: C12."""
    return f"{atoms.symbols[int(index)]}{index}"


def bond_name(atoms: Atoms, bond: np.ndarray) -> str:
    """Names of both atoms: C12–H30."""
    return "–".join(atom_name(atoms, index) for index in bond)


# One deviation per frame of each molecule


class Molecule(BaseModel):
    """A molecule as the data sets hold it; subclasses say which of its atoms are looked at."""

    atom_symbols: list[str]
    coordinates: list[tuple[float, float, float]]
    """Å"""
    charge: float
    smiles: str


class MoleculeModelOutput(Record):
    """Frames of one molecule."""

    molecule_name: str
    simulation_state: SimulationState | None = None
    failed: bool = False
    """Whether the dynamics never began, or ended early."""


class DeviationModelOutput(ModelOutput):
    """Frames of every molecule."""

    molecules: list[MoleculeModelOutput]
    num_failed: int = 0


class DeviationResult(SystemResult):
    """One molecule; subclasses declare the score of `avg_deviation`."""

    molecule_name: str
    deviation_trajectory: list[float] | None = None
    """Å, per frame."""
    avg_deviation: float | None = None
    """Mean over the trajectory."""
    std_deviation: float | None = None
    """Å: standard deviation over the trajectory."""
    avg_deviation_interval: Interval | None = None
    """95 % interval of the mean over time: block bootstrap over frames. It does not know of rare events not seen."""


class DeviationsResult(BenchmarkResult, Generic[T]):
    """What both benchmarks of deviations report besides their mean."""

    molecules: list[T]
    intervals: dict[str, Interval] = {}
    """95 % intervals of the aggregates by field: bootstrap over molecules."""


class MoleculeDeviations(TrajectoryBenchmark, Generic[M], abstract=True):
    """Dynamics of small molecules in vacuum, and one deviation per frame, averaged."""

    protocols = {
        RunMode.DEV: Trajectories(MolecularDynamics(10, 1, 10), max_systems=2),
        # The published one is as long in `fast` as in `standard`: 1 ns per molecule.
        RunMode.FAST: Trajectories(MolecularDynamics(20_000, 100, 1000)),
        RunMode.STANDARD: Trajectories(MolecularDynamics(1_000_000, 1000, 1000)),
    }
    dataset: ClassVar[str]
    molecules_schema: ClassVar[TypeAdapter]
    molecule_result_class: ClassVar[type[DeviationResult]]
    aggregate: ClassVar[str]
    """Field of the result with the mean over molecules."""

    @classmethod
    def deviations(cls, positions: np.ndarray, molecule: M) -> np.ndarray:
        """Å, [frames], of positions [frames, atoms, 3]."""
        raise NotImplementedError

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> dict[str, M]:
        """The molecules that the protocol asks for, by name."""
        return first_systems(read_json(data_dir, cls.dataset, cls.molecules_schema), protocol)

    @classmethod
    def systems(cls, reference: Mapping[str, M]) -> dict[str, Atoms]:
        """The molecules as structures."""
        return {name: _atoms_of(molecule) for name, molecule in reference.items()}

    def collect(
        self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]
    ) -> DeviationModelOutput:
        """Frames by molecule, also of those that ended early."""
        failures = failures_of(outcomes)
        molecules = [
            MoleculeModelOutput(molecule_name=name, simulation_state=state, failed=name in failures)
            for name, state in states_of(outcomes, systems).items()
        ]
        output_class: Any = self.model_output_class
        return output_class(molecules=molecules, num_failed=len(failures), failures=failures)

    @classmethod
    def judge(cls, output: DeviationModelOutput, reference: Mapping[str, M], protocol: Trajectories) -> Any:
        """Mean deviation of every molecule that stayed whole, their mean, and the score."""
        entries = [cls._judge_molecule(m, reference[m.molecule_name], protocol, output) for m in output.molecules]
        mean = mean_of(entry.avg_deviation for entry in entries)
        result_class: Any = cls.result_class
        return result_class(
            molecules=entries,
            intervals={cls.aggregate: mean.interval} if mean and mean.interval else {},
            failures={entry.molecule_name: entry.failure for entry in entries if entry.failure},
            **{cls.aggregate: mean.value if mean else None},
            **BenchmarkResult.fields_of(score_systems(entries)),
        )

    @classmethod
    def _judge_molecule(
        cls, answer: MoleculeModelOutput, molecule: M, protocol: Trajectories, output: ModelOutput
    ) -> DeviationResult:
        name, state = answer.molecule_name, answer.simulation_state
        recorded = unanswered(name, output.failures) if answer.failed else output.failures.get(name)
        failure = why_unstable(state, _atoms_of(molecule), protocol.md, recorded)
        if failure or state is None:
            return cls.molecule_result_class(molecule_name=name, failed=True, failure=failure)
        series = cls.deviations(np.asarray(state.positions, np.float64), molecule)
        return cls.molecule_result_class(
            molecule_name=name,
            deviation_trajectory=series.tolist(),
            avg_deviation=float(np.mean(series)),
            std_deviation=float(np.std(series)),
            avg_deviation_interval=interval_of(block_bootstrap(series, lambda sample: float(np.mean(sample)))),
        )


def _atoms_of(molecule: Molecule) -> Atoms:
    from ase import Atoms

    return system(Atoms(molecule.atom_symbols, positions=molecule.coordinates), molecule.charge)
