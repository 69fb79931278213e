# SPDX-License-Identifier: Apache-2.0
"""Numbers of mlipaudit 0.1.8 are reproduced to 1e-9."""

import json

import pytest

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import InferenceSpeedBenchmark, TautomersBenchmark
from mlipaudit.data import embedded_root

TAUTOMER_CASES = ("exact", "noise_0.05kcal", "noise_1kcal", "one_failed", "all_failed")


def assert_contains(found, expected, path=""):
    """Every number of the reference is in ours; ours may say more."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_contains(found[key], value, f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_contains(one, other, f"{path}[{index}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), path
    else:
        assert found == expected, path


def analyze(benchmark, case):
    """Result of a benchmark on a stored model output, as strict JSON."""
    text = (case / "model_output.json").read_text()
    benchmark.model_output = benchmark.model_output_class.model_validate_json(text)
    return json.loads(benchmark.analyze().model_dump_json())


@pytest.mark.parametrize("case", TAUTOMER_CASES)
def test_tautomers(case, golden):
    benchmark = TautomersBenchmark(ToyCalculator(), golden / "data", "standard")
    expected = json.loads((golden / "tautomers" / case / "result.json").read_text())
    assert_contains(analyze(benchmark, golden / "tautomers" / case), expected)


@pytest.mark.parametrize("case", ("fast", "all_missing"))
def test_inference_speed(case, golden):
    benchmark = InferenceSpeedBenchmark(ToyCalculator(), embedded_root(), "standard")
    expected = json.loads((golden / "inference_speed" / case / "result.json").read_text())
    assert_contains(analyze(benchmark, golden / "inference_speed" / case), expected)


def test_a_whole_run_gives_the_reference_s_energies_and_score(golden):
    from ase.calculators.lj import LennardJones

    benchmark = TautomersBenchmark(LennardJones(sigma=1.2, epsilon=0.05, rc=5.0), golden / "data", "standard")
    benchmark.run_model()
    output = json.loads((golden / "tautomers_lj" / "model_output.json").read_text())
    assert_contains(json.loads(benchmark.model_output.model_dump_json()), output)
    expected = json.loads((golden / "tautomers_lj" / "result.json").read_text())
    assert_contains(json.loads(benchmark.analyze().model_dump_json()), expected)


def test_the_comparison_can_fail():
    with pytest.raises(AssertionError):
        assert_contains({"score": 0.5}, {"score": 0.5 + 1e-6})
