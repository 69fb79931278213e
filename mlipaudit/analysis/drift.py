# SPDX-License-Identifier: Apache-2.0
"""The linear drift of a correlated time series, with its error.

The residuals of the fit are correlated in time, so that n of them carry the information of n / g, where g is their
statistical inefficiency: one plus twice the sum of their autocorrelation, cut where the sum of two neighbouring lags
is no longer positive (Geyer 1992, 10.1214/ss/1177011137). The error of the slope of ordinary least squares grows by
the root of g, and Student's distribution has n / g - 2 degrees of freedom. Two fitted parameters make the residuals
look less correlated than they are, by 2 g / n each in relative terms; that is put back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Interval = tuple[float, float]
MIN_EFFECTIVE = 4.0
"""Independent points below which no error can be given."""
ROUNDING = 1e-13
"""Residuals below this fraction of the values are those of the arithmetic."""


class Drift(NamedTuple):
    """A fitted line, per unit of time."""

    slope: float
    intercept: float
    total: float
    """Size of the drift over the whole time."""
    slope_error: float | None
    """Standard error; None where the series is too short or too correlated to tell."""
    interval: Interval | None
    """95 % interval of the slope."""

    @property
    def distinguishable(self) -> bool | None:
        """Whether zero is outside the interval; None where there is none."""
        return None if self.interval is None else not self.interval[0] <= 0.0 <= self.interval[1]


def linear_drift(times: np.ndarray, values: np.ndarray) -> Drift:
    """Fit of a line to a series of at least two points."""
    t = np.asarray(times, np.float64) - np.mean(times)
    y = np.asarray(values, np.float64)
    slope = float(t @ y / (t @ t))
    residuals = y - y.mean() - slope * t
    residuals[np.abs(residuals) <= ROUNDING * np.abs(y).max()] = 0.0
    error, freedom = _slope_error(t, residuals)
    intercept = float(y.mean() - slope * np.mean(times))
    return Drift(slope, intercept, abs(slope * float(t[-1] - t[0])), error, _interval(slope, error, freedom))


def statistical_inefficiency(series: np.ndarray) -> float:
    """Points of a series with mean zero per independent one; at least 1, at most their number."""
    n = len(series)
    power = np.abs(np.fft.rfft(series, 2 * n)) ** 2
    covariance = np.fft.irfft(power, 2 * n)[:n]
    if covariance[0] <= 0.0:
        return 1.0
    correlation = covariance[: 2 * (n // 2)] / covariance[0]
    pairs = correlation.reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    positive = pairs[: ends[0]] if ends.size else pairs
    return float(np.clip(2.0 * positive.sum() - 1.0, 1.0, n))


def _slope_error(t: np.ndarray, residuals: np.ndarray) -> tuple[float | None, float]:
    """Standard error of the slope, and degrees of freedom."""
    n = len(t)
    raw = statistical_inefficiency(residuals)
    effective = n / raw - 4.0 if raw > 1.0 else float(n)
    if effective < MIN_EFFECTIVE:
        return None, 0.0
    variance = float(residuals @ residuals) / n * effective / (effective - 2.0)
    return float(np.sqrt(variance / (t @ t) * n / effective)), effective - 2.0


def _interval(slope: float, error: float | None, freedom: float) -> Interval | None:
    if error is None:
        return None
    from scipy.stats import t as student

    half = float(student.ppf(0.975, freedom)) * error
    return slope - half, slope + half
