# SPDX-License-Identifier: Apache-2.0
"""Correlation of two series, where it exists."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Correlation(NamedTuple):
    """Coefficient and two-sided p value; None where they are not defined, as for a constant series."""

    coefficient: float | None
    p_value: float | None


def pearson(x: np.ndarray, y: np.ndarray) -> Correlation:
    """Linear correlation of two series of shape [n]."""
    from scipy.stats import pearsonr

    return _defined(pearsonr, x, y)


def spearman(x: np.ndarray, y: np.ndarray) -> Correlation:
    """Rank correlation of two series of shape [n]."""
    from scipy.stats import spearmanr

    return _defined(spearmanr, x, y)


def _defined(test: Callable[[np.ndarray, np.ndarray], Any], x: np.ndarray, y: np.ndarray) -> Correlation:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two points the p value is not defined, which the answer says
        coefficient, p_value = test(x, y)
    values = (float(np.clip(coefficient, -1.0, 1.0)), float(p_value))
    return Correlation(*(None if np.isnan(value) else value for value in values))
