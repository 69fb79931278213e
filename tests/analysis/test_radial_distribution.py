# SPDX-License-Identifier: Apache-2.0
"""Radial distributions against analytic truth: an ideal gas, a perfect crystal, a peak of known shape."""

import numpy as np
import pytest
from ase.build import bulk

from mlipaudit.analysis.radial_distribution import (
    FARTHEST,
    WIDTH,
    coordination_number,
    count_pairs,
    first_peak,
    num_bins,
    shells,
    smooth_peak,
    smoothed,
)

RADII = WIDTH * np.arange(1000)


def gas(num_frames=60, num_atoms=60, *, seed=0):
    """Atoms anywhere in boxes that change, positions [frames, atoms, 3] and lengths [frames, 3]."""
    rng = np.random.default_rng(seed)
    boxes = np.array([10.0, 11.0, 12.0]) * rng.uniform(0.97, 1.03, (num_frames, 1))
    return rng.random((num_frames, num_atoms, 3)) * boxes[:, None], boxes


def crystal(lattice=4.0, repeat=4):
    atoms = bulk("Ar", "fcc", lattice, cubic=True).repeat(repeat)
    return atoms.positions[None], atoms.cell.lengths()[None]


def test_an_ideal_gas_has_one_everywhere_within_its_error():
    pairs = count_pairs(*gas())
    g = pairs.distribution()[50:]
    error = 1 / np.sqrt(pairs.gas.sum() * pairs.shells[50:])
    deviations = (g - 1) / error
    assert abs(deviations.mean()) < 5 / np.sqrt(len(g))
    assert deviations.std() == pytest.approx(1.0, abs=0.15)
    assert np.abs(deviations).max() < 6


def test_each_frame_counts_with_its_own_volume():
    """Two gases of different density: g is one in both together, which it is not in their mean volume."""
    (dense, small), (thin, large) = gas(200, 40), gas(200, 40, seed=1)
    pairs = count_pairs(np.concatenate([dense, thin * 1.5]), np.concatenate([small, large * 1.5]))
    far = pairs.distribution()[100:]
    assert far.mean() == pytest.approx(1.0, abs=0.02)


def test_a_perfect_crystal_has_its_shells():
    pairs = count_pairs(*crystal())
    radii, g = pairs.radii, pairs.distribution()
    (filled,) = np.nonzero(g)
    expected = 4.0 * np.sqrt([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    assert radii[filled][:7] == pytest.approx(expected, abs=WIDTH / 2 + 1e-9)
    assert pairs.density == pytest.approx(255 / 16.0**3)
    neighbours = [coordination_number(radii, g, density=pairs.density, within=r + 0.1) for r in expected]
    assert neighbours == pytest.approx(np.cumsum([12, 6, 24, 12, 24, 8, 48]))
    assert pairs.within(3.0) == pytest.approx([12.0])


def test_chunks_equal_all_at_once():
    positions, boxes = gas()
    whole, pieces = count_pairs(positions, boxes, at_once=10**9), count_pairs(positions, boxes, at_once=1000)
    assert (whole.counts == pieces.counts).all()
    assert (whole.gas == pieces.gas).all()


def test_blocks_sum_up_frames():
    pairs = count_pairs(*gas(63))
    blocks = pairs.in_blocks(6)
    assert (blocks.counts.sum(axis=0) == pairs.counts[3:].sum(axis=0)).all()
    of_last = count_pairs(*(x[53:] for x in gas(63)))
    bins = min(of_last.counts.shape[1], pairs.counts.shape[1])
    assert blocks.distribution(np.eye(6))[-1][:bins] == pytest.approx(of_last.distribution()[:bins])


def test_shifting_and_wrapping_change_nothing():
    positions, boxes = crystal()
    positions = positions + np.random.default_rng(0).normal(0, 0.1, positions.shape)
    known = count_pairs(positions, boxes).counts
    shift = np.random.default_rng(1).integers(-3, 4, positions.shape) * boxes[:, None]
    assert (count_pairs(positions + shift, boxes).counts == known).all()
    assert (count_pairs(np.mod(positions, boxes[:, None]), boxes).counts == known).all()
    moved = count_pairs(positions + np.array([1.23, -4.56, 7.89]), boxes).counts
    assert np.abs(np.cumsum(moved - known)).max() <= 1  # a pair at the edge of a bin


def test_no_value_lies_beyond_half_the_smallest_length_that_occurred():
    positions, boxes = gas()
    radii = count_pairs(positions, boxes).radii
    assert boxes.min() / 2 - WIDTH < radii[-1] + WIDTH / 2 <= boxes.min() / 2 + 1e-9


def test_bins_are_those_that_were_published():
    assert num_bins(100.0) == 2000
    assert WIDTH * (num_bins(100.0) - 1) == pytest.approx(FARTHEST)
    assert num_bins(6.213) == 621  # up to 6.205


def test_the_published_peak_is_the_largest_bin_of_the_window():
    g = np.zeros(1000)
    g[[0, 280, 400, 600]] = 5.0, 2.0, 1.5, 3.0
    assert first_peak(RADII, g, (-1.0, 20.0)) == 0.0
    assert first_peak(RADII, g, (0.0, 20.0)) == pytest.approx(6.0)
    assert first_peak(RADII, g, (3.5, 4.5)) == pytest.approx(4.0)
    assert first_peak(RADII, np.stack([g, 2 - g]), (3.9, 4.5)) == pytest.approx([4.0, 3.91])


@pytest.mark.parametrize("at", [2.8, 2.803, 5.937])
def test_the_top_of_a_smooth_peak(at):
    g = 1 + 1.6 * np.exp(-(((RADII - at) / 0.3) ** 2))
    found = smooth_peak(RADII, g)
    assert found.radius == pytest.approx(at, abs=1e-3)
    assert found.height == pytest.approx(2.6, abs=0.05)


def test_noise_moves_the_top_less_than_the_largest_bin():
    g = 1 + 1.6 * np.exp(-(((RADII - 2.8) / 0.2) ** 2)) + np.random.default_rng(0).normal(0, 0.1, (50, 1000))
    tops = np.array([smooth_peak(RADII, row).radius for row in g])
    largest = first_peak(RADII, g, (0.0, 20.0))
    assert abs(tops.mean() - 2.8) < 0.01
    assert tops.std() < 0.5 * largest.std()


def test_a_flat_or_rising_curve_has_a_top_all_the_same():
    assert np.isfinite(smooth_peak(RADII, np.ones(1000)).radius)
    assert smooth_peak(RADII, RADII**2).radius == pytest.approx(9.9, abs=0.2)


def test_smoothing_keeps_lines_and_sums():
    assert smoothed(RADII, 0.1)[20:-20] == pytest.approx(RADII[20:-20])
    assert smoothed(np.ones(1000), 0.2) == pytest.approx(np.ones(1000))


def test_shells_fill_the_sphere():
    assert shells(RADII[1:]).sum() == pytest.approx(4 / 3 * np.pi * (9.995**3 - 0.005**3))
