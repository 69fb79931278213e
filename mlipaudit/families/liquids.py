# SPDX-License-Identifier: Apache-2.0
"""Molecular liquids at constant pressure. Two benchmarks look at the same trajectories: density and structure.

As published, `standard` runs 500 ps at 1 bar and keeps a frame per 0.5 ps. `fast` is a shortened protocol for laptops,
10 ps of the first solvent with a frame per 50 fs, too short for a density to settle in more than a small box; the
reference runs 250 ps. The first fifth of the frames is equilibration, for density and structure alike.

A trajectory counts when it is complete, finite, near its temperature, between half and twice its starting volume, and
its molecules are what they were: broken or joined ones are told, and more than one in twenty at the end are too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from mlipaudit.analysis.blocks import num_equilibration
from mlipaudit.analysis.density import volumes
from mlipaudit.analysis.molecules import bond_lengths, find_bonds, isolated_atoms
from mlipaudit.benchmark import BenchmarkResult, ModelOutput, SystemResult
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import (
    BROKEN,
    NUM_NAMED,
    SimulationState,
    TrajectoryBenchmark,
    atom_name,
    failures_of,
    first_systems,
    not_enough,
    not_finite,
    read_structure,
    states_of,
    system,
    too_hot,
    unanswered,
)
from mlipaudit.protocol import Ensemble, MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import Interval, combine_intervals, score_systems, system_scores

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Trajectory

MOLECULE = "molecule"
"""Array of a structure: to which molecule each atom belongs."""
SMALLEST_VOLUME, LARGEST_VOLUME = 0.5, 2.0
"""Of the start: outside, a liquid has collapsed or evaporated."""
MAX_CHANGED = 0.05
"""Of the molecules may be broken or joined at the end: a proton that hops is no explosion."""


class Liquid(NamedTuple):
    """A pure liquid and what experiment says of it."""

    stem: str
    """Of its files."""
    molar_mass: float
    """g/mol"""
    density: float
    """g/cm³"""
    atom: str
    """Element whose atoms are looked at."""
    peak: float
    """Å: where the first peak of their radial distribution is."""
    window: tuple[float, float]
    """Å: where it is looked for."""


WATER = {"water": Liquid("water_box_n500", 18.01528, 0.997773, "O", 2.80, (-1.0, 20.0))}
SOLVENTS = {
    "CCl4": Liquid("CCl4", 153.823, 1.594, "C", 5.9, (0.0, 20.0)),
    "methanol": Liquid("methanol", 32.042, 0.792, "O", 2.8, (0.0, 20.0)),
    "acetonitrile": Liquid("acetonitrile", 41.053, 0.787, "N", 4.0, (3.5, 4.5)),
}
"""Those of mlipaudit 0.1.8 (arXiv:2511.20487), with its reference values. An edition may have a part of them."""


def constant_pressure(temperature: float, *, max_systems: int | None = None) -> dict[RunMode, Trajectories]:
    """Protocols at a temperature in K; `max_systems` is for `dev` and `fast`."""

    def npt(num_steps: int, snapshot_interval: int, log_interval: int) -> MolecularDynamics:
        return MolecularDynamics(
            num_steps,
            snapshot_interval,
            log_interval,
            temperature_kelvin=temperature,
            ensemble=Ensemble.NPT_LANGEVIN,
        )

    return {
        RunMode.DEV: Trajectories(npt(5, 1, 5), max_systems=max_systems),
        # The published one runs 250 000 steps.
        RunMode.FAST: Trajectories(npt(10_000, 50, 500), max_systems=max_systems),
        RunMode.STANDARD: Trajectories(npt(500_000, 500, 500)),
    }


@dataclass(frozen=True)
class Sample:
    """Frames of a liquid whose dynamics held together."""

    start: Atoms
    positions: np.ndarray
    """Å, [frames, atoms, 3]."""
    boxes: np.ndarray
    """Å: lengths, [frames, 3]."""

    @property
    def equilibrated(self) -> slice:
        """The frames that count."""
        return slice(num_equilibration(len(self.boxes)), None)

    @property
    def num_molecules(self) -> int:
        """In the box."""
        return len(np.unique(self.start.arrays[MOLECULE]))

    @cached_property
    def changed(self) -> np.ndarray:
        """Molecules that are broken or joined in the last frame."""
        return changed_molecules(self.positions[-1], self.boxes[-1], self.start)

    @property
    def changes(self) -> str:
        """How many these are, in words."""
        return f"{len(self.changed)} of {self.num_molecules} molecules broken or joined"


class LiquidResult(SystemResult):
    """One liquid; subclasses add what is measured."""

    structure_name: str
    num_changed_molecules: int | None = None
    """Broken or joined ones in the last frame."""
    num_blocks: int | None = None
    """Independent parts of the run that the errors rest on; None where it is too short to tell."""
    score: float = 0.0
    score_interval: Interval | None = None
    """95 % interval from the fluctuations over time."""
    remarks: list[str] = []
    """What a reader of its numbers should know."""


class LiquidBenchmark(TrajectoryBenchmark, abstract=True):
    """Simulates liquids at constant pressure and measures those that held together."""

    category = "Molecular Liquids"
    liquids: ClassVar[Mapping[str, Liquid]]
    liquid_result_class: ClassVar[type[LiquidResult]]

    @classmethod
    def measure(cls, sample: Sample, liquid: Liquid, reference: Any) -> dict[str, Any] | Failure:
        """Fields of the result of one liquid, or why there are none."""
        raise NotImplementedError

    @classmethod
    def summary(cls, entries: Sequence[Any]) -> dict[str, Any]:
        """Fields of the result of the benchmark, besides those that all have."""
        raise NotImplementedError

    @classmethod
    def states(cls, output: Any, names: Sequence[str]) -> dict[str, SimulationState | None]:
        """Name -> frames, of what the model was asked."""
        raise NotImplementedError

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> Any:
        """The boxes whose files are there, as many as the protocol asks for."""
        there = {name: q for name, q in cls.liquids.items() if (data_dir / f"{q.stem}_eq.pdb").is_file()}
        return {name: read_box(data_dir, q.stem) for name, q in first_systems(there, protocol).items()}

    @classmethod
    def systems(cls, reference: Any) -> dict[str, Atoms]:
        """The boxes themselves."""
        return reference

    @classmethod
    def judge(cls, output: ModelOutput, reference: Any, protocol: Trajectories) -> Any:
        """What each liquid shows, and the score."""
        systems = cls.systems(reference)
        entries = [
            cls._judge_liquid(name, state, systems[name], (output, reference, protocol.md))
            for name, state in cls.states(output, list(systems)).items()
        ]
        for entry, score in zip(entries, system_scores(entries), strict=True):
            entry.score = float(score)
        result_class: Any = cls.result_class
        return result_class(
            structures=entries,
            failures={entry.structure_name: entry.failure for entry in entries if entry.failure},
            warnings=[f"{entry.structure_name}: {remark}" for entry in entries for remark in entry.remarks],
            **cls.summary(entries),
            **_score_fields(entries),
        )

    @classmethod
    def _judge_liquid(
        cls, name: str, state: SimulationState | None, start: Atoms, asked: tuple[Any, Any, MolecularDynamics]
    ) -> LiquidResult:
        output, reference, md = asked
        sample = sample_of(state, start, md, output.failures.get(name))
        if isinstance(sample, Failure):
            return cls.liquid_result_class(structure_name=name, failed=True, failure=sample)
        fields = cls.measure(sample, cls.liquids[name], reference)
        if isinstance(fields, Failure):
            return cls.liquid_result_class(structure_name=name, failed=True, failure=fields)
        entry = cls.liquid_result_class(structure_name=name, num_changed_molecules=len(sample.changed), **fields)
        if entry.num_changed_molecules:
            entry.remarks.append(f"{sample.changes} at the end")
        return entry


class WaterBenchmark(LiquidBenchmark, abstract=True):
    """One box of water."""

    data_name = "water_radial_distribution"
    required_elements = {"H", "O"}
    reusable_output_id = ("water_radial_distribution", "water_density")
    liquids = WATER
    protocols = constant_pressure(295.15)

    def collect(self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]) -> ModelOutput:
        """Frames of the box, also when it ended early."""
        failures = failures_of(outcomes)
        (state,) = list(states_of(outcomes, systems).values()) or [None]
        output_class: Any = self.model_output_class
        return output_class(simulation_state=state, failed=bool(failures) or state is None, failures=failures)

    @classmethod
    def states(cls, output: Any, names: Sequence[str]) -> dict[str, SimulationState | None]:
        """The frames of the one box."""
        return dict.fromkeys(names, output.simulation_state)


class SolventBenchmark(LiquidBenchmark, abstract=True):
    """A box of each solvent."""

    data_name = "solvent_radial_distribution"
    required_elements = {"N", "H", "O", "C", "Cl"}
    reusable_output_id = ("solvent_radial_distribution", "solvent_density")
    liquids = SOLVENTS
    protocols = constant_pressure(293.15, max_systems=1)

    def collect(self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]) -> ModelOutput:
        """Frames by solvent, also of those that ended early."""
        states = states_of(outcomes, systems)
        output_class: Any = self.model_output_class
        return output_class(
            structure_names=list(states),
            simulation_states=list(states.values()),
            failures=failures_of(outcomes),
        )

    @classmethod
    def states(cls, output: Any, names: Sequence[str]) -> dict[str, SimulationState | None]:
        """Frames by solvent."""
        return dict(zip(output.structure_names, output.simulation_states, strict=True))


def _score_fields(entries: Sequence[LiquidResult]) -> dict[str, Any]:
    """Fields of the score; its interval is that of the runs, for the liquids are no sample of others."""
    fields = BenchmarkResult.fields_of(score_systems(entries))
    if fields["failed"]:
        return fields
    intervals = [(0.0, 0.0) if entry.failed else entry.score_interval for entry in entries]
    return fields | {"score_interval": combine_intervals(intervals, [entry.score for entry in entries])}


# Boxes


def read_box(data_dir: Path, stem: str) -> Atoms:
    """An orthorhombic periodic box of whole molecules, with the number of its molecule for each atom.

    Raises:
        DataCorruptError: a file cannot be read, or they do not belong together.
    """
    file, indices = data_dir / f"{stem}_eq.pdb", data_dir / f"{stem}_molecule_indices.npy"
    atoms = read_structure(file, with_cell=True)
    if not (atoms.cell.lengths() > 0).all() or not np.allclose(atoms.cell.angles(), 90.0):
        raise DataCorruptError(f"{data_dir.name}/{file.name} has no rectangular box (CRYST1)")
    try:
        molecule = np.load(indices, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataCorruptError(f"{data_dir.name}/{indices.name} is not a readable array") from error
    if molecule.shape != (len(atoms),) or molecule.dtype.kind not in "iu":
        raise DataCorruptError(
            f"{data_dir.name}/{indices.name} does not number the {len(atoms)} atoms of {file.name}"
        )
    box = atoms.cell.lengths()
    atoms.positions = whole(atoms.positions, molecule, box)
    atoms.set_array(MOLECULE, molecule.astype(np.int64))
    return system(atoms, 0, tuple(box))


def whole(positions: np.ndarray, molecule: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Positions with every atom next to the first one of its molecule."""
    _, first, member = np.unique(molecule, return_index=True, return_inverse=True)
    return positions - box * np.round((positions - positions[first[member]]) / box)


