# SPDX-License-Identifier: Apache-2.0
"""Systems that advance together are as they are alone, whatever becomes of their neighbours."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from mlipaudit.backends import jax_planner
from mlipaudit.backends.contract import SystemRun
from mlipaudit.backends.jax_planner import split
from mlipaudit.backends.mlip_force_field import Dynamics
from mlipaudit.failures import FailureKind
from mlipaudit.protocol import Ensemble, MolecularDynamics

NVT = MolecularDynamics(num_steps=100, snapshot_interval=20, log_interval=50, timestep_fs=0.5)
MOLECULES = ("CH3OH", "H2O", "CH3CH2OH", "C2H4")


def systems():
    return [molecule(name) for name in MOLECULES]


@pytest.fixture
def backend(backends):
    """The tiny MACE, with nothing decided about batches before or after."""
    backend = backends("tiny_mace")
    backend.md.batches_pay = None
    yield backend
    backend.md.batches_pay = None


@pytest.fixture(scope="module")
def alone(backends):
    """Each molecule by itself, with the seed it has in company."""
    backend = backends("tiny_mace")
    backend.md.batches_pay = False
    return backend.simulate(systems(), NVT, seed=3)


def together(backend, atoms, protocol=NVT, **settings):
    backend.md.batches_pay = True
    return backend.simulate(atoms, protocol, seed=3, **settings)


def distance(one, other, *, first=6):
    return max(
        np.abs(np.asarray(a.positions)[:first] - np.asarray(b.positions)[:first]).max()
        for a, b in zip(one, other, strict=True)
    )


def test_a_batch_of_different_molecules_follows_the_trajectories_of_each_alone(backend, alone):
    batched = together(backend, systems())
    assert [t.failure for t in batched] == [None] * 4
    assert distance(batched, alone) < 1e-3
    for one, other in zip(batched, alone, strict=True):
        np.testing.assert_allclose(one.potential_energy, other.potential_energy, atol=1e-3)
        np.testing.assert_allclose(one.kinetic_energy, other.kinetic_energy, atol=1e-3)


def test_one_that_explodes_leaves_and_the_others_go_on(backend, alone):
    strained = molecule("CH3CH2OH")
    strained.positions[-1] += [0.3, 0.3, 0.0]
    calm = together(backend, [*systems()[:2], strained], replace(NVT, num_steps=20))[2]
    # It heats up on its way: the limit is passed after the start and before the end of the first frame.
    limit = 0.5 * (calm.temperature[0] + max(calm.temperature))
    hot = replace(NVT, max_temperature_rise_kelvin=limit - 300.0)
    batched = together(backend, [*systems()[:2], strained, systems()[3]], [NVT, NVT, hot, NVT])
    assert batched[2].failure.kind is FailureKind.EXPLODED
    assert batched[2].steps == [0] and batched[2].failure.frame == 1
    rest = [0, 1, 3]
    assert [batched[i].failure for i in rest] == [None] * 3
    assert distance([batched[i] for i in rest], [alone[i] for i in rest]) < 1e-3


def test_one_of_nans_costs_only_itself(backend, alone):
    import jax.numpy as jnp

    from mlipaudit.backends.jax_batch import Batch

    # A momentum of NaN is what an exploding model makes in the end.
    start = Batch._first_state

    def poisoned(self, run):
        state = start(self, run)
        if run.index == 1:
            state["momentum"] = np.full_like(state["momentum"], jnp.nan)
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batch, "_first_state", poisoned)
        batched = together(backend, systems())
    assert getattr(batched[1], "failure", batched[1]).kind is FailureKind.NON_FINITE
    assert distance([batched[i] for i in (0, 2, 3)], [alone[i] for i in (0, 2, 3)]) < 1e-3


def test_each_has_its_own_length_and_temperature(backend, alone):
    short = replace(NVT, num_steps=40)
    cold = replace(NVT, temperature_kelvin=10.0)
    batched = together(backend, systems(), [NVT, short, cold, NVT])
    assert [t.steps[-1] for t in batched] == [100, 40, 100, 100]
    assert distance([batched[0], batched[3]], [alone[0], alone[3]]) < 1e-3
    assert distance([batched[1]], [alone[1]], first=3) < 1e-3
    assert np.mean(batched[2].temperature) < 30


def test_periodic_and_open_systems_in_one_call(backend):
    crystal = bulk("C", "diamond", a=3.57, cubic=True)
    mixed = together(backend, [molecule("H2O"), crystal, molecule("CH3OH")])
    (single,) = backend.simulate([crystal], NVT, seed=3)
    assert [t.failure for t in mixed] == [None] * 3
    assert mixed[1].positions[0].shape == (8, 3)
    assert single.steps == mixed[1].steps


def test_a_collapsing_system_leaves_when_its_list_keeps_growing(backend, alone, monkeypatch):
    from mlipaudit.backends import graph_calculator, jax_batch

    monkeypatch.setattr(graph_calculator, "MAX_GROWTHS", 1)
    grow = jax_batch.grown
    monkeypatch.setattr(jax_batch, "grown", lambda n, *, growths: grow(n, growths=growths))
    # Far apart at the start, they fall together: pairs that were not there.
    apart = Atoms("O12", [[3.4 * i, 0, 0] for i in range(12)])
    velocities = jax_batch.initial_velocities

    def inwards(atoms, temperature, seed):
        if len(atoms) == 12:
            return -0.25 * (atoms.positions - atoms.positions.mean(axis=0))
        return velocities(atoms, temperature, seed)

    monkeypatch.setattr(jax_batch, "initial_velocities", inwards)
    roomy = replace(NVT, max_temperature_rise_kelvin=1e9, friction_per_ps=0.0)
    batched = together(backend, [molecule("CH3OH"), apart], [replace(roomy, friction_per_ps=2.0), roomy])
    assert batched[1].failure.kind in (FailureKind.NEIGHBOUR_OVERFLOW, FailureKind.EXPLODED)
    assert batched[0].failure is None
    assert distance([batched[0]], [alone[0]]) < 1e-3


def test_a_batch_that_does_not_fit_is_halved_and_goes_on(backend, alone, monkeypatch):
    from mlipaudit.backends import jax_batch

    sizes, advance = [], jax_batch.advance

    def small_memory(program, inputs, state, until):
        sizes.append(len(state.alive) - 1)
        if sizes[-1] > 2:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return advance(program, inputs, state, until)

    monkeypatch.setattr(jax_batch, "advance", small_memory)
    batched = together(backend, systems())
    assert set(sizes) == {4, 2}
    assert distance(batched, alone) < 1e-3


def test_a_second_run_of_the_same_shapes_compiles_nothing(backend):
    together(backend, systems())
    known = len(backend.md.compiled)
    together(backend, systems())
    assert len(backend.md.compiled) == known


def test_one_system_uses_the_program_for_one_core_that_several_have_compiled(backend, monkeypatch):
    monkeypatch.setattr(jax_planner, "_cores", lambda: 2)
    monkeypatch.setattr(backend, "md", Dynamics(batches_pay=False))
    short = replace(NVT, num_steps=5)
    backend.simulate(systems()[:2], short)
    (key,) = backend.md.compiled
    assert key.one_core
    backend.simulate(systems()[:1], short)
    assert set(backend.md.compiled) == {key}
    # A long run is worth a program for all cores, and so is one that is timed.
    backend.simulate(systems()[:1], short, observer=lambda report: False)
    assert {known.one_core for known in backend.md.compiled} == {True, False}
    monkeypatch.setattr(backend, "md", Dynamics(batches_pay=False, seconds_per_pair=1e6, compiled={key: 1.0}))
    member = jax_planner.Member(SystemRun(0, systems()[0], short, (0,)), None, key.room)
    assert not jax_planner._would_wait_for_cores(backend, member, key.room)


# Deciding


def test_room_that_small_systems_do_not_fill_is_weighed_against_compiling():
    pairs, steps = [400, 390, 100, 90], [1000] * 4
    settings = {"compile_seconds": 10.0, "threads": 2}
    assert split(pairs, steps, seconds_per_step=None, **settings) == [(0, 4)]
    # 0.4 ms per step and 1000 steps: nothing to win.
    assert split(pairs, steps, seconds_per_step=4e-4, **settings) == [(0, 4)]
    # 40 ms per step: the two small ones would wait 2 x 1000 x 30 ms / 2 = 30 s for their padding.
    assert split(pairs, steps, seconds_per_step=4e-2, **settings) == [(0, 2), (2, 4)]
    # With so much time to win, ten pairs' worth of padding are a program's worth as well.
    assert split(pairs, [10**7] * 4, seconds_per_step=4e-2, **settings) == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("platform, batch_time, expected", [("cpu", 0.9, False), ("cpu", 0.1, True)])
def test_the_faster_way_is_found_by_measuring(platform, batch_time, expected, backend, monkeypatch):
    monkeypatch.setattr(jax_planner, "_seconds_per_step", lambda backend, members: batch_time)
    monkeypatch.setattr(jax_planner, "_cores", lambda: 2)

    @dataclasses.dataclass
    class Lane:
        seconds_per_step: float = 0.5
        compile_seconds: float = 1.0

    members = [dataclasses.make_dataclass("M", ["steps_left", "state"])(10_000, None) for _ in range(3)]
    assert jax_planner._batch_is_faster(backend, Lane(), members) is expected
    assert backend.md.batches_pay is expected


def test_a_short_run_is_not_worth_a_trial(backend, monkeypatch):
    monkeypatch.setattr(jax_planner, "_seconds_per_step", lambda *_: pytest.fail("tried"))
    backend.simulate(systems()[:2], replace(NVT, num_steps=50))
    assert backend.md.batches_pay is None


def test_a_long_run_is_tried_both_ways_and_ends_the_same(backend, alone, monkeypatch):
    monkeypatch.setattr(jax_planner, "WORTH_A_TRIAL", 0.0)
    monkeypatch.setattr(jax_planner, "CLEARLY_FASTER", 1e9)  # any batch is
    measured = backend.simulate(systems(), NVT, seed=3)
    assert backend.md.batches_pay is True
    assert distance(measured, alone) < 1e-3
    assert all(t.steps == list(range(0, 101, 20)) for t in measured)


def test_batches_that_do_not_pay_are_taken_apart(backend, alone, monkeypatch):
    monkeypatch.setattr(jax_planner, "WORTH_A_TRIAL", 0.0)
    monkeypatch.setattr(jax_planner, "CLEARLY_FASTER", 1e9)  # no batch is
    monkeypatch.setattr(jax_planner.jax, "default_backend", lambda: "gpu")
    measured = backend.simulate(systems(), NVT, seed=3)
    assert backend.md.batches_pay is False
    assert distance(measured, alone) < 1e-3


def test_newtonian_dynamics_in_a_batch_conserves_energy_and_momentum(backend):
    nve = replace(NVT, ensemble=Ensemble.NVE, snapshot_interval=10)
    for atoms, trajectory in zip(systems(), together(backend, systems(), nve), strict=True):
        total = np.add(trajectory.potential_energy, trajectory.kinetic_energy)
        assert np.abs(total - total[0]).max() < 0.02 * np.mean(trajectory.kinetic_energy)
        centres = atoms.get_masses() @ np.asarray(trajectory.positions) / atoms.get_masses().sum()
        assert np.abs(centres - centres[0]).max() < 1e-5
