# SPDX-License-Identifier: Apache-2.0
"""Factors against ase's units."""

import pytest
from ase import units

from mlipaudit.benchmarks.dataset.units import KNOWN, factor_of, is_per_atom
from mlipaudit.errors import UsageError

AS_ASE_HAS_IT = [
    ("energy", "eV", 1),
    ("energy", "meV", 1e-3),
    ("energy", "Hartree", units.Hartree),
    ("energy", "Ha", units.Hartree),
    ("energy", "mHa", units.Hartree / 1000),
    ("energy", "Ry", units.Rydberg),
    ("energy", "kcal/mol", units.kcal / units.mol),
    ("energy", "KJ / mol", units.kJ / units.mol),
    ("energy", "J", units.J),
    ("energy", "kJ/mol/atom", units.kJ / units.mol),
    ("forces", "Hartree/Bohr", units.Hartree / units.Bohr),
    ("forces", "kcal/mol/Angstrom", units.kcal / units.mol),
    ("forces", "kcal/mol/Å", units.kcal / units.mol),
    ("forces", "eV/nm", 0.1),
    ("forces", "meV/Ang", 1e-3),
    ("stress", "eV/Å^3", 1),
    ("stress", "eV/A**3", 1),
    ("stress", "GPa", units.GPa),
    ("stress", "kbar", 0.1 * units.GPa),
    ("stress", "bar", 1e-4 * units.GPa),
    ("stress", "Ha/Bohr^3", units.Hartree / units.Bohr**3),
]


@pytest.mark.parametrize(("quantity", "unit", "factor"), AS_ASE_HAS_IT)
def test_factor(quantity, unit, factor):
    assert factor_of(quantity, unit) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(
    ("quantity", "unit"),
    [
        ("energy", "MeV"),
        ("energy", "ev/Å"),
        ("forces", "eV"),
        ("stress", "eV/Å"),
        ("energy", "furlong"),
        ("energy", ""),
    ],
)
def test_what_is_no_unit_of_a_quantity_is_refused_with_those_that_are(quantity, unit):
    with pytest.raises(UsageError) as error:
        factor_of(quantity, unit)
    assert all(known in str(error.value) for known in KNOWN[quantity])


def test_per_atom():
    assert is_per_atom("kcal/mol/atom")
    assert not is_per_atom("kcal/mol")
