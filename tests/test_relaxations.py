# SPDX-License-Identifier: Apache-2.0
"""Relaxed geometries and reaction paths: what is no model scores nothing, and one bad system costs itself."""

import json

import numpy as np
import pytest
from ase.calculators.calculator import Calculator
from ase.calculators.lj import LennardJones

from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import nudged_elastic_band as neb
from mlipaudit.benchmarks import reference_geometry_stability as rgs
from mlipaudit.failures import FailureKind
from mlipaudit.families.relaxations import (
    RelaxedState,
    bond_graph,
    energy_rises,
    structure,
    why_apart,
    why_not_held,
)
from mlipaudit.protocol import ElasticBand, Minimisation, Push, Relaxations
from mlipaudit.testing import check_benchmark, check_result

GEOMETRIES, BANDS = rgs.ReferenceGeometryStabilityBenchmark, neb.NudgedElasticBandBenchmark


def short(cls, monkeypatch, steps=30):
    """The same benchmark with fewer steps."""
    band = Minimisation(steps, max_force=0.05, max_step_length=0.03)
    protocol = {
        GEOMETRIES: Relaxations(Minimisation(steps), max_systems=(2, 2)),
        BANDS: ElasticBand(Minimisation(steps), 10, 0.1, band, band, max_systems=2),
    }[cls]
    monkeypatch.setattr(cls, "protocols", dict.fromkeys(cls.protocols, protocol))


def judged(cls, model, data, mode="dev", **settings):
    benchmark = cls(model, data, mode, **settings)
    benchmark.run_model()
    return benchmark.analyze()


@pytest.fixture
def data(golden):
    return golden / "data"


class Flat(ToyCalculator):
    """No interaction at all."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": 0.0, "forces": 0.0 * self.atoms.positions}


class AlmostFlat(ToyCalculator):
    """The toy, a million times too soft: at rest everywhere, and yet its energy rises when pushed."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results = {name: 1e-6 * value for name, value in self.results.items()}


class NotANumber(Flat):
    """NaN for everything."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": np.nan, "forces": np.full((len(self.atoms), 3), np.nan)}


class Exploding(Flat):
    """Everything is pushed away from the first atom, with 1e6 eV/Å."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results["forces"] = 1e6 * (self.atoms.positions - self.atoms.positions[0])


NULL_MODELS = {
    "flat": Flat, "almost_flat": AlmostFlat, "nan": NotANumber, "exploding": Exploding, "toy": ToyCalculator,
    "lj": lambda: LennardJones(sigma=1.2, epsilon=0.05, rc=5.0),
}  # fmt: skip


@pytest.mark.parametrize("cls", [GEOMETRIES, BANDS], ids=lambda cls: cls.name)
@pytest.mark.parametrize("name", [*NULL_MODELS, "random"])
def test_null_models_score_nothing(cls, name, data, backends, monkeypatch):
    """The upper bound is 0 for each of them."""
    short(cls, monkeypatch, steps=6)
    monkeypatch.setattr(cls, "skip_if_elements_missing", False)
    model = backends("tiny_mace") if name == "random" else NULL_MODELS[name]()
    result = judged(cls, model, data)
    assert result.score == 0.0
    assert result.num_failed == (result.num_systems if cls is GEOMETRIES or name == "nan" else 0)


def test_without_forces_bands_converge_at_once_and_do_not_score(data):
    result = judged(BANDS, Flat(), data)
    assert (result.convergence_rate, result.score, result.num_wrong_paths) == (1.0, 0.0, 2)
    assert {(entry.joins_ends, entry.has_barrier) for entry in result.reaction_results} == {(True, False)}


def test_without_forces_geometries_stay_and_do_not_score(data):
    result = judged(GEOMETRIES, Flat(), data)
    assert {failure.kind for failure in result.failures.values()} == {FailureKind.EXPLODED}
    assert all("nothing holds" in failure.message for failure in result.failures.values())
    assert result.openff_neutral.rmsd_values == [None, None]
    assert (result.failed, result.openff_charged.num_exploded) == (True, 2)


