# SPDX-License-Identifier: Apache-2.0
"""Relative energies of the conformers of a molecule.

Both profiles are taken relative to the conformer that is lowest in the reference. Two public data sets share the
schema: `folmsbee` (drug-like molecules, the default) and `wiggle150` (strongly strained conformers).

The published thresholds are wide for molecules whose conformers lie close together: on the small molecules of the
embedded set a model that gives every conformer the same energy scores about 0.45. `profile_score` beside it judges each
profile in units of its own size, and is practically 0 for such a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, NonNegativeFloat, TypeAdapter

from mlipaudit.analysis.correlation import spearman
from mlipaudit.benchmark import DEFAULT_CHARGE, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure
from mlipaudit.families.relative_energies import (
    EnergiesModelOutput,
    EnergyErrorsResult,
    Labelled,
    RelativeEnergies,
    labelled_profile,
    mean_of,
    profile_score,
    relative_profile_error,
    summary,
    why_unusable,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.run_mode import RunMode
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Curves, Scatter

DatasetName = Literal["folmsbee", "wiggle150"]
SOURCE = "mlipaudit 0.1.8 (arXiv:2511.20487)"
EXPECTED = Axis("reference_energy_profile", "reference energy", "kcal/mol")
PREDICTED = Axis("predicted_energy_profile", "predicted energy", "kcal/mol")
ABOVE = "Above the conformer that is lowest in the reference; below 0 are those that the model prefers to it."


@dataclass(frozen=True)
class ConformerProtocol(SinglePoints):
    """Single points on the conformers of one data set."""

    dataset: DatasetName = "folmsbee"


class Conformer(BaseModel):
    """A molecule with all its conformers."""

    molecule_name: str
    dft_energy_profile: list[float]
    """kcal/mol"""
    atom_symbols: list[str]
    conformer_coordinates: list[list[tuple[float, float, float]]]
    """Å"""
    charge: float = DEFAULT_CHARGE


Molecules = dict[str, Conformer]
_CONFORMERS = TypeAdapter(list[Conformer])


class ConformerSelectionMoleculeResult(SystemResult):
    """One molecule; energies in kcal/mol, relative to the lowest conformer of the reference."""

    molecule_name: str
    mae: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol", score=SoftThreshold(0.5), source=SOURCE)] = (
        None
    )
    """Mean absolute error over the conformers."""
    rmse: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol", score=SoftThreshold(1.5), source=SOURCE)] = (
        None
    )
    """Root mean square error over the conformers."""
    spearman_correlation: Annotated[float | None, Field(ge=-1.0, le=1.0), Metric(unit="", better="higher")] = None
    """Whether the order is right; None for a constant profile."""
    spearman_p_value: float | None = Field(ge=0.0, le=1.0, default=None)
    relative_profile_error: Annotated[NonNegativeFloat | None, Metric(unit="")] = None
    """RMS error of the profile about its mean, over the RMS of the reference's: 1 if flat, 2 if inverted."""
    predicted_energy_profile: list[float] | None = None
    reference_energy_profile: list[float] | None = None


class ConformerSelectionResult(EnergyErrorsResult):
    """Errors over all molecules that could be predicted."""

    molecules: list[ConformerSelectionMoleculeResult]
    avg_mae: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    """Mean over molecules of their mean absolute errors."""
    avg_rmse: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    """Mean over molecules of their root mean square errors."""
    profile_score: Annotated[float | None, Metric(unit="", better="higher")] = None
    """Score of the shape of the profiles: soft threshold 0.2 on `relative_profile_error`."""


class ConformerSelectionMoleculeModelOutput(Record):
    """Energies of the conformers of one molecule, eV; None where one of them failed."""

    molecule_name: str
    predicted_energy_profile: list[float] | None = None
    failed: bool = False


class ConformerSelectionModelOutput(EnergiesModelOutput):
    """Energies of all molecules."""

    molecules: list[ConformerSelectionMoleculeModelOutput]
    num_failed: int = 0


