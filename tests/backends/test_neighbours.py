# SPDX-License-Identifier: Apache-2.0
"""Neighbour lists shared by models: built once per cutoff, the same numbers, never in the way."""

import numpy as np
import pytest
from ase.build import bulk, molecule

from mlipaudit.backends import jax_batching
from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.jax_batching import build_structures
from mlipaudit.backends.neighbours import shared_neighbours

SYSTEMS = [*(molecule(name) for name in ("H2O", "CH4", "CH3OH")), bulk("C"), molecule("O2")[:1]]


@pytest.fixture
def built(monkeypatch):
    """Cutoffs of the lists that are built."""
    found, find = [], jax_batching.find_edges

    def count(atoms, cutoff):
        found.append(cutoff)
        return find(atoms, cutoff)

    monkeypatch.setattr(jax_batching, "find_edges", count)
    return found


def same(one, other):
    arrays = ("senders", "receivers", "shifts")
    return all(
        (getattr(a.edges, name) == getattr(b.edges, name)).all()
        and getattr(a.edges, name).dtype == getattr(b.edges, name).dtype
        for a, b in zip(one, other, strict=True)
        for name in arrays
    )


def test_lists_are_built_once_per_cutoff(tmp_path, built):
    alone = build_structures(SYSTEMS, 5.0, None)
    assert len(built) == len(SYSTEMS)
    for _ in range(3):
        with shared_neighbours(tmp_path):
            assert same(build_structures(SYSTEMS, 5.0, None), alone)
    assert len(built) == 2 * len(SYSTEMS)
    with shared_neighbours(tmp_path):
        build_structures(SYSTEMS, 4.0, 6.0)
        build_structures(SYSTEMS, 6.0, 4.0)
    assert sorted(built[2 * len(SYSTEMS) :]) == [4.0] * len(SYSTEMS) + [6.0] * len(SYSTEMS)


def test_another_structure_has_another_list(tmp_path, built):
    with shared_neighbours(tmp_path):
        build_structures(SYSTEMS, 5.0, None)
        moved = [atoms.copy() for atoms in SYSTEMS]
        moved[0].positions[0] += 1e-9
        build_structures(moved, 5.0, None)
        periodic = [atoms.copy() for atoms in SYSTEMS]
        periodic[3].pbc = False
        build_structures(periodic, 5.0, None)
    assert len(built) == 3 * len(SYSTEMS)


def test_a_spoilt_file_is_built_again(tmp_path, built):
    with shared_neighbours(tmp_path):
        before = build_structures(SYSTEMS, 5.0, None)
        (file,) = tmp_path.glob("*.npz-cache")
        file.write_bytes(file.read_bytes()[:100])
        assert same(build_structures(SYSTEMS, 5.0, None), before)
        assert same(build_structures(SYSTEMS, 5.0, None), before)
    assert len(built) == 2 * len(SYSTEMS)


def test_a_folder_that_cannot_be_written_harms_nothing(tmp_path, built):
    (tmp_path / "file").write_text("")
    with shared_neighbours(tmp_path / "file"):
        assert len(build_structures(SYSTEMS, 5.0, None)) == len(SYSTEMS)


def test_two_models_of_the_same_cutoff_share_and_predict_the_same(tmp_path, built, force_fields):
    one, other = (backend_for(force_fields("tiny_mace")) for _ in range(2))
    systems = SYSTEMS[:3]
    alone = one.predict(systems, forces=True)
    assert len(built) == len(systems)
    with shared_neighbours(tmp_path):
        shared = [backend.predict(systems, forces=True) for backend in (one, other)]
    assert len(built) == 2 * len(systems)
    for answers in shared:
        for mine, expected in zip(answers, alone, strict=True):
            assert mine.energy == expected.energy
            assert (mine.forces == expected.forces).all()


def test_stress_is_the_derivative_of_the_energy(backends):
    """By finite differences, in a right-handed cell and in a left-handed one."""
    backend = backends("tiny_mace")
    for handedness in (1, -1):
        atoms = molecule("CH3OH")
        atoms.set_cell(np.diag([5, 5.2, handedness * 5.4]))
        atoms.pbc = True
        (prediction,) = backend.predict([atoms], forces=True, also=["stress"])
        strained = [strain(atoms, axis, sign * 1e-3) for axis in range(3) for sign in (1, -1)]
        energies = [answer.energy for answer in backend.predict(strained)]
        slopes = np.subtract(energies[::2], energies[1::2]) / 2e-3 / atoms.get_volume()
        np.testing.assert_allclose(prediction.stress[:3], slopes, rtol=0.02, atol=2e-6)


def strain(atoms, axis, by):
    stretched = atoms.copy()
    deformation = np.eye(3)
    deformation[axis, axis] += by
    stretched.set_cell(atoms.cell @ deformation, scale_atoms=True)
    return stretched
