# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "pyscf", "rdkit", "scipy", "tblite"]
# ///
"""Make the embedded structures of `stability`: two small molecules, two peptides in vacuum, one in water.

    python benchmarks_data/make_stability.py SOURCE

SOURCE holds the four files of the embedded `nve_energy_conservation`; the peptides are cut out of their water. The
molecule with sulfur is this script's own.
"""

import sys
from collections import Counter
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import labels
import manifests
import numpy as np
from ase import Atoms
from ase.io import read
from ase.neighborlist import natural_cutoffs, neighbor_list
from rdkit import Chem
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

NAME = "stability"

SULFUR_SMILES = "Cc1cc(NS(=O)(=O)c2ccc(N)cc2)no1"
"""Sulfamethoxazole."""
CONFORMERS = 8
BOXES = {"peptide_solv.xyz": (23.43, 28.96, 20.90), "peptide_solv_ion.xyz": (25.62, 27.89, 37.36)}
"""In Å, as in the benchmark."""
FORMULAS = {"peptide_cys": ("C43H65N11O13S2", 0), "peptide_HCNO": ("C78H124N21O21", 1)}
"""What the peptides must be, and their charge."""
WATER = "H2O"
COPIED = ("small_molecule_HCNO", "peptide_solv")


# --- Molecules in a periodic box ------------------------------------------------------


def boxed(source: Path, *, file: str) -> Atoms:
    """A system with its box."""
    atoms = read(source / file)
    atoms.set_cell(BOXES[file])
    atoms.pbc = True
    return atoms


def bonds(atoms: Atoms) -> csr_matrix:
    """Which atoms are bonded, by minimum-image distances if there is a box."""
    first, second = neighbor_list("ij", atoms, natural_cutoffs(atoms, mult=1.25))
    return csr_matrix((np.ones(len(first)), (first, second)), shape=(len(atoms),) * 2)


def molecules(atoms: Atoms) -> list[np.ndarray]:
    """The atoms of each molecule in the order of the file, molecules by their first atom."""
    count, of = connected_components(bonds(atoms))
    return sorted((np.flatnonzero(of == n) for n in range(count)), key=lambda found: found[0])


def formula(atoms: Atoms) -> str:
    """In Hill's order."""
    return atoms.symbols.formula.format("hill")


def peptide(source: Path, *, file: str, name: str) -> Atoms:
    """The peptide of a box of water, after a look at what it is."""
    system = boxed(source, file=file)
    (found,) = (m for m in molecules(system) if len(m) > 3)
    atoms = Atoms(system.symbols[found], system.positions[found])
    expected, charge = FORMULAS[name]
    electrons = atoms.numbers.sum() - charge
    # The same bonds with and without the box: the peptide is not cut by its sides.
    if formula(atoms) != expected or electrons % 2 or (bonds(atoms) != bonds(system[found])).nnz:
        sys.exit(f"{file}: the peptide is {formula(atoms)} with {electrons} electrons")
    return atoms


# --- The molecule with sulfur ---------------------------------------------------------


def sulfur_molecule() -> Atoms:
    """The lowest GFN2 minimum of some conformers, without imaginary modes."""
    mol = labels.molecule(SULFUR_SMILES)
    starts = labels.embed(mol, count=CONFORMERS)
    found = [atoms for atoms in starts if labels.relax(atoms)]
    lowest = min(found, key=lambda atoms: atoms.get_potential_energy())
    same = labels.found_bonds(lowest) == labels.declared_bonds(mol)
    if not same or labels.leave_saddle(lowest) < labels.LOWEST_WAVENUMBER:
        sys.exit("the molecule with sulfur is not at a minimum of its own")
    return labels.rounded(lowest)


# --- Files ----------------------------------------------------------------------------


def xyz_text(atoms: Atoms, *, comment: str) -> str:
    """An XYZ file."""
    lines = [
        f"{s:<2}{x:15.5f}{y:15.5f}{z:15.5f}" for s, (x, y, z) in zip(atoms.symbols, atoms.positions, strict=True)
    ]
    return "\n".join([str(len(atoms)), comment, *lines]) + "\n"


def pdb_text(atoms: Atoms) -> str:
    """The topology: one residue per molecule, HOH if it is water, UNK if not, atoms in the same order."""
    lines = [
        "CRYST1{:9.3f}{:9.3f}{:9.3f}{:7.2f}{:7.2f}{:7.2f} P 1           1".format(*atoms.cell.cellpar())
    ] * bool(atoms.pbc.any())
    for number, members in enumerate(molecules(atoms), 1):
        residue = "HOH" if formula(atoms[members]) == WATER else "UNK"
        lines += residue_lines(atoms, members=members, residue=residue, number=number)
    return "\n".join([*lines, "END"]) + "\n"


def residue_lines(atoms: Atoms, *, members: np.ndarray, residue: str, number: int) -> list[str]:
    """The lines of one molecule; its atoms are called by element and count, the oxygen of water just O."""
    counts: Counter[str] = Counter()
    lines = []
    for atom in members:
        symbol = atoms.symbols[atom]
        counts[symbol] += 1
        name = symbol if residue == "HOH" and symbol == "O" else f"{symbol}{counts[symbol]}"
        column = name if len(name) > 3 else f" {name}"
        x, y, z = atoms.positions[atom]
        lines.append(
            f"HETATM{atom + 1:5d} {column:<4} {residue} A{number:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {symbol:>2}"
        )
    return lines


