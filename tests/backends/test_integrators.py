# SPDX-License-Identifier: Apache-2.0
"""Both engines integrate the equations of motion: order, distributions, conservation laws, on analytic potentials."""

import tracemalloc
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
    cutoff_distance: float = CUTOFF
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
        i, vectors, r = neighbor_list("iDd", self.atoms, reach(self.potential))
        h = 1e-4
        above, below = (np.asarray(self.potential(r + s), np.float64) for s in (h, -h))
        forces = np.zeros((len(self.atoms), 3))
        np.add.at(forces, i, ((above - below) / (2 * h) / r)[:, None] * vectors)
        self.results = {"energy": 0.5 * float(np.sum(self.potential(r))), "forces": forces}


@pytest.fixture(params=("jax_md", "ase"))
def engine(request):
    return request.param


def reach(potential):
    return 0.1 if potential is nothing else CUTOFF


def backend(potential, engine):
    if engine == "jax_md":
        return backend_for(Pairs(potential=potential, cutoff_distance=reach(potential)))
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


# Constant pressure


def at_pressure(atoms, *, molecules):
    atoms.set_array("molecule", np.repeat(np.arange(molecules), len(atoms) // molecules))
    return atoms


def ideal_gas(molecules=12, volume=600.0):
    """Pairs of atoms that feel nothing at all, one molecule each as far as the barostat is concerned."""
    side = volume ** (1 / 3)
    centres = np.random.default_rng(0).random((molecules, 1, 3)) * side
    positions = (centres + np.array([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]])).reshape(-1, 3)
    return at_pressure(Atoms("C" * 2 * molecules, positions, cell=[side] * 3, pbc=True), molecules=molecules)


def nothing(r):
    return 0.0 * r


def test_an_ideal_gas_has_the_volume_and_its_fluctuations_that_theory_says(engine):
    """p(V) ~ V^N exp(-PV/kT): mean (N + 1) kT/P and spread sqrt(N + 1) kT/P, N molecules whatever their atoms do."""
    attempts = {"jax_md": 800, "ase": 1200}[engine]
    protocol = MolecularDynamics(
        num_steps=2 * attempts,
        snapshot_interval=2,
        log_interval=10**6,
        ensemble=Ensemble.NPT_LANGEVIN,
        pressure_bar=1000.0,
        barostat_interval=2,
        friction_per_ps=1.0,
    )
    (trajectory,) = backend(nothing, engine).simulate([ideal_gas()], protocol, seed=1)
    assert trajectory.failure is None
    volumes = np.prod(trajectory.cells, axis=1)[attempts // 5 :]
    scale = units.kB * 300.0 / (1000.0 * units.bar)
    blocks = volumes[: len(volumes) // 20 * 20].reshape(20, -1).mean(axis=1)
    error = blocks.std(ddof=1) / np.sqrt(20)
    assert error < 0.15 * 13 * scale
    assert np.mean(volumes) == pytest.approx(13 * scale, abs=4 * error)
    assert np.std(volumes) == pytest.approx(np.sqrt(13) * scale, rel=0.35)


def test_a_lennard_jones_fluid_is_as_dense_on_both_engines():
    protocol = MolecularDynamics(
        num_steps=1000,
        snapshot_interval=4,
        log_interval=10**6,
        timestep_fs=8.0,
        temperature_kelvin=110.0,
        ensemble=Ensemble.NPT_LANGEVIN,
        pressure_bar=300.0,
        barostat_interval=4,
    )
    found = []
    for engine in ("jax_md", "ase"):
        fluid = at_pressure(argon(2, spacing=5.6), molecules=32)
        (trajectory,) = backend(lennard_jones, engine).simulate([fluid], protocol, seed=5)
        assert trajectory.failure is None
        volumes = np.prod(trajectory.cells, axis=1)[50:]
        blocks = volumes[: len(volumes) // 8 * 8].reshape(8, -1).mean(axis=1)
        found.append((volumes.mean(), blocks.std(ddof=1) / np.sqrt(8)))
        assert np.mean(trajectory.temperature[50:]) == pytest.approx(110.0, rel=0.15)
    (one, its_error), (other, others_error) = found
    assert abs(one - other) < 4 * np.hypot(its_error, others_error)
    assert np.hypot(its_error, others_error) < 0.1 * one


def test_molecules_move_whole_when_the_volume_changes():
    from mlipaudit.backends.barostat import Barostat
    from mlipaudit.backends.contract import SystemRun

    protocol = MolecularDynamics(10, 1, 10, ensemble=Ensemble.NPT_LANGEVIN)
    run = SystemRun(0, ideal_gas(), protocol, (0, 0))
    atoms = run.atoms.copy()
    Barostat(run).propose(atoms, step=25)
    factor = atoms.cell.lengths()[0] / run.atoms.cell.lengths()[0]
    assert factor != 1.0
    bonds = atoms.positions[1::2] - atoms.positions[::2]
    np.testing.assert_allclose(bonds, run.atoms.positions[1::2] - run.atoms.positions[::2], atol=1e-9)
    centres = [0.5 * (a.positions[1::2] + a.positions[::2]) for a in (run.atoms, atoms)]
    np.testing.assert_allclose(centres[1], factor * centres[0], atol=1e-9)


def test_constant_pressure_needs_molecules_and_a_box(engine):
    protocol = MolecularDynamics(10, 1, 10, ensemble=Ensemble.NPT_LANGEVIN)
    (failure,) = backend(harmonic, engine).simulate([dimers(2)], protocol)
    assert "periodic box" in failure.message


def test_an_interrupted_run_at_constant_pressure_continues_to_the_same_boxes(engine, tmp_path):
    from mlipaudit.backends.checkpoints import Checkpoints

    protocol = MolecularDynamics(
        60, 10, 20, ensemble=Ensemble.NPT_LANGEVIN, pressure_bar=1000.0, barostat_interval=5, timestep_fs=0.5
    )

    def simulate(**settings):
        return backend(nothing, engine).simulate([ideal_gas()], protocol, seed=2, **settings)[0]

    def stop(report):
        if report.step == 40:
            raise KeyboardInterrupt

    whole = simulate()
    with pytest.raises(KeyboardInterrupt):
        simulate(checkpoints=Checkpoints(tmp_path, "one", interval_s=0.0), observer=stop)
    continued = simulate(checkpoints=Checkpoints(tmp_path, "one", interval_s=0.0))
    assert len(whole.cells) == len(continued.cells) == 7
    assert np.ptp(whole.cells) > 0
    np.testing.assert_allclose(continued.cells, whole.cells, atol=1e-6)
    np.testing.assert_allclose(continued.positions, whole.positions, atol=1e-4)


def peak_megabytes(run):
    """What numpy and Python held at most while something ran; files mapped into memory do not count."""
    tracemalloc.start()
    try:
        result = run()
        return result, tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_steps(tmp_path):
    from mlipaudit.backends.checkpoints import Checkpoints

    model, crystal = backend(lennard_jones, "jax_md"), argon(7)
    settings = {"timestep_fs": 4.0, "temperature_kelvin": 40.0}
    short, long = (MolecularDynamics(steps, 1, 50, **settings) for steps in (50, 1000))
    model.simulate([crystal], short, checkpoints=Checkpoints(tmp_path / "short", "one"))
    (on_disk,), streamed = peak_megabytes(
        lambda: model.simulate([crystal], long, checkpoints=Checkpoints(tmp_path / "long", "one"))
    )
    (in_memory,), held = peak_megabytes(lambda: model.simulate([crystal], long))
    frames = 1000 * len(crystal) * 12 / 1e6
    assert len(on_disk.positions) == len(in_memory.positions) == 1001
    assert streamed < 0.4 * frames
    assert held > frames, "what is held in memory would be seen"
