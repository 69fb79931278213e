# SPDX-License-Identifier: Apache-2.0
"""Radius of gyration and TM-score of points whose answer is known."""

import numpy as np
import pytest

from mlipaudit.analysis.protein_shape import radii_of_gyration, tm_scale, tm_score
from mlipaudit.analysis.superposition import superposed_rmsd


def helix(num_residues):
    """Cα of an ideal helix."""
    t = np.radians(100.0) * np.arange(num_residues)
    return np.stack([2.3 * np.cos(t), 2.3 * np.sin(t), 1.5 * np.arange(num_residues)], axis=1)


def moved(points):
    """The same under a rotation and a shift."""
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    return points @ (rotation * np.sign(np.linalg.det(rotation))) + [10.0, -3.0, 4.0]


# Radius of gyration


def test_two_points():
    points = np.array([[[0.0, 0, 0], [0, 0, 4.0]], [[1.0, 1, 1], [1, 1, 9.0]]])
    assert radii_of_gyration(points, np.array([1.0, 1.0])) == pytest.approx([2.0, 4.0])
    assert radii_of_gyration(points, np.array([3.0, 1.0])) == pytest.approx([np.sqrt(3.0), np.sqrt(12.0)])


def test_a_shell_has_its_radius_and_a_ball_less():
    points = np.random.default_rng(0).normal(size=(20_000, 3))
    shell = 7.0 * points / np.linalg.norm(points, axis=1, keepdims=True)
    assert radii_of_gyration(shell[None], np.ones(20_000)) == pytest.approx(7.0, rel=1e-3)
    ball = shell * np.random.default_rng(1).uniform(size=(20_000, 1)) ** (1 / 3)
    assert radii_of_gyration(ball[None], np.ones(20_000)) == pytest.approx(7.0 * np.sqrt(3 / 5), rel=1e-2)


# RMSD


def test_rmsd_of_points_pushed_along_one_axis():
    points = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    stretched = points * [1.5, 1.0, 1.0]  # by symmetry nothing turns
    assert superposed_rmsd(moved(stretched), points) == pytest.approx(np.sqrt(2 * 0.25 / 6))


# TM-score


@pytest.mark.parametrize("n, scale", [(10, 0.5), (21, 0.5), (36, 1.24 * 21 ** (1 / 3) - 1.8), (100, 3.652)])
def test_scale(n, scale):
    assert tm_scale(n) == pytest.approx(scale, rel=1e-3)


@pytest.mark.parametrize("n", [1, 3, 4, 10, 36])
def test_equal_structures_score_one(n):
    assert tm_score(moved(helix(n)), helix(n)) == pytest.approx(1.0)


def test_mirror_images_do_not():
    assert tm_score(helix(36) * [1, 1, -1], helix(36)) < 0.5


def test_half_of_a_chain_far_away_leaves_the_other_half():
    reference = np.random.default_rng(0).normal(0, 10, (60, 3))
    torn = reference.copy()
    torn[30:] += [1e5, 0, 0]
    assert tm_score(moved(torn), reference) == pytest.approx(0.5, abs=1e-6)


def test_it_is_no_less_than_under_the_best_superposition_of_all():
    rng = np.random.default_rng(1)
    reference = helix(40)
    for size in (0.1, 1.0, 3.0):
        other = reference + rng.normal(0, size, reference.shape)
        bound = 1.0 / (1.0 + (superposed_rmsd(other, reference) / tm_scale(40)) ** 2)  # convex in d²
        assert bound - 1e-9 <= tm_score(other, reference) <= 1.0


def test_what_cannot_be_compared():
    with pytest.raises(ValueError, match="cannot compare"):
        tm_score(helix(4), helix(5))
    with pytest.raises(ValueError, match="cannot compare"):
        tm_score(np.zeros((0, 3)), np.zeros((0, 3)))
