# SPDX-License-Identifier: Apache-2.0
"""Both engines integrate the equations of motion: order, distributions, conservation laws, on analytic potentials."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.neighborlist import neighbor_list
from jax.ops import segment_sum
from mlip.models import ForceField
from mlip.typing import Prediction
from scipy import stats

from mlipaudit.backends.contract import backend_for
from mlipaudit.protocol import Ensemble, MolecularDynamics

CUTOFF = 6.0


def harmonic(r):
    """Pairs bound by a spring, 10 eV/Å² at 1.2 Å; nothing between those that are far apart."""
    return jnp.where(r < 2.5, 5.0 * jnp.square(r - 1.2), 0.0)


def lennard_jones(r):
    """Argon, 0.0103 eV and 3.4 Å, led to zero at the cutoff with its slope."""
    x = (3.4 / r) ** 6
    return jnp.where(r < CUTOFF, 4 * 0.0103 * (x**2 - x) * (1 - (r / CUTOFF) ** 2) ** 2, 0.0)


@dataclass(frozen=True, eq=False)
class Pairs(ForceField):
    """An analytic pair potential as an mlip force field."""

    predictor: None = None
    params: tuple = ()
    potential: Callable = harmonic
    allowed_atomic_numbers = frozenset(range(1, 119))
    cutoff_distance = CUTOFF
    long_range_cutoff_distance = None
    config = None

    def __call__(self, graph):
        system = jnp.repeat(
            jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=len(graph.nodes.positions)
        )

        def energies(positions):
            vectors = positions[graph.receivers] - positions[graph.senders]
            if graph.edges.shifts is not None:
                vectors += jnp.einsum("ei,eij->ej", graph.edges.shifts, graph.globals.cell[system[graph.senders]])
            own = graph.senders == graph.receivers
            r = jnp.sqrt(jnp.sum(jnp.square(vectors), axis=-1) + own)
            each = jnp.where(own, 0.0, 0.5 * self.potential(r))
            return segment_sum(each, system[graph.senders], len(graph.n_node))

        gradient = jax.grad(lambda positions: energies(positions).sum())(graph.nodes.positions)
        return Prediction(energy=energies(graph.nodes.positions), forces=-gradient)


class PairCalculator(Calculator):
    """The same in double precision, for ASE."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, potential):
        super().__init__()
        self.potential = potential

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        i, vectors, r = neighbor_list("iDd", self.atoms, CUTOFF)
        h = 1e-4
        above, below = (np.asarray(self.potential(r + s), np.float64) for s in (h, -h))
        forces = np.zeros((len(self.atoms), 3))
        np.add.at(forces, i, ((above - below) / (2 * h) / r)[:, None] * vectors)
        self.results = {"energy": 0.5 * float(np.sum(self.potential(r))), "forces": forces}


@pytest.fixture(params=("jax_md", "ase"))
def engine(request):
    return request.param


def backend(potential, engine):
    if engine == "jax_md":
        return backend_for(Pairs(potential=potential))
    return backend_for(PairCalculator(potential))


def dimers(number=20):
    """Springs far apart from each other."""
    first = 20.0 * np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3)[:number]
    return Atoms("C" * 2 * number, np.stack([first, first + np.array([1.2, 0.0, 0.0])], axis=1).reshape(-1, 3))


def argon(cells=2, spacing=5.4):
    """A face-centred crystal."""
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3), axis=-1).reshape(-1, 1, 3)
    positions = spacing * (corners + basis).reshape(-1, 3)
    return Atoms(f"Ar{len(positions)}", positions, cell=[cells * spacing] * 3, pbc=True)


SYSTEMS = {"harmonic": (harmonic, dimers, 0.5, 300.0), "lennard_jones": (lennard_jones, argon, 8.0, 60.0)}
"""Potential, system, time step in fs, temperature in K."""


