# SPDX-License-Identifier: Apache-2.0
"""Secondary structure from the hydrogen bonds of the backbone, after Kabsch and Sander (10.1002/bip.360221211).

One letter per residue: H α-helix, G 3-10 helix, I π-helix, E strand in a ladder, B single bridge, T turn, S bend, blank
for none of them. Where a residue could be several, π-helix goes before α-helix, α-helix before strand, strand before
3-10 helix, as in DSSP 2.2. Backbones are N, CA, C and O per residue; NaN where a residue has no such atom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlipaudit.analysis.topology import Residue

COUPLING = 332.0 * 0.42 * 0.20
"""Å kcal/mol: of the partial charges on C=O and N-H."""
BOND_ENERGY = -0.5
"""kcal/mol: a hydrogen bond is anything below."""
REACH = 9.0
"""Å: no hydrogen bond between residues whose Cα are farther apart."""
BONDS_PER_DONOR = 2
BEND = 70.0
"""Degrees between the directions of the chain before and after a residue."""
NEAREST_BRIDGE = 3
"""Residues apart along the chain, at least."""
OXYGENS = ("O", "OC1", "OT1", "O1", "OCT1")
"""The oxygen of the backbone, under the names it has in the last residue."""


def backbone(residues: Sequence[Residue], positions: np.ndarray) -> np.ndarray:
    """N, CA, C and O of every residue, [frames, residues, 4, 3], of positions [frames, atoms, 3]."""
    atoms = [[r.find("N"), r.find("CA"), r.find("C"), r.find(*OXYGENS)] for r in residues]
    index = np.array([[-1 if atom is None else atom for atom in four] for four in atoms], int).reshape(-1, 4)
    found = np.asarray(positions, np.float64)[:, index]
    return np.where((index < 0)[..., None], np.nan, found)


def secondary_structures(residues: Sequence[Residue], positions: np.ndarray) -> list[str]:
    """A letter per residue, for each frame of positions [frames, atoms, 3]."""
    chains = np.array([residue.chain for residue in residues], int)
    donors = np.array([residue.name != "PRO" for residue in residues], bool)
    return [assign(frame, donors, chains) for frame in backbone(residues, positions)]


def assign(frame: np.ndarray, donors: np.ndarray, chains: np.ndarray) -> str:
    """A letter per residue.

    Args:
        frame: Å, N, CA, C and O of every residue, [residues, 4, 3].
        donors: whether the nitrogen of a residue has a hydrogen to give, [residues].
        chains: number of the chain of a residue, [residues].
    """
    bonds = hydrogen_bonds(frame, donors, chains)
    complete = np.isfinite(frame).all(axis=(1, 2))
    letters = np.full(len(frame), " ")
    _mark_strands(letters, bonds, complete, chains)
    starts = {length: _turns(bonds, length, chains) for length in (3, 4, 5)}
    _mark_helices(letters, starts)
    turns = np.zeros(len(frame), bool)
    for length, start in starts.items():
        for k in range(1, length):
            turns[k:] |= start[:-k]
    inner = complete & (np.arange(len(frame)) > 0) & (np.arange(len(frame)) < len(frame) - 1)
    letters[inner & (letters == " ") & turns] = "T"
    letters[inner & (letters == " ") & _bends(frame, chains)] = "S"
    return "".join(letters)


def hydrogen_bonds(frame: np.ndarray, donors: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """Whether the N-H of one residue (row) is bonded to the C=O of another (column), [residues, residues]."""
    energies = _bond_energies(frame, chains)
    energies[~donors] = np.nan
    best = np.argsort(energies, axis=1)[:, :BONDS_PER_DONOR]  # NaN comes last
    bonds = np.zeros(energies.shape, bool)
    np.put_along_axis(bonds, best, np.take_along_axis(energies, best, axis=1) < BOND_ENERGY, axis=1)
    return bonds


def _bond_energies(frame: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """kcal/mol, donor by acceptor; NaN where there can be none.

    The hydrogen lies 1 Å from its nitrogen, in the direction opposite to the C=O of the residue before.
    """
    n, ca, c, o = np.moveaxis(frame, 1, 0)
    hydrogen = np.full_like(n, np.nan)
    before = c[:-1] - o[:-1]
    hydrogen[1:] = n[1:] + before / np.linalg.norm(before, axis=-1, keepdims=True)
    hydrogen[1:][chains[1:] != chains[:-1]] = np.nan

    def inverse(of_donor: np.ndarray, of_acceptor: np.ndarray) -> np.ndarray:
        return 1.0 / np.linalg.norm(of_donor[:, None] - of_acceptor, axis=-1)

    with np.errstate(divide="ignore", invalid="ignore"):
        energies = COUPLING * (inverse(n, o) + inverse(hydrogen, c) - inverse(hydrogen, o) - inverse(n, c))
        near = np.linalg.norm(ca[:, None] - ca, axis=-1) < REACH
    place = np.arange(len(frame))
    apart = place[:, None] - place
    return np.where(near & (apart != 0) & (apart != 1), energies, np.nan)


# Helices, turns and bends


def _turns(bonds: np.ndarray, length: int, chains: np.ndarray) -> np.ndarray:
    """Whether a turn of `length` begins at each residue: its C=O takes the N-H that many residues on."""
    starts = np.zeros(len(bonds), bool)
    if length < len(bonds):
        starts[:-length] = np.diagonal(bonds, -length) & (chains[:-length] == chains[length:])
    return starts


def _mark_helices(letters: np.ndarray, starts: dict[int, np.ndarray]) -> None:
    """Two turns one after the other make a helix of the residues between them."""
    for length, letter, over in ((4, "H", "HGIEB "), (3, "G", "G "), (5, "I", "IH ")):
        begins = starts[length]
        for i in np.flatnonzero(begins[1:] & begins[:-1]) + 1:
            inside = letters[i : i + length]
            if np.isin(inside, list(over)).all():
                inside[:] = letter


def _bends(frame: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """Whether the chain turns by more than `BEND` at each residue, from the Cα two before to that two after."""
    ca = frame[:, 1]
    bends = np.zeros(len(ca), bool)
    if len(ca) < 5:
        return bends
    before, after = ca[2:-2] - ca[:-4], ca[4:] - ca[2:-2]
    with np.errstate(invalid="ignore"):
        cosines = np.sum(before * after, axis=1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
        bends[2:-2] = (cosines < np.cos(np.radians(BEND))) & (chains[:-4] == chains[4:])
    return bends


# Bridges and ladders


@dataclass
class _Ladder:
    """Bridges of one kind that follow each other: first and last residue of either strand."""

    parallel: bool
    i: tuple[int, int]
    j: tuple[int, int]
    bridges: int = 1

    def takes(self, i: int, j: int, parallel: bool) -> bool:
        """Whether the bridge between i and j is its next step."""
        step = self.j[1] + 1 if parallel else self.j[0] - 1
        return parallel == self.parallel and i == self.i[1] + 1 and j == step

    def extend(self, i: int, j: int) -> None:
        self.i = self.i[0], i
        self.j = (self.j[0], j) if self.parallel else (j, self.j[1])
        self.bridges += 1

    def continued_by(self, other: _Ladder, chains: np.ndarray) -> bool:
        """Whether a bulge joins them: at most one residue more on one strand and four on the other."""
        gap_i = other.i[0] - self.i[1]
        gap_j = other.j[0] - self.j[1] if self.parallel else self.j[0] - other.j[1]
        onwards = other.j[0] > self.j[0] if self.parallel else other.j[0] < self.j[0]
        one_chain = all(
            chains[min(a[0], b[0])] == chains[max(a[1], b[1])] for a, b in ((self.i, other.i), (self.j, other.j))
        )
        small = gap_j < 3 or (gap_j < 6 and gap_i < 3)
        return self.parallel == other.parallel and one_chain and onwards and 0 < gap_i < 6 and small

    def join(self, other: _Ladder) -> None:
        self.i = self.i[0], other.i[1]
        self.j = (self.j[0], other.j[1]) if self.parallel else (other.j[0], self.j[1])
        self.bridges += other.bridges


def _mark_strands(letters: np.ndarray, bonds: np.ndarray, complete: np.ndarray, chains: np.ndarray) -> None:
    for ladder in _ladders(bonds, complete, chains):
        for first, last in (ladder.i, ladder.j):
            strand = letters[first : last + 1]
            strand[strand != "E"] = "E" if ladder.bridges > 1 else "B"


def _ladders(bonds: np.ndarray, complete: np.ndarray, chains: np.ndarray) -> list[_Ladder]:
    ladders: list[_Ladder] = []
    for i, j, parallel in _bridges(bonds, complete, chains):
        known = next((ladder for ladder in ladders if ladder.takes(i, j, parallel)), None)
        if known:
            known.extend(i, j)
        else:
            ladders.append(_Ladder(parallel, (i, i), (j, j)))
    ladders.sort(key=lambda ladder: (chains[ladder.i[0]], ladder.i[0]))
    joined: list[_Ladder] = []
    while ladders:
        ladder = ladders.pop(0)
        joined.append(ladder)
        for other in list(ladders):
            if ladder.continued_by(other, chains):
                ladder.join(other)
                ladders.remove(other)
    return joined


def _bridges(bonds: np.ndarray, complete: np.ndarray, chains: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """Pairs of residues with two hydrogen bonds between their neighbourhoods, and whether the strands are parallel."""
    inner = complete.copy()
    inner[:1] = inner[-1:] = False
    inner[1:-1] &= chains[:-2] == chains[2:]
    for i in np.flatnonzero(inner[: max(len(bonds) - 4, 0)]):
        for j in np.flatnonzero(inner[i + NEAREST_BRIDGE :]) + i + NEAREST_BRIDGE:
            if (bonds[i + 1, j] and bonds[j, i - 1]) or (bonds[j + 1, i] and bonds[i, j - 1]):
                yield int(i), int(j), True
            elif (bonds[i + 1, j - 1] and bonds[j + 1, i - 1]) or (bonds[j, i] and bonds[i, j]):
                yield int(i), int(j), False
