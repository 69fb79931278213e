# SPDX-License-Identifier: Apache-2.0
"""Energy differences between tautomers in vacuum.

The public data set holds pairs of the Tautobase, minimised with xTB; an embedded or local one says in its manifest what
it holds. The published threshold, 0.05, is applied to kcal/mol, where a model
0.3 kcal/mol off scores 3e-7; the published text suggests eV. `score` keeps the published number, and
`score_threshold_in_ev` gives the other reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, TypeAdapter

from mlipaudit.benchmark import DEFAULT_CHARGE, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure
from mlipaudit.families.relative_energies import (
    EnergiesModelOutput,
    EnergyErrorsResult,
    Labelled,
    RelativeEnergies,
    first_systems,
    labelled,
    mean_of,
    rms_of,
    summary,
    why_unusable,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.scoring import compute_benchmark_score
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Scatter

DATASET = "tautobase_2792.json"
THRESHOLD = 0.05


class TautomerPair(BaseModel):
    """Two tautomers of one molecule."""

    energies: tuple[float, float]
    """Reference energies, eV."""
    coordinates: tuple[list[tuple[float, float, float]], list[tuple[float, float, float]]]
    """Å"""
    atom_symbols: tuple[list[str], list[str]]
    """Per tautomer: the order of atoms may differ."""
    charge: float = DEFAULT_CHARGE


Pairs = dict[str, TautomerPair]
_PAIRS = TypeAdapter(Pairs)


class TautomersMoleculeResult(SystemResult):
    """One pair of tautomers; energies in kcal/mol, second minus first."""

    structure_id: str
    abs_deviation: Annotated[
        float | None,
        Metric(unit="kcal/mol", score=SoftThreshold(THRESHOLD), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Absolute error of the energy difference."""
    predicted_energy_diff: float | None = None
    ref_energy_diff: float | None = None


class TautomersResult(EnergyErrorsResult):
    """Errors over all pairs that could be predicted."""

    molecules: list[TautomersMoleculeResult]
    mae: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Mean absolute error of the energy difference."""
    rmse: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Root mean square error of the energy difference."""
    score_threshold_in_ev: float | None = None
    """The score if the published threshold of 0.05 were meant in eV."""


class TautomersModelOutput(EnergiesModelOutput):
    """Energies of both tautomers of each pair."""

    structure_ids: list[str]
    predictions: list[tuple[float, float] | None]
    """eV; None where a structure of the pair failed."""


class TautomersBenchmark(RelativeEnergies):
    """How well are the energy differences between tautomers predicted?"""

    name = "tautomers"
    category = "Small Molecules"
    result_class = TautomersResult
    model_output_class = TautomersModelOutput
    required_elements = {"H", "C", "N", "O", "F", "S", "Cl", "Br", "I"}
    views = (
        Scatter(
            "Energy differences of the pairs",
            x=Axis("ref_energy_diff", "reference energy difference", "kcal/mol"),
            y=Axis("predicted_energy_diff", "predicted energy difference", "kcal/mol"),
            diagonal=True,
            caption="Second tautomer minus first; a point in the upper left or lower right has the wrong one lower.",
        ),
    )

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Pairs:
        """The pairs that the protocol asks for, by id."""
        return first_systems(read_json(data_dir, DATASET, _PAIRS), protocol)

    @classmethod
    def structures(cls, reference: Pairs) -> dict[str, list[Labelled]]:
        """Both tautomers of each pair."""
        return {
            name: [
                labelled(symbols, positions, pair.charge, energy)
                for symbols, positions, energy in zip(
                    pair.atom_symbols, pair.coordinates, pair.energies, strict=True
                )
            ]
            for name, pair in reference.items()
        }

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> TautomersModelOutput:
        """Energies by pair."""
        predictions = [None if pair is None else (pair[0], pair[1]) for pair in energies.values()]
        return TautomersModelOutput(structure_ids=list(energies), predictions=predictions, failures=failures)

    @classmethod
    def judge(cls, output: TautomersModelOutput, reference: Pairs, protocol: SinglePoints) -> TautomersResult:
        """Deviation of every pair, mean errors, and the score."""
        answers = zip(output.structure_ids, output.predictions, strict=True)
        molecules = {name: cls._judge_pair(name, pair, reference, output.failures) for name, pair in answers}
        deviations = [m.abs_deviation for m in molecules.values()]
        in_ev = THRESHOLD * KCAL_MOL_PER_EV
        return TautomersResult(
            molecules=list(molecules.values()),
            score_threshold_in_ev=compute_benchmark_score([deviations], [in_ev]) if molecules else None,
            **summary(output, molecules, {"mae": mean_of(deviations), "rmse": rms_of(deviations)}),
        )

    @classmethod
    def _judge_pair(
        cls, name: str, pair: tuple[float, float] | None, reference: Pairs, failures: Mapping[str, Failure]
    ) -> TautomersMoleculeResult:
        if (failure := why_unusable(name, pair, 2, failures)) or pair is None:
            return TautomersMoleculeResult(structure_id=name, failed=True, failure=failure)
        expected = reference[name].energies[1] - reference[name].energies[0]
        predicted = pair[1] - pair[0]
        return TautomersMoleculeResult(
            structure_id=name,
            abs_deviation=abs(predicted - expected) * KCAL_MOL_PER_EV,
            predicted_energy_diff=predicted * KCAL_MOL_PER_EV,
            ref_energy_diff=expected * KCAL_MOL_PER_EV,
        )
