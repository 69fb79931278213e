# SPDX-License-Identifier: Apache-2.0
"""Units in which labels may be given, and what they are in eV and Å. Constants are CODATA 2014, as `ase.units` has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlipaudit.errors import UnknownNameError
from mlipaudit.units import KCAL_MOL_PER_EV

HARTREE, BOHR, GIGAPASCAL, JOULE = (
    27.211386024367243,
    0.5291772105638411,
    0.006241509125883258,
    6.241509125883258e18,
)
PER_ATOM = "/atom"
ENERGIES = {
    "eV": 1.0,
    "meV": 1e-3,
    "Hartree": HARTREE,
    "mHartree": HARTREE / 1000,
    "Rydberg": HARTREE / 2,
    "kcal/mol": 1 / KCAL_MOL_PER_EV,
    "kJ/mol": 1 / KCAL_MOL_PER_EV / 4.184,
    "J": JOULE,
}
LENGTHS = {"Å": 1.0, "Bohr": BOHR, "nm": 10.0, "pm": 0.01}
PRESSURES = {
    "GPa": GIGAPASCAL,
    "MPa": GIGAPASCAL * 1e-3,
    "Pa": GIGAPASCAL * 1e-9,
    "kbar": GIGAPASCAL * 0.1,
    "bar": GIGAPASCAL * 1e-4,
}
KNOWN: dict[str, dict[str, float]] = {
    "energy": {unit + per: factor for unit, factor in ENERGIES.items() for per in ("", PER_ATOM)},
    "forces": {f"{e}/{length}": ENERGIES[e] / LENGTHS[length] for e in ENERGIES for length in LENGTHS},
    "stress": {f"{e}/{length}³": ENERGIES[e] / LENGTHS[length] ** 3 for e in ENERGIES for length in LENGTHS}
    | PRESSURES,
}
_SPELLINGS = {
    "angstrom": "å",
    "ang": "å",
    "a": "å",
    "ha": "hartree",
    "eh": "hartree",
    "mha": "mhartree",
    "ry": "rydberg",
}


def factor_of(quantity: str, unit: str) -> float:
    """What a label is multiplied with, to have it in eV, eV/Å or eV/Å³.

    Raises:
        UnknownNameError: there is no such unit of this quantity.
    """
    known = KNOWN[quantity]
    by_spelling = {_normal(name): factor for name, factor in known.items()}
    if "MeV" in unit or _normal(unit) not in by_spelling:  # a million eV is no slip of the shift key
        raise UnknownNameError(f"unit of {quantity}", unit, known)
    return by_spelling[_normal(unit)]


def is_per_atom(unit: str) -> bool:
    """Whether energies are given per atom."""
    return _normal(unit).endswith(PER_ATOM)


def _normal(unit: str, spellings: Mapping[str, str] = _SPELLINGS) -> str:
    """One spelling: without blanks, brackets and capitals."""
    text = re.sub(r"[\s()]|\*\*|\^", "", unit.replace("Å", "å").replace("Å", "å")).casefold().replace("³", "3")
    parts = [re.fullmatch(r"(.*?)(3?)", part) for part in text.split("/")]
    return "/".join(spellings.get(part[1], part[1]) + part[2] for part in parts if part)
