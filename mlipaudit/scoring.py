# SPDX-License-Identifier: Apache-2.0
"""Scores and their intervals. Functions of numbers only: the same on any machine.

The two score functions and the order of averaging are those of mlipaudit 0.1.8, so that published scores stay
comparable; `SCORING_VERSION` is raised whenever a score could change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlipaudit.metric import Fraction, Hill, Limit, ScoreRule, metrics_of

if TYPE_CHECKING:
    from pydantic import BaseModel

SCORING_VERSION = 1
ALPHA = 3.0
NUM_RESAMPLES = 2000

Interval = tuple[float, float]


@dataclass(frozen=True)
class Score:
    """A score in [0, 1], its 95 % interval, and how many systems it rests on."""

    value: float
    interval: Interval | None
    num_systems: int
    num_failed: int


def _as_floats(values: Iterable[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def compute_metric_score(values: Iterable[float | None], threshold: float, alpha: float) -> np.ndarray:
    """Soft threshold: 1 below `threshold`, exp(-alpha (x - threshold) / threshold) above; None and NaN score 0.

    Raises:
        ValueError: `alpha` or `threshold` is not positive.
    """
    if alpha <= 0 or threshold <= 0:
        raise ValueError(f"alpha and threshold must be positive, got {alpha} and {threshold}")
    x = _as_floats(values)
    excess = np.maximum(x - threshold, 0.0) / threshold
    return np.where(np.isnan(x), 0.0, np.exp(-alpha * excess))


def compute_speed_score(values: Iterable[float | None], midpoint: float, sharpness: float) -> np.ndarray:
    """Hill function 1 / (1 + (x / midpoint)^sharpness); None and NaN score 0.

    Raises:
        ValueError: `midpoint` or `sharpness` is not positive.
    """
    if midpoint <= 0 or sharpness <= 0:
        raise ValueError(f"midpoint and sharpness must be positive, got {midpoint} and {sharpness}")
    x = _as_floats(values)
    return np.where(np.isnan(x), 0.0, 1.0 / (1.0 + np.power(x / midpoint, sharpness)))


def compute_benchmark_score(errors: Sequence[Sequence[float | None]], thresholds: Sequence[float]) -> float:
    """Mean over metrics of the mean soft-threshold score over systems; None counts 0.

    Args:
        errors: one sequence over systems per metric.
        thresholds: one per metric.
    """
    scores = [compute_metric_score(e, t, ALPHA).mean() for e, t in zip(errors, thresholds, strict=True)]
    return float(np.mean(scores))


def compute_model_score(scores: Mapping[str, float | None]) -> float:
    """Mean over the benchmarks that have a score; 0 when none has."""
    values = [score for score in scores.values() if score is not None]
    return float(np.mean(values)) if values else 0.0


def apply_rule(rule: ScoreRule, values: Iterable[float | None]) -> np.ndarray:
    """Scores of `values` under a declared rule."""
    if isinstance(rule, Hill):
        return compute_speed_score(values, rule.midpoint, rule.sharpness)
    if isinstance(rule, Limit):
        return np.where(_as_floats(values) < rule.limit, 1.0, 0.0)  # NaN is not below anything
    if isinstance(rule, Fraction):
        return np.clip(np.nan_to_num(_as_floats(values), nan=0.0), 0.0, 1.0)
    return compute_metric_score(values, rule.threshold, rule.alpha)


def system_scores(entries: Sequence[BaseModel]) -> np.ndarray:
    """Score of each system: the mean over the scored metrics that its entry declares. Shape [systems].

    A system that failed scores 0, whatever numbers its entry still holds.

    Raises:
        TypeError: the entries declare no scored metric.
    """
    if not entries:
        return np.zeros(0)
    rules = {name: m.score for name, m in metrics_of(type(entries[0])).items() if m.score}
    if not rules:
        raise TypeError(f"{type(entries[0]).__name__} declares no scored metric")
    per_metric = [apply_rule(rule, (getattr(e, name) for e in entries)) for name, rule in rules.items()]
    alive = np.array([not getattr(e, "failed", False) for e in entries])
    return np.mean(per_metric, axis=0) * alive


def score_systems(entries: Sequence[BaseModel]) -> Score:
    """The one generic score of a benchmark: mean over its systems, with a bootstrap interval over systems."""
    scores = system_scores(entries)
    failed = sum(bool(getattr(e, "failed", False)) for e in entries)
    value = float(scores.mean()) if scores.size else 0.0
    return Score(value, bootstrap_interval(scores), len(entries), failed)


def bootstrap_interval(values: np.ndarray, *, seed: int = 0) -> Interval | None:
    """95 % percentile-bootstrap interval of the mean of independent `values`; None below two of them."""
    if len(values) < 2:
        return None
    draws = np.random.default_rng(seed).integers(0, len(values), (NUM_RESAMPLES, len(values)))
    return _percentiles(np.asarray(values)[draws].mean(axis=1))


def block_bootstrap(series: np.ndarray, statistic: Callable[[np.ndarray], float], *, seed: int = 0) -> np.ndarray:
    """Values of `statistic` on resamples of a correlated time series, drawn in moving blocks.

    Blocks are n^(1/3) long, the rate-optimal choice for a mean (Künsch 1989, 10.1214/aos/1176347265).
    """
    n = len(series)
    length = max(1, round(n ** (1 / 3)))
    starts = np.random.default_rng(seed).integers(0, n - length + 1, (NUM_RESAMPLES, -(-n // length)))
    index = (starts[:, :, None] + np.arange(length)).reshape(NUM_RESAMPLES, -1)[:, :n]
    return np.array([statistic(resample) for resample in np.asarray(series)[index]])


def interval_of(samples: np.ndarray) -> Interval:
    """95 % percentile interval of bootstrap samples."""
    return _percentiles(samples)


def combine_intervals(intervals: Sequence[Interval | None], scores: Sequence[float]) -> Interval | None:
    """95 % interval of the mean of independent scores: half-widths add in quadrature; None if any is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if not scores or len(known) < len(intervals):
        return None
    mean = float(np.mean(scores))
    pairs = list(zip(scores, known, strict=True))
    below = np.sqrt(sum(max(score - low, 0.0) ** 2 for score, (low, _) in pairs)) / len(scores)
    above = np.sqrt(sum(max(high - score, 0.0) ** 2 for score, (_, high) in pairs)) / len(scores)
    return round(max(mean - float(below), 0.0), 12), round(min(mean + float(above), 1.0), 12)


def _percentiles(samples: np.ndarray) -> Interval:
    # Twelve significant digits: the order of a vectorised sum must not show in a result.
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(f"{low:.12g}"), float(f"{high:.12g}")
