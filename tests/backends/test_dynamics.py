# SPDX-License-Identifier: Apache-2.0
"""Dynamics is physics, the same on both engines, and ends with a name when it leaves the physical range."""

from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, molecule

from mlipaudit.backends import graph_calculator, jax_batch
from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.dynamics import initial_velocities, temperature_of
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import Ensemble, MolecularDynamics

NVE = MolecularDynamics(
    num_steps=40, snapshot_interval=10, log_interval=20, ensemble=Ensemble.NVE, timestep_fs=0.5
)
NVT = replace(NVE, ensemble=Ensemble.NVT_LANGEVIN)


def drift(trajectory):
    """Largest deviation of the total energy from its start, eV."""
    total = np.add(trajectory.potential_energy, trajectory.kinetic_energy)
    return float(np.abs(total - total[0]).max())


def toy_cluster():
    return Atoms("H4", 1.45 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]))


def test_energy_error_of_velocity_verlet_falls_with_the_square_of_the_time_step():
    backend = backend_for(ToyCalculator(depth=0.5))
    errors = []
    for timestep in (0.4, 0.2):
        steps = round(40 / timestep)
        protocol = replace(NVE, num_steps=steps, snapshot_interval=1, timestep_fs=timestep)
        errors.append(drift(backend.simulate([toy_cluster()], protocol)[0]))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_both_engines_follow_the_same_newtonian_trajectory(backends):
    jax_md, ase = (
        backends("tiny_mace").simulate([molecule("CH3OH")], NVE, engine=e)[0] for e in ("jax_md", "ase")
    )
    assert jax_md.failure is None
    assert jax_md.steps == ase.steps == [0, 10, 20, 30, 40]
    np.testing.assert_allclose(jax_md.positions, ase.positions, atol=1e-4)
    np.testing.assert_allclose(jax_md.kinetic_energy, ase.kinetic_energy, atol=1e-4)
    np.testing.assert_allclose(jax_md.potential_energy, ase.potential_energy, atol=1e-3)


def test_a_trajectory_does_not_depend_on_when_neighbour_lists_are_rebuilt(backends, monkeypatch):
    rebuilds = []
    rebuild = jax_batch.Batch._rebuild
    monkeypatch.setattr(jax_batch.Batch, "_rebuild", lambda self: rebuilds.append(1) or rebuild(self))
    (rare,) = backends("tiny_mace").simulate([molecule("CH3OH")], NVT)
    few = len(rebuilds)
    monkeypatch.setattr(jax_batch, "SKIN", 0.1)
    (often,) = backends("tiny_mace").simulate([molecule("CH3OH")], NVT)
    assert often.failure is None
    assert len(rebuilds) - few > few + 3
    np.testing.assert_allclose(often.positions, rare.positions, atol=1e-4)


def test_crossing_a_periodic_boundary_changes_nothing(backends):
    crystal = bulk("C", "diamond", a=3.57, cubic=True)
    shifted = crystal.copy()
    shifted.positions += [1.7, 0.0, 3.3]
    wrapped = shifted.copy()
    wrapped.wrap()
    free, folded = (
        backends("tiny_mace").simulate([shifted], NVE)[0],
        backends("tiny_mace").simulate([wrapped], NVE)[0],
    )
    np.testing.assert_allclose(free.potential_energy, folded.potential_energy, atol=2e-3)
    np.testing.assert_allclose(free.kinetic_energy, folded.kinetic_energy, atol=1e-4)


def test_the_langevin_thermostat_holds_its_temperature_on_both_engines(backends):
    # Free atoms: the kinetic energy is the whole story, and its mean and spread are known exactly.
    gas = Atoms("O64", 40.0 * np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3))
    protocol = MolecularDynamics(num_steps=3000, snapshot_interval=30, log_interval=3000, friction_per_ps=50.0)
    kinetic = backends("tiny_mace").simulate([gas], protocol)[0].kinetic_energy[20:]
    expected = 1.5 * 64 * units.kB * 300
    # 3N/2 kT with relative spread sqrt(2/3N); neighbouring frames, 1.5 relaxation times apart, are nearly independent.
    assert np.mean(kinetic) == pytest.approx(expected, rel=4 * np.sqrt(2 / 192) / np.sqrt(80))
    assert np.std(kinetic) == pytest.approx(expected * np.sqrt(2 / 192), rel=0.35)