def boxes_of(state: SimulationState) -> np.ndarray:
    """Å: lengths of the box of every frame, [frames, 3]; none where the output does not give one for each.

    Stored are lengths, as here, or matrices of frames, as in 0.1.x.
    """
    cells = np.zeros((0, 3)) if state.cell is None else np.asarray(state.cell, np.float64)
    lengths = np.diagonal(cells, axis1=1, axis2=2) if cells.ndim == 3 else cells
    return lengths if lengths.shape == (state.num_frames, 3) else np.zeros((0, 3))


# Is it a liquid at all?


def sample_of(
    state: SimulationState | None, start: Atoms, md: MolecularDynamics, recorded: Failure | None
) -> Sample | Failure:
    """The frames to measure, or the first reason not to, in an order that leaves no number to chance."""
    if recorded or state is None or not state.num_frames:
        return recorded or unanswered("", {})
    failure = (
        not_finite(state)
        or not_enough(state.num_frames, md.num_frames)
        or bad_boxes(state, start)
        or too_hot(state.temperature, md)
        or without_forces(state)
    )
    if failure:
        return failure
    sample = Sample(start, np.asarray(state.positions), boxes_of(state))
    return reacted(sample) or sample


def bad_boxes(state: SimulationState, start: Atoms) -> Failure | None:
    """At the first frame whose volume no liquid has."""
    boxes = boxes_of(state)
    if not len(boxes):
        message = "the model output does not hold a box for every frame"
        return Failure(kind=FailureKind.INCOMPLETE, message=message, frame=0)
    ratio = volumes(boxes) / start.get_volume()
    fine = (boxes > 0).all(axis=1) & (ratio >= SMALLEST_VOLUME) & (ratio <= LARGEST_VOLUME)
    if fine.all():
        return None
    frame = int(np.argmin(fine))
    kind = FailureKind.EXPLODED if np.isfinite(boxes[frame]).all() else FailureKind.NON_FINITE
    message = f"in frame {frame} the volume is {ratio[frame]:.3g} times that of the start; "
    message += f"limits: {SMALLEST_VOLUME} and {LARGEST_VOLUME}"
    return Failure(kind=kind, message=message, frame=frame)


