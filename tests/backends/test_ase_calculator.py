# SPDX-License-Identifier: Apache-2.0
"""Calculators: no stale answers, charge reaches them, one failing structure costs only itself."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.calculator import Calculator, all_changes

from mlipaudit.backends.contract import backend_for, set_charge_and_spin
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.failures import FailureKind


class ChargeCounter(Calculator):
    """Energy is the charge; like many calculators it does not notice when only the charge changes."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": atoms.info["charge"], "forces": np.zeros((len(atoms), 3))}


class Moody(ToyCalculator):
    """Raises for one formula, is not a number for another."""

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        if atoms.get_chemical_formula() == "CH4":
            raise RuntimeError("no methane today")
        super().calculate(atoms, properties, system_changes)
        if atoms.get_chemical_formula() == "H3N":
            self.results["energy"] = float("nan")


def test_charge_reaches_the_calculator_and_nothing_is_stale():
    systems = [set_charge_and_spin(molecule("H2O"), charge) for charge in (0, 1, -1)]
    answers = backend_for(ChargeCounter()).predict(systems)
    assert [answer.energy for answer in answers] == [0, 1, -1]


def test_one_that_raises_and_one_that_is_not_a_number_cost_only_themselves():
    names = ["H2O", "CH4", "NH3", "H2O"]
    answers = backend_for(Moody()).predict([molecule(name) for name in names], forces=True)
    assert answers[1].kind is FailureKind.EXCEPTION
    assert "no methane today" in answers[1].message
    assert "test_ase_calculator.py" in answers[1].where
    assert answers[2].kind is FailureKind.NON_FINITE
    assert answers[0].energy == answers[3].energy


def test_elements_are_unknown_unless_the_calculator_says():
    assert backend_for(ChargeCounter()).allowed_atomic_numbers is None
    calculator = ChargeCounter()
    calculator.allowed_atomic_numbers = [1, 8]
    answers = backend_for(calculator).predict([molecule("CH4")])
    assert answers[0].kind is FailureKind.MISSING_ELEMENTS


def test_what_is_no_force_field_is_refused():
    with pytest.raises(ValueError, match="not str"):
        backend_for("mace")


def test_toy_energy_of_a_pair_at_its_minimum_is_the_tapered_depth():
    toy = ToyCalculator(depth=0.2, width=1.5, distance=1.5, cutoff=4.0)
    (answer,) = backend_for(toy).predict([Atoms("H2", [[0, 0, 0], [0, 0, 1.5]])])
    assert answer.energy == pytest.approx(-0.2 * (1 - (1.5 / 4.0) ** 2) ** 2, abs=1e-12)


def test_toy_forces_are_the_slope_of_the_energy():
    atoms, step = molecule("CH3CH2OH"), 1e-4
    (answer,) = backend_for(ToyCalculator()).predict([atoms], forces=True)
    numeric = np.zeros((len(atoms), 3))
    for i in range(len(atoms)):
        for axis in range(3):
            energies = []
            for sign in (-1, 1):
                moved = atoms.copy()
                moved.positions[i, axis] += sign * step
                energies.append(backend_for(ToyCalculator()).predict([moved])[0].energy)
            numeric[i, axis] = -(energies[1] - energies[0]) / (2 * step)
    np.testing.assert_allclose(answer.forces, numeric, atol=1e-6)


@pytest.mark.xtb
def test_xtb_sees_charge_and_multiplicity():
    pytest.importorskip("tblite", reason="extra xtb is not installed")
    from mlipaudit.backends.xtb import gfn2_xtb

    water = molecule("H2O")
    systems = [set_charge_and_spin(water.copy(), *state) for state in ((0, 1), (1, 2), (0, 3), (0, 1))]
    energies = [answer.energy for answer in backend_for(gfn2_xtb()).predict(systems)]
    assert energies[0] == pytest.approx(energies[3], abs=1e-8)
    # Ionisation costs water about 13 eV, the lowest triplet 7 eV; a minimal basis makes both dearer.
    assert 11 < energies[1] - energies[0] < 20
    assert 5 < energies[2] - energies[0] < 20
