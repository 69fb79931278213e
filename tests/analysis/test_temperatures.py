# SPDX-License-Identifier: Apache-2.0
"""Temperatures that are those of a thermostat, and those that are not."""

import numpy as np
import pytest

from mlipaudit.analysis.temperatures import explosion_frame, hot_from


def thermal(num_atoms, n=1000, target=300.0):
    """Temperatures of independent frames in equilibrium."""
    return target * np.random.default_rng(0).chisquare(3 * num_atoms, n) / (3 * num_atoms)


@pytest.mark.parametrize("num_atoms", [3, 9, 100])
def test_equilibrium_is_not_hot(num_atoms):
    assert explosion_frame(thermal(num_atoms), 10_300.0) is None
    assert hot_from(thermal(num_atoms), 900.0) is None


def test_hot_from_the_frame_at_which_it_became_hot():
    series = thermal(9)
    series[200] = 5000.0  # one hot frame is no beginning
    series[600:] += 8000.0
    assert hot_from(series, 900.0) == 600
    assert hot_from(np.full(10, 9000.0), 900.0) == 0
    assert hot_from(np.array([9000.0]), 900.0) == 0
    series[900:] = 300.0
    series[500:900] = 300.0
    assert hot_from(series, 900.0) is None


def test_empty_and_not_a_number():
    assert hot_from(np.zeros(0), 900.0) is None
    assert hot_from(np.array([np.nan, np.nan]), 900.0) is None
    assert explosion_frame(np.zeros(0), 900.0) is None


def test_jumps_can_be_left_out():
    assert explosion_frame(np.array([1.0, 101.0]), 10_300.0) == 1
    assert explosion_frame(np.array([1.0, 101.0]), 10_300.0, jump=None) is None
