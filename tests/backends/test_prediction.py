# SPDX-License-Identifier: Apache-2.0
"""Batched prediction equals one by one, and a system that fails costs only itself."""

from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from mlipaudit.backends.contract import Prediction, backend_for
from mlipaudit.backends.jax_batching import build_structure, plan_batches, round_up
from mlipaudit.failures import FailureKind


def cluster(num_atoms, seed=0):
    """Random light atoms, none closer than about 0.9 Å."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(num_atoms ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)[:num_atoms]
    positions = 1.6 * grid + rng.uniform(-0.3, 0.3, (num_atoms, 3))
    return Atoms(rng.choice([1, 6, 7, 8], num_atoms), positions)


def systems_of_many_sizes():
    far = Atoms("O2", [[0, 0, 0], [0, 0, 50.0]])
    sizes = [cluster(n, seed=n) for n in (3, 40, 41, 300)]
    return [Atoms("O"), far, Atoms("H", positions=[[3.0, 4.0, 5.0]]), *sizes]


@pytest.fixture(scope="module")
def one_by_one(backends):
    return [backends("tiny_mace").predict([atoms], forces=True)[0] for atoms in systems_of_many_sizes()]


@pytest.mark.parametrize("order_seed", [0, 1])
def test_batched_equals_one_by_one_in_any_order(order_seed, backends, one_by_one):
    systems = systems_of_many_sizes()
    order = np.random.default_rng(order_seed).permutation(len(systems))
    answers = backends("tiny_mace").predict([systems[i] for i in order], forces=True)
    for index, answer in zip(order, answers, strict=True):
        expected = one_by_one[index]
        assert answer.energy == pytest.approx(expected.energy, rel=3e-7)
        assert answer.forces.shape == (len(systems[index]), 3)
        np.testing.assert_allclose(answer.forces, expected.forces, atol=1e-4)


def test_energy_alone_equals_energy_with_forces(backends, one_by_one):
    answers = backends("tiny_mace").predict(systems_of_many_sizes())
    for answer, expected in zip(answers, one_by_one, strict=True):
        assert answer.forces is None
        assert answer.energy == pytest.approx(expected.energy, rel=3e-7)


def test_atoms_out_of_reach_feel_nothing_and_energies_add(backends):
    alone, pair = backends("tiny_mace").predict([Atoms("O"), Atoms("O2", [[0, 0, 0], [0, 0, 50.0]])], forces=True)
    assert pair.energy == pytest.approx(2 * alone.energy, rel=1e-6)
    assert np.abs(pair.forces).max() < 1e-6


def test_forces_are_the_slope_of_the_energy(backends):
    atoms, step = cluster(12, seed=3), 2e-2
    moved = []
    for sign in (-1, 1):
        other = atoms.copy()
        other.positions[4, 1] += sign * step
        moved.append(other)
    below, above = backends("tiny_mace").predict(moved)
    (there,) = backends("tiny_mace").predict([atoms], forces=True)
    assert there.forces[4, 1] == pytest.approx(-(above.energy - below.energy) / (2 * step), abs=5e-3)


def test_a_crystal_and_its_supercell_have_the_same_energy_per_atom(backends):
    cell = bulk("C", "diamond", a=3.57, cubic=True)
    small, large = backends("tiny_mace").predict([cell, cell * (2, 1, 1)])
    assert large.energy == pytest.approx(2 * small.energy, rel=1e-6)


def test_periodic_and_free_systems_share_a_call(backends):
    crystal, free = bulk("C", "diamond", a=3.57, cubic=True), molecule("CH3OH")
    mixed = backends("tiny_mace").predict([crystal, free, crystal])
    assert mixed[0].energy == pytest.approx(mixed[2].energy, rel=1e-9)
    assert mixed[1].energy == pytest.approx(backends("tiny_mace").predict([free])[0].energy, rel=3e-7)


def test_an_uncovered_element_costs_only_its_system(backends):
    water, peculiar = molecule("H2O"), Atoms("HfO", [[0, 0, 0], [0, 0, 1.7]])
    answers = backends("tiny_mace").predict([water, peculiar, water])
    assert answers[1].kind is FailureKind.MISSING_ELEMENTS
    assert "Hf" in answers[1].message
    assert answers[0].energy == answers[2].energy


def test_a_structure_that_is_not_finite_is_not_tried(backends):
    broken = molecule("H2O")
    broken.positions[1, 0] = np.inf
    answers = backends("tiny_mace").predict([molecule("CH4"), broken])
    assert isinstance(answers[0], Prediction)
    assert answers[1].kind is FailureKind.NON_FINITE


def test_not_a_number_costs_only_its_system(backends, force_fields):
    import jax

    # NaN in the embedding of fluorine, the fifth of eight elements, and nowhere else.
    def spoil(weights):
        return weights.at[4].set(np.nan) if weights.shape == (8, 4) else weights

    healthy = force_fields("tiny_mace")
    spoilt = backend_for(replace(healthy, params=jax.tree.map(spoil, healthy.params)))
    systems = [molecule(name) for name in ("CH3OH", "CF4", "H2O")]
    answers = spoilt.predict(systems, forces=True)
    assert answers[1].kind is FailureKind.NON_FINITE
    for index in (0, 2):
        (expected,) = backends("tiny_mace").predict([systems[index]], forces=True)
        assert answers[index].energy == pytest.approx(expected.energy, rel=3e-7)
        np.testing.assert_allclose(answers[index].forces, expected.forces, atol=1e-5)


def test_a_model_of_nans_fails_every_system_by_name(backends):
    answers = backends("nan_mace").predict([molecule("H2O"), molecule("CH4")])
    assert [answer.kind for answer in answers] == [FailureKind.NON_FINITE] * 2


def test_a_batch_that_does_not_fit_is_halved_down_to_single_systems(force_fields, monkeypatch):
    backend = backend_for(force_fields("x_visnet"))
    program = backend.program(forces=False)

    def small_device(params, graph):
        if (graph.nodes.atomic_numbers > 0).sum() > 20:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return program(params, graph)

    monkeypatch.setattr(backend, "program", lambda **which: small_device)
    systems = [cluster(n, seed=n) for n in (8, 12, 25, 5, 18)]
    answers = backend.predict(systems)
    assert answers[2].kind is FailureKind.OUT_OF_MEMORY
    expected = backend_for(force_fields("x_visnet")).predict([s for s in systems if len(s) <= 20])
    found = [answer for answer in answers if isinstance(answer, Prediction)]
    assert [f.energy for f in found] == pytest.approx([e.energy for e in expected], rel=3e-7)


def test_a_model_that_always_raises_is_not_tried_for_every_system(force_fields, monkeypatch):
    backend, calls = backend_for(force_fields("tiny_mace")), []

    def broken(params, graph):
        calls.append(1)
        raise TypeError("cannot be traced")

    monkeypatch.setattr(backend, "program", lambda **which: broken)
    answers = backend.predict([molecule("H2O")] * 200)
    assert [answer.kind for answer in answers] == [FailureKind.EXCEPTION] * 200
    assert len(calls) < 20


def test_a_benchmark_s_structures_need_few_shapes():
    rng = np.random.default_rng(0)
    structures = [build_structure(cluster(int(n), seed=int(n)), 4.0, None) for n in rng.integers(5, 40, 200)]
    batches = plan_batches(structures, target_edges=4096)
    assert sorted(i for batch, _ in batches for i in batch) == list(range(200))
    assert len({shape for _, shape in batches}) <= 3
    for batch, shape in batches:
        assert sum(len(structures[i].edges) for i in batch) <= shape.edges
        assert sum(len(structures[i].atoms) for i in batch) < shape.atoms


def test_sets_of_structures_share_their_shapes():
    shapes = set()
    for seed, largest in enumerate((6, 12, 20, 30)):
        sizes = np.random.default_rng(seed).integers(3, largest, 150)
        structures = [build_structure(cluster(int(n), seed=int(n)), 4.0, None) for n in sizes]
        shapes |= {shape for _, shape in plan_batches(structures, target_edges=8192)}
    assert len(shapes) <= 4


def test_one_large_structure_has_a_batch_for_itself():
    structures = [build_structure(cluster(n, seed=n), 4.0, None) for n in (10, 300, 12)]
    batches = plan_batches(structures, target_edges=1024)
    assert next(batch for batch, _ in batches) == [1]
    (large,) = (shape for batch, shape in batches if batch == [1])
    assert large.edges >= len(structures[1].edges) > 1024


def test_rounding_up_wastes_at_most_a_quarter_on_few_values():
    rounded = [round_up(n) for n in range(1, 5000)]
    assert all(n <= r <= 1.25 * n for n, r in enumerate(rounded, start=1))
    assert len(set(rounded)) < 50


# Energy differences in float32


def with_atomic_energies(force_field, *, scale):
    """The same network with other fixed energies of the elements."""
    network = force_field.predictor.mlip_network
    info = network.dataset_info
    energies = {number: scale * number**2 for number in info.atomic_energies_map}
    network = replace(network, dataset_info=info.model_copy(update={"atomic_energies_map": energies}))
    return replace(force_field, predictor=replace(force_field.predictor, mlip_network=network))


def isomers():
    """Eight structures of one composition, of all-electron size: total energies beyond −20 000 eV."""
    return [cluster_of("C4H8O2", seed) for seed in range(8)]


def cluster_of(formula, seed):
    rng = np.random.default_rng(seed)
    atoms = Atoms(formula)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    atoms.positions = 1.5 * grid[rng.permutation(27)[: len(atoms)]] + rng.uniform(-0.2, 0.2, (len(atoms), 3))
    return atoms


def differences(answers):
    energies = np.array([answer.energy for answer in answers])
    return energies - energies[0]


def test_fixed_atomic_energies_cost_no_digit(force_fields, backends):
    heavy = backend_for(with_atomic_energies(force_fields("tiny_mace"), scale=-30.0))
    none = backend_for(with_atomic_energies(force_fields("tiny_mace"), scale=0.0))
    total = heavy.predict(isomers())[0].energy
    assert total == pytest.approx(none.predict(isomers())[0].energy - 30.0 * (4 * 36 + 8 + 2 * 64), rel=1e-9)
    exact = differences(none.predict(isomers()))
    np.testing.assert_allclose(differences(heavy.predict(isomers())), exact, atol=1e-9)
    assert np.abs(exact).max() > 0.01


def test_added_by_the_model_they_would_cost_digits(force_fields):
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

    class AsTheModelAdds(ForceFieldBackend):
        atomic_energies = None

    exact = differences(backend_for(with_atomic_energies(force_fields("tiny_mace"), scale=0.0)).predict(isomers()))
    added = AsTheModelAdds(with_atomic_energies(force_fields("tiny_mace"), scale=-30.0)).predict(isomers())
    error = np.abs(differences(added) - exact).max()
    assert 1e-6 < error < 0.1
    # What the prediction says of its own precision is of the size of the error.
    assert error / 10 < added[0].rounding < error * 30


def test_what_is_left_out_is_put_back_everywhere(force_fields):
    from mlipaudit.backends.contract import Prediction as Answer
    from mlipaudit.protocol import Ensemble, MolecularDynamics

    backend = backend_for(with_atomic_energies(force_fields("tiny_mace"), scale=-30.0))
    atoms = molecule("CH3OH")
    (answer,) = backend.predict([atoms], forces=True)
    assert isinstance(backend.forward_pass(atoms).run(), Answer)
    assert backend.forward_pass(atoms).run().energy == pytest.approx(answer.energy, rel=3e-7)
    still = MolecularDynamics(
        num_steps=1, snapshot_interval=1, log_interval=1, ensemble=Ensemble.NVE, timestep_fs=1e-6
    )
    for engine in ("jax_md", "ase"):
        (trajectory,) = backend.simulate([atoms], still, engine=engine)
        assert trajectory.potential_energy[0] == pytest.approx(answer.energy, rel=3e-7)


def test_learned_or_several_atomic_energies_stay_with_the_model(force_fields):
    from mlipaudit.backends.mlip_force_field import fixed_atomic_energies

    plain = force_fields("tiny_mace")
    assert fixed_atomic_energies(plain)[1] == pytest.approx(-13.6)
    network = plain.predictor.mlip_network
    info = network.dataset_info
    several = info.model_copy(update={"atomic_energies_map": [info.atomic_energies_map] * 2})
    other = replace(plain.predictor, mlip_network=replace(network, dataset_info=several))
    assert fixed_atomic_energies(replace(plain, predictor=other)) is None
    learned = {"params": {**plain.params["params"], "atomic_energies": np.zeros(3)}}
    assert fixed_atomic_energies(replace(plain, params=learned)) is None


def test_a_pass_over_spare_pairs_shares_its_program_with_dynamics_through_ase(force_fields):
    from mlipaudit.backends.graph_calculator import GraphCalculator

    backend, atoms = backend_for(force_fields("tiny_mace")), molecule("CH3OH")
    exact = backend.forward_pass(atoms).run()
    padded = backend.forward_pass(atoms, spare_pairs=True).run()
    assert padded.energy == pytest.approx(exact.energy, rel=3e-7)
    np.testing.assert_allclose(padded.forces, exact.forces, atol=1e-5)
    compiled = set(backend._compiled)
    assert len(compiled) == 2
    atoms.calc = GraphCalculator(backend)
    assert atoms.get_potential_energy() == padded.energy
    assert set(backend._compiled) == compiled
