# SPDX-License-Identifier: Apache-2.0
"""The zero of energy: energies of elements that are given, read from the model, or fitted, and then subtracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mlipaudit.benchmarks.dataset.config import FIT, GIVEN, MODEL, NONE, DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Frame
from mlipaudit.benchmarks.dataset.schemas import DatasetModelOutput
from mlipaudit.benchmarks.dataset.units import factor_of

NO_LABELS = "the data has no labels of it"


@dataclass(frozen=True)
class Zero:
    """Energies of elements, and from which side they are subtracted."""

    source: str = NONE
    energies: dict[int, float] = field(default_factory=dict)
    """eV, by atomic number."""
    from_predictions: bool = False
    problem: str = ""
    """Why energies cannot be compared."""
    note: str = ""

    def of(self, frame: Frame) -> float:
        """eV, of all atoms of a frame."""
        numbers, counts = np.unique(frame.atoms.numbers, return_counts=True)
        return float(sum(n * self.energies.get(int(z), 0.0) for z, n in zip(numbers, counts, strict=True)))

    @property
    def in_words(self) -> str:
        """Where they come from, and from what they were subtracted."""
        if self.source == NONE or self.problem:
            return ""
        sides = "labels and predictions" if self.from_predictions else "labels"
        origin = {GIVEN: "given", MODEL: "the model's own", FIT: "fitted to label minus prediction"}[self.source]
        return f"{origin}, subtracted from {sides}"


def zero_of(
    output: DatasetModelOutput, frames: Sequence[Frame], rows: Sequence[int], protocol: DatasetProtocol
) -> Zero:
    options = protocol.reference_energies
    both = options.from_predictions
    if options.source == GIVEN:
        factor = factor_of("energy", protocol.units.energy)
        return Zero(GIVEN, _by_number(options.energies or {}, factor), both)
    if options.source == MODEL:
        if output.atomic_energies is None:
            return Zero(MODEL, problem="the model does not say which energies of atoms it adds")
        return Zero(MODEL, _by_number(output.atomic_energies), both)
    return _fitted(frames, output.energies[list(rows)]) if options.source == FIT else Zero()


def _by_number(energies: dict[str, float], factor: float = 1.0) -> dict[int, float]:
    from ase.data import atomic_numbers

    return {atomic_numbers[element]: energy * factor for element, energy in energies.items()}


def _fitted(frames: Sequence[Frame], predicted: np.ndarray) -> Zero:
    """Least squares of label minus prediction over the composition, in double precision."""
    chosen = [i for i, f in enumerate(frames) if "energy" in f.labels and np.isfinite(f.labels["energy"][0])]
    if not chosen:
        return Zero(FIT, problem=NO_LABELS)
    elements = sorted({int(z) for i in chosen for z in np.unique(frames[i].atoms.numbers)})
    counts = np.array([[np.sum(frames[i].atoms.numbers == z) for z in elements] for i in chosen], float)
    offsets = np.array([frames[i].labels["energy"][0] - predicted[i] for i in chosen])
    solution, _, rank, _ = np.linalg.lstsq(counts, offsets, rcond=None)
    note = (
        f"the compositions of the data leave the reference energies of {len(elements)} elements undetermined: "
        f"they have rank {rank}; the smallest that fit were taken"
        if rank < len(elements)
        else ""
    )
    # Twelve digits: the order of a vectorised sum must not show in a result.
    return Zero(FIT, {z: float(f"{e:.12g}") for z, e in zip(elements, solution, strict=True)}, note=note)
