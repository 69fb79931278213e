# SPDX-License-Identifier: Apache-2.0
"""Solvated proteins: relaxed, then moved at 300 K. Two benchmarks look at the same trajectories.

As published, `standard` runs 250 000 steps after at most 100 of FIRE, and scores the frames of every 10 000th step.
Here frames are kept ten times as often: the score looks at every tenth of them, which are those of the published
protocol, and the intervals over time at all. `fast` is a shortened protocol for laptops, 2 000 steps of the first two
proteins; the reference runs 250 000.

A trajectory counts when it is complete, finite, near its temperature, and the protein is in one piece at the end: no
bond between heavy atoms is longer than 1.5 times its starting length, and every hydrogen is bonded to some heavy atom.
That need not be the one it started on: protons of charged groups may pass to water or to each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlipaudit.analysis.molecules import bond_lengths, distances, find_bonds, isolated_atoms
from mlipaudit.analysis.topology import Residue, Structure, make_whole, read_pdb
from mlipaudit.benchmark import ModelOutput
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import (
    BROKEN,
    NUM_NAMED,
    SimulationState,
    TrajectoryBenchmark,
    box_of,
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
from mlipaudit.protocol import Minimisation, MolecularDynamics, Optimizer, Trajectories
from mlipaudit.run_mode import RunMode

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.checkpoints import Checkpoints
    from mlipaudit.backends.contract import Backend, Relaxation, Trajectory


class Setting(NamedTuple):
    """Conditions of a protein of the set."""

    charge: int
    box: tuple[float, float, float]
    """Å"""


PROTEINS = {
    "chignolin_1uao_xray": Setting(-2, (23.98, 22.45, 20.68)),
    "trp_cage_2jof_xray": Setting(0, (29.33, 29.74, 23.59)),
    "villin_capped_solvated": Setting(2, (34.199, 34.199, 34.199)),
}
"""Those of mlipaudit 0.1.8. An edition may have a part of them."""
ENDINGS = (".xyz", ".pdb", "_ref.pdb")
"""Of the files of each: starting geometry, names of its atoms, and the folded protein without solvent."""


RELAXATION = Minimisation(max_steps=100, optimizer=Optimizer.FIRE)


@dataclass(frozen=True)
class ProteinDynamics(Trajectories):
    """Relaxation, dynamics, and which of the frames score."""

    minimisation: Minimisation = RELAXATION
    score_every: int = 1
    """One in so many frames counts for the score; all of them for its interval over time."""

    def scored(self, frames: Any) -> Any:
        """The frames that count for the score, of all without the starting one."""
        return frames[self.score_every - 1 :: self.score_every]


@dataclass(frozen=True)
class Protein:
    """A protein in its water."""

    atoms: Atoms
    """All atoms, as they start."""
    solute: np.ndarray
    """Indices of the atoms that are not water."""
    residues: tuple[Residue, ...]
    """Of the protein; their atoms are counted within `solute`, as everywhere below."""
    folded: np.ndarray
    """Å, [solute, 3]: the reference structure."""

    @property
    def box(self) -> np.ndarray | None:
        """Å: lengths of the cell."""
        return box_of(self.atoms)

    @cached_property
    def bonds(self) -> np.ndarray:
        """Of the starting geometry, [bonds, 2]."""
        start = self.atoms.positions[self.solute]
        return find_bonds(self.atoms.numbers[self.solute], start, self.box)

    @cached_property
    def labels(self) -> list[str]:
        """Names of the atoms for messages: ASP3:CG."""
        names = {i: f"{r.name}{r.number}:{name}" for r in self.residues for name, i in r.atoms.items()}
        return [names[i] for i in range(len(self.solute))]

    @cached_property
    def alpha_carbons(self) -> list[int]:
        """Cα of every residue that has one."""
        return [r.atoms["CA"] for r in self.residues if "CA" in r.atoms and "C" in r.atoms]

    def whole(self, positions: np.ndarray) -> np.ndarray:
        """The protein alone and in one piece, [frames, solute, 3], from positions of everything."""
        return make_whole(np.asarray(positions[:, self.solute], np.float64), self.bonds, self.box)


class ProteinsModelOutput(ModelOutput):
    """Frames of every protein and its water; None where the dynamics never began."""

    structure_names: list[str]
    simulation_states: list[SimulationState | None]


class Answer(NamedTuple):
    """What became of one protein: frames that can be judged, or why there are none."""

    name: str
    protein: Protein
    positions: np.ndarray
    """Å, [frames, solute, 3]: the protein in one piece; all frames without the starting one."""
    failure: Failure | None = None
    moved_protons: tuple[str, ...] = ()
    """Hydrogens that ended on another heavy atom than they started on."""


class ProteinBenchmark(TrajectoryBenchmark, abstract=True):
    """Simulates the proteins of one data set, the same way for every benchmark that looks at them."""

    category = "Biomolecules"
    data_name = "folding_stability"
    model_output_class = ProteinsModelOutput
    required_elements = {"H", "N", "O", "S", "C"}
    reusable_output_id = ("sampling", "folding_stability")
    protocols = {
        RunMode.DEV: ProteinDynamics(
            MolecularDynamics(5, 1, 5), max_systems=1, minimisation=replace(RELAXATION, max_steps=10)
        ),
        RunMode.FAST: ProteinDynamics(MolecularDynamics(2_000, 20, 200), max_systems=2, score_every=10),
        RunMode.STANDARD: ProteinDynamics(MolecularDynamics(250_000, 1_000, 1_000), score_every=10),
    }

    @classmethod
    def proteins(cls, reference: Any) -> Mapping[str, Protein]:
        """Name -> protein, from what `load` returned."""
        return reference

    @classmethod
    def load(cls, data_dir: Path, protocol: ProteinDynamics) -> Any:
        """The first proteins whose files are there."""
        there = {n: s for n, s in PROTEINS.items() if all((data_dir / f"{n}{end}").is_file() for end in ENDINGS)}
        return {name: read_protein(data_dir, name, s) for name, s in first_systems(there, protocol).items()}

    @classmethod
    def systems(cls, reference: Any) -> dict[str, Atoms]:
        """The proteins in their water."""
        return {name: protein.atoms for name, protein in cls.proteins(reference).items()}

    def prepare(self, backend: Backend, systems: dict[str, Atoms]) -> dict[str, Atoms]:
        """Relaxed geometries; a run that is continued starts from those it had, which its checkpoints belong to."""
        minimisation = self.protocol.minimisation
        kept = _Relaxed.of(self.checkpoints, systems, minimisation)
        positions = kept.read() if kept else None
        if positions is None:
            ends = backend.minimise(list(systems.values()), minimisation, progress=self.progress)
            positions = [_end(atoms, end) for atoms, end in zip(systems.values(), ends, strict=True)]
            if kept:
                kept.write(positions)
        relaxed = {name: atoms.copy() for name, atoms in systems.items()}
        for atoms, end_positions in zip(relaxed.values(), positions, strict=True):
            atoms.positions = end_positions
        return relaxed

    def collect(
        self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]
    ) -> ProteinsModelOutput:
        """Frames by protein, also of those that ended early."""
        states = states_of(outcomes, systems)
        return ProteinsModelOutput(
            structure_names=list(states),
            simulation_states=list(states.values()),
            failures=failures_of(outcomes),
        )


def read_protein(data_dir: Path, name: str, setting: Setting) -> Protein:
    """A protein from its three files.

    Raises:
        DataCorruptError: one cannot be read, or they are not of the same atoms in the same order.
    """
    start, topology, reference = (data_dir / f"{name}{end}" for end in ENDINGS)
    atoms = system(read_structure(start), setting.charge, setting.box)
    wet, folded = _read_pdb(topology), _read_pdb(reference)
    if wet.keys != folded.keys:
        raise DataCorruptError(f"{name}: {topology.name} and {reference.name} are not of the same atoms")
    if not _same_elements(wet, atoms):
        raise DataCorruptError(f"{name}: {topology.name} and {start.name} are not of the same atoms")
    dry = wet.without_solvent()
    positions = folded.without_solvent().positions[None]
    bonds = find_bonds(atoms.numbers[wet.solute], positions[0], np.array(setting.box))
    return Protein(atoms, wet.solute, dry.residues, make_whole(positions, bonds, np.array(setting.box))[0])


def _read_pdb(file: Path) -> Structure:
    try:
        return read_pdb(file.read_text("utf-8"))
    except (ValueError, IndexError) as error:
        raise DataCorruptError(f"{file.parent.name}/{file.name} is not a readable .pdb file: {error}") from error


def _same_elements(structure: Structure, atoms: Atoms) -> bool:
    """Whether the first letters of names and elements agree, which swapped atoms rarely do."""
    if len(structure.positions) != len(atoms):
        return False
    symbols = atoms.get_chemical_symbols()
    named = ((name.lstrip("0123456789"), symbols[i]) for r in structure.residues for name, i in r.atoms.items())
    return all(name[:1].upper() == symbol[0] for name, symbol in named)


# The start of the dynamics


def _end(atoms: Atoms, end: Relaxation | Failure) -> np.ndarray:
    """Where a relaxation ended; where it started if it failed or an atom left all others, as published."""
    if isinstance(end, Failure):
        return atoms.positions
    # Without images: in a box full of water an atom that left is near some image of another.
    left = np.setdiff1d(isolated_atoms(end.positions), isolated_atoms(atoms.positions))
    return atoms.positions if left.size else end.positions


class _Relaxed(NamedTuple):
    """Relaxed geometries beside the checkpoints of the dynamics, which belong to exactly these."""

    file: Path
    owner: str

    @classmethod
    def of(
        cls, checkpoints: Checkpoints | None, systems: Mapping[str, Atoms], protocol: Minimisation
    ) -> _Relaxed | None:
        if checkpoints is None:
            return None
        settings = json.dumps([checkpoints.identity, list(systems), asdict(protocol)])
        digest = hashlib.sha256(settings.encode())
        for atoms in systems.values():
            digest.update(atoms.numbers.tobytes() + atoms.positions.tobytes())
        return cls(checkpoints.folder / "relaxed.npz", digest.hexdigest())

    def read(self) -> list[np.ndarray] | None:
        """The geometries in their order; None where they are not there, or of another task."""
        try:
            with np.load(self.file, allow_pickle=False) as content:
                ours = str(content["owner"]) == self.owner
                return [content[f"positions_{i}"] for i in range(len(content) - 1)] if ours else None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def write(self, positions: list[np.ndarray]) -> None:
        """Keep them, where that is possible: a run goes on without."""
        temporary = self.file.with_suffix(".writing")
        content: dict[str, Any] = {f"positions_{i}": array for i, array in enumerate(positions)}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                np.savez(file, owner=np.array(self.owner), **content)
            os.replace(temporary, self.file)
        except OSError:
            temporary.unlink(missing_ok=True)


# Is it a protein still?


def answers(
    output: ProteinsModelOutput, proteins: Mapping[str, Protein], protocol: ProteinDynamics
) -> Iterator[Answer]:
    """Every protein with its frames, or with the first reason not to judge them."""
    nothing = np.zeros((0, 0, 3))
    for name, state in zip(output.structure_names, output.simulation_states, strict=True):
        protein, recorded = proteins[name], output.failures.get(name)
        if recorded or state is None or not state.num_frames:
            yield Answer(name, protein, nothing, recorded or unanswered(name, output.failures))
            continue
        failure = _not_dynamics(state, protocol.md)
        bonds = ChangedBonds([], []) if failure else _changed_bonds(state, protein)
        failure = failure or _in_pieces(bonds, state.num_frames - 1)
        positions = nothing if failure else protein.whole(np.asarray(state.positions))
        yield Answer(name, protein, positions, failure, tuple(bonds.moved))


def _not_dynamics(state: SimulationState, md: MolecularDynamics) -> Failure | None:
    return not_finite(state) or not_enough(state.num_frames, md.num_frames) or too_hot(state.temperature, md)


class ChangedBonds(NamedTuple):
    """What is no longer bonded as it was, by name."""

    broken: list[str]
    moved: list[str]
    """Hydrogens that another heavy atom holds."""


def _in_pieces(bonds: ChangedBonds, frame: int) -> Failure | None:
    if not bonds.broken:
        return None
    named = ", ".join(bonds.broken[:NUM_NAMED])
    message = f"{len(bonds.broken)} bonds of the protein broken at the end: {named}"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)


def _changed_bonds(state: SimulationState, protein: Protein) -> ChangedBonds:
    """In the last frame."""
    last, start = np.asarray(state.positions)[-1], protein.atoms.positions
    bonds = protein.solute[protein.bonds]
    before, after = (bond_lengths(x[None], bonds, protein.box)[0] for x in (start, last))
    numbers = protein.atoms.numbers
    heavy = np.flatnonzero(numbers != 1)
    changed = ChangedBonds([], [])
    for k in np.flatnonzero(after > BROKEN * before):
        names = [protein.labels[i] for i in protein.bonds[k]]
        hydrogens = np.flatnonzero(numbers[bonds[k]] == 1)
        gaps = distances(last[bonds[k][hydrogens], None], last[heavy], protein.box)
        if hydrogens.size and (gaps.min(axis=1) <= BROKEN * before[k]).all():
            changed.moved.extend(names[i] for i in hydrogens)
        else:
            changed.broken.append(f"{'–'.join(names)} {before[k]:.2f} → {after[k]:.2f} Å")
    return changed


def proton_warnings(judged: list[Answer]) -> list[str]:
    """One line per protein whose protons are not where they started."""
    return [
        f"{answer.name}: {len(answer.moved_protons)} protons moved to another atom: "
        + ", ".join(answer.moved_protons[:NUM_NAMED])
        for answer in judged
        if answer.moved_protons
    ]
