# SPDX-License-Identifier: Apache-2.0
"""Names of atoms and residues from a PDB file, and molecules made whole across the sides of a box.

Columns after version 3.3 of the format (wwPDB). Of several models the first counts, of alternate locations the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

SOLVENT = frozenset({"HOH", "WAT", "H2O", "SOL", "TIP", "TIP3"})
"""Residue names of water."""


class Residue(NamedTuple):
    """One residue."""

    name: str
    number: str
    """As in the file, with its insertion code."""
    chain: int
    """Chains are counted: a new one begins with another identifier, or after TER."""
    atoms: dict[str, int]
    """Name of an atom -> its index."""

    @property
    def is_solvent(self) -> bool:
        """Whether it is water."""
        return self.name in SOLVENT

    def find(self, *names: str) -> int | None:
        """Index of the first of these atoms that it has."""
        return next((self.atoms[name] for name in names if name in self.atoms), None)


class Structure(NamedTuple):
    """What a PDB file says."""

    residues: tuple[Residue, ...]
    positions: np.ndarray
    """Å, [atoms, 3]"""

    @property
    def solute(self) -> np.ndarray:
        """Indices of the atoms that are not water, ascending."""
        return np.array(sorted(i for r in self.residues if not r.is_solvent for i in r.atoms.values()), int)

    @property
    def keys(self) -> list[tuple[int, str, str]]:
        """Place of the residue in the chain of all, its name and the atom's, for each atom but those of water."""
        dry = [r for r in self.residues if not r.is_solvent]
        return [(place, residue.name, atom) for place, residue in enumerate(dry) for atom in residue.atoms]

    def without_solvent(self) -> Structure:
        """The residues that are not water, their atoms counted anew in the order of the file."""
        solute = self.solute
        renumbered = {int(old): new for new, old in enumerate(solute)}
        dry = tuple(
            residue._replace(atoms={name: renumbered[i] for name, i in residue.atoms.items()})
            for residue in self.residues
            if not residue.is_solvent
        )
        return Structure(dry, self.positions[solute])


class _Line(NamedTuple):
    """An ATOM record."""

    atom: str
    residue: tuple[str, str, str]
    """Chain identifier, number with insertion code, name."""
    position: tuple[float, float, float]


def read_pdb(text: str) -> Structure:
    """Residues and positions of the first model.

    Raises:
        ValueError: there are no atoms, a coordinate is no number, or a residue has two atoms of one name.
    """
    residues: list[Residue] = []
    positions: list[tuple[float, float, float]] = []
    chain, last = 0, None
    for line in _records(text.splitlines()):
        if line is None:
            chain, last = chain + bool(residues and residues[-1].chain == chain), None
            continue
        if line.residue != last:
            chain += bool(last and last[0] != line.residue[0])
            residues.append(Residue(line.residue[2], line.residue[1], chain, {}))
            last = line.residue
        if line.atom in residues[-1].atoms:
            raise ValueError(f"residue {residues[-1].name} {residues[-1].number} has two atoms {line.atom}")
        residues[-1].atoms[line.atom] = len(positions)
        positions.append(line.position)
    if not positions:
        raise ValueError("there are no atoms")
    return Structure(tuple(residues), np.array(positions))


def _records(lines: Iterable[str]) -> Iterator[_Line | None]:
    """Atoms of the first model; None for the end of a chain."""
    alternate: dict[tuple[str, str, str], str] = {}
    for line in lines:
        kind = line[:6].strip()
        if kind == "ENDMDL":
            return
        if kind == "TER":
            yield None
        if kind not in ("ATOM", "HETATM"):
            continue
        residue = line[21], line[22:27].strip(), line[17:21].strip()
        location = line[16].strip()
        if location and alternate.setdefault(residue, location) != location:
            continue
        yield _Line(line[12:16].strip(), residue, (float(line[30:38]), float(line[38:46]), float(line[46:54])))


def make_whole(positions: np.ndarray, bonds: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """Positions [frames, atoms, 3], every molecule moved together across the sides of the box along its bonds.

    The atoms of each molecule follow its first one. Positions that are whole already are not changed by a bit.
    """
    if box is None:
        return positions
    whole = np.array(positions, np.float64)
    for parent, child in _tree(whole.shape[1], bonds):
        whole[:, child] -= box * np.round((whole[:, child] - whole[:, parent]) / box)
    return whole


def _tree(num_atoms: int, bonds: np.ndarray) -> Iterator[tuple[int, int]]:
    """Bonds from an atom that was reached to one that was not, for every molecule."""
    neighbours: list[list[int]] = [[] for _ in range(num_atoms)]
    for one, other in bonds.tolist():
        neighbours[one].append(other)
        neighbours[other].append(one)
    reached: set[int] = set()
    for start in range(num_atoms):
        waiting = [] if start in reached else [start]
        reached.add(start)
        while waiting:
            parent = waiting.pop()
            for child in neighbours[parent]:
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
                    yield parent, child
