# SPDX-License-Identifier: Apache-2.0
"""Bonds, and trajectories in which it is known when they break."""

import time

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

from mlipaudit.analysis.molecules import (
    PAIRS_AT_ONCE,
    bond_lengths,
    departures,
    displacement,
    find_bonds,
    hydrogens_of,
    isolated_atoms,
    lasting_from,
    molecule_labels,
    solvent_mask,
)

BOX = np.array([10.0, 12.0, 9.0])
ETHANOL = molecule("CH3CH2OH")
HYDROGENS = np.flatnonzero(ETHANOL.numbers == 1)


def still(atoms, num_frames=10):
    return np.repeat(atoms.positions[None], num_frames, axis=0)


# Bonds


@pytest.mark.parametrize(
    "name, count",
    [("H2O", 2), ("CH4", 4), ("C6H6", 12), ("CH3CH2OH", 8), ("H2", 1), ("CH3SH", 5), ("CH3Cl", 4), ("CO2", 2)],
)
def test_bonds_of_known_molecules(name, count):
    atoms = molecule(name)
    bonds = find_bonds(atoms.numbers, atoms.positions)
    assert len(bonds) == count
    assert (bonds[:, 0] < bonds[:, 1]).all()
    assert set(molecule_labels(len(atoms), bonds)) == {0}


def test_a_molecule_across_the_boundary_is_bonded_as_inside():
    inside = ETHANOL.copy()
    wrapped = (inside.positions + np.array([0.3, -0.2, 4.5])) % BOX
    assert (
        find_bonds(inside.numbers, wrapped, BOX).tolist() == find_bonds(inside.numbers, inside.positions).tolist()
    )
    assert len(find_bonds(inside.numbers, wrapped)) < 8
    assert np.abs(displacement(wrapped[0], wrapped[1], BOX)).max() < 2.0


def test_pieces_give_the_same(monkeypatch):
    bonds = find_bonds(ETHANOL.numbers, ETHANOL.positions)
    lengths = bond_lengths(still(ETHANOL), bonds)
    monkeypatch.setattr("mlipaudit.analysis.molecules.PAIRS_AT_ONCE", 5)
    assert find_bonds(ETHANOL.numbers, ETHANOL.positions).tolist() == bonds.tolist()
    assert bond_lengths(still(ETHANOL), bonds).tolist() == lengths.tolist()
    assert isolated_atoms(ETHANOL.positions).size == 0


def test_solvent_is_water_and_single_ions():
    water = molecule("H2O")
    water.translate([5.0, 0.0, 0.0])
    system = ETHANOL + water + Atoms("NaCl", [[0, 0, 8.0], [0, 0, 12.0]])
    sodium_in_water = Atoms("Na", [water.positions[0] + [0, 0, 2.3]])
    system += sodium_in_water
    mask = solvent_mask(system.numbers, find_bonds(system.numbers, system.positions))
    assert mask.tolist() == [False] * len(ETHANOL) + [True] * 6


def test_labels_of_a_long_chain():
    rng = np.random.default_rng(0)
    order = rng.permutation(3000)
    labels = molecule_labels(3000, np.stack([order[:-1], order[1:]], axis=1))
    assert set(labels) == {0}


def test_labels_without_bonds():
    assert molecule_labels(3, np.zeros((0, 2), int)).tolist() == [0, 1, 2]


# Leaving


def test_lasting_from():
    states = np.array([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [0, 0, 1, 1, 0]], bool)
    assert lasting_from(states).tolist() == [3, 3, 1, 0, 3]


def without_hydrogen(frames, index, since, until=None):
    moved = frames.copy()
    moved[since:until, index] += [30.0, 0.0, 0.0]
    return moved


@pytest.mark.parametrize("since", [0, 1, 6, 9])
def test_a_hydrogen_leaves_at_a_known_frame(since):
    frames = without_hydrogen(still(ETHANOL), HYDROGENS[2], since)
    left = departures(frames, ETHANOL.numbers, HYDROGENS)
    assert left.tolist() == [since if h == HYDROGENS[2] else 10 for h in HYDROGENS]


def test_a_hydrogen_that_comes_back_has_not_left():
    frames = without_hydrogen(still(ETHANOL), HYDROGENS[0], 3, until=7)
    assert (departures(frames, ETHANOL.numbers, HYDROGENS) == 10).all()
    frames = without_hydrogen(frames, HYDROGENS[0], 9)
    assert departures(frames, ETHANOL.numbers, HYDROGENS)[0] == 9


def test_a_hydrogen_that_crosses_a_boundary_has_not_left():
    frames = still(ETHANOL).copy()
    frames[4:, HYDROGENS[0], 0] += BOX[0]
    frames[6:, HYDROGENS[1], 2] -= 3 * BOX[2]
    assert (departures(frames, ETHANOL.numbers, HYDROGENS, BOX) == 10).all()
    assert departures(frames, ETHANOL.numbers, HYDROGENS).min() == 4


def test_a_hydrogen_that_changes_its_partner_has_not_left():
    water = molecule("H2O")
    water.translate([6.0, 0.0, 0.0])
    system = ETHANOL + water
    frames = still(system).copy()
    frames[5:, HYDROGENS[0]] = water.positions[0] + [0.0, 0.0, 1.0]
    assert (departures(frames, system.numbers, HYDROGENS) == 10).all()


def test_hydrogens_of_bonds():
    bonds = find_bonds(ETHANOL.numbers, ETHANOL.positions)
    assert hydrogens_of(ETHANOL.numbers, bonds).tolist() == HYDROGENS.tolist()
    hydrogen = molecule("H2")
    assert hydrogens_of(hydrogen.numbers, find_bonds(hydrogen.numbers, hydrogen.positions)).size == 0


def test_isolated_atoms_in_a_box():
    positions = np.array([[0.1, 0, 0], [9.9, 0, 0], [5.0, 5, 4]])
    assert isolated_atoms(positions, BOX).tolist() == [2]
    assert isolated_atoms(positions).tolist() == [0, 1, 2]


def test_a_solvated_protein_stays_within_memory_and_patience():
    tracemalloc = pytest.importorskip("tracemalloc")
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(15)] * 3, indexing="ij"), -1).reshape(-1, 3)[:3000] * 1.4
    numbers = np.where(np.arange(3000) % 2, 1, 6)
    frames = (grid + rng.normal(0, 0.05, (20, 3000, 3))).astype(np.float32)
    tracemalloc.start()
    begun = time.perf_counter()
    bonds = find_bonds(numbers, frames[0])
    bond_lengths(frames, bonds)
    departures(frames, numbers, np.flatnonzero(numbers == 1))
    isolated_atoms(frames[-1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * PAIRS_AT_ONCE
    assert time.perf_counter() - begun < 30