class Springs(Calculator):
    """Harmonic about the reference of every molecule, every atom to every other; what a perfect model does."""

    implemented_properties = ["energy", "forces"]
    allowed_atomic_numbers = frozenset(range(1, 119))

    def __init__(self, references, stiffness=100.0):
        super().__init__()
        self.references, self.stiffness = references, stiffness

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        x, y = self.atoms.positions, self.references[self.atoms.get_chemical_formula()]
        now, then = (z[:, None] - z[None, :] for z in (x, y))
        r = np.linalg.norm(now, axis=-1) + np.eye(len(x))
        stretch = (r - np.linalg.norm(then, axis=-1) - np.eye(len(x))) / len(x)
        energy = 0.25 * self.stiffness * float((stretch**2).sum()) * len(x)
        forces = -self.stiffness * ((stretch / r)[..., None] * now).sum(axis=1)
        self.results = {"energy": energy, "forces": forces}


def perfect(data):
    references = {}
    for file in rgs.FILES.values():
        for molecule in json.loads((data / GEOMETRIES.name / file).read_text("utf-8")).values():
            atoms = structure(molecule["atom_symbols"], molecule["coordinates"], molecule["charge"])
            references[atoms.get_chemical_formula()] = atoms.positions
    return Springs(references)


def test_a_perfect_model_keeps_every_geometry(data):
    result = judged(GEOMETRIES, perfect(data), data, "standard")
    assert (result.score, result.num_failed, result.num_systems) == (1.0, 0, 4)
    assert result.avg_rmsd == pytest.approx(0.0, abs=1e-6)
    molecules = result.openff_neutral.molecules + result.openff_charged.molecules
    assert all(molecule.converged and molecule.energy_rise > 10 for molecule in molecules)
    assert result.warnings == []


def test_one_molecule_that_breaks_the_model_costs_itself(data):
    class Sick(Springs):
        def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
            super().calculate(atoms, properties, system_changes)
            if len(self.atoms) == 6:
                raise RuntimeError("planted")

    result = judged(GEOMETRIES, Sick(perfect(data).references), data)
    assert (result.score, result.num_failed, list(result.failures)) == (0.75, 1, ["openff_neutral/mol_1"])
    assert "planted" in result.failures["openff_neutral/mol_1"].message
    assert result.openff_neutral.rmsd_values[1] is None
    assert not result.openff_neutral.failed


@pytest.mark.parametrize("cls", [GEOMETRIES, BANDS], ids=lambda cls: cls.name)
def test_results_keep_the_contract(cls, data):
    check_benchmark(cls)
    check_result(cls(ToyCalculator(), data, "dev"))


def test_a_seed_decides_the_pushes(data):
    molecules = GEOMETRIES.load(data / GEOMETRIES.name, GEOMETRIES.protocols["dev"])
    small = molecules["openff_neutral"]["mol_1"]
    systems = [structure(small.atom_symbols, small.coordinates, 0)]
    backend = backend_for(perfect(data))
    relaxed = backend.minimise(systems, Minimisation(5))

    def rise(seed):
        options = {"seed": seed, "progress": lambda done, total: None}
        return energy_rises(backend, systems, relaxed, Push(), **options)[0]

    assert rise(0) == rise(0) != rise(1)


# Judging


def outcome(data, positions, **settings):
    """Result of one molecule that ended at `positions`."""
    group = GEOMETRIES.load(data / GEOMETRIES.name, GEOMETRIES.protocols["standard"])["openff_charged"]
    molecule = group["mol_1"]
    state = RelaxedState(positions=positions(np.array(molecule.coordinates))[None], **settings)
    return rgs._judge_molecule("mol_1", state, molecule, None)


def test_a_geometry_that_stayed(data):
    entry = outcome(data, lambda x: x + 5.0, energy_rise=0.1, converged=False)
    assert (entry.failed, entry.converged, entry.num_heavy_atoms) == (False, False, 8)
    assert entry.rmsd == pytest.approx(0.0, abs=1e-9)


