# SPDX-License-Identifier: Apache-2.0
"""Dihedral angles of amino acids: phi and psi of the backbone, chi of the side chain.

Signs and names after IUPAC-IUB (10.1021/bi00820a001): looking along the middle bond, clockwise is positive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlipaudit.analysis.topology import Residue

Atoms4 = tuple[int, int, int, int]

SIDE_CHAINS = {
    "GLY": "",
    "ALA": "",
    "SER": "OG",
    "THR": "OG1",
    "CYS": "SG",
    "PRO": "CG",
    "VAL": "CG1",
    "ASN": "CG OD1",
    "ASP": "CG OD1",
    "HIS": "CG ND1",
    "ILE": "CG1 CD1",
    "LEU": "CG CD1",
    "PHE": "CG CD1",
    "TYR": "CG CD1",
    "TRP": "CG CD1",
    "GLU": "CG CD OE1",
    "GLN": "CG CD OE1",
    "MET": "CG SD CE",
    "ARG": "CG CD NE CZ",
    "LYS": "CG CD CE NZ",
}
"""Atoms that follow N, CA and CB: each of them ends one chi angle. Of proline's ring only chi1 is looked at."""
PARENTS = {
    **dict.fromkeys(("HID", "HIE", "HIP", "HSD", "HSE", "HSP", "HIN"), "HIS"),
    **dict.fromkeys(("CYX", "CYM", "CYZ"), "CYS"),
    **dict.fromkeys(("ASH", "ASPP"), "ASP"),
    **dict.fromkeys(("GLH", "GLUP"), "GLU"),
    **dict.fromkeys(("LYN", "LSN"), "LYS"),
    "ARN": "ARG",
    "TYM": "TYR",
}
"""Protonation states by the names that force fields give them."""


def amino_acid(name: str) -> str | None:
    """The amino acid that a residue name stands for, of the twenty; None for any other.

    Amber puts an N or C before the names of terminal residues.
    """
    for known in (name, name[1:] if len(name) == 4 and name[0] in "NC" else name):
        parent = PARENTS.get(known, known)
        if parent in SIDE_CHAINS:
            return parent
    return None


def dihedral_angles(positions: np.ndarray, quadruples: Sequence[Atoms4] | np.ndarray) -> np.ndarray:
    """Degrees in (-180, 180], [frames, n], of positions [frames, atoms, 3] and n times four atoms."""
    atoms = np.asarray(quadruples, int).reshape(-1, 4)
    a, b, c, d = (np.asarray(positions, np.float64)[:, atoms[:, k]] for k in range(4))
    before, middle, after = b - a, c - b, d - c
    left, right = np.cross(before, middle), np.cross(middle, after)
    sine = np.linalg.norm(middle, axis=-1) * np.sum(before * right, axis=-1)
    return np.degrees(np.arctan2(sine, np.sum(left * right, axis=-1)))


def backbone_atoms(residues: Sequence[Residue]) -> dict[int, dict[str, Atoms4]]:
    """Place of a residue -> atoms of its phi and psi; only residues that have both, so not the ends of a chain."""
    found = {}
    for place in range(1, len(residues) - 1):
        before, here, after = residues[place - 1 : place + 2]
        if not before.chain == here.chain == after.chain:
            continue
        n, ca, c = (here.atoms.get(name) for name in ("N", "CA", "C"))
        phi, psi = (before.atoms.get("C"), n, ca, c), (n, ca, c, after.atoms.get("N"))
        angles = {name: four for name, atoms in (("phi", phi), ("psi", psi)) if (four := _complete(atoms))}
        if len(angles) == 2:
            found[place] = angles
    return found


def side_chain_atoms(residue: Residue) -> dict[str, Atoms4]:
    """Atoms of chi1, chi2, … of a residue, as far as it has them; empty where it is none of the twenty."""
    names = SIDE_CHAINS.get(amino_acid(residue.name) or "", "").split()
    path = [residue.atoms.get(name) for name in ("N", "CA", "CB", *names)]
    if names == ["CG1", "CD1"]:
        path[-1] = residue.find("CD1", "CD")
    fours = {f"chi{k + 1}": _complete(path[k : k + 4]) for k in range(len(names))}
    return {name: four for name, four in fours.items() if four}


def _complete(atoms: Sequence[int | None]) -> Atoms4 | None:
    one, two, three, four = atoms
    if one is None or two is None or three is None or four is None:
        return None
    return one, two, three, four
