# SPDX-License-Identifier: Apache-2.0
"""Energy differences between tautomers in vacuum.

The public data set holds pairs of the Tautobase, minimised with xTB; an embedded or local one says in its manifest what
it holds. The published threshold, 0.05, is applied to kcal/mol, where a model
0.3 kcal/mol off scores 3e-7; the published text suggests eV. `score` keeps the published number, and
`score_threshold_in_ev` gives the other reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, TypeAdapter

from mlipaudit.backends.contract import set_charge_and_spin
from mlipaudit.benchmark import DEFAULT_CHARGE, DEFAULT_SPIN, BenchmarkResult, ModelOutput, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure
from mlipaudit.families.relative_energies import NOT_FINITE, Labelled, RelativeEnergies, unanswered
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.scoring import compute_benchmark_score, score_systems
from mlipaudit.units import KCAL_MOL_PER_EV

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


class TautomersResult(BenchmarkResult):
    """Errors over all pairs that could be predicted."""

    molecules: list[TautomersMoleculeResult]
    mae: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Mean absolute error of the energy difference."""
    rmse: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Root mean square error of the energy difference."""
    score_threshold_in_ev: float | None = None
    """The score if the published threshold of 0.05 were meant in eV."""


class TautomersModelOutput(ModelOutput):
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

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Pairs:
        """The pairs that the protocol asks for, by id."""
        pairs = read_json(data_dir, DATASET, _PAIRS)
        return dict(list(pairs.items())[: protocol.max_systems])

    @classmethod
    def structures(cls, reference: Pairs) -> dict[str, list[Labelled]]:
        """Both tautomers of each pair."""
        from ase import Atoms

        def labelled(pair: TautomerPair, which: int) -> Labelled:
            atoms = Atoms(pair.atom_symbols[which], positions=pair.coordinates[which])
            return Labelled(set_charge_and_spin(atoms, pair.charge, DEFAULT_SPIN), pair.energies[which])

        return {name: [labelled(pair, 0), labelled(pair, 1)] for name, pair in reference.items()}

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
        molecules = [cls._judge_pair(name, pair, reference, output.failures) for name, pair in answers]
        errors = np.array([m.abs_deviation for m in molecules if m.abs_deviation is not None])
        in_ev = [[m.abs_deviation for m in molecules]]
        return TautomersResult(
            molecules=molecules,
            mae=float(errors.mean()) if errors.size else None,
            rmse=math.sqrt(float(np.square(errors).mean())) if errors.size else None,
            score_threshold_in_ev=compute_benchmark_score(in_ev, [THRESHOLD * KCAL_MOL_PER_EV])
            if molecules
            else None,
            failures={m.structure_id: m.failure for m in molecules if m.failure},
            **TautomersResult.fields_of(score_systems(molecules)),
        )

    @classmethod
    def _judge_pair(
        cls, name: str, pair: tuple[float, float] | None, reference: Pairs, failures: Mapping[str, Failure]
    ) -> TautomersMoleculeResult:
        if pair is None or not all(map(math.isfinite, pair)):
            failure = NOT_FINITE if pair else unanswered(name, failures)
            return TautomersMoleculeResult(structure_id=name, failed=True, failure=failure)
        expected = reference[name].energies[1] - reference[name].energies[0]
        predicted = pair[1] - pair[0]
        return TautomersMoleculeResult(
            structure_id=name,
            abs_deviation=abs(predicted - expected) * KCAL_MOL_PER_EV,
            predicted_energy_diff=predicted * KCAL_MOL_PER_EV,
            ref_energy_diff=expected * KCAL_MOL_PER_EV,
        )
