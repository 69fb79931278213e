# SPDX-License-Identifier: Apache-2.0
"""The drift of series whose drift is known."""

import numpy as np
import pytest

from mlipaudit.analysis.drift import linear_drift, statistical_inefficiency

N = 1000
TIMES = np.arange(N) / N


def correlated(phi, rng, n=N):
    """AR(1) noise with coefficient `phi`, after it has forgotten its beginning."""
    noise = rng.normal(size=n + 200)
    for i in range(1, len(noise)):
        noise[i] += phi * noise[i - 1]
    return noise[200:]


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_interval_covers_the_true_slope_as_often_as_it_says(phi):
    rng = np.random.default_rng(0)
    drifts = [linear_drift(TIMES, 3.0 * TIMES + 7.0 + correlated(phi, rng)) for _ in range(300)]
    covered = np.mean([d.interval[0] <= 3.0 <= d.interval[1] for d in drifts])
    assert 0.91 <= covered <= 0.98
    assert np.std([d.slope for d in drifts]) == pytest.approx(np.mean([d.slope_error for d in drifts]), rel=0.15)


def test_ignoring_the_correlation_would_not_cover():
    rng = np.random.default_rng(0)
    t = TIMES - TIMES.mean()
    hits = []
    for _ in range(200):
        series = correlated(0.9, rng)
        slope = t @ series / (t @ t)
        naive = np.sqrt(np.var(series - slope * t) / (t @ t))
        hits.append(abs(slope) < 1.96 * naive)
    assert np.mean(hits) < 0.6


def test_inefficiency_of_ar1():
    rng = np.random.default_rng(1)
    for phi in (0.0, 0.5, 0.9):
        series = [correlated(phi, rng, 20_000) for _ in range(3)]
        found = np.mean([statistical_inefficiency(s - s.mean()) for s in series])
        assert found == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_a_clear_drift_is_told_from_none():
    rng = np.random.default_rng(2)
    noise = correlated(0.5, rng)
    assert linear_drift(TIMES, noise + 20.0 * TIMES).distinguishable is True
    assert linear_drift(TIMES, noise - 20.0 * TIMES).distinguishable is True
    assert linear_drift(TIMES, correlated(0.5, rng)).distinguishable is False


def test_a_straight_line():
    drift = linear_drift(np.arange(50) * 0.1, 2.0 - 0.5 * np.arange(50) * 0.1)
    assert drift.slope == pytest.approx(-0.5)
    assert drift.intercept == pytest.approx(2.0)
    assert drift.total == pytest.approx(0.5 * 4.9)
    assert drift.slope_error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 2.0, 0.5]])
def test_too_short_to_tell(values):
    drift = linear_drift(np.arange(len(values)), np.array(values))
    assert (drift.slope_error, drift.interval, drift.distinguishable) == (None, None, None)
