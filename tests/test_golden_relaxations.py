# SPDX-License-Identifier: Apache-2.0
"""Numbers of mlipaudit 0.1.8 for relaxed geometries.

It computes RMSDs with mdtraj in float32, as a difference of large sums: the square of an RMSD is right to 1e-5 Å², so
that two equal geometries of 45 atoms are 0.003 Å apart. Ours is computed in float64 and compared within that.
"""

import json
import math

import numpy as np
import pytest

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.nudged_elastic_band import NudgedElasticBandBenchmark
from mlipaudit.benchmarks.reference_geometry_stability import ReferenceGeometryStabilityBenchmark

CASES = {
    "nudged_elastic_band": ("all_none", "one_converged"),
    "reference_geometry_stability": ("one_failed", "sigma_0.05_0.1", "still"),
}
SQUARE = 1e-5
"""Å²: what float32 leaves in the square of an RMSD."""


def stored(folder):
    """A model output of the reference, its arrays put back in."""
    arrays = folder / "model_output.npz"
    found = dict(np.load(arrays)) if arrays.exists() else {}

    def filled(value):
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        return found[value] if isinstance(value, str) and value in found else value

    return filled(json.loads((folder / "model_output.json").read_text("utf-8")))


def judged(cls, golden, case):
    benchmark = cls(ToyCalculator(), golden / "data", "standard")
    benchmark.model_output = cls.model_output_class.model_validate(stored(golden / cls.name / case))
    return json.loads(benchmark.analyze().model_dump_json())


def expected(cls, golden, case):
    return json.loads((golden / cls.name / case / "result.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES["nudged_elastic_band"])
def test_bands(case, golden):
    result = judged(NudgedElasticBandBenchmark, golden, case)
    reference = expected(NudgedElasticBandBenchmark, golden, case)
    reactions = reference.pop("reaction_results")
    assert reference.items() <= result.items()
    for found, known in zip(result["reaction_results"], reactions, strict=True):
        assert known.items() <= found.items()


@pytest.mark.parametrize("case", CASES["reference_geometry_stability"])
def test_geometries(case, golden):
    result = judged(ReferenceGeometryStabilityBenchmark, golden, case)
    reference = expected(ReferenceGeometryStabilityBenchmark, golden, case)
    assert result["failed"] == reference["failed"]
    for key in ("openff_neutral", "openff_charged"):
        found, known = result[key], reference[key]
        for field in ("num_exploded", "num_bad_rmsds", "failed"):
            assert found[field] == known[field]
        assert_same_rmsds(found["rmsd_values"], known["rmsd_values"])
        assert found["avg_rmsd"] == pytest.approx(mean(found["rmsd_values"]), abs=1e-12)
    averages = [result[key]["avg_rmsd"] for key in ("openff_neutral", "openff_charged")]
    assert result["avg_rmsd"] == pytest.approx(mean(averages), abs=1e-12)
    assert result["score"] == pytest.approx(reference["score"], abs=5e-4)
    if case != "still":
        assert result["avg_rmsd"] == pytest.approx(reference["avg_rmsd"], abs=2e-5)


def assert_same_rmsds(found, known):
    assert [value is None for value in found] == [value is None for value in known]
    for ours, theirs in zip(found, known, strict=True):
        assert ours is None or ours**2 == pytest.approx(theirs**2, abs=SQUARE)


def mean(values):
    return np.mean([value for value in values if value is not None])


def test_the_score_follows_from_the_reference_s_own_rmsds(golden):
    """To the last digits, once the RMSDs are taken from it."""
    for case in CASES["reference_geometry_stability"]:
        reference = expected(ReferenceGeometryStabilityBenchmark, golden, case)
        values = [v for key in ("openff_neutral", "openff_charged") for v in reference[key]["rmsd_values"]]
        scores = [0.0 if v is None else math.exp(-3 * max(v - 0.075, 0) / 0.075) for v in values]
        assert np.mean(scores) == pytest.approx(reference["score"], abs=1e-9)


def test_a_set_that_fails_wholly_costs_itself_only(golden):
    """The reference raises."""
    case = "charged_all_failed"
    assert "exception" in expected(ReferenceGeometryStabilityBenchmark, golden, case)
    result = judged(ReferenceGeometryStabilityBenchmark, golden, case)
    assert (result["failed"], result["num_failed"], result["openff_charged"]["failed"]) == (False, 2, True)
    assert result["openff_charged"]["rmsd_values"] == [None, None]
    assert result["avg_rmsd"] == result["openff_neutral"]["avg_rmsd"]
    neutral = result["openff_neutral"]["molecules"]
    assert result["score"] == pytest.approx(
        sum(math.exp(-3 * max(m["rmsd"] - 0.075, 0) / 0.075) for m in neutral) / 4
    )


def test_every_case_is_looked_at(golden):
    for name, cases in CASES.items():
        folders = {folder.name for folder in (golden / name).iterdir()}
        assert folders == {*cases} | ({"charged_all_failed"} if name == "reference_geometry_stability" else set())