def structures(source: Path) -> dict[str, tuple[bytes, Atoms]]:
    """The XYZ file of each structure and its atoms, in the order of the benchmark."""
    small = read(source / "small_molecule_HCNO.xyz")
    sulfur, cys = sulfur_molecule(), peptide(source, file="peptide_solv.xyz", name="peptide_cys")
    hcno = peptide(source, file="peptide_solv_ion.xyz", name="peptide_HCNO")
    smiles = Chem.MolToSmiles(labels.molecule(SULFUR_SMILES))
    return {
        "small_molecule_HCNO": ((source / "small_molecule_HCNO.xyz").read_bytes(), small),
        "small_molecule_S": (xyz_text(sulfur, comment=smiles).encode(), sulfur),
        "peptide_HCNO": (xyz_text(hcno, comment="neurotensin without its water and chloride").encode(), hcno),
        "peptide_cys": (xyz_text(cys, comment="oxytocin without its water").encode(), cys),
        "peptide_solv": ((source / "peptide_solv.xyz").read_bytes(), boxed(source, file="peptide_solv.xyz")),
    }


DESCRIPTION = """\
Five structures, each as an XYZ file and as a PDB file for the topology (same atoms in the same order, one residue per molecule, HOH or UNK,
no CONECT records):
small_molecule_HCNO, 46 atoms, and peptide_solv, {solvated} atoms in a box of 23.43 x 28.96 x 20.90 Å: byte for byte as in nve_energy_conservation;
small_molecule_S: {sulfur} atoms, sulfamethoxazole, a replacement made for this project: the lowest of {conformers} conformers at GFN2-xTB, no imaginary mode;
peptide_cys: {cys} atoms, the oxytocin of peptide_solv without its water, {cys_formula}, charge 0, {cys_electrons} electrons, one disulfide bond of {disulfide:.2f} Å; its end
is an acid where the natural one has an amide, and both ends are charged (NH3+ and COO-);
peptide_HCNO: {hcno} atoms, the neurotensin of peptide_solv_ion without its water and chloride, {hcno_formula} with charge +1 as the one chloride of the
box says, {hcno_electrons} electrons (even, as it must be for a closed shell); glutamate in the first place, where the natural one has pyroglutamate.
The peptides are not cut by the sides of their boxes: their bonds are the same with and without the box, and no atom was moved.
Limits: no halogens, no protein, no peptide with ions, which the hub's archive has; the peptides' geometries are those that they had in water,
to 0.01 Å, and are no minima in vacuum; there, protons may pass from NH3+ to COO- without any fault of a model (the score asks only
whether a hydrogen leaves all heavy atoms). Only the two files copied are the hub's: scores are not comparable."""


def description(found: dict[str, tuple[bytes, Atoms]]) -> str:
    """What the structures are, with the numbers that were found."""
    atoms = {name: atoms for name, (_, atoms) in found.items()}
    sulfurs = [i for i, symbol in enumerate(atoms["peptide_cys"].symbols) if symbol == "S"]
    return DESCRIPTION.format(
        solvated=len(atoms["peptide_solv"]),
        sulfur=len(atoms["small_molecule_S"]),
        conformers=CONFORMERS,
        cys=len(atoms["peptide_cys"]),
        cys_formula=formula(atoms["peptide_cys"]),
        cys_electrons=atoms["peptide_cys"].numbers.sum(),
        disulfide=atoms["peptide_cys"].get_distance(*sulfurs),
        hcno=len(atoms["peptide_HCNO"]),
        hcno_formula=formula(atoms["peptide_HCNO"]),
        hcno_electrons=atoms["peptide_HCNO"].numbers.sum() - 1,
    )


def main(source: Path) -> None:
    """Write the structures and their manifest."""
    found = structures(source)
    files = {}
    for name, (xyz, atoms) in found.items():
        files |= {f"{name}.xyz": xyz, f"{name}.pdb": pdb_text(atoms).encode()}
    programs = ", ".join(f"{name} {version(name)}" for name in ("ase", "rdkit", "tblite"))
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files=files,
        title="Two small molecules and two peptides, one of them in water too",
        description=description(found),
        licence="CC0-1.0 for what was made here and coordinates as facts; the public dataset states its own terms",
        source=f"nve_energy_conservation of the public dataset InstaDeepAI/MLIPAudit-data (Hugging Face); small_molecule_S and the cutting: computed for this project with {programs}.",
        doi={
            "10.2210/pdb7OFG/pdb": "oxytocin",
            "10.2210/pdb2LNF/pdb": "neurotensin",
            "10.1021/acs.jctc.8b01176": "GFN2-xTB",
            "10.1021/acs.jcim.0c00025": "ETKDGv3",
        },
        level="none: structures only; small_molecule_S is a GFN2-xTB minimum",
        elements=chain.from_iterable(atoms.symbols for _, atoms in found.values()),
        units={"coordinates": "angstrom"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
