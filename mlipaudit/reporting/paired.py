# SPDX-License-Identifier: Apache-2.0
"""Bootstrap samples of a difference between two scores, and how often their 95 % interval holds the truth.

`paired_samples` is the paired bootstrap over systems, its spread widened for few systems as a t-interval is wider than
a normal one (the expanded percentile interval: Hesterberg 2015, 10.1080/00031305.2015.1089789). Coverage in 1500
simulated comparisons each, of six distributions of differences within [-1, 1]: skewed, U-shaped, nearly symmetric, from
soft thresholds, and zero for 70 % of the systems:

| systems | expanded | not expanded |
| --- | --- | --- |
| 5 | 0.81 to 0.94 | 0.77 to 0.84 |
| 10 | 0.90 to 0.96 | 0.86 to 0.91 |
| 20 | 0.93 to 0.95 | 0.91 to 0.93 |
| 50 | 0.94 to 0.95 | 0.93 to 0.94 |

The least is that of mostly zeros, where 17 % of all draws of five systems show no difference at all. A bootstrap-t
interval covers 0.85 to 0.97 with five systems, but is wider, and says nothing (-1 to 1) where few of many
systems differ, as they do between good models.
"""

from __future__ import annotations

import hashlib
from statistics import NormalDist

import numpy as np

from mlipaudit.scoring import NUM_RESAMPLES, Interval

MAX_DRAWN = 400
"""Systems that are drawn one by one; of more, as many groups take their place, with the same mean and variance."""
Z = NormalDist().inv_cdf(0.975)
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5 % quantiles of Student's t for 1 to 10 degrees of freedom."""


def paired_samples(differences: np.ndarray, *, name: str) -> np.ndarray:
    """Samples of the mean difference, between -1 and 1: each time the same, and those of -x are their negatives.

    Args:
        differences: one per system, at least two.
        name: of what they are differences, so that those of different things are drawn independently.
    """
    n, mean = len(differences), float(np.mean(differences))
    deviations: np.ndarray = (differences - mean) * expansion(n)
    if n > MAX_DRAWN:
        sums = np.bincount(np.arange(n) % MAX_DRAWN, weights=deviations, minlength=MAX_DRAWN)
        deviations = sums * (MAX_DRAWN / n)
    draws = _generator(name).integers(0, len(deviations), (NUM_RESAMPLES, len(deviations)), dtype=np.uint16)
    return np.clip(mean + deviations[draws].mean(axis=1), -1.0, 1.0)


def independent_samples(difference: float, interval: Interval, *, name: str) -> np.ndarray:
    """Samples of a difference of which only the interval is known: normal on either side. Shape [2, samples].

    Both rows are the same samples mirrored, so that exchanging the two sides gives exactly the negatives.
    """
    quantiles = (np.arange(NUM_RESAMPLES) + 0.5) / NUM_RESAMPLES
    upper_half = np.array([NormalDist().inv_cdf(q) for q in quantiles[NUM_RESAMPLES // 2 :]])
    z = _generator(name).permutation(np.concatenate([-upper_half, upper_half])) / Z
    both = np.stack([z, -z])
    low, high = interval
    return np.clip(difference + both * np.where(both > 0, high - difference, difference - low), -1.0, 1.0)


def expansion(n: int) -> float:
    """By how much an interval from n values is wider than the bootstrap has it."""
    degrees = n - 1
    # Beyond the table the first terms of the expansion of t in 1/degrees: Abramowitz & Stegun 26.7.5.
    t = T[degrees - 1] if degrees <= len(T) else Z + 2.3724 / degrees + 2.8225 / degrees**2
    return float(np.sqrt(n / degrees)) * t / Z


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