def total_energy(name, engine, timestep, *, femtoseconds):
    potential, system, _, temperature = SYSTEMS[name]
    steps = round(femtoseconds / timestep)
    protocol = MolecularDynamics(
        steps, 1, steps, timestep_fs=timestep, temperature_kelvin=temperature, ensemble=Ensemble.NVE
    )
    (trajectory,) = backend(potential, engine).simulate([system()], protocol)
    assert trajectory.failure is None
    return np.add(trajectory.potential_energy, trajectory.kinetic_energy), trajectory


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_energy_error_falls_with_the_square_of_the_time_step(name, engine):
    timestep = 2 * SYSTEMS[name][2]
    errors = []
    for fraction in (1, 2):
        energy, _ = total_energy(name, engine, timestep / fraction, femtoseconds=64 * timestep)
        errors.append(float(np.std(energy[fraction - 1 :: fraction] - energy[0])))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.25)


@pytest.mark.parametrize("name", SYSTEMS)
def test_energy_does_not_drift_and_momentum_stays_zero(name, engine):
    timestep = SYSTEMS[name][2]
    energy, trajectory = total_energy(name, engine, timestep, femtoseconds=300 * timestep)
    times = np.arange(len(energy))
    slope = np.polyfit(times, energy - energy[0], 1)[0]
    assert abs(slope) * len(times) < 0.01 * np.mean(trajectory.kinetic_energy)
    atoms = SYSTEMS[name][1]()
    centres = atoms.get_masses() @ np.asarray(trajectory.positions) / atoms.get_masses().sum()
    assert np.abs(centres - centres[0]).max() < 3e-5


def test_both_engines_drift_and_are_as_hot_alike():
    found = [total_energy("lennard_jones", e, 8.0, femtoseconds=1600) for e in ("jax_md", "ase")]
    (jax_energy, jax_run), (ase_energy, ase_run) = found
    assert np.mean(jax_run.temperature) == pytest.approx(np.mean(ase_run.temperature), rel=1e-3)
    np.testing.assert_allclose(jax_energy - jax_energy[0], ase_energy - ase_energy[0], atol=1e-3)


@pytest.mark.parametrize("friction", (5.0, 50.0))
def test_the_thermostat_gives_oscillators_the_canonical_kinetic_energy(friction, engine):
    """Kinetic energy in kT/2 is chi-squared with 3N degrees of freedom, whatever the potential."""
    if engine == "ase" and friction == 5.0:
        pytest.skip("minutes on ASE; the other friction is enough there")
    number, frames, every = {"jax_md": 20, "ase": 2}[engine], 60, round(2000 / friction)
    protocol = MolecularDynamics(
        num_steps=frames * every,
        snapshot_interval=every,
        log_interval=10**6,
        timestep_fs=1.0,
        friction_per_ps=friction,
    )
    model = backend(harmonic, engine)
    if engine == "jax_md":
        model.md.batches_pay = True
    trajectories = model.simulate([dimers(1)] * number, protocol, seed=1)
    # Frames are two relaxation times apart; the first of them still remember a start without potential energy.
    kinetic = np.concatenate([t.kinetic_energy[5:] for t in trajectories])
    reduced = 2 * kinetic / (units.kB * 300.0)
    assert np.mean(reduced) == pytest.approx(6, rel=4 * np.sqrt(2 / 6 / len(reduced)))
    assert stats.kstest(reduced, stats.chi2(6).cdf).pvalue > 0.01


def test_the_thermostat_stretches_springs_as_the_boltzmann_factor_says():
    protocol = MolecularDynamics(
        num_steps=10_000, snapshot_interval=40, log_interval=10**6, timestep_fs=1.0, friction_per_ps=50.0
    )
    (trajectory,) = backend(harmonic, "jax_md").simulate([dimers(20)], protocol, seed=2)
    frames = np.asarray(trajectory.positions)[10:]
    lengths = np.linalg.norm(frames[:, 1::2] - frames[:, ::2], axis=-1).ravel()
    # p(r) ~ r² exp(-k (r - r0)² / 2 kT): mean and spread by quadrature.
    r = np.linspace(0.6, 1.8, 20001)
    weight = r**2 * np.exp(-5.0 * (r - 1.2) ** 2 / (units.kB * 300.0))
    mean = (weight * r).sum() / weight.sum()
    spread = np.sqrt((weight * (r - mean) ** 2).sum() / weight.sum())
    assert np.mean(lengths) == pytest.approx(mean, abs=4 * spread / np.sqrt(len(lengths) / 4))
    assert np.std(lengths) == pytest.approx(spread, rel=0.06)
