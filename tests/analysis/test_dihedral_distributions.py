# SPDX-License-Identifier: Apache-2.0
"""Histograms, outliers and null rates of angles whose distribution is known."""

import numpy as np
import pytest

from mlipaudit.analysis.dihedral_distributions import (
    excess_rate,
    hellinger_distance,
    histogram_rmsd,
    null_rate,
    outliers,
)


def cloud(n, angles=2, *, seed=0, centre=0.0, width=30.0):
    points = np.random.default_rng(seed).normal(centre, width, (n, angles))
    return (points + 180.0) % 360.0 - 180.0


def test_equal_samples_have_equal_histograms():
    points = cloud(300)
    assert histogram_rmsd(points, points) == 0.0
    assert hellinger_distance(points, points) == pytest.approx(0.0, abs=1e-7)


def test_samples_in_two_bins():
    ours, theirs = np.array([[-180.0], [-180.0], [180.0], [180.0]]), np.array([[-180.0]])
    # Half of ours and all of theirs in the first of 50 bins, the rest of ours in the last.
    assert histogram_rmsd(ours, theirs) == pytest.approx(np.sqrt(2 * 0.25 / 50))
    assert hellinger_distance(ours, theirs) == pytest.approx(np.sqrt(1 - np.sqrt(0.5)))


def test_far_apart_samples_share_nothing():
    ours, theirs = np.full((5, 3), -100.0), np.full((7, 3), 100.0)
    assert hellinger_distance(ours, theirs) == 1.0
    assert histogram_rmsd(ours, theirs) == pytest.approx(np.sqrt(2 / 50**3))


def test_angles_of_another_turn_fall_into_the_same_bin():
    assert hellinger_distance(np.array([[350.0]]), np.array([[-10.0]])) == 0.0


def test_distance_is_euclidean_and_periodic():
    reference = np.array([[179.0, 0.0]])
    sampled = np.array([[-172.0, 0.0], [-170.0, 0.0], [-173.0, 6.0], [-174.0, 8.0], [179.0, -1e-17]])
    assert outliers(sampled, reference).tolist() == [False, True, False, True, False]
    assert outliers(sampled, reference, threshold=20.0).any() == np.False_


@pytest.mark.parametrize("angles", [1, 2, 3, 4])
def test_the_null_rate_is_what_a_sample_of_the_reference_distribution_gives(angles):
    reference, fresh = cloud(1000, angles), cloud(4000, angles, seed=1)
    assert outliers(fresh, reference).mean() == pytest.approx(null_rate(reference), abs=0.04)


def test_the_null_rate_grows_with_the_number_of_angles():
    rates = [null_rate(cloud(1000, angles)) for angles in (1, 2, 3, 4)]
    assert rates == sorted(rates)
    assert rates[0] < 0.01 and rates[3] > 0.7


def test_the_null_rate_of_few_points():
    assert null_rate(np.array([[0.0, 0.0]])) == 1.0
    assert null_rate(np.array([[0.0, 0.0], [0.0, 5.0]])) == 0.0
    assert null_rate(np.array([[0.0, 0.0], [0.0, 5.0], [90.0, 90.0], [0.0, -5.0]])) == 0.25


def test_excess():
    assert excess_rate(0.3, 0.3) == 0.0
    assert excess_rate(0.1, 0.3) == 0.0
    assert excess_rate(1.0, 0.3) == 1.0
    assert excess_rate(0.65, 0.3) == pytest.approx(0.5)
    assert excess_rate(1.0, 1.0) is None
