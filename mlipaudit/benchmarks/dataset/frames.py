# SPDX-License-Identifier: Apache-2.0
"""Labelled frames, and the groups that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.benchmarks.dataset.config import SIZE, DatasetProtocol
from mlipaudit.benchmarks.dataset.labels import without_labels
from mlipaudit.benchmarks.dataset.schemas import LabelCount
from mlipaudit.metrics import Sample

if TYPE_CHECKING:
    from ase import Atoms

CHARGE, SPIN = ("charge", "total_charge"), ("spin_multiplicity", "spin", "multiplicity")


@dataclass(frozen=True)
class Frame:
    """One frame with a label; energies in eV, forces in eV/Å, stress in eV/Å³."""

    name: str
    index: int
    """In the file, from 0."""
    atoms: Atoms
    """As in the file."""
    labels: dict[str, np.ndarray]
    """Property -> energy [1], forces [atoms, 3] or stress [6]; a component that is not finite is NaN."""

    @property
    def is_labelled(self) -> bool:
        """Whether there is anything to compare with."""
        return any(np.isfinite(array).any() for array in self.labels.values())

    @property
    def sample(self) -> Sample:
        """For metrics; a label without any finite component is none."""
        known = {what: array for what, array in self.labels.items() if np.isfinite(array).any()}
        energy = float(known["energy"][0]) if "energy" in known else None
        return Sample(self.atoms, energy, known.get("forces"), known.get("stress"))


@dataclass(frozen=True)
class Reference:
    """What a model is asked, and the answers that are expected."""

    frames: tuple[Frame, ...]
    """Those with a label."""
    keys: dict[str, str]
    """Property -> where its labels were found."""
    counts: dict[str, LabelCount]
    num_in_file: int
    num_asked_for: int
    """The first so many, of which some have no label."""
    by_name: dict[str, Frame] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {frame.name: frame for frame in self.frames})

    @cached_property
    def elements(self) -> list[int]:
        """Atomic numbers that occur, ascending."""
        return sorted({int(number) for frame in self.frames for number in np.unique(frame.atoms.numbers)})

    def has(self, what: str) -> bool:
        """Whether any frame has such a label."""
        return what in self.counts and self.counts[what].num_components > 0

    def bare(self, frame: Frame) -> Atoms:
        """The structure for a model: its charge and spin where models look for them, and no label."""
        from mlipaudit.backends.contract import set_charge_and_spin

        atoms = without_labels(frame.atoms, self.keys.values())
        charge, spin = (_first(atoms.info, names, usual) for names, usual in ((CHARGE, 0), (SPIN, 1)))
        return set_charge_and_spin(atoms, charge, spin)


def _first(info: dict[str, Any], names: Sequence[str], usual: int) -> Any:
    value = next((info[name] for name in names if name in info), usual)
    return int(value) if float(value).is_integer() else float(value)


def size_group(num_atoms: int, bins: Sequence[int]) -> str:
    """The group that a size belongs to."""
    lower = 1
    for upper in bins:
        if num_atoms <= upper:
            return f"{lower}–{upper}" if lower < upper else str(upper)
        lower = upper + 1
    return f"{lower} and more"


def group_of(frame: Frame, key: str, protocol: DatasetProtocol) -> str:
    """The group of a frame by size or by a key in `info`."""
    if key == SIZE:
        return size_group(len(frame.atoms), protocol.size_bins)
    return str(frame.atoms.info.get(key, "none"))
