# SPDX-License-Identifier: Apache-2.0
"""Molecules of QM9, read from the wheel of the PyPI package qm9pack; it is not installed, and none of its code is used.

pip download --no-deps qm9pack==1.0.3
"""

import ast
import csv
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rdkit import Chem, RDLogger
from rdkit.Chem import rdDetermineBonds

WHEEL_SHA256 = "1d88c2988007c6778e717ee3224cf511bd60e10732ebe3b7ed500ea5af05c9f0"
TABLES = tuple(f"qm9pack/data/qm9_part{part}.csv" for part in (1, 2, 3))
DECIMALS = 5
"""Of coordinates in Å."""

SOURCE = "Coordinates of QM9 (CC0), facts taken from the tables in the PyPI package qm9pack 1.0.3 (MIT), none of its code."
LEVEL = "B3LYP/6-31G(2df,p) minima of QM9 (Gaussian 09)"
DOI = {
    "10.1038/sdata.2014.22": "QM9",
    "10.6084/m9.figshare.978904": "QM9, the files",
    "10.1021/ci300415d": "GDB-17, whose molecules they are",
}


class Molecule(NamedTuple):
    """One line of the tables."""

    index: int
    """Number in QM9, from 1."""
    smiles: str
    """As the table has it, hydrogens implied; `is_itself` compares it with the coordinates."""
    symbols: list[str]
    coordinates: list[list[float]]

    def entry(self) -> dict:
        """The fields that the archive's schemas share."""
        return {
            "atom_symbols": self.symbols,
            "coordinates": self.coordinates,
            "smiles": Chem.MolToSmiles(with_bonds(self)),
            "charge": 0,
        }


def molecules(wheel: Path) -> Iterator[Molecule]:
    """All molecules in QM9's order, of a wheel that is the one known here."""
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEEL_SHA256:
        sys.exit(f"{wheel} is not the wheel of qm9pack 1.0.3 that this script was written for")
    with zipfile.ZipFile(wheel) as archive:
        for table in TABLES:
            with archive.open(table) as stream:
                yield from map(_molecule, csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")))


def _molecule(row: dict[str, str]) -> Molecule:
    coordinates = [[round(x, DECIMALS) for x in atom] for atom in ast.literal_eval(row["XYZ_Ang"])]
    return Molecule(int(row["Index"]), row["SMILES"], ast.literal_eval(row["Elements"]), coordinates)


def pick(wheel: Path, *, indices: set[int]) -> dict[int, Molecule]:
    """Some molecules by their number."""
    found = {}
    for molecule in molecules(wheel):
        if molecule.index in indices:
            found[molecule.index] = molecule
        if len(found) == len(indices):
            break
    return found


def with_bonds(molecule: Molecule, *, charge: int = 0) -> Chem.Mol:
    """The molecule with the bonds that its coordinates show, atoms in the same order.

    Raises:
        ValueError: no Lewis structure of this charge fits the coordinates.
    """
    lines = [f"{s} {x} {y} {z}" for s, (x, y, z) in zip(molecule.symbols, molecule.coordinates, strict=True)]
    mol = Chem.MolFromXYZBlock("\n".join([str(len(lines)), "", *lines]))
    rdDetermineBonds.DetermineBonds(mol, charge=charge, allowChargedFragments=True)
    return mol


def is_itself(molecule: Molecule) -> bool:
    """Whether the coordinates show the molecule of the SMILES, apart from stereochemistry."""
    RDLogger.DisableLog("rdApp.*")
    try:
        found = Chem.RemoveHs(with_bonds(molecule))
    except (ValueError, RuntimeError):
        return False
    return flat(found) == flat(Chem.MolFromSmiles(molecule.smiles))


def flat(mol: Chem.Mol) -> str:
    """Canonical SMILES without stereochemistry."""
    return Chem.MolToSmiles(mol, isomericSmiles=False)
