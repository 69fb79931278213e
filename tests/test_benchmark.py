# SPDX-License-Identifier: Apache-2.0
"""The contract every benchmark keeps, and the doors that mlipaudit 0.1.x leaves open."""

import json

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.calculator import Calculator

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput
from mlipaudit.benchmarks import TautomersBenchmark
from mlipaudit.errors import ChemicalElementsMissingError, DataUnavailableError
from mlipaudit.failures import FailureKind
from mlipaudit.run_mode import RunMode
from mlipaudit.testing import oracle_for


class OldResult(BenchmarkResult):
    """As users of 0.1.x wrote them."""

    bond_lengths: list[float]


class OldOutput(ModelOutput):
    """As users of 0.1.x wrote them."""

    energies: list[float]


class OldBenchmark(Benchmark):
    """Overrides run_model and analyze, reads its own data, stores its own state."""

    name = "my_old_benchmark"
    category = "Custom"
    result_class = OldResult
    model_output_class = OldOutput
    required_elements = {"H", "O"}

    def run_model(self) -> None:
        lengths = json.loads((self.data_input_dir / self.name / "lengths.json").read_text())
        if self.run_mode == RunMode.DEV:
            lengths = lengths[:1]
        energies = []
        for length in lengths:
            atoms = Atoms("OH", [[0, 0, 0], [0, 0, length]])
            atoms.calc = self.force_field
            energies.append(atoms.get_potential_energy())
        self.model_output = OldOutput(energies=energies)

    def analyze(self) -> OldResult:
        if self.model_output is None:
            raise RuntimeError("Must call run_model() first.")
        return OldResult(bond_lengths=self.model_output.energies, score=0.25)


@pytest.fixture
def old_data(tmp_path):
    (tmp_path / "my_old_benchmark").mkdir()
    (tmp_path / "my_old_benchmark" / "lengths.json").write_text("[1.0, 1.5]")
    return tmp_path


def test_a_subclass_in_the_style_of_0_1_x_runs(old_data):
    benchmark = OldBenchmark(ToyCalculator(), old_data, "dev")
    benchmark.run_model()
    assert len(benchmark.model_output.energies) == 1
    assert benchmark.analyze().score == 0.25


def test_analyze_first_raises(old_data):
    for benchmark in (
        OldBenchmark(ToyCalculator(), old_data),
        TautomersBenchmark(ToyCalculator(), run_mode="dev"),
    ):
        with pytest.raises(RuntimeError, match="run_model"):
            benchmark.analyze()


def test_run_model_returns_nothing_and_keeps_its_output():
    benchmark = TautomersBenchmark(ToyCalculator(), run_mode="dev")
    assert benchmark.run_model() is None
    assert isinstance(benchmark.model_output, TautomersBenchmark.model_output_class)


@pytest.mark.parametrize("attribute", ["name", "result_class", "model_output_class", "required_elements"])
def test_a_final_class_must_declare(attribute):
    declared = {
        "name": "x",
        "result_class": OldResult,
        "model_output_class": OldOutput,
        "required_elements": {"H"},
    }
    declared.pop(attribute)
    with pytest.raises(NotImplementedError, match=attribute):
        type("Incomplete", (Benchmark,), declared)


def test_missing_elements_are_refused_by_name(golden):
    calculator = ToyCalculator()
    calculator.allowed_atomic_numbers = {1, 6}
    with pytest.raises(ChemicalElementsMissingError, match="Br, Cl, F, I, N, O, S"):
        TautomersBenchmark(calculator, golden / "data")
    assert not TautomersBenchmark.check_can_run_model(calculator)
    assert TautomersBenchmark.get_missing_element_types(calculator) == {"Br", "Cl", "F", "I", "N", "O", "S"}


def test_the_manifest_says_which_elements_the_embedded_edition_needs():
    calculator = ToyCalculator()
    calculator.allowed_atomic_numbers = {1, 6, 7, 8, 16}
    assert TautomersBenchmark(calculator, run_mode="dev").input_data.elements == {"H", "C", "N", "O", "S"}


def test_a_force_field_must_be_one():
    with pytest.raises(ValueError, match="ASE calculator"):
        TautomersBenchmark("m.zip", run_mode="dev")


def test_data_is_never_substituted_silently(tmp_path):
    with pytest.raises(DataUnavailableError, match="--data embedded"):
        TautomersBenchmark(ToyCalculator(), tmp_path, "fast")
    embedded = TautomersBenchmark(ToyCalculator(), tmp_path, "fast", data="embedded")
    assert embedded.input_data.edition == "embedded"