def without_forces(state: SimulationState) -> Failure | None:
    """Whether the energy says nothing of where the atoms are, where it is stored."""
    energy = np.zeros(0) if state.potential_energy is None else np.asarray(state.potential_energy, np.float64)
    finite = np.isfinite(energy)
    if not finite.all():
        frame = int(np.argmin(finite))
        message = f"the energy is not finite in frame {frame}"
        return Failure(kind=FailureKind.NON_FINITE, message=message, frame=frame)
    if len(energy) < 2 or np.ptp(energy) > 0.0 or not np.ptp(np.asarray(state.positions), axis=0).any():
        return None
    message = "the energy never changes while the atoms move: they fly apart without forces"
    return Failure(kind=FailureKind.EXPLODED, message=message)


def reacted(sample: Sample) -> Failure | None:
    """Whether too many molecules of the last frame are not those of the start, or an atom is far from all others."""
    frame = len(sample.boxes) - 1
    if len(sample.changed) > MAX_CHANGED * sample.num_molecules:
        message = f"{sample.changes} at the end; limit {MAX_CHANGED:.0%}"
        return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)
    alone = isolated_atoms(sample.positions[-1], sample.boxes[-1])
    if not alone.size:
        return None
    names = ", ".join(atom_name(sample.start, atom) for atom in alone[:NUM_NAMED])
    message = f"{alone.size} atoms far from all others at the end: {names}"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)


def changed_molecules(positions: np.ndarray, box: np.ndarray, start: Atoms) -> np.ndarray:
    """Molecules with a bond that is broken, or that there was not."""
    molecule = start.arrays[MOLECULE]
    old_box = start.cell.lengths()
    bonds = find_bonds(start.numbers, start.positions, old_box)
    before = bond_lengths(start.positions[None], bonds, old_box)[0]
    after = bond_lengths(positions[None], bonds, box)[0]
    between = find_bonds(start.numbers, positions, box)
    between = between[molecule[between[:, 0]] != molecule[between[:, 1]]]
    return np.unique(np.concatenate([molecule[bonds[after > BROKEN * before]], molecule[between]]))
