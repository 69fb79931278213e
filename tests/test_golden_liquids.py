# SPDX-License-Identifier: Apache-2.0
"""Numbers of mlipaudit 0.1.8 for liquids, to 1e-6.

mdtraj measures distances in float32 and nanometres: of 50 000 pairs of a frame of water, 17 fall into the neighbouring
bin. With its arithmetic put in place of ours every number agrees to 1e-6; without, to what these few pairs change.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from golden_cases import assert_contains, stored

from mlipaudit.analysis.blocks import num_equilibration
from mlipaudit.analysis.radial_distribution import PairCounts, num_bins
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import (
    SolventDensityBenchmark,
    SolventRadialDistributionBenchmark,
    WaterDensityBenchmark,
    WaterRadialDistributionBenchmark,
)
from mlipaudit.families import liquid_structure
from mlipaudit.families.liquid_density import RULE
from mlipaudit.families.liquid_structure import peak_score
from mlipaudit.scoring import apply_rule

TOLERANCE = 1e-6
FRAMES = {"input_frame": 3, "hot": 2, "none": 3}
DENSITIES = (SolventDensityBenchmark, WaterDensityBenchmark)
CASES = [
    (cls, case)
    for cls in (*DENSITIES, SolventRadialDistributionBenchmark, WaterRadialDistributionBenchmark)
    for case in ("input_frame", "hot", "none")
    if case != "none" or cls.name.startswith("water")
]
CURVES = ("radii", "rdf")
"""Ours end at half the box; in the reference they run to 20 Å."""

cases = pytest.mark.parametrize("cls, case", CASES, ids=[f"{cls.name}-{case}" for cls, case in CASES])


def judged(cls, case, golden):
    """Our result; the two benchmarks of a pair judge one model output."""
    benchmark = cls(ToyCalculator(), golden / "data", "dev")
    protocol = benchmark.protocol
    of_frames = replace(protocol, md=replace(protocol.md, num_steps=FRAMES[case]))
    output = cls.model_output_class.model_validate(stored(golden / cls.data_name / case, "model_output.json"))
    reread = cls.model_output_class.model_validate_json(output.model_dump_json())
    result = cls.judge(output, benchmark.reference, of_frames)
    assert cls.judge(reread, benchmark.reference, of_frames).model_dump_json() == result.model_dump_json()
    return json.loads(result.model_dump_json())


def expected_of(cls, case, golden, found):
    """The reference's result, its curves cut where ours end."""
    expected = stored(golden / cls.name / case, "result.json")
    pairs = [(expected, found), *zip(expected.get("structures", []), found.get("structures", []), strict=False)]
    for theirs, ours in pairs:
        for name in CURVES:
            if theirs.get(name) and ours.get(name):
                assert len(theirs[name]) == 2000
                theirs[name] = theirs[name][: len(ours[name])]
    return expected


def count_in_float32(positions, boxes):
    """Pairs as mdtraj counts them."""
    boxes = np.asarray(boxes, np.float64)
    bins = num_bins(float(boxes.min()) / 2)
    first, second = np.triu_indices(positions.shape[1], 1)
    centres = 0.1 * (0.01 * np.arange(2000))
    half = (centres[1] - centres[0]) / 2
    counts = []
    for frame, box in zip(np.float32(positions) / np.float32(10), np.float32(boxes / 10), strict=True):
        apart = frame[second] - frame[first]
        apart -= np.rint(apart / box) * box
        squared = apart * apart
        distances = np.sqrt((squared[:, 0] + squared[:, 1]) + squared[:, 2])
        counts.append(np.histogram(distances, bins=2000, range=(centres[0] - half, centres[-1] + half))[0][:bins])
    return PairCounts(np.array(counts), len(first) / np.prod(boxes, axis=1), positions.shape[1])


@cases
def test_with_the_arithmetic_of_mdtraj(cls, case, golden, monkeypatch):
    monkeypatch.setattr(liquid_structure, "count_pairs", count_in_float32)
    found = judged(cls, case, golden)
    assert_contains(found, expected_of(cls, case, golden, found), tolerance=TOLERANCE)


@cases
def test_with_ours(cls, case, golden):
    found = judged(cls, case, golden)
    expected = expected_of(cls, case, golden, found)
    curve = expected.pop("rdf", None) if cls.name.startswith("water") else None
    assert_contains(found, expected, tolerance=TOLERANCE if curve is None else 1e-3)
    if curve is not None:
        gone = np.cumsum(np.array(found["rdf"]) - curve)
        assert np.abs(gone).max() < 0.1  # one pair of nearest neighbours
        assert abs(gone[-1]) < 1e-3


def test_half_the_box_is_where_curves_end(golden):
    for cls, box in ((WaterRadialDistributionBenchmark, 24.772), (SolventRadialDistributionBenchmark, 28.575)):
        found = judged(cls, "input_frame", golden)
        assert found["structures"][0]["largest_radius"] == pytest.approx(box / 2, abs=0.01)


# Score functions


@pytest.fixture(scope="module")
def grids(golden):
    return json.loads((golden / "liquid_scores.json").read_text("utf-8"))


def test_the_mean_density_of_the_equilibrated_frames(grids):
    for case in grids["average_equilibrated_density"]:
        series = case["densities"]
        assert np.mean(series[num_equilibration(len(series)) :]) == case["average"]


def test_density_scores(grids):
    for case in grids["score_density"]:
        deviation = abs(case["average"] - case["reference"])
        assert deviation == case["deviation"]
        (score,) = apply_rule(RULE, [deviation / case["reference"]])
        assert score == pytest.approx(case["score"], rel=1e-12)


def test_peak_scores(grids):
    for case in grids["peak_score"]:
        score = peak_score(abs(case["peak"] - case["reference"]), case["reference"])
        assert score == pytest.approx(case["score"], rel=1e-12)


def test_the_published_caveats():
    """What the documentation says of these scores."""
    assert peak_score(0.5, 4.0) == pytest.approx(0.687, abs=1e-3)  # acetonitrile, at the edge of its window
    assert apply_rule(RULE, [0.1])[0] == pytest.approx(0.67, abs=1e-3)
    assert math.isclose(peak_score(0.0, 2.8), 1.0)
