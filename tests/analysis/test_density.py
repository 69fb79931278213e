# SPDX-License-Identifier: Apache-2.0
"""Densities of boxes that are known."""

import numpy as np
import pytest

from mlipaudit.analysis.density import densities, number_density, volumes


def test_a_mole_of_water_in_a_litre():
    """55.5 mol/l, in 1000 Å³."""
    (found,) = densities([[10.0, 10.0, 10.0]], num_molecules=0.602214076, molar_mass=18.01528)
    assert found == pytest.approx(0.01801528, rel=1e-12)


def test_ice_has_its_density():
    """Ice Ic: eight molecules in a cube of 6.358 Å."""
    assert densities(np.full(3, 6.358), num_molecules=8, molar_mass=18.01528) == pytest.approx(0.931, abs=1e-3)


def test_every_frame_has_its_own():
    boxes = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 3.0]])
    assert volumes(boxes).tolist() == [6.0, 12.0]
    one, two = densities(boxes, num_molecules=1, molar_mass=1.0)
    assert one == 2 * two


def test_number_density_is_the_inverse():
    box = np.cbrt(100 / number_density(0.792, molar_mass=32.042))
    assert densities(np.full(3, box), num_molecules=100, molar_mass=32.042) == pytest.approx(0.792)
