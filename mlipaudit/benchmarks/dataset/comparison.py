# SPDX-License-Identifier: Apache-2.0
"""Predictions and labels side by side, on the same zero of energy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mlipaudit.benchmarks.dataset.config import DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Frame, Reference
from mlipaudit.benchmarks.dataset.schemas import DatasetModelOutput
from mlipaudit.benchmarks.dataset.zero import Zero, zero_of
from mlipaudit.metrics import ENERGY, FORCES, STRESS, Sample, Values

ABSENT = "the model gives no {}"


@dataclass(frozen=True)
class Comparison:
    """The frames that a model has answered."""

    frames: tuple[Frame, ...]
    rows: tuple[int, ...]
    """Of the output, for each of them."""
    output: DatasetModelOutput
    zero: Zero
    reference: Reference

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *self.output.num_atoms])

    def forces_of(self, position: int) -> np.ndarray:
        """[atoms, 3]: predicted forces of a frame."""
        row = self.rows[position]
        return self.output.forces[self._starts[row] : self._starts[row + 1]]

    @cached_property
    def shifts(self) -> np.ndarray:
        """eV, [frames]: reference energies."""
        return np.array([self.zero.of(frame) for frame in self.frames])

    @cached_property
    def sizes(self) -> np.ndarray:
        """[frames]: numbers of atoms."""
        return np.array([len(frame.atoms) for frame in self.frames], int)

    @cached_property
    def values(self) -> dict[str, Values]:
        """Quantity -> its values; those that a model does not give are not there."""
        found = {ENERGY.name: self._energies(), FORCES.name: self._forces(), STRESS.name: self._stresses()}
        return {name: values for name, values in found.items() if values is not None and values.x.size}

    def problem(self, quantity: str) -> str:
        """Why a quantity has no values."""
        if quantity == ENERGY.name and self.zero.problem:
            return self.zero.problem
        return ABSENT.format(quantity) if quantity in self.output.absent else "no frame has both sides of it"

    def _energies(self) -> Values | None:
        if self.zero.problem or not self.frames:
            return None
        labels = np.array([f.labels.get("energy", np.array([np.nan]))[0] for f in self.frames])
        predicted = self.output.energies[list(self.rows)]
        predicted = (predicted - self.shifts if self.zero.from_predictions else predicted) / self.sizes
        labelled = (labels - self.shifts) / self.sizes
        return Values(predicted[:, None], labelled[:, None], np.arange(len(labels)), len(labels))

    @cached_property
    def force_frames(self) -> list[int]:
        """Positions of the frames with labelled forces."""
        return [i for i, frame in enumerate(self.frames) if "forces" in frame.labels]

    def _forces(self) -> Values | None:
        if not self.force_frames:
            return None
        predicted = np.concatenate([self.forces_of(i) for i in self.force_frames])
        labelled = np.concatenate([self.frames[i].labels["forces"] for i in self.force_frames])
        owner = np.repeat(self.force_frames, self.sizes[self.force_frames])
        labelled = np.where(np.isfinite(predicted), labelled, np.nan)
        return Values(predicted, labelled, owner, len(self.frames))

    def _stresses(self) -> Values | None:
        chosen = [i for i, frame in enumerate(self.frames) if "stress" in frame.labels]
        if not chosen:
            return None
        predicted = self.output.stress[[self.rows[i] for i in chosen]]
        labelled = np.stack([self.frames[i].labels["stress"] for i in chosen])
        labelled = np.where(np.isfinite(predicted), labelled, np.nan)
        return Values(predicted, labelled, np.array(chosen), len(self.frames))

    def samples(self, position: int) -> tuple[Sample, Sample]:
        """A frame for metrics that see one after the other: prediction and label."""
        frame, shift = self.frames[position], float(self.shifts[position])
        label = frame.sample
        energy = float(self.output.energies[self.rows[position]])
        forces, stress = self.forces_of(position), self.output.stress[self.rows[position]]
        predicted = Sample(
            frame.atoms,
            energy - shift if self.zero.from_predictions else energy,
            None if np.isnan(forces).any() else forces,
            None if np.isnan(stress).any() else stress,
        )
        return predicted, label if label.energy is None else replace(label, energy=label.energy - shift)


def compare(output: DatasetModelOutput, reference: Reference, protocol: DatasetProtocol) -> Comparison:
    """Predictions of the frames that did not fail, beside their labels."""
    rows = [i for i, name in enumerate(output.names) if name not in output.failures]
    frames = tuple(reference.by_name[output.names[i]] for i in rows)
    zero = zero_of(output, frames, rows, protocol)
    return Comparison(frames, tuple(rows), output, zero, reference)
