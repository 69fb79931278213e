# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "rdkit"]
# ///
"""Make the embedded bond lengths: eight molecules of QM9, one for each kind of bond.

pip download --no-deps qm9pack==1.0.3
python benchmarks_data/make_bond_length_distribution.py qm9pack-1.0.3-py3-none-any.whl
"""

import sys
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import manifests
import numpy as np
import qm9
from rdkit import Chem

NAME = "bond_length_distribution"
DATA_FILE = "bond_length_distribution.json"


class Pattern(NamedTuple):
    """A kind of bond and the molecule that shows it."""

    index: int
    """Number in QM9."""
    what: str
    smiles: str
    """As QM9 has it: says that the number is the right one."""
    bond: str
    """The two atoms as SMARTS; the first match counts."""


PATTERNS = {
    "carbon-carbon (single)": Pattern(13, "propane", "CCC", "[CH3][CH2]"),
    "carbon-carbon (double)": Pattern(156, "cyclopentene", "C1CC=CC1", "C=C"),
    "carbon-carbon (triple)": Pattern(9, "propyne", "CC#C", "C#C"),
    "carbon-nitrogen (single)": Pattern(32, "aminoacetonitrile", "NCC#N", "[CX4][NH2]"),
    "carbon-nitrogen (triple)": Pattern(10, "acetonitrile", "CC#N", "C#N"),
    "carbon-oxygen (single)": Pattern(15, "dimethyl ether", "COC", "CO"),
    "carbon-oxygen (double)": Pattern(18, "acetone", "CC(C)=O", "C=O"),
    "nitrogen-oxygen (single)": Pattern(49, "acetone oxime", "CC(C)=NO", "N[OH]"),
}

DESCRIPTION = """\
{count} neutral molecules of QM9 of {smallest} to {largest} atoms, one for each kind of bond: {names}.
The numbers are QM9's; the coordinates are its minima, rounded to 1e-5 Å; the bonds that they show were checked against QM9's SMILES. `reference_bond_distance` is
the distance of the two pattern atoms in exactly the written coordinates.
Limits: the reference is the length at the minimum, while the score takes the mean over a trajectory at 300 K; vibration alone makes a
mean longer, by some thousandths of an Å for these bonds, so that even an exact model does not score a deviation of zero; one molecule
stands for a kind of bond; QM9 lacks the smallest alkenes and amines, hence cyclopentene and aminoacetonitrile. No fluorine. These are
not the molecules of the hub's archive, whose file name and schema they share: scores are not comparable."""


def entry(pattern: Pattern, *, molecule: qm9.Molecule) -> dict:
    """One molecule in the archive's schema."""
    if molecule.smiles != pattern.smiles or not qm9.is_itself(molecule):
        sys.exit(f"number {pattern.index} of QM9 is {molecule.smiles}, not {pattern.smiles}")
    shared = molecule.entry()
    matches = qm9.with_bonds(molecule).GetSubstructMatches(Chem.MolFromSmarts(pattern.bond))
    first, second = np.array(molecule.coordinates)[list(matches[0])]
    return {
        "atom_symbols": shared["atom_symbols"],
        "coordinates": shared["coordinates"],
        "pattern_atom_indices": list(matches[0]),
        "reference_bond_distance": round(float(np.linalg.norm(first - second)), 6),
        "charge": shared["charge"],
        "smiles": shared["smiles"],
    }


def main(wheel: Path) -> None:
    """Write the data file and its manifest."""
    found = qm9.pick(wheel, indices={pattern.index for pattern in PATTERNS.values()})
    entries = {name: entry(pattern, molecule=found[pattern.index]) for name, pattern in PATTERNS.items()}
    symbols = [e["atom_symbols"] for e in entries.values()]
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files={DATA_FILE: manifests.entries_text(entries).encode()},
        title="Bonds in eight small molecules at their minima",
        description=DESCRIPTION.format(
            count=len(entries),
            smallest=min(map(len, symbols)),
            largest=max(map(len, symbols)),
            names=", ".join(f"{p.what} ({p.index})" for p in PATTERNS.values()),
        ),
        licence="CC0-1.0",
        source=qm9.SOURCE,
        doi=qm9.DOI,
        level=qm9.LEVEL,
        elements=chain.from_iterable(symbols),
        units={"coordinates": "angstrom", "reference_bond_distance": "angstrom"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
