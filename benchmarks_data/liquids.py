# SPDX-License-Identifier: Apache-2.0
"""What the scripts of the two liquids share: a small box is filled, equilibrated with OpenMM, looked at and written."""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openmm
from ase import Atoms
from ase.data import chemical_symbols
from openmm import unit

SEED = 20
STEP = 1.0
"""In fs."""
TIMESTEPS = 100_000
EVERY = 200
"""A frame is looked at once per so many steps, in the second half of the run."""
CLOSEST = {"HH": 1.5, "H": 1.5, "": 2.5}
"""In Å: atoms of two molecules are no closer than this, both hydrogen, one hydrogen, or none."""
AVOGADRO = 0.602214076
"""In 1e24 per mol."""


@dataclass(frozen=True)
class Molecule:
    """One molecule of a liquid: its geometry, and how its residue is written."""

    residue: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    positions: np.ndarray
    """In Å."""
    bonds: tuple[tuple[int, int], ...]
    record: str = "ATOM"
    """Of the PDB file."""


def edge(count: int, *, density: float, mass: float) -> float:
    """Side in Å of the cube that holds so many molecules; density in g/cm³, mass in g/mol."""
    return float(np.cbrt(count * mass / (density * AVOGADRO)))


# --- A start --------------------------------------------------------------------------


def lattice(cells: int, *, basis: Sequence[Sequence[float]], box: float) -> np.ndarray:
    """The points of a cubic lattice that fill the box."""
    corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    return (corners + np.asarray(basis)).reshape(-1, 3) * box / cells