class ConformerSelectionBenchmark(RelativeEnergies):
    """Are the relative energies of a molecule's conformers right?"""

    name = "conformer_selection"
    category = "Small Molecules"
    result_class = ConformerSelectionResult
    model_output_class = ConformerSelectionModelOutput
    required_elements = {"H", "C", "N", "O", "S", "P", "F", "Cl", "Br"}
    views = (
        Scatter("Energies of all conformers", x=EXPECTED, y=PREDICTED, diagonal=True, caption=ABOVE),
        Curves("Energies of the conformers", x=EXPECTED, y=PREDICTED, diagonal=True, points=True, caption=ABOVE),
    )
    protocols = {
        RunMode.DEV: ConformerProtocol(max_systems=1),
        RunMode.FAST: ConformerProtocol(),
        RunMode.STANDARD: ConformerProtocol(),
    }

    def __init__(
        self,
        force_field: Any,
        data_input_dir: str | os.PathLike = "./data",
        run_mode: RunMode | str = RunMode.STANDARD,
        dataset: DatasetName = "folmsbee",
        **settings: Any,
    ) -> None:
        """See `Benchmark`; `dataset` chooses between the two data sets."""
        self.dataset = dataset
        super().__init__(force_field, data_input_dir, run_mode, **settings)

    @property
    def protocol(self) -> ConformerProtocol:
        """Settings of this run mode and data set."""
        return replace(super().protocol, dataset=self.dataset)

    @classmethod
    def load(cls, data_dir: Path, protocol: ConformerProtocol) -> Molecules:
        """The molecules that the protocol asks for, by name."""
        molecules = read_json(data_dir, f"{protocol.dataset}_dataset.json", _CONFORMERS)
        return {molecule.molecule_name: molecule for molecule in molecules[: protocol.max_systems]}

    @classmethod
    def structures(cls, reference: Molecules) -> dict[str, list[Labelled]]:
        """All conformers of each molecule."""
        return {
            name: labelled_profile(m.atom_symbols, m.conformer_coordinates, m.charge, m.dft_energy_profile)
            for name, m in reference.items()
        }

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> ConformerSelectionModelOutput:
        """Energies by molecule."""
        molecules = [
            ConformerSelectionMoleculeModelOutput(
                molecule_name=name, predicted_energy_profile=profile, failed=profile is None
            )
            for name, profile in energies.items()
        ]
        return ConformerSelectionModelOutput(molecules=molecules, num_failed=len(failures), failures=failures)

    @classmethod
    def judge(
        cls, output: ConformerSelectionModelOutput, reference: Molecules, protocol: ConformerProtocol
    ) -> ConformerSelectionResult:
        """Errors of every profile, their means, and the score."""
        molecules = {
            m.molecule_name: cls._judge_molecule(
                reference[m.molecule_name], m.predicted_energy_profile, output.failures
            )
            for m in output.molecules
        }
        aggregates = {
            "avg_mae": mean_of(m.mae for m in molecules.values()),
            "avg_rmse": mean_of(m.rmse for m in molecules.values()),
            "profile_score": profile_score(m.relative_profile_error for m in molecules.values()),
        }
        return ConformerSelectionResult(
            molecules=list(molecules.values()), **summary(output, molecules, aggregates)
        )

    @classmethod
    def _judge_molecule(
        cls, molecule: Conformer, energies: list[float] | None, failures: Mapping[str, Failure]
    ) -> ConformerSelectionMoleculeResult:
        name, expected = molecule.molecule_name, np.array(molecule.dft_energy_profile)
        if failure := why_unusable(name, energies, len(expected), failures):
            return ConformerSelectionMoleculeResult(molecule_name=name, failed=True, failure=failure)
        lowest = int(np.argmin(expected))
        expected = expected - expected[lowest]
        predicted = np.array(energies)
        predicted = (predicted - predicted[lowest]) * KCAL_MOL_PER_EV
        order = spearman(expected, predicted)
        return ConformerSelectionMoleculeResult(
            molecule_name=name,
            mae=float(np.mean(np.abs(predicted - expected))),
            rmse=float(np.sqrt(np.mean((predicted - expected) ** 2))),
            relative_profile_error=relative_profile_error(
                predicted - predicted.mean(), expected - expected.mean()
            ),
            spearman_correlation=order.coefficient,
            spearman_p_value=order.p_value,
            predicted_energy_profile=predicted.tolist(),
            reference_energy_profile=expected.tolist(),
        )