def test_a_geometry_of_a_mirror_image_is_another_one(data):
    assert outcome(data, lambda x: x * [-1.0, 1.0, 1.0]).rmsd != pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    "change, kind, words",
    [
        (lambda x: np.where(np.arange(len(x))[:, None] == 0, x + 50.0, x), "exploded", "far from every other"),
        (lambda x: x * 1.6, "exploded", "broken"),
        (lambda x: x * np.nan, "non_finite", "not finite"),
        (lambda x: x[:-1], "incomplete", "shape"),
    ],
)
def test_a_geometry_that_came_apart(data, change, kind, words):
    entry = outcome(data, change)
    assert (entry.rmsd, entry.failed, entry.failure.kind) == (None, True, kind)
    assert words in entry.failure.message


def test_rises():
    assert why_not_held(None, 0.01) is why_not_held(0.01, 0.01) is None
    assert why_not_held(0.009, 0.01).kind is FailureKind.EXPLODED
    assert why_not_held(-1.0, 0.01).kind is FailureKind.EXPLODED
    assert why_not_held(np.nan, 0.01).kind is FailureKind.NON_FINITE


def test_which_atoms_are_bonded():
    water = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    assert bond_graph(["O", "H", "H"], water) == {(0, 1), (0, 2)}
    pulled = water.copy()
    for distance, words in ((1.4, None), (1.5, "bond O0–H1"), (3.0, "H1 is far")):
        pulled[1, 0] = distance
        failure = why_apart(pulled, water, "OHH")
        assert (failure is None) if words is None else words in failure.message


def band(data, energies, *, force=0.01, end=None):
    """Result of one reaction with a band of these energies (kcal/mol)."""
    (name, reaction), *_ = BANDS.load(data / BANDS.name, BANDS.protocols["dev"]).items()
    start, finish = np.array(reaction.reactants.coordinates), np.array(reaction.products.coordinates)
    positions = np.array([start, *[start] * (len(energies) - 2), finish if end is None else end(finish)])
    forces = np.full(((len(energies) - 2) * len(start), 3), force / np.sqrt(3))
    state = neb.BandState(
        positions=positions, forces=forces, potential_energy=np.array(energies) / neb.KCAL_MOL_PER_EV
    )
    return neb._judge(name, state, reaction, None)


def test_a_path(data):
    found = band(data, [0.0, 5.0, 20.0, 3.0, -4.0])
    assert (found.converged, found.joins_ends, found.has_barrier) == (True, True, True)
    assert found.path_max_force == found.max_force == pytest.approx(0.01)
    assert (found.barrier, found.reverse_barrier) == (pytest.approx(20.0), pytest.approx(24.0))
    assert found.barrier_abs_error == pytest.approx(abs(20.0 - found.barrier_ref))


@pytest.mark.parametrize(
    "change, converged, joins, barrier",
    [
        ({"energies": [0.0, -1.0, -2.0]}, True, True, False),
        ({"energies": [0.0, 0.5, 0.0]}, True, True, False),
        ({"energies": [0.0, 10.0, 20.0]}, True, True, False),
        ({"energies": [0.0, 9.0, 0.0], "end": lambda x: 1.4 * x}, True, False, True),
        ({"energies": [0.0, 9.0, 0.0], "force": 0.06}, False, True, True),
    ],
)
def test_what_is_no_path_does_not_score(data, change, converged, joins, barrier):
    found = band(data, **change)
    assert (found.converged, found.joins_ends, found.has_barrier) == (converged, joins, barrier)
    assert found.path_max_force is None or found.path_max_force >= neb.MAX_FORCE


def test_bands_that_are_missing_or_not_finite(data):
    benchmark = BANDS(ToyCalculator(), data, "dev")
    state = neb.BandState(forces=np.array([[np.nan, 0.0, 0.0]]))
    benchmark.model_output = neb.NEBModelOutput(simulation_states=[state])
    result = benchmark.analyze()
    kinds = [entry.failure.kind for entry in result.reaction_results]
    assert kinds == [FailureKind.NON_FINITE, FailureKind.INCOMPLETE]
    assert (result.failed, result.score, result.convergence_rate) == (True, 0.0, 0.0)