def turned(positions: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """A molecule around the origin, turned at random."""
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation[0] *= np.sign(np.linalg.det(rotation))  # a rotation, no mirror
    return (positions - positions.mean(axis=0)) @ rotation


def filled(molecule: Molecule, *, points: np.ndarray) -> np.ndarray:
    """Molecules on all points, each turned at random."""
    rng = np.random.default_rng(SEED)
    return np.concatenate([point + turned(molecule.positions, rng=rng) for point in points])


# --- Equilibration --------------------------------------------------------------------


def equilibrated(
    system: openmm.System, positions: np.ndarray, *, box: float, temperature: float
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Langevin dynamics at constant volume: the last positions, and frames of the second half, in Å."""
    system.setDefaultPeriodicBoxVectors(*np.eye(3) * box / 10)
    integrator = openmm.LangevinMiddleIntegrator(
        temperature * unit.kelvin, 1 / unit.picosecond, STEP * unit.femtosecond
    )
    integrator.setRandomNumberSeed(SEED)
    platform = openmm.Platform.getPlatformByName("CPU")
    context = openmm.Context(system, integrator, platform, {"Threads": "1", "DeterministicForces": "true"})
    context.setPositions(positions / 10)
    context.computeVirtualSites()
    openmm.LocalEnergyMinimizer.minimize(context)
    context.setVelocitiesToTemperature(temperature * unit.kelvin, SEED)
    integrator.step(TIMESTEPS // 2)
    frames = []
    for _ in range(TIMESTEPS // 2 // EVERY):
        integrator.step(EVERY)
        state = context.getState(getPositions=True)
        frames.append(state.getPositions(asNumpy=True).value_in_unit(unit.angstrom))
    return frames[-1], frames


def boxed(molecule: Molecule, positions: np.ndarray, *, box: float) -> Atoms:
    """The liquid as atoms: molecules whole, their centres in the box, to the thousandth of a PDB file."""
    size = len(molecule.numbers)
    apart = positions.reshape(-1, size, 3)
    apart = apart - box * np.floor(apart.mean(axis=1, keepdims=True) / box)
    numbers = np.tile(molecule.numbers, len(apart))
    return Atoms(numbers, apart.reshape(-1, 3).round(3), cell=[round(box, 3)] * 3, pbc=True)


# --- A look at what came out ----------------------------------------------------------


def closest(atoms: Atoms, *, size: int) -> dict[str, float]:
    """The smallest distances between molecules in Å, by how many of the two atoms are hydrogen."""
    distances = atoms.get_all_distances(mic=True)
    molecule = np.arange(len(atoms)) // size
    hydrogens = (atoms.numbers == 1).astype(int)
    kind = np.add.outer(hydrogens, hydrogens)
    apart = np.not_equal.outer(molecule, molecule)
    return {"H" * n: float(distances[apart & (kind == n)].min()) for n in (0, 1, 2)}


def stretch(atoms: Atoms, *, molecule: Molecule) -> float:
    """The largest deviation of a bond from its length in the model in Å, without any image."""
    size = len(molecule.numbers)
    first, second = np.transpose(molecule.bonds)
    points = atoms.positions.reshape(-1, size, 3)
    lengths = np.linalg.norm(points[:, first] - points[:, second], axis=-1)
    rest = np.linalg.norm(molecule.positions[first] - molecule.positions[second], axis=-1)
    return float(abs(lengths - rest).max())


def checked(atoms: Atoms, *, molecule: Molecule) -> Atoms:
    """The same atoms, or the end: molecules must be whole and apart."""
    found = closest(atoms, size=len(molecule.numbers))
    longest = stretch(atoms, molecule=molecule)
    print(f"{molecule.residue}: closest {found}, largest stretch {longest:.3f} Å")
    if longest > 0.2 or any(found[kind] < limit for kind, limit in CLOSEST.items()):
        sys.exit("molecules overlap or are torn")
    return atoms


def peak(frames: list[np.ndarray], *, box: float, between: tuple[float, float]) -> tuple[float, float]:
    """Position and height of the highest point of a pair distribution, all atoms of the frames, bins of 0.1 Å."""
    edges = np.arange(between[0], between[1] + 0.05, 0.1)
    first, second = np.triu_indices(len(frames[0]), 1)
    counts = np.zeros(len(edges) - 1)
    for frame in frames:
        apart = frame[first] - frame[second]
        counts += np.histogram(np.linalg.norm(apart - box * np.round(apart / box), axis=-1), edges)[0]
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    values = counts / len(frames) / len(first) * box**3 / shells
    return float(edges[values.argmax()] + 0.05), float(values.max())


# --- Files ----------------------------------------------------------------------------


def pdb_text(atoms: Atoms, *, molecule: Molecule) -> str:
    """A PDB file with the box, one residue per molecule, and the bonds unless it is water."""
    size = len(molecule.numbers)
    lines = ["CRYST1{:9.3f}{:9.3f}{:9.3f}{:7.2f}{:7.2f}{:7.2f} P 1           1".format(*atoms.cell.cellpar())]
    for index, (x, y, z) in enumerate(atoms.positions):
        name, symbol = molecule.names[index % size], chemical_symbols[molecule.numbers[index % size]]
        lines.append(
            f"{molecule.record:<6}{index + 1:5d}  {name:<3} {molecule.residue} A{index // size + 1:4d}    "
            f"{x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {symbol:>2}"
        )
    starts = range(1, len(atoms) + 1, size) if molecule.residue != "HOH" else ()
    lines += [conect(atom, start=start, bonds=molecule.bonds) for start in starts for atom in range(size)]
    return "\n".join([*lines, "END"]) + "\n"


def conect(atom: int, *, start: int, bonds: Sequence[tuple[int, int]]) -> str:
    """The line with the neighbours of an atom of the molecule that begins with the atom numbered `start`."""
    others = sorted(second if first == atom else first for first, second in bonds if atom in (first, second))
    return f"CONECT{start + atom:5d}" + "".join(f"{start + other:5d}" for other in others)


def indices(count: int, *, size: int) -> bytes:
    """The file with the number of its molecule for each atom."""
    stream = io.BytesIO()
    np.save(stream, np.repeat(np.arange(count, dtype="<i8"), size))
    return stream.getvalue()
