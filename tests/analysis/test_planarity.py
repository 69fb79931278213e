# SPDX-License-Identifier: Apache-2.0
"""Planarity of rings whose pucker is known."""

import numpy as np
import pytest

from mlipaudit.analysis.planarity import deviation_from_plane

ANGLES = np.arange(6) * np.pi / 3
RING = np.stack([1.4 * np.cos(ANGLES), 1.4 * np.sin(ANGLES), np.zeros(6)], axis=1)


def chair(height):
    """Six atoms in turn above and below their plane by `height`."""
    return RING + np.outer((-1.0) ** np.arange(6), [0, 0, height])


def turned(positions):
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    return positions @ rotation.T + [5.0, -3.0, 100.0]


@pytest.mark.parametrize("height", [0.0, 0.01, 0.25])
def test_a_chair_is_as_far_from_its_plane_as_it_was_built(height):
    assert deviation_from_plane(chair(height)) == pytest.approx(height, abs=1e-12)
    assert deviation_from_plane(turned(chair(height))) == pytest.approx(height, abs=1e-12)


def test_one_atom_out_of_six():
    # Least squares of a ring with one atom at height h: the plane tilts towards it and leaves h sqrt(1/2 / 6).
    envelope = RING.copy()
    envelope[0, 2] = 1e-4
    assert deviation_from_plane(envelope) == pytest.approx(1e-4 * np.sqrt(0.5 / 6), rel=1e-6)


def test_frames_at_once_are_as_one_by_one():
    frames = np.stack([chair(h) for h in (0.0, 0.1, 0.2)])
    assert deviation_from_plane(frames) == pytest.approx([0.0, 0.1, 0.2])


def test_three_atoms_have_a_plane():
    assert deviation_from_plane(np.random.default_rng(0).normal(size=(4, 3, 3))).tolist() == [0.0] * 4
