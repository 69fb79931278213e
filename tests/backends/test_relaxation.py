# SPDX-License-Identifier: Apache-2.0
"""Many systems relaxed together: the path of ASE's optimisers, and one bad system costs itself only."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.calculator import Calculator
from ase.mep import NEB
from ase.optimize import BFGS, FIRE

from mlipaudit.analysis.superposition import superposed_rmsd
from mlipaudit.backends.contract import Relaxation, backend_for, set_charge_and_spin
from mlipaudit.backends.elastic_band import Endpoints, Path, find_paths, interpolated
from mlipaudit.backends.relaxation import Bfgs, advance, downhill, minimise
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import ElasticBand, Minimisation, Optimizer

ASE = {Optimizer.BFGS: BFGS, Optimizer.FIRE: FIRE}


def rattled(name):
    atoms = molecule(name)
    atoms.rattle(0.1, seed=1)
    return atoms


def silent(what, done, total):
    pass


@pytest.fixture
def toy():
    return backend_for(ToyCalculator())


# The path


@pytest.mark.parametrize("optimizer", Optimizer)
@pytest.mark.parametrize("max_steps", [7, 300])
def test_same_path_as_ase(toy, optimizer, max_steps):
    atoms = rattled("CH3CH2OH")
    theirs = atoms.copy()
    theirs.calc = ToyCalculator()
    search = ASE[optimizer](theirs, logfile=None)
    converged = search.run(fmax=0.01, steps=max_steps)
    (ours,) = toy.minimise([atoms], Minimisation(max_steps, optimizer=optimizer))
    np.testing.assert_allclose(ours.positions, theirs.positions, atol=1e-6)
    assert (ours.num_steps, ours.converged) == (search.nsteps, converged)
    assert ours.energy == pytest.approx(theirs.get_potential_energy())
    assert ours.max_force == pytest.approx(np.linalg.norm(theirs.get_forces(), axis=1).max())


class Parabola(Calculator):
    """Every atom is tied to a place."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=None, system_changes=()):
        super().calculate(atoms, properties, system_changes)
        x = self.atoms.positions - 1.0
        self.results = {"energy": float((x**2).sum()), "forces": -2.0 * x}


@pytest.mark.parametrize("optimizer", Optimizer)
def test_finds_the_bottom_of_a_parabola(optimizer):
    protocol = Minimisation(300, max_force=1e-4, optimizer=optimizer)
    (found,) = backend_for(Parabola()).minimise([molecule("H2O")], protocol)
    assert found.converged
    np.testing.assert_allclose(found.positions, 1.0, atol=1e-4)


def test_no_atom_moves_farther_than_allowed():
    forces = np.array([[1e6, 0.0, 0.0], [0.0, 1.0, 0.0]])
    step = Bfgs(0.2).step(np.zeros((2, 3)), forces)
    assert np.linalg.norm(step, axis=1).max() == pytest.approx(0.2)


def test_a_force_that_never_changes_divides_by_nothing():
    optimiser, x, force = Bfgs(0.2), np.zeros((2, 3)), np.ones((2, 3))
    for _ in range(3):
        x = x + optimiser.step(x, force)
    assert np.isfinite(x).all()


