# SPDX-License-Identifier: Apache-2.0
"""Bonds found from a geometry, and whether they hold along a trajectory.

Distances take the minimum image where `box`, the three lengths of an orthorhombic cell, is given. Work is cut into
pieces: memory does not grow with atoms times frames times atoms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BOND_REACH = 1.25
"""Atoms closer than this many sums of their covalent radii are bonded."""
ALONE = 2.5
"""Å: an atom with no other (a hydrogen with no heavy one) within it has left (mlipaudit 0.1.8)."""
IONIC = (3, 11, 12, 19, 20, 37, 38, 55, 56)
"""Alkali and alkaline-earth metals: their large radii would bind them to the water around them."""
PAIRS_AT_ONCE = 1_000_000


def displacement(here: np.ndarray, there: np.ndarray, box: np.ndarray | None = None) -> np.ndarray:
    """Vectors from `there` to `here`, to the nearest image in a box."""
    vectors = np.asarray(here, np.float64) - np.asarray(there, np.float64)
    return vectors if box is None else vectors - box * np.round(vectors / box)


def distances(here: np.ndarray, there: np.ndarray, box: np.ndarray | None = None) -> np.ndarray:
    """Lengths of `displacement`."""
    return np.linalg.norm(displacement(here, there, box), axis=-1)


def find_bonds(numbers: np.ndarray, positions: np.ndarray, box: np.ndarray | None = None) -> np.ndarray:
    """Pairs of bonded atoms, [bonds, 2], lower index first."""
    from ase.data import covalent_radii

    radii = np.where(np.isin(numbers, IONIC), -np.inf, covalent_radii[numbers])
    found = [np.zeros((0, 2), int)]
    for rows in _pieces(len(numbers), len(numbers)):
        close = distances(positions[rows, None], positions, box) < BOND_REACH * (radii[rows, None] + radii)
        i, j = np.nonzero(close)
        i += rows.start
        found.append(np.stack([i, j], axis=1)[i < j])
    return np.concatenate(found)


def molecule_labels(num_atoms: int, bonds: np.ndarray) -> np.ndarray:
    """The lowest atom of the molecule that each atom belongs to, [atoms]."""
    labels = np.arange(num_atoms)
    while True:
        lowest = labels.copy()
        np.minimum.at(lowest, bonds[:, 0], labels[bonds[:, 1]])
        np.minimum.at(lowest, bonds[:, 1], labels[bonds[:, 0]])
        lowest = lowest[lowest]
        if (lowest == labels).all():
            return labels
        labels = lowest


def solvent_mask(numbers: np.ndarray, bonds: np.ndarray) -> np.ndarray:
    """Whether each atom is a single ion or belongs to a molecule H2O, [atoms]."""
    labels = molecule_labels(len(numbers), bonds)
    size, hydrogens, oxygens = (
        np.bincount(labels, weights, len(numbers)) for weights in (None, numbers == 1, numbers == 8)
    )
    water = (size == 3) & (hydrogens == 2) & (oxygens == 1)
    return (water | (size == 1))[labels]


def bond_lengths(trajectory: np.ndarray, bonds: np.ndarray, box: np.ndarray | None = None) -> np.ndarray:
    """Length of every bond in every frame, [frames, bonds], of positions [frames, atoms, 3]."""
    lengths = np.empty((len(trajectory), len(bonds)))
    for rows in _pieces(len(trajectory), max(len(bonds), 1)):
        frames = trajectory[rows]
        lengths[rows] = distances(frames[:, bonds[:, 0]], frames[:, bonds[:, 1]], box)
    return lengths


def lasting_from(states: np.ndarray) -> np.ndarray:
    """First frame from which a state holds to the end, [n], of [frames, n]; the number of frames where it does not."""
    interruptions = ~states[::-1]
    return np.where(interruptions.any(axis=0), len(states) - interruptions.argmax(axis=0), 0)


def isolated_atoms(positions: np.ndarray, box: np.ndarray | None = None, *, cutoff: float = ALONE) -> np.ndarray:
    """Atoms farther than `cutoff` Å from every other."""
    positions = np.asarray(positions, np.float64)
    every = np.arange(len(positions))
    pieces = _pieces(len(positions), len(positions))
    found = [rows.start + _far_from_all(positions, every[rows], every, box, cutoff) for rows in pieces]
    return np.concatenate([np.zeros(0, int), *found])


def hydrogens_of(numbers: np.ndarray, bonds: np.ndarray) -> np.ndarray:
    """Hydrogens that are bonded to a heavy atom."""
    ends = bonds[(numbers[bonds] == 1).sum(axis=1) == 1]
    return np.unique(ends[numbers[ends] == 1])


def departures(
    trajectory: np.ndarray,
    numbers: np.ndarray,
    hydrogens: np.ndarray,
    box: np.ndarray | None = None,
    *,
    cutoff: float = ALONE,
) -> np.ndarray:
    """First frame from which each hydrogen stays farther than `cutoff` Å from every heavy atom, [hydrogens].

    The number of frames for those that are near one at the end. Goes backwards, with those only that are still gone.
    """
    heavy = np.flatnonzero(numbers != 1)
    left = np.full(len(hydrogens), len(trajectory))
    gone = np.arange(len(hydrogens))
    for frame in range(len(trajectory) - 1, -1, -1):
        pieces = _pieces(len(gone), len(heavy))
        still = [
            rows.start + _far_from_all(trajectory[frame], hydrogens[gone[rows]], heavy, box, cutoff)
            for rows in pieces
        ]
        gone = gone[np.concatenate([np.zeros(0, int), *still])]
        if not gone.size:
            break
        left[gone] = frame
    return left


def _far_from_all(
    positions: np.ndarray, atoms: np.ndarray, others: np.ndarray, box: np.ndarray | None, cutoff: float
) -> np.ndarray:
    """Which of `atoms`, by their place in it, have none of `others` but themselves within `cutoff`."""
    far = distances(positions[atoms][:, None], positions[others], box) > cutoff
    return np.flatnonzero((far | (atoms[:, None] == others)).all(axis=1))


def _pieces(total: int, pairs_each: int) -> Iterator[slice]:
    step = max(1, PAIRS_AT_ONCE // max(pairs_each, 1))
    return (slice(start, min(start + step, total)) for start in range(0, total, step))
