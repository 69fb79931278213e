# SPDX-License-Identifier: Apache-2.0
"""Comparing energies: a perfect model scores 1, a broken one nothing, and one bad structure costs its system only."""

import json
import math

import numpy as np
import pytest

from mlipaudit.analysis.correlation import pearson, spearman
from mlipaudit.backends.ase_calculator import CalculatorBackend
from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import (
    ConformerSelectionBenchmark,
    DihedralScanBenchmark,
    NoncovalentInteractionsBenchmark,
    ReactivityBenchmark,
    TautomersBenchmark,
)
from mlipaudit.failures import FailureKind
from mlipaudit.families.relative_energies import mean_of, profile_score, relative_profile_error, rms_of
from mlipaudit.testing import check_result, oracle_for

FAMILY = [
    ConformerSelectionBenchmark,
    DihedralScanBenchmark,
    NoncovalentInteractionsBenchmark,
    ReactivityBenchmark,
    TautomersBenchmark,
]
family = pytest.mark.parametrize("cls", FAMILY, ids=lambda cls: cls.name)
EMBEDDED = {"run_mode": "fast", "data": "embedded"}
ERRORS = {
    "conformer_selection": ["avg_mae", "avg_rmse"],
    "dihedral_scan": ["avg_mae", "avg_rmse", "mae_barrier_height"],
    "noncovalent_interactions": ["mae_interaction_energy_all", "rmse_interaction_energy_all"],
    "reactivity": ["mae_activation_energy", "rmse_activation_energy", "mae_enthalpy_of_reaction"],
    "tautomers": ["mae", "rmse"],
}


def judged(cls, backend, **settings):
    benchmark = cls(backend, **{**EMBEDDED, **settings})
    benchmark.run_model()
    return benchmark.analyze()


def structures(cls):
    benchmark = cls(OracleBackend([]), **EMBEDDED)
    return cls.structures(benchmark.reference)


@family
@pytest.mark.parametrize("offset", [0.0, -1234.5])
def test_a_perfect_model_scores_one_whatever_its_zero_of_energy(cls, offset):
    result = judged(cls, oracle_for(cls, offset=offset, **EMBEDDED))
    assert result.score == 1.0
    assert result.num_failed == 0
    for field in ERRORS[cls.name]:
        assert getattr(result, field) == pytest.approx(0.0, abs=1e-8)
    if cls in (DihedralScanBenchmark, NoncovalentInteractionsBenchmark):
        assert result.profile_score == pytest.approx(1.0)


@family
def test_results_keep_the_contract(cls):
    check_result(cls(oracle_for(cls, **EMBEDDED), **EMBEDDED))


@family
def test_there_are_enough_systems_for_a_score(cls):
    assert len(structures(cls)) >= (10 if cls is ConformerSelectionBenchmark else 12)


@family
def test_dev_takes_the_first_few(cls):
    result = judged(cls, oracle_for(cls, **EMBEDDED), run_mode="dev")
    assert result.num_systems == (1 if cls is ConformerSelectionBenchmark else 2)
    assert list(structures(cls))[: result.num_systems] == sorted(
        result.worst_systems, key=list(structures(cls)).index
    )


# One bad structure


class OneBad(CalculatorBackend):
    """The toy, except for one structure."""

    def __init__(self, atoms, how):
        super().__init__(ToyCalculator())
        self.bad, self.how = atoms.positions.tobytes(), how

    def _predict_one(self, atoms, **what):
        answer = super()._predict_one(atoms, **what)
        if atoms.positions.tobytes() != self.bad:
            return answer
        return self.how()


def raising():
    from mlipaudit.failures import Failure

    return Failure.from_exception(RuntimeError("planted"))


def not_a_number():
    from mlipaudit.backends.contract import Prediction

    return Prediction(math.nan)


def no_memory():
    from mlipaudit.failures import Failure

    return Failure.from_exception(MemoryError())


@family
@pytest.mark.parametrize(
    "how, kind", [(raising, "exception"), (not_a_number, "non_finite"), (no_memory, "out_of_memory")]
)
def test_one_bad_structure_costs_its_system_only(cls, how, kind):
    systems = structures(cls)
    name = list(systems)[3]
    good = judged(cls, ToyCalculator())
    bad = judged(cls, OneBad(systems[name][1].atoms, how))
    assert {n: f.kind for n, f in bad.failures.items()} == {name: FailureKind(kind)}
    assert (bad.num_systems, bad.num_failed) == (len(systems), 1)
    assert bad.worst_systems[0] == name or name in bad.worst_systems
    others = entries(good)
    del others[name]
    assert {n: e for n, e in entries(bad).items() if n != name} == others


def entries(result):
    """System -> its entry as JSON."""
    if hasattr(result, "reaction_results"):
        return {name: json.loads(entry.model_dump_json()) for name, entry in result.reaction_results.items()}
    (field,) = {"molecules", "fragments", "systems"} & set(type(result).model_fields)
    key = {
        "molecules": ("molecule_name", "structure_id"),
        "fragments": ("fragment_name",),
        "systems": ("system_id",),
    }
    found = {}
    for entry in getattr(result, field):
        (name,) = (getattr(entry, k) for k in key[field] if hasattr(entry, k))
        found[name] = json.loads(entry.model_dump_json())
    return found


# Null models: what is no model of chemistry does not score, or the page says where it does


class Flat(ToyCalculator):
    """No interaction at all."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": 0.0, "forces": 0.0 * self.atoms.positions}


class NotANumber(Flat):
    """NaN for everything."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results["energy"] = math.nan


