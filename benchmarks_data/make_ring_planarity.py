# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "rdkit"]
# ///
"""Make the embedded planar rings: six aromatic molecules of QM9.

pip download --no-deps qm9pack==1.0.3
python benchmarks_data/make_ring_planarity.py qm9pack-1.0.3-py3-none-any.whl
"""

import sys
from itertools import chain
from pathlib import Path

import manifests
import numpy as np
import qm9
from rdkit import Chem

NAME = "ring_planarity"
DATA_FILE = "ring_planarity_data.json"

# The two of the `dev` mode come first. The numbers are QM9's.
RINGS = {
    "benzene": (214, "c1ccccc1"),
    "furan": (52, "c1ccoc1"),
    "pyridine": (215, "c1ccncc1"),
    "pyrrole": (50, "c1cc[nH]c1"),
    "imidazole": (51, "c1c[nH]cn1"),
    "toluene": (930, "Cc1ccccc1"),
}

FLAT = 0.01
"""In Å: the reference rings are flatter than this."""

DESCRIPTION = """\
{count} aromatic molecules of QM9 of {smallest} to {largest} atoms: {names}.
The numbers are QM9's; the coordinates are its minima, rounded to 1e-5 Å;
the bonds that they show were checked against QM9's SMILES. `pattern_atoms` are the atoms of the ring; in the written coordinates
their RMS distance from the best plane is at most {worst:.5f} Å.
Limits: a ring at 300 K is not flat, so that even an exact model does not score a deviation of zero; all rings are
unfused, and five of the six have no substituent. These are not the molecules of the hub's archive (two have the same
names), whose file name and schema they share: scores are not comparable."""


def ring_atoms(molecule: qm9.Molecule) -> list[int]:
    """The atoms of the only ring, in order around it."""
    (ring,) = Chem.GetSymmSSSR(qm9.with_bonds(molecule))
    return list(ring)


def off_plane(entry: dict) -> float:
    """RMS distance of the ring atoms from their best plane in Å."""
    points = np.array(entry["coordinates"])[entry["pattern_atoms"]]
    smallest = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[-1]
    return float(smallest / np.sqrt(len(points)))


def entry(molecule: qm9.Molecule, *, smiles: str) -> dict:
    """One molecule in the archive's schema."""
    right = qm9.flat(Chem.MolFromSmiles(molecule.smiles)) == qm9.flat(Chem.MolFromSmiles(smiles))
    if not right or not qm9.is_itself(molecule):
        sys.exit(f"number {molecule.index} of QM9 is {molecule.smiles}, not {smiles}")
    shared = molecule.entry()
    return {
        "atom_symbols": shared["atom_symbols"],
        "coordinates": shared["coordinates"],
        "smiles": shared["smiles"],
        "pattern_atoms": ring_atoms(molecule),
        "charge": shared["charge"],
    }


def main(wheel: Path) -> None:
    """Write the data file and its manifest."""
    found = qm9.pick(wheel, indices={index for index, _ in RINGS.values()})
    entries = {name: entry(found[index], smiles=smiles) for name, (index, smiles) in RINGS.items()}
    worst = max(map(off_plane, entries.values()))
    if worst > FLAT:
        sys.exit(f"a ring is {worst} Å off its plane")
    symbols = [e["atom_symbols"] for e in entries.values()]
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files={DATA_FILE: manifests.entries_text(entries).encode()},
        title="Six aromatic rings at their minima",
        description=DESCRIPTION.format(
            count=len(entries),
            smallest=min(map(len, symbols)),
            largest=max(map(len, symbols)),
            names=", ".join(f"{name} ({index})" for name, (index, _) in RINGS.items()),
            worst=worst,
        ),
        licence="CC0-1.0",
        source=qm9.SOURCE,
        doi=qm9.DOI,
        level=qm9.LEVEL,
        elements=chain.from_iterable(symbols),
        units={"coordinates": "angstrom"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
