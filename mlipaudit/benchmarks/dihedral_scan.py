# SPDX-License-Identifier: Apache-2.0
"""Energy profiles along the rotation about a bond.

The published score looks at the height of the barrier (largest minus smallest energy of the profile) and at nothing
else, so that a profile with its maxima and minima exchanged scores 1. `profile_score` beside it judges the shape: it
is 1 within a fifth of the profile's own size and practically 0 for a flat profile or an inverted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, NonNegativeFloat, TypeAdapter

from mlipaudit.analysis.correlation import pearson
from mlipaudit.benchmark import DEFAULT_CHARGE, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure
from mlipaudit.families.relative_energies import (
    EnergiesModelOutput,
    EnergyErrorsResult,
    Labelled,
    RelativeEnergies,
    first_systems,
    labelled_profile,
    mean_of,
    profile_score,
    relative_profile_error,
    summary,
    why_unusable,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Curves, Scatter

DATASET = "TorsionNet500.json"


class Fragment(BaseModel):
    """A molecule at several angles of one torsion."""

    torsion_atom_indices: list[int]
    dft_energy_profile: list[tuple[float, float]]
    """Angle in degrees, energy in kcal/mol."""
    atom_symbols: list[str]
    conformer_coordinates: list[list[tuple[float, float, float]]]
    """Å"""
    smiles: str
    charge: float = DEFAULT_CHARGE


Fragments = dict[str, Fragment]
_FRAGMENTS = TypeAdapter(Fragments)


class DihedralScanFragmentResult(SystemResult):
    """One fragment; energies in kcal/mol, relative to the lowest point of the reference."""

    fragment_name: str
    mae: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    """Mean absolute error of the profile."""
    rmse: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    """Root mean square error of the profile."""
    pearson_r: Annotated[float | None, Field(ge=-1.0, le=1.0), Metric(unit="", better="higher")] = None
    """None for a constant profile."""
    pearson_p: float | None = Field(ge=0.0, le=1.0, default=None)
    barrier_height_error: Annotated[
        NonNegativeFloat | None,
        Metric(unit="kcal/mol", score=SoftThreshold(1.0), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Absolute error of the highest minus the lowest energy."""
    relative_profile_error: Annotated[NonNegativeFloat | None, Metric(unit="")] = None
    """RMS error of the profile about its mean, over the RMS of the reference's: 1 if flat, 2 if inverted."""
    predicted_energy_profile: list[float] | None = None
    reference_energy_profile: list[float] | None = None
    distance_profile: list[float] | None = None
    """Angles in degrees (published name)."""


class DihedralScanResult(EnergyErrorsResult):
    """Errors over all fragments that could be predicted."""

    avg_mae: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    avg_rmse: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    avg_pearson_r: Annotated[float | None, Field(ge=-1.0, le=1.0), Metric(unit="", better="higher")] = None
    avg_pearson_p: float | None = Field(ge=0.0, le=1.0, default=None)
    mae_barrier_height: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    profile_score: Annotated[float | None, Metric(unit="", better="higher")] = None
    """Score of the shape of the profiles: soft threshold 0.2 on `relative_profile_error`."""
    fragments: list[DihedralScanFragmentResult]


class FragmentModelOutput(Record):
    """Energies of one fragment, eV; None where one of them failed."""

    fragment_name: str
    energy_predictions: list[float] | None = None
    failed: bool = False


class DihedralScanModelOutput(EnergiesModelOutput):
    """Energies of all fragments."""

    fragments: list[FragmentModelOutput]
    num_failed: int = 0


class DihedralScanBenchmark(RelativeEnergies):
    """Are the energy profiles of torsions right?"""

    name = "dihedral_scan"
    category = "Small Molecules"
    result_class = DihedralScanResult
    model_output_class = DihedralScanModelOutput
    required_elements = {"H", "C", "N", "O", "S", "F", "Cl"}
    views = (
        Scatter(
            "Energies at all angles",
            x=Axis("reference_energy_profile", "reference energy", "kcal/mol"),
            y=Axis("predicted_energy_profile", "predicted energy", "kcal/mol"),
            diagonal=True,
            caption="Energies above the angle that is lowest in the reference, one point per angle.",
        ),
        Curves(
            "Energy along the torsion",
            x=Axis("distance_profile", "dihedral angle", "°"),
            y=Axis("predicted_energy_profile", "energy", "kcal/mol"),
            reference="reference_energy_profile",
            caption="Energies above the angle that is lowest in the reference.",
        ),
    )

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Fragments:
        """The fragments that the protocol asks for, by name."""
        return first_systems(read_json(data_dir, DATASET, _FRAGMENTS), protocol)

    @classmethod
    def structures(cls, reference: Fragments) -> dict[str, list[Labelled]]:
        """Every angle of each fragment."""
        return {
            name: labelled_profile(
                f.atom_symbols, f.conformer_coordinates, f.charge, [energy for _, energy in f.dft_energy_profile]
            )
            for name, f in reference.items()
        }

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> DihedralScanModelOutput:
        """Energies by fragment."""
        fragments = [
            FragmentModelOutput(fragment_name=name, energy_predictions=profile, failed=profile is None)
            for name, profile in energies.items()
        ]
        return DihedralScanModelOutput(fragments=fragments, num_failed=len(failures), failures=failures)

    @classmethod
    def judge(
        cls, output: DihedralScanModelOutput, reference: Fragments, protocol: SinglePoints
    ) -> DihedralScanResult:
        """Errors of every profile, their means, and the score."""
        fragments = {
            f.fragment_name: cls._judge_fragment(f, reference[f.fragment_name], output.failures)
            for f in output.fragments
        }
        entries = list(fragments.values())
        aggregates = {
            "avg_mae": mean_of(f.mae for f in entries),
            "avg_rmse": mean_of(f.rmse for f in entries),
            "avg_pearson_r": mean_of(f.pearson_r for f in entries),
            "avg_pearson_p": mean_of(f.pearson_p for f in entries),
            "mae_barrier_height": mean_of(f.barrier_height_error for f in entries),
            "profile_score": profile_score(f.relative_profile_error for f in entries),
        }
        return DihedralScanResult(fragments=entries, **summary(output, fragments, aggregates))

    @classmethod
    def _judge_fragment(
        cls, answer: FragmentModelOutput, fragment: Fragment, failures: Mapping[str, Failure]
    ) -> DihedralScanFragmentResult:
        name, energies = answer.fragment_name, answer.energy_predictions
        angles, expected = np.array(fragment.dft_energy_profile).T
        if failure := why_unusable(name, energies, len(expected), failures):
            return DihedralScanFragmentResult(fragment_name=name, failed=True, failure=failure)
        predicted = np.array(energies)
        predicted = (predicted - predicted[np.argmin(expected)]) * KCAL_MOL_PER_EV
        correlation = pearson(expected, predicted)
        return DihedralScanFragmentResult(
            fragment_name=name,
            mae=float(np.mean(np.abs(predicted - expected))),
            rmse=float(np.sqrt(np.mean((predicted - expected) ** 2))),
            pearson_r=correlation.coefficient,
            pearson_p=correlation.p_value,
            barrier_height_error=abs(float(np.ptp(predicted) - np.ptp(expected))),
            relative_profile_error=relative_profile_error(
                predicted - predicted.mean(), expected - expected.mean()
            ),
            predicted_energy_profile=predicted.tolist(),
            reference_energy_profile=expected.tolist(),
            distance_profile=angles.tolist(),
        )