class LennardJones(ToyCalculator):
    """ASE's, with one size for all elements."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        from ase.calculators.lj import LennardJones as Ase

        super().calculate(atoms, properties, system_changes)
        inner = Ase(sigma=1.2, epsilon=0.05, rc=5.0)
        inner.calculate(self.atoms, ["energy"], ["positions"])
        self.results["energy"] = inner.results["energy"]


BOUNDS = {
    "conformer_selection": {"flat": 0.5, "lj": 0.7, "random": 0.5},
    "dihedral_scan": {"flat": 0.06, "lj": 0.3, "random": 0.07},
    "noncovalent_interactions": {"flat": 0.03, "lj": 0.12, "random": 0.04},
    "reactivity": {"flat": 0.04, "lj": 0.09, "random": 0.05},
    "tautomers": {"flat": 0.001, "lj": 0.001, "random": 0.001},
}
"""The most that a model without chemistry may score on the embedded data."""


def null_model(name, backends):
    models = {"flat": Flat, "lj": LennardJones}
    return backends("tiny_mace") if name == "random" else models[name]()


@family
@pytest.mark.parametrize("name", ["flat", "lj", "random"])
def test_null_models_stay_below_their_bound(cls, name, backends):
    result = judged(cls, null_model(name, backends))
    assert result.num_failed == 0
    assert result.score <= BOUNDS[cls.name][name]
    if hasattr(result, "profile_score"):
        assert result.profile_score <= 0.05


@family
def test_a_model_of_nans_scores_nothing(cls):
    result = judged(cls, NotANumber())
    assert (result.score, result.failed) == (0.0, True)
    assert {failure.kind for failure in result.failures.values()} == {FailureKind.NON_FINITE}


# What the published score lets through


def test_an_inverted_torsion_profile_scores_one_but_its_shape_does_not():
    labelled = [
        (atoms, -energy) for group in structures(DihedralScanBenchmark).values() for atoms, energy in group
    ]
    result = judged(DihedralScanBenchmark, OracleBackend(labelled))
    assert result.score == 1.0
    assert result.profile_score < 1e-6
    assert result.avg_pearson_r == pytest.approx(-1.0)


# Elements


class OnlyHydrocarbons(ToyCalculator):
    """Covers H and C."""

    allowed_atomic_numbers = frozenset({1, 6})


def test_dimers_with_other_elements_are_skipped_and_count_nothing():
    result = judged(NoncovalentInteractionsBenchmark, OnlyHydrocarbons())
    systems = structures(NoncovalentInteractionsBenchmark)
    covered = [name for name, group in systems.items() if set(group[0].atoms.numbers) <= {1, 6}]
    assert 0 < len(covered) < len(systems)
    assert result.n_skipped_unallowed_elements == result.num_skipped == len(systems) - len(covered)
    assert (result.num_systems, result.num_failed) == (len(systems), 0)
    assert [system.system_id for system in result.systems] == covered
    assert {failure.kind for failure in result.failures.values()} == {FailureKind.MISSING_ELEMENTS}


# Arithmetic


def test_aggregates():
    mean = mean_of([1.0, None, 3.0])
    assert (mean.value, mean.median) == (2.0, 2.0)
    assert mean.interval == (1.0, 3.0)
    rms = rms_of([3.0, -4.0])
    assert rms.value == pytest.approx(math.sqrt(12.5))
    assert rms.interval == (pytest.approx(3.0), pytest.approx(4.0))
    assert mean_of([None]) is None and rms_of([]) is None
    assert mean_of([1.0]).interval is None


def test_relative_errors_of_profiles():
    profile = np.array([0.0, 3.0, -1.0, 2.0])
    assert relative_profile_error(profile, profile) == 0.0
    assert relative_profile_error(0 * profile, profile) == pytest.approx(1.0)
    assert relative_profile_error(-profile, profile) == pytest.approx(2.0)
    assert relative_profile_error(profile, 0 * profile) is None
    assert profile_score([0.2, 0.4, None]).value == pytest.approx((1 + math.exp(-3) + 0) / 3)


def test_correlations_that_exist_and_that_do_not():
    x = np.array([0.0, 1.0, 2.0, 4.0])
    assert pearson(x, 2 * x + 1).coefficient == pytest.approx(1.0)
    assert spearman(x, -(x**3)).coefficient == pytest.approx(-1.0)
    assert pearson(x, 0 * x) == spearman(0 * x, x) == (None, None)
    assert spearman(x[:2], x[:2]) == (pytest.approx(1.0), None)
    assert pearson(x[:1], x[:1]) == (None, None)


# The second data set of conformers


def test_wiggle150_is_read_from_its_own_file(golden, tmp_path):
    folder = tmp_path / "conformer_selection"
    folder.mkdir()
    molecules = json.loads((golden / "data" / folder.name / "folmsbee_dataset.json").read_text("utf-8"))
    (folder / "folmsbee_dataset.json").write_text(json.dumps(molecules), "utf-8")
    (folder / "wiggle150_dataset.json").write_text(json.dumps(molecules[::-1]), "utf-8")
    for dataset, expected in (("folmsbee", molecules[0]), ("wiggle150", molecules[-1])):
        benchmark = ConformerSelectionBenchmark(ToyCalculator(), tmp_path, "dev", dataset=dataset)
        assert list(benchmark.reference) == [expected["molecule_name"]]
        assert benchmark.protocol.dataset == dataset
    assert molecules[0]["molecule_name"] != molecules[-1]["molecule_name"]