def test_negative_curvatures_count_with_their_size():
    step = downhill(np.diag([2.0, -4.0]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(step, [0.5, 0.25])


# Together


def test_batched_equals_single(toy):
    systems = [rattled(name) for name in ("H2O", "CH4", "CH3OH")]
    for atoms, together in zip(systems, toy.minimise(systems, Minimisation(50)), strict=True):
        (alone,) = toy.minimise([atoms], Minimisation(50))
        np.testing.assert_array_equal(together.positions, alone.positions)
        assert (together.num_steps, together.energy) == (alone.num_steps, alone.energy)


def test_a_padded_batch_finds_the_same(backends):
    systems = [rattled("H2O"), rattled("CH3OH")]
    together = backends("tiny_mace").minimise(systems, Minimisation(4))
    for atoms, relaxed in zip(systems, together, strict=True):
        (alone,) = backends("tiny_mace").minimise([atoms], Minimisation(4))
        np.testing.assert_allclose(relaxed.positions, alone.positions, atol=1e-4)


def test_one_prediction_per_round_of_those_still_moving(toy):
    asked = []
    predict = toy.predict
    toy.predict = lambda systems, **options: asked.append(len(systems)) or predict(systems, **options)
    found = toy.minimise([rattled("H2O"), rattled("CH3OH")], Minimisation(60))
    steps = sorted(relaxed.num_steps for relaxed in found)
    assert steps[0] < steps[1]
    assert asked == [2] * (steps[0] + 1) + [1] * (steps[1] - steps[0])


def test_what_belongs_to_a_system_is_kept_and_nothing_is_changed(toy):
    atoms = set_charge_and_spin(rattled("CH3OH"), 1, 2)
    atoms.cell, atoms.pbc = [9.0, 9.0, 9.0], [True, True, False]
    before, seen = atoms.copy(), []
    predict = toy.predict
    toy.predict = lambda systems, **options: seen.extend(systems) or predict(systems, **options)
    toy.minimise([atoms], Minimisation(2))
    assert atoms == before and atoms.info == before.info
    assert len(seen) == 3
    for asked in seen:
        assert asked.info == before.info
        assert (asked.pbc == before.pbc).all() and (asked.cell == before.cell).all()


def test_no_systems_and_no_steps(toy):
    assert toy.minimise([], Minimisation(5)) == []
    (still,) = toy.minimise([rattled("H2O")], Minimisation(0))
    assert (still.num_steps, still.converged) == (0, False)
    np.testing.assert_array_equal(still.positions, rattled("H2O").positions)


def test_progress_counts_those_at_rest(toy):
    told = []
    minimise(toy, [rattled("H2O"), rattled("CH4")], Minimisation(60), progress=lambda *args: told.append(args))
    assert told[-1] == ("relaxations", 2, 2)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


# One bad system


class Sick(ToyCalculator):
    """The toy; what carbon, fluorine or neon is in fails, each in its own way."""

    allowed_atomic_numbers = frozenset(range(1, 18))

    def __init__(self):
        super().__init__()
        self.calls = {}

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        numbers = set(self.atoms.numbers.tolist())
        key = self.atoms.get_chemical_formula()
        self.calls[key] = self.calls.get(key, 0) + 1
        if 6 in numbers and self.calls[key] > 3:
            self.results["forces"] = np.full((len(self.atoms), 3), np.nan)
        if 9 in numbers and self.calls[key] > 2:
            raise RuntimeError("planted")


def test_one_bad_system_costs_itself_only(toy):
    systems = [rattled("H2O"), rattled("CH4"), rattled("HF"), Atoms("Ar"), rattled("NH3")]
    found = backend_for(Sick()).minimise(systems, Minimisation(60))
    kinds = [getattr(answer, "kind", None) for answer in found]
    expected = [None, FailureKind.NON_FINITE, FailureKind.EXCEPTION, FailureKind.MISSING_ELEMENTS, None]
    assert kinds == expected
    healthy = toy.minimise([systems[0], systems[-1]], Minimisation(60))
    for one, other in zip([found[0], found[-1]], healthy, strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)


def test_a_search_that_raises_or_never_ends(toy):
    def raising(atoms):
        yield [atoms]
        raise RuntimeError("planted")

    def endless(atoms):
        while True:
            yield [atoms]

    def asking_nothing():
        return "done"
        yield

    searches = [raising(molecule("H2O")), endless(molecule("H2O")), asking_nothing()]
    raised, unfinished, done = advance(toy, searches, max_rounds=4, what="tests", progress=silent)
    assert (raised.kind, unfinished.kind) == (FailureKind.EXCEPTION, FailureKind.INCOMPLETE)
    assert "planted" in raised.message and "4 rounds" in unfinished.message
    assert done == "done"


def test_forces_that_blow_up_end(toy):
    class Boom(ToyCalculator):
        def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
            super().calculate(atoms, properties, system_changes)
            self.results = {
                "energy": 0.0,
                "forces": np.full((len(self.atoms), 3), 1e6) * (self.atoms.numbers[:, None]),
            }

    (found,) = backend_for(Boom()).minimise([molecule("H2O")], Minimisation(20))
    assert isinstance(found, Relaxation) and not found.converged


# Bands


def inversion(sign):
    atoms = molecule("NH3")
    atoms.positions -= atoms.positions[0]
    atoms.positions[:, 2] *= sign
    return atoms


def protocol(*, climbing=True, steps=40):
    band = Minimisation(steps, max_force=0.5, max_step_length=0.03)
    climb = Minimisation(steps, max_force=0.05, max_step_length=0.03)
    return ElasticBand(Minimisation(20), 7, 0.1, band, climb if climbing else None)


def ammonia():
    planar = inversion(1)
    planar.positions[:, 2] = 0.0
    return Endpoints(inversion(1), inversion(-1), planar)


def ase_band(toy, settings):
    """The same by ASE alone."""
    ends = toy.minimise([inversion(1), inversion(-1)], settings.ends)
    first, last = inversion(1), inversion(-1)
    first.positions, last.positions = ends[0].positions, ends[1].positions
    images = (
        interpolated(first, ammonia().transition_state, 4) + interpolated(ammonia().transition_state, last, 4)[1:]
    )
    for image in images:
        image.calc = ToyCalculator()
    steps = []
    for stage, climb in ((settings.band, False), (settings.climbing, True)):
        band = NEB(images, k=0.1, climb=climb, method="improvedtangent")
        search = BFGS(band, alpha=70, maxstep=0.03, logfile=None)
        search.run(fmax=stage.max_force, steps=stage.max_steps)
        steps.append(search.nsteps)
    return np.array([image.positions for image in images]), steps, np.linalg.norm(band.get_forces(), axis=1).max()


def test_a_band_ends_where_ase_s_does(toy):
    (path,) = find_paths(toy, [ammonia()], protocol(), progress=silent)
    positions, steps, force = ase_band(toy, protocol())
    np.testing.assert_allclose(path.positions, positions, atol=1e-6)
    assert [path.num_band_steps, path.num_climbing_steps] == steps
    assert path.max_force == pytest.approx(force)
    assert path.forces.shape == (5, 4, 3)
    assert path.converged is bool(force < 0.05)
    assert len(path.energies) == 7


def test_climbing_can_be_left_out(toy):
    (path,) = find_paths(toy, [ammonia()], protocol(climbing=False), progress=silent)
    assert path.num_climbing_steps == 0
    assert path.converged is (path.max_force < 0.5)


def test_a_band_without_a_transition_state(toy):
    ends = Endpoints(inversion(1), turned_a_little(inversion(1)))
    (path,) = find_paths(toy, [ends], protocol(steps=2), progress=silent)
    assert path.positions.shape == (7, 4, 3)


def turned_a_little(atoms):
    atoms.rotate(20, "x", center=(0, 0, 0))
    return atoms


def test_the_first_band_goes_through_the_transition_state(toy):
    (path,) = find_paths(toy, [ammonia()], protocol(steps=0), progress=silent)
    np.testing.assert_allclose(path.positions[3], ammonia().transition_state.positions, atol=1e-12)


def test_bands_are_predicted_together_and_fail_alone(toy):
    asked = []
    sick = backend_for(Sick())
    predict = sick.predict
    sick.predict = lambda systems, **options: asked.append(len(systems)) or predict(systems, **options)
    shuffled = inversion(-1)[[1, 0, 2, 3]]
    methane = Endpoints(*(rattled("CH4") for _ in range(3)))
    reactions = [ammonia(), Endpoints(inversion(1), shuffled, None), methane, ammonia()]
    first, disordered, nan, again = find_paths(sick, reactions, protocol(steps=3), progress=silent)
    assert isinstance(first, Path) and isinstance(again, Path)
    np.testing.assert_array_equal(first.positions, again.positions)
    assert isinstance(disordered, Failure) and "orders" in disordered.message
    assert nan.kind is FailureKind.NON_FINITE and nan.message.startswith("reactants")
    assert asked[-1] == 2 * 5


# Superposition


def test_superposition_takes_out_rigid_motion_but_no_reflection():
    reference = rattled("CH3CH2OH")
    moved = reference.copy()
    moved.rotate(50, (1, 2, 3))
    moved.translate([1.0, -2.0, 3.0])
    assert superposed_rmsd(moved.positions, reference.positions) == pytest.approx(0.0, abs=1e-12)
    assert superposed_rmsd(-reference.positions, reference.positions) > 0.1


def test_superposition_of_a_known_distance():
    x = np.array([[0.0, 0, 0], [2.0, 0, 0]])
    assert superposed_rmsd(x, x * 1.5) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="superpose"):
        superposed_rmsd(x, x[:1])
