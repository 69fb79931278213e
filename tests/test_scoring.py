# SPDX-License-Identifier: Apache-2.0
"""Scores against the numbers of mlipaudit 0.1.8, intervals against statistics."""

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from pydantic import BaseModel

from mlipaudit.analysis.timing import interquartile_range, scaling_exponent, trend, trim_slowest, trimmed_mean
from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.benchmarks.inference_speed import reference_forward_time
from mlipaudit.benchmarks.inference_speed.schemas import SPEED_RULE
from mlipaudit.metric import Hill, Metric, SoftThreshold, metrics_of
from mlipaudit.scoring import (
    Score,
    apply_rule,
    block_bootstrap,
    bootstrap_interval,
    combine_intervals,
    compute_benchmark_score,
    compute_metric_score,
    compute_model_score,
    compute_speed_score,
    interval_of,
    score_systems,
    system_scores,
)

GRIDS = json.loads((Path(__file__).parent / "golden" / "score_functions.json").read_text(encoding="utf-8"))


def close(expected):
    return pytest.approx(expected, abs=1e-9, rel=1e-9)


def decoded(values):
    return [math.inf if value == "inf" else value for value in values]


class TwoMetrics(SystemResult):
    error: Annotated[float | None, Metric(unit="eV", score=SoftThreshold(1.0))] = None
    duration: Annotated[float | None, Metric(unit="s", score=Hill(midpoint=2.0, sharpness=1.0))] = None
    size: Annotated[float | None, Metric(unit="Å")] = None


class NoScore(BaseModel):
    size: Annotated[float, Metric(unit="Å")]


# Golden grids


@pytest.mark.parametrize("case", GRIDS["compute_metric_score"], ids=lambda c: f"{c['threshold']}-{c['alpha']}")
def test_metric_score_grid(case):
    values = decoded(case["values"])
    assert values[-3] == math.inf
    values[-1] = math.nan
    assert compute_metric_score(values, case["threshold"], case["alpha"]) == close(case["scores"])


@pytest.mark.parametrize("case", GRIDS["compute_speed_score"], ids=lambda c: f"{c['midpoint']}-{c['sharpness']}")
def test_speed_score_grid(case):
    assert compute_speed_score(case["values"], case["midpoint"], case["sharpness"]) == close(case["scores"])


@pytest.mark.parametrize("case", GRIDS["compute_benchmark_score"])
def test_benchmark_score_grid(case):
    assert compute_benchmark_score(case["errors"], case["thresholds"]) == close(case["score"])


@pytest.mark.parametrize("case", GRIDS["compute_model_score"])
def test_model_score_grid(case):
    assert compute_model_score(case["scores"]) == close(case["score"])


@pytest.mark.parametrize("case", GRIDS["reference_forward_time"])
def test_reference_forward_time_grid(case):
    assert reference_forward_time(case["num_atoms"]) == close(case["t"])


@pytest.mark.parametrize("case", GRIDS["trim_forward_times"], ids=lambda c: str(len(c["times"])))
def test_trim_grid(case):
    assert trim_slowest(case["times"]) == case["kept"]


@pytest.mark.parametrize("case", GRIDS["speed_score_of_forward_time"])
def test_speed_rule_grid(case):
    relative = case["t"] / reference_forward_time(case["num_atoms"])
    assert apply_rule(SPEED_RULE, [relative]) == close([case["score"]])


# Score functions


def test_metric_score_at_threshold_and_one_above():
    assert compute_metric_score([2.0, 4.0], 2.0, 3.0) == close([1.0, math.exp(-3.0)])


def test_speed_score_at_midpoint_and_infinity():
    assert compute_speed_score([2.0, math.inf, math.nan], 2.0, 1.5) == close([0.5, 0.0, 0.0])


@pytest.mark.parametrize("bad", [0.0, -1.0])
@pytest.mark.parametrize("function", [compute_metric_score, compute_speed_score])
def test_constants_must_be_positive(function, bad):
    with pytest.raises(ValueError, match="must be positive"):
        function([1.0], bad, 1.0)
    with pytest.raises(ValueError, match="must be positive"):
        function([1.0], 1.0, bad)


# Declared metrics


def test_metrics_in_order_of_declaration():
    assert list(metrics_of(TwoMetrics)) == ["error", "duration", "size"]


def test_scored_metrics_are_averaged():
    assert system_scores([TwoMetrics(error=0.5, duration=2.0, size=1e9)]) == close([(1.0 + 0.5) / 2])


def test_missing_metric_counts_zero():
    assert system_scores([TwoMetrics(error=None, duration=2.0)]) == close([0.25])


def test_failed_system_scores_zero_whatever_it_holds():
    entries = [TwoMetrics(error=0.0, duration=0.0), TwoMetrics(error=0.0, duration=0.0, failed=True)]
    score = score_systems(entries)
    assert (score.value, score.num_systems, score.num_failed) == (0.5, 2, 1)


