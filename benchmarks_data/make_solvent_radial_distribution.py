# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "openmm"]
# ///
"""Make the embedded boxes of methanol and acetonitrile, smaller than the public ones.

python benchmarks_data/make_solvent_radial_distribution.py
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, combinations

import liquids
import manifests
import numpy as np
import openmm
from ase import Atoms

NAME = "solvent_radial_distribution"
TEMPERATURE = 293.15
CELLS = 2
FACES = [(0.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.5, 0.5, 0.0)]
"""A face-centred lattice to begin with."""
COUNT = CELLS**3 * len(FACES)
KCAL = 4.184
"""In kJ."""


@dataclass(frozen=True)
class Solvent:
    """A molecule with its OPLS-AA parameters, in the units in which they are published."""

    molecule: liquids.Molecule
    density: float
    """In g/cm³, the reference of `solvent_density`."""
    mass: float
    charges: tuple[float, ...]
    sigmas: tuple[float, ...]
    """In Å."""
    epsilons: tuple[float, ...]
    """In kcal/mol."""
    stretches: dict[tuple[str, str], tuple[float, float]]
    """Å and kcal/mol/Å² (without the half), by the elements or names of the two atoms."""
    bends: dict[tuple[str, str, str], tuple[float, float]]
    """Degrees and kcal/mol/rad²."""
    twist: float
    """Three-fold barrier of the hydrogens around the second bond in kcal/mol."""
    marker: int
    """The atom whose pair distribution function the benchmark takes."""
    between: tuple[float, float]
    """Å; where its first peak is looked for."""


METHYL = [(-0.3633, 1.0277, 0.0), (-0.3633, -0.5138, 0.8900), (-0.3633, -0.5138, -0.8900)]
"""Hydrogens of a methyl group at the origin whose fourth bond is along x, 1.09 Å."""

METHANOL = Solvent(
    molecule=liquids.Molecule(
        residue="LIG",
        names=("C1", "O1", "H1", "H2", "H3", "H4"),
        numbers=(6, 8, 1, 1, 1, 1),
        positions=np.array([(0.0, 0.0, 0.0), (1.41, 0.0, 0.0), *METHYL, (1.7099, -0.8962, 0.0)]),
        bonds=((0, 1), (0, 2), (0, 3), (0, 4), (1, 5)),
    ),
    density=0.792,
    mass=32.042,
    charges=(0.145, -0.683, 0.04, 0.04, 0.04, 0.418),
    sigmas=(3.5, 3.12, 2.5, 2.5, 2.5, 0.0),
    epsilons=(0.066, 0.17, 0.03, 0.03, 0.03, 0.0),
    stretches={("C1", "O1"): (1.41, 320), ("C1", "H"): (1.09, 340), ("H4", "O1"): (0.945, 553)},
    bends={("H", "C1", "H"): (107.8, 33), ("H", "C1", "O1"): (109.5, 35), ("C1", "O1", "H4"): (108.5, 55)},
    twist=0.45,
    marker=1,
    between=(2.0, 4.0),
)
ACETONITRILE = Solvent(
    molecule=liquids.Molecule(
        residue="LIG",
        names=("C1", "C2", "N1", "H1", "H2", "H3"),
        numbers=(6, 6, 7, 1, 1, 1),
        positions=np.array([(0.0, 0.0, 0.0), (1.47, 0.0, 0.0), (2.627, 0.0, 0.0), *METHYL]),
        bonds=((0, 1), (1, 2), (0, 3), (0, 4), (0, 5)),
    ),
    density=0.787,
    mass=41.053,
    charges=(-0.08, 0.46, -0.56, 0.06, 0.06, 0.06),
    sigmas=(3.3, 3.3, 3.2, 2.5, 2.5, 2.5),
    epsilons=(0.066, 0.066, 0.17, 0.015, 0.015, 0.015),
    stretches={("C1", "C2"): (1.47, 390), ("C2", "N1"): (1.157, 650), ("C1", "H"): (1.09, 340)},
    bends={("H", "C1", "H"): (107.8, 33), ("C2", "C1", "H"): (108.5, 35), ("C1", "C2", "N1"): (180, 150)},
    twist=0.0,
    marker=2,
    between=(3.5, 4.5),
)
SOLVENTS = {"methanol": METHANOL, "acetonitrile": ACETONITRILE}

DESCRIPTION = """\
Two solvents, {count} molecules each ({atoms} atoms), equilibrated starts at {temperature} K and their experimental densities: methanol in a cubic box of {methanol:.3f} Å,
acetonitrile in one of {acetonitrile:.3f} Å. `<solvent>_molecule_indices.npy` has the molecule of each atom (int64). Atoms of a molecule: C, O, three H of
the methyl group, H of the hydroxyl group; C of the methyl group, C, N, three H. Residues are called LIG.
THE BOXES ARE OURS AND SMALLER: the hub's have 343 and 216 molecules. Half the lengths are {half_methanol:.2f} and {half_acetonitrile:.2f} Å: there is no pair distribution function beyond,
and density fluctuates more. No CCl4, which is the hub's only system in its `fast` mode: few small models know Cl. RESULTS ARE NOT COMPARABLE WITH THE HUB'S.
The boxes were made at constant volume with a flexible model, {time:.0f} ps from a lattice of randomly turned molecules: OPLS-AA charges, radii and
bonded terms, but arithmetic means of the radii (OPLS: geometric), fair for a start and for nothing else. A run too short to
change its volume shows the right density whatever the model. In the second half of those runs the pair distribution functions had their first peaks
at {peaks} (bins of 0.1 Å); the references of the benchmark are 2.8 (methanol, O-O) and 4.0 Å (acetonitrile, N-N). In the
frames that are here the closest atoms of two molecules are {closest} Å apart. Molecules are whole: some atoms lie a little
outside the box."""


# --- The force field ------------------------------------------------------------------


def forces(solvent: Solvent) -> openmm.System:
    """The liquid as OpenMM sees it."""
    system = openmm.System()
    stretches, bends, twists = (
        openmm.HarmonicBondForce(),
        openmm.HarmonicAngleForce(),
        openmm.PeriodicTorsionForce(),
    )
    nonbonded = openmm.NonbondedForce()
    masses = Atoms(solvent.molecule.numbers).get_masses()
    for first in range(0, COUNT * len(masses), len(masses)):
        for mass, charge, sigma, epsilon in zip(
            masses, solvent.charges, solvent.sigmas, solvent.epsilons, strict=True
        ):
            system.addParticle(mass)
            nonbonded.addParticle(charge, sigma / 10, epsilon * KCAL)
        add_bonded(solvent, first=first, stretches=stretches, bends=bends, twists=twists)
    finish(nonbonded, bonds=[stretches.getBondParameters(i)[:2] for i in range(stretches.getNumBonds())])
    for force in (stretches, bends, twists, nonbonded):
        system.addForce(force)
    return system


def finish(nonbonded: openmm.NonbondedForce, *, bonds: list[list[int]]) -> None:
    """Particle mesh Ewald within the half box; atoms three bonds apart count half."""
    nonbonded.setNonbondedMethod(openmm.NonbondedForce.PME)
    nonbonded.setCutoffDistance(0.62)
    nonbonded.createExceptionsFromBonds(bonds, 0.5, 0.5)


def add_bonded(
    solvent: Solvent,
    *,
    first: int,
    stretches: openmm.HarmonicBondForce,
    bends: openmm.HarmonicAngleForce,
    twists: openmm.PeriodicTorsionForce,
) -> None:
    """The bonded terms of the molecule that begins with the atom `first`."""
    for i, j in solvent.molecule.bonds:
        length, k = parameters(solvent, atoms=(i, j), table=solvent.stretches)
        stretches.addBond(first + i, first + j, length / 10, 2 * k * KCAL * 100)
    for i, j, k in angles(solvent.molecule):
        degrees, strength = parameters(solvent, atoms=(i, j, k), table=solvent.bends)
        bends.addAngle(first + i, first + j, first + k, np.radians(degrees), 2 * strength * KCAL)
    for hydrogen in (2, 3, 4) if solvent.twist else ():
        twists.addTorsion(*(first + atom for atom in (hydrogen, 0, 1, 5)), 3, 0.0, solvent.twist / 2 * KCAL)


def angles(molecule: liquids.Molecule) -> Iterator[tuple[int, int, int]]:
    """Each pair of bonds that share an atom."""
    for one, other in combinations(molecule.bonds, 2):
        for middle in set(one) & set(other):
            (left,), (right,) = set(one) - {middle}, set(other) - {middle}
            yield left, middle, right


def parameters(solvent: Solvent, *, atoms: tuple[int, ...], table: dict) -> tuple[float, float]:
    """The entry of some atoms, in either direction; hydrogens without one of their own are `H`."""
    named = {name for key in table for name in key}
    names = [solvent.molecule.names[atom] for atom in atoms]
    key = tuple(name if name in named else name[0] for name in names)
    return table[key] if key in table else table[key[::-1]]


# --- Boxes ----------------------------------------------------------------------------


def made(solvent: Solvent) -> tuple[Atoms, tuple[float, float]]:
    """An equilibrated box, and the first peak of its pair distribution function."""
    box = liquids.edge(COUNT, density=solvent.density, mass=solvent.mass)
    start = liquids.filled(solvent.molecule, points=liquids.lattice(CELLS, basis=FACES, box=box))
    last, frames = liquids.equilibrated(forces(solvent), start, box=box, temperature=TEMPERATURE)
    atoms = liquids.checked(liquids.boxed(solvent.molecule, last, box=box), molecule=solvent.molecule)
    size = len(solvent.molecule.numbers)
    markers = [frame[solvent.marker :: size] for frame in frames]
    return atoms, liquids.peak(markers, box=box, between=solvent.between)


def description(boxes: dict[str, Atoms], *, peaks: dict[str, tuple[float, float]]) -> str:
    """What the boxes are, with the numbers that were found."""
    lengths = {name: atoms.cell[0, 0] for name, atoms in boxes.items()}
    closest = {
        name: min(liquids.closest(atoms, size=len(atoms) // COUNT).values()) for name, atoms in boxes.items()
    }
    return DESCRIPTION.format(
        count=COUNT,
        atoms=len(boxes["methanol"]),
        temperature=TEMPERATURE,
        **lengths,
        **{f"half_{name}": length / 2 for name, length in lengths.items()},
        time=liquids.TIMESTEPS * liquids.STEP / 1000,
        peaks=" and ".join(f"{at:.2f} Å ({name}, height {high:.2f})" for name, (at, high) in peaks.items()),
        closest=" and ".join(f"{distance:.2f} ({name})" for name, distance in closest.items()),
    )


def main() -> None:
    """Write the boxes, their molecules and the manifest."""
    boxes, peaks, files = {}, {}, {}
    for name, solvent in SOLVENTS.items():
        boxes[name], peaks[name] = made(solvent)
        files[f"{name}_eq.pdb"] = liquids.pdb_text(boxes[name], molecule=solvent.molecule).encode()
        files[f"{name}_molecule_indices.npy"] = liquids.indices(COUNT, size=len(solvent.molecule.numbers))
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files=files,
        title=f"Small boxes of methanol and acetonitrile, {COUNT} molecules each",
        description=description(boxes, peaks=peaks),
        licence="CC0-1.0",
        source=f"Computed for this project with OpenMM {version('openmm')}, after published OPLS-AA parameters.",
        doi={
            "10.1021/ja9621760": "OPLS-AA, methanol",
            "10.1002/jcc.1092": "OPLS-AA, acetonitrile",
        },
        level=f"equilibrated with OPLS-AA parameters at {TEMPERATURE} K and constant volume; no reference values in the files",
        elements=chain.from_iterable(atoms.symbols for atoms in boxes.values()),
        units={"coordinates": "angstrom"},
    )


if __name__ == "__main__":
    main()
