# SPDX-License-Identifier: Apache-2.0
"""Errors from blocks against series whose truth is known; none where a series is too short to tell."""

import numpy as np
import pytest
from scipy.signal import lfilter

from mlipaudit.analysis.blocks import (
    MIN_BLOCKS,
    block_mean,
    block_starts,
    jackknife,
    num_blocks,
    num_equilibration,
    resampled_interval,
    resampling_weights,
)

NUM_SERIES = 400


def autoregressive(correlation, length, *, seed):
    """AR(1) series of mean zero and variance one, [series, length]."""
    noise = np.random.default_rng(seed).normal(size=(NUM_SERIES, length))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1], [1, -correlation], noise, axis=1)


def covered(correlation, length):
    """Share of the series with an interval, and of these with zero in it."""
    estimates = [block_mean(series) for series in autoregressive(correlation, length, seed=length)]
    given = [e.interval for e in estimates if e.interval]
    return len(given) / NUM_SERIES, np.mean([low <= 0.0 <= high for low, high in given]) if given else 1.0


@pytest.mark.parametrize("correlation, length", [(0.0, 100), (0.0, 800), (0.5, 300), (0.5, 800), (0.8, 800)])
def test_the_interval_covers_the_truth_95_times_in_100(correlation, length):
    given, hits = covered(correlation, length)
    assert given > 0.97
    assert 0.92 <= hits <= 0.98  # three standard deviations of 400 draws


@pytest.mark.parametrize("correlation", [0.5, 0.8, 0.9, 0.97])
@pytest.mark.parametrize("length", [10, 30, 100, 300])
def test_a_series_too_short_has_no_interval_rather_than_a_narrow_one(correlation, length):
    given, hits = covered(correlation, length)
    assert given * (1 - hits) <= 0.07  # wrong ones, of all


def test_a_series_that_is_slower_than_the_run_has_none():
    assert covered(0.99, 100)[0] < 0.01


def test_the_error_is_that_of_theory():
    series = autoregressive(0.8, 2000, seed=1)
    errors = [block_mean(x).error for x in series[:100]]
    assert np.mean(errors) == pytest.approx(np.sqrt(9 / 2000), rel=0.05)


@pytest.mark.parametrize("series", [np.ones(1000), np.zeros(1), np.arange(MIN_BLOCKS)], ids=["same", "one", "few"])
def test_what_says_nothing_of_its_error(series):
    estimate = block_mean(series)
    assert (estimate.error, estimate.interval) == (None, None)
    assert estimate.value == series.mean()


def test_the_slowest_series_decides():
    fast, slow = autoregressive(0.0, 500, seed=2)[0], autoregressive(0.9, 500, seed=2)[0]
    assert num_blocks(fast, slow) == num_blocks(slow)
    assert num_blocks(fast, np.ones(500)) == num_blocks(fast)


def test_blocks_leave_out_the_beginning():
    assert block_starts(23, 5).tolist() == [3, 7, 11, 15, 19]


def test_equilibration_is_the_first_fifth():
    assert [num_equilibration(n) for n in (1, 3, 4, 5, 9, 10, 1000)] == [0, 0, 0, 1, 1, 2, 200]


def test_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(0).normal(size=12)
    found = jackknife(12, lambda weights: weights @ x / weights.sum())
    assert found.value == pytest.approx(x.mean())
    assert found.error == pytest.approx(x.std(ddof=1) / np.sqrt(12))


def test_a_bootstrap_of_few_blocks_is_wide_enough():
    rng, hits = np.random.default_rng(0), []
    for _ in range(300):
        x = rng.normal(size=6)
        weights = resampling_weights(6, seed=1)
        low, high = resampled_interval(x.mean(), weights @ x / 6, 6)
        hits.append(low <= 0.0 <= high)
    assert np.mean(hits) > 0.92