def test_no_scored_metric_is_a_programming_error():
    with pytest.raises(TypeError, match="NoScore declares no scored metric"):
        score_systems([NoScore(size=1.0)])


def test_no_systems_is_a_failed_benchmark():
    fields = BenchmarkResult.fields_of(score_systems([]))
    assert (fields["score"], fields["score_interval"], fields["failed"]) == (0.0, None, True)


def test_all_failed_is_a_failed_benchmark():
    fields = BenchmarkResult.fields_of(Score(0.7, (0.6, 0.8), num_systems=3, num_failed=3))
    assert (fields["score"], fields["score_interval"], fields["failed"]) == (0.0, None, True)


# Intervals


def test_constant_sample_has_no_width():
    assert bootstrap_interval(np.full(7, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[], [0.3]])
def test_no_interval_below_two_systems(values):
    assert bootstrap_interval(np.array(values)) is None


def test_interval_repeats():
    values = np.random.default_rng(3).random(20)
    assert bootstrap_interval(values) == bootstrap_interval(values.copy())


def test_interval_width_is_that_of_the_mean():
    values = np.random.default_rng(4).normal(size=400)
    low, high = bootstrap_interval(values)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(400), rel=0.1)


def test_interval_covers_the_truth_in_95_of_100_samples():
    rng = np.random.default_rng(11)
    intervals = [bootstrap_interval(rng.normal(0.5, 0.1, 40)) for _ in range(400)]
    assert 0.90 <= np.mean([low <= 0.5 <= high for low, high in intervals]) <= 0.98


def autoregressive(phi, n, rng):
    series = np.zeros(n)
    for i in range(1, n):
        series[i] = phi * series[i - 1] + rng.normal()
    return series


def relative_width(series):
    """Width of the block interval over that of the independent one."""
    low, high = interval_of(block_bootstrap(series, np.mean))
    simple_low, simple_high = bootstrap_interval(series)
    return (high - low) / (simple_high - simple_low)


def test_blocks_widen_the_interval_of_a_correlated_series():
    # The truth is sqrt((1 + phi) / (1 - phi)) = 3; blocks of ten frames find most of it.
    assert 1.8 < relative_width(autoregressive(0.8, 1000, np.random.default_rng(5))) < 3.0


def test_blocks_leave_an_independent_series_alone():
    assert relative_width(np.random.default_rng(6).normal(size=1000)) == pytest.approx(1.0, abs=0.15)


def test_block_bootstrap_of_few_values():
    assert block_bootstrap(np.array([2.0]), np.mean) == pytest.approx(2.0)
    assert set(block_bootstrap(np.array([1.0, 3.0]), np.mean)) == {1.0, 2.0, 3.0}


def test_one_interval_is_left_alone():
    assert combine_intervals([(0.2, 0.7)], [0.5]) == (0.2, 0.7)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_equal_intervals_shrink_with_the_square_root(n):
    expected = (0.5 - 0.1 / math.sqrt(n), 0.5 + 0.2 / math.sqrt(n))
    assert combine_intervals([(0.4, 0.7)] * n, [0.5] * n) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("intervals, scores", [([(0.4, 0.6), None], [0.5, 0.5]), ([None], [0.1]), ([], [])])
def test_unknown_interval_makes_the_mean_unknown(intervals, scores):
    assert combine_intervals(intervals, scores) is None


def test_combined_interval_stays_between_zero_and_one():
    assert combine_intervals([(-1.0, 0.3)], [0.1]) == (0.0, 0.3)
    assert combine_intervals([(0.8, 3.0)], [0.9]) == (0.8, 1.0)


def test_a_combined_interval_holds_the_score():
    # A bootstrap of a trimmed mean can lie wholly beside the score itself.
    assert combine_intervals([(0.50, 0.60)], [0.49]) == (0.49, 0.60)


# Timings


def test_trimmed_mean_drops_the_slowest_fifth():
    assert trimmed_mean([9.0, 1.0, 2.0, 3.0, 4.0]) == 2.5


def test_trend_is_the_change_from_first_to_last_third():
    assert trend([1.0, 1.0, 5.0, 7.0, 1.5, 1.5]) == 0.5
    assert trend([3.0] * 30) == 0.0


def test_no_trend_below_six_timings():
    assert trend([1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_interquartile_range():
    assert interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0


def test_scaling_exponent_of_a_power_law():
    sizes = [100, 284, 748, 3018]
    assert scaling_exponent(sizes, [2e-5 * n**1.3 for n in sizes]) == close(1.3)


@pytest.mark.parametrize("sizes", [[], [284], [284, 284]])
def test_no_exponent_without_two_sizes(sizes):
    assert scaling_exponent(sizes, [1.0] * len(sizes)) is None