@pytest.mark.parametrize("offset", [0.0, 1234.5])
def test_the_oracle_scores_one_whatever_its_zero_of_energy(offset):
    oracle = oracle_for(TautomersBenchmark, run_mode="fast", data="embedded", offset=offset)
    benchmark = TautomersBenchmark(oracle, run_mode="fast", data="embedded")
    benchmark.run_model()
    result = benchmark.analyze()
    assert result.score == 1.0
    assert result.score_interval == (1.0, 1.0)
    assert result.mae == pytest.approx(0.0, abs=1e-8)
    assert result.num_systems >= 16


class OneBadApple(ToyCalculator):
    """Fails for the structures whose positions it is given, in the way it is told."""

    def __init__(self, spoiled, how):
        super().__init__()
        self.spoiled, self.how = spoiled, how

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        if np.allclose(atoms.positions[0], self.spoiled):
            if self.how == "raise":
                raise RuntimeError("I do not like this one")
            self.results["energy"] = float(self.how)


@pytest.mark.parametrize(
    ("how", "kind"),
    [("raise", FailureKind.EXCEPTION), ("nan", FailureKind.NON_FINITE), ("inf", FailureKind.NON_FINITE)],
)
def test_one_system_that_fails_costs_only_itself_and_reads_back(how, kind):
    healthy = TautomersBenchmark(ToyCalculator(), run_mode="fast", data="embedded")
    name, pair = next(iter(healthy.reference.items()))
    spoiled = TautomersBenchmark(OneBadApple(pair.coordinates[0][0], how), run_mode="fast", data="embedded")
    healthy.run_model()
    spoiled.run_model()
    expected, found = healthy.analyze(), spoiled.analyze()
    assert found.failures[name].kind is kind
    assert found.num_failed == 1
    assert found.molecules[0].failed
    assert found.molecules[1:] == expected.molecules[1:]
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_a_plain_calculator_that_declares_nothing_runs():
    class Flat(Calculator):
        implemented_properties = ["energy", "forces"]

        def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
            self.results = {"energy": 0.0, "forces": np.zeros((len(atoms), 3))}

    benchmark = TautomersBenchmark(Flat(), run_mode="fast", data="embedded")
    benchmark.run_model()
    # A null model: E = 0 gets the pairs of nearly equal energy and no others.
    assert benchmark.analyze().score < 0.1


def test_the_helpers_of_0_1_x(tmp_path):
    from mlipaudit.io import load_benchmark_result_from_disk, write_benchmark_result_to_disk
    from mlipaudit.utils import run_inference, skip_unallowed_elements

    toy = ToyCalculator()
    pair, nothing = run_inference([Atoms("H2", [[0, 0, 0], [0, 0, 1.5]]), Atoms("H", [[0, 0, np.nan]])], toy, 16)
    assert pair.energy == pytest.approx(-0.2 * (1 - (1.5 / 4.0) ** 2) ** 2)
    assert nothing is None
    toy.allowed_atomic_numbers = {1, 8}
    assert skip_unallowed_elements(toy, [("water", ["O", "H", "H"]), ("methane", ["C", "H"])]) == ["methane"]
    result = OldResult(bond_lengths=[1.0, float("inf")], score=0.5)
    write_benchmark_result_to_disk(OldBenchmark.name, result, tmp_path)
    assert load_benchmark_result_from_disk(tmp_path, OldBenchmark) == result


def test_the_names_of_0_1_x_can_be_imported():
    from mlipaudit import benchmarks
    from mlipaudit.exceptions import ChemicalElementsMissingError as SameError

    assert SameError is ChemicalElementsMissingError
    assert benchmarks.BENCHMARK_NAMES == [
        "bond_length_distribution",
        "conformer_selection",
        "dihedral_scan",
        "folding_stability",
        "inference_speed",
        "model_cost",
        "noncovalent_interactions",
        "nudged_elastic_band",
        "nve_energy_conservation",
        "reactivity",
        "reference_geometry_stability",
        "ring_planarity",
        "sampling",
        "solvent_density",
        "solvent_radial_distribution",
        "stability",
        "tautomers",
        "water_density",
        "water_radial_distribution",
    ]
    assert benchmarks.TautomersBenchmark in benchmarks.BENCHMARKS
    for name in ("TautomersModelOutput", "TautomersResult", "InferenceSpeedModelOutput", "InferenceSpeedResult"):
        assert getattr(benchmarks, name).__name__ == name
    assert (
        benchmarks.InferenceSpeedStructureResult.model_fields["md"].annotation
        == dict[str, benchmarks.MDBackendResult]
    )
    with pytest.raises(AttributeError):
        _ = benchmarks.NoSuchThing