def test_starting_velocities_have_the_temperature_and_no_net_momentum():
    atoms = Atoms("H500O500", np.zeros((1000, 3)))
    velocities = initial_velocities(atoms, 300.0, (0, 0))
    momenta = atoms.get_masses()[:, None] * velocities
    np.testing.assert_allclose(momenta.sum(axis=0), 0.0, atol=1e-9)
    kinetic = 0.5 * float((momenta * velocities).sum())
    assert temperature_of(kinetic, 1000) == pytest.approx(300.0, rel=4 * np.sqrt(2 / 3000))
    assert np.array_equal(velocities, initial_velocities(atoms, 300.0, (0, 0)))
    assert not np.array_equal(velocities, initial_velocities(atoms, 300.0, (0, 1)))


def test_momentum_is_conserved_in_nve(backends):
    atoms = molecule("CH3OH")
    (trajectory,) = backends("tiny_mace").simulate([atoms], NVE)
    centres = atoms.get_masses() @ np.asarray(trajectory.positions) / atoms.get_masses().sum()
    np.testing.assert_allclose(centres, np.broadcast_to(centres[0], centres.shape), atol=1e-5)
    assert np.abs(trajectory.positions[-1] - trajectory.positions[0]).max() > 0.01


def test_seeds_are_per_system_and_a_run_repeats_itself(backends):
    water = molecule("H2O")
    first, second = backends("tiny_mace").simulate([water, water], NVT)
    again, _ = backends("tiny_mace").simulate([water, water], NVT)
    np.testing.assert_array_equal(first.positions, again.positions)
    assert np.abs(first.positions[-1] - second.positions[-1]).max() > 1e-3


@pytest.mark.parametrize("engine", ["jax_md", "ase"])
def test_a_model_of_nans_fails_at_once(engine, backends):
    (result,) = backends("nan_mace").simulate([molecule("H2O")], NVT, engine=engine)
    failure = result if isinstance(result, Failure) else result.failure
    assert failure.kind is FailureKind.NON_FINITE


@pytest.mark.parametrize("engine", ["jax_md", "ase"])
def test_an_exploding_model_is_stopped(engine, backends):
    protocol = replace(NVT, num_steps=400, timestep_fs=1.0)
    (result,) = backends("boom_mace").simulate([molecule("CH3CH2OH")], protocol, engine=engine)
    assert result.failure.kind in (FailureKind.EXPLODED, FailureKind.NON_FINITE, FailureKind.NEIGHBOUR_OVERFLOW)
    assert len(result.steps) <= result.failure.frame


@pytest.mark.parametrize("engine", ["jax_md", "ase"])
def test_a_neighbour_list_that_keeps_growing_ends_with_a_name(engine, backends, monkeypatch):
    monkeypatch.setattr(graph_calculator, "MAX_GROWTHS", 0)
    result = backends("tiny_mace").simulate([molecule("H2O")], NVE, engine=engine)[0]
    failure = result if isinstance(result, Failure) else result.failure
    assert failure.kind is FailureKind.NEIGHBOUR_OVERFLOW


def test_an_overflowing_list_grows_and_the_trajectory_goes_on(backends, monkeypatch):
    (roomy,) = backends("tiny_mace").simulate([molecule("CH3OH")], NVE)
    # Room for two pairs only: the very first step overflows.
    monkeypatch.setattr(jax_batch, "grown", lambda needed, *, growths: 2 if growths == 1 and needed < 31 else 64)
    (cramped,) = backends("tiny_mace").simulate([molecule("CH3OH")], NVE)
    assert cramped.failure is None
    np.testing.assert_allclose(cramped.positions, roomy.positions, atol=1e-4)


def test_an_observer_sees_every_report_and_can_stop():
    reports = []

    def observer(report):
        reports.append(report.step)
        return report.step == 20

    (trajectory,) = backend_for(ToyCalculator()).simulate([toy_cluster()], NVE, observer=observer)
    assert reports == [0, 20]
    assert trajectory.steps == [0, 10, 20]


def test_one_system_that_cannot_be_simulated_costs_only_itself(backends):
    good, bad = backends("tiny_mace").simulate([molecule("H2O"), Atoms("Hf")], NVE)
    assert good.failure is None
    assert bad.kind is FailureKind.MISSING_ELEMENTS
