# SPDX-License-Identifier: Apache-2.0
"""Where labels are in a file, which of them are there, and their conversion to eV and Å."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.benchmarks.dataset.config import DatasetProtocol, Units
from mlipaudit.benchmarks.dataset.units import factor_of, is_per_atom
from mlipaudit.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from ase import Atoms

_WHOSE = ("{}", "REF_{}", "ref_{}", "reference_{}", "dft_{}", "DFT_{}", "{}_dft", "target_{}", "label_{}")
_WORDS = {
    "energy": ("energy", "total_energy", "Energy"),
    "forces": ("forces", "force", "Forces"),
    "stress": ("stress", "Stress"),
}
USUAL = {what: [whose.format(word) for word in words for whose in _WHOSE] for what, words in _WORDS.items()}
"""Names under which a label is looked for."""
LAST_RESORT = {"energy": "free_energy"}
_SHAPES = {"energy": "one number", "forces": "[atoms, 3]", "stress": "6 or 3×3 numbers"}
PROPERTIES = tuple(USUAL)


def places(atoms: Atoms) -> Iterator[Mapping[str, Any]]:
    """Where a frame keeps named values."""
    if atoms.calc is not None:
        yield getattr(atoms.calc, "results", {})
    yield atoms.info
    yield atoms.arrays


def read(atoms: Atoms, key: str) -> Any:
    """The value under a key; None where there is none."""
    return next((place[key] for place in places(atoms) if place.get(key) is not None), None)


def find_keys(images: Sequence[Atoms], protocol: DatasetProtocol) -> dict[str, str]:
    """Property -> key of its label, for those that some frame has.

    Raises:
        UsageError: a chosen key is nowhere, or several might be meant.
    """
    there = _keys(images)
    chosen = asdict(protocol.labels)
    found = {what: _key(what, chosen[what], there, len(images)) for what in PROPERTIES}
    return {what: key for what, key in found.items() if key}


def _keys(images: Iterable[Atoms]) -> list[str]:
    own = ("numbers", "positions")
    return [key for key in dict.fromkeys(k for a in images for p in places(a) for k in p) if key not in own]


def _key(what: str, chosen: str | None, there: Sequence[str], num_frames: int) -> str | None:
    if chosen is not None:
        if chosen not in there:
            raise UsageError(f"labels.{what}, in {num_frames} frames: {UnknownNameError('key', chosen, there)}")
        return chosen
    found = [key for key in USUAL[what] if key in there]
    if len(found) > 1:
        raise UsageError(f"labels of {what} may be {' or '.join(found)}: say which in labels.{what}")
    last = LAST_RESORT.get(what)
    return found[0] if found else (last if last in there else None)


def label(atoms: Atoms, what: str, key: str | None, units: Units) -> np.ndarray | None:
    """A label in eV and Å: energy [1], forces [atoms, 3] or stress [6]; NaN where it is not known, None if nowhere.

    Raises:
        ValueError: it has not the shape of its kind.
    """
    value = None if key is None else read(atoms, key)
    if value is None:
        return None
    try:
        array = np.array(value, dtype=float)
    except (ValueError, TypeError):
        array = np.empty(0)
    shaped = _shaped(array, what, len(atoms))
    if shaped is None:
        raise ValueError(f"{key} is not {_SHAPES[what]}")
    unit = getattr(units, what)
    many = len(atoms) if what == "energy" and is_per_atom(unit) else 1
    converted = shaped * factor_of(what, unit) * many
    return np.where(np.isfinite(converted), converted, np.nan)


def _shaped(array: np.ndarray, what: str, num_atoms: int) -> np.ndarray | None:
    if what == "energy":
        return array.reshape(1) if array.size == 1 else None
    if what == "forces":
        return array if array.shape == (num_atoms, 3) else None
    if array.size == 9:
        full = array.reshape(3, 3)
        full = (full + full.T) / 2
        return full[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    return array.reshape(6) if array.size == 6 else None


def without_labels(atoms: Atoms, keys: Iterable[str]) -> Atoms:
    """A copy that gives no answer away: without calculator, and without anything that is a label or called like one."""
    bare = atoms.copy()
    for key in {*keys, *(name for names in USUAL.values() for name in names), *LAST_RESORT.values()}:
        bare.info.pop(key, None)
        bare.arrays.pop(key, None)
    return bare
