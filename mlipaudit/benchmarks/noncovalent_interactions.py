# SPDX-License-Identifier: Apache-2.0
"""Interaction energies of dimers, from profiles along their distance.

The published interaction energy of a profile is its lowest energy minus that at the largest distance (for the
repulsive set: its highest). A model without any interaction is right about a dimer that hardly interacts, and the
published score lets it through there. `profile_score` beside it judges each profile in units of its own size: it is 1
within a fifth and practically 0 for a flat one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, TypeAdapter

from mlipaudit.benchmark import DEFAULT_CHARGE, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.relative_energies import (
    Aggregate,
    EnergiesModelOutput,
    EnergyErrorsResult,
    Labelled,
    RelativeEnergies,
    labelled,
    mean_of,
    profile_score,
    relative_profile_error,
    rms_of,
    summary,
    why_unusable,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.units import KCAL_MOL_PER_EV

DATASET = "NCI_Atlas.json"
REPULSIVE = {"R739x5"}
DATASETS = {
    "D442x10": "Dispersion",
    "HB375x10": "Hydrogen bonds",
    "HB300SPXx10": "Hydrogen bonds",
    "IHB100x10": "Ionic hydrogen bonds",
    "R739x5": "Repulsive contacts",
    "SH250x10": "Sigma hole",
}
"""Data sets of the Non-Covalent Interactions Atlas, as mlipaudit 0.1.8 describes them; others keep their own name."""
IONS = {"a": "(-)", "k": "(+)"}
"""How the atlas marks the charge of an atom in the name of a group."""


class MolecularSystem(BaseModel):
    """A dimer at several distances."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    system_id: str
    system_name: str
    dataset_name: str
    group: str
    charge: float = Field(alias="total_charge", default=DEFAULT_CHARGE)
    atom_symbols: list[str]
    coords: list[list[tuple[float, float, float]]]
    """Å"""
    distance_profile: list[float]
    """Larger is farther; the unit is the data set's own."""
    interaction_energy_profile: list[float]
    """kcal/mol"""

    @property
    def dataset(self) -> str:
        """Descriptive name of the data set."""
        return DATASETS.get(self._raw_dataset, self._raw_dataset)

    @property
    def described_group(self) -> str:
        """Name of the group with charges written out."""
        return _described(self.group)

    @property
    def _raw_dataset(self) -> str:
        return self.dataset_name.removeprefix("NCIA_")

    def interaction_energy(self, profile: Sequence[float]) -> float:
        """Depth of the well, or height of the wall of a repulsive system, above the energy at the largest distance."""
        extreme = max(profile) if self._raw_dataset in REPULSIVE else min(profile)
        return float(extreme - profile[self.farthest])

    @property
    def farthest(self) -> int:
        """Index of the largest distance."""
        return int(np.argmax(self.distance_profile))


Systems = dict[str, MolecularSystem]
_SYSTEMS = TypeAdapter(Systems)


class NoncovalentInteractionsSystemModelOutput(Record):
    """Energies of one dimer along its distance profile, eV."""

    system_id: str
    energy_profile: list[float] | None = None


class NoncovalentInteractionsModelOutput(EnergiesModelOutput):
    """Energies of the systems that have an answer, and the names of those that have none."""

    systems: list[NoncovalentInteractionsSystemModelOutput]
    n_skipped_unallowed_elements: int = 0
    skipped_structures: list[str] = []
    """Those with an element that the model does not cover."""
    failed_structures: list[str] = []


class NoncovalentInteractionsSystemResult(SystemResult):
    """One dimer; energies in kcal/mol."""

    system_id: str
    structure_name: str
    dataset: str
    group: str
    reference_interaction_energy: float | None = None
    mlip_interaction_energy: float | None = None
    deviation: Annotated[float | None, Metric(unit="kcal/mol", better="neither")] = None
    """Predicted minus reference interaction energy."""
    abs_deviation: Annotated[
        NonNegativeFloat | None,
        Metric(unit="kcal/mol", score=SoftThreshold(1.0), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Absolute error of the interaction energy."""
    relative_profile_error: Annotated[NonNegativeFloat | None, Metric(unit="")] = None
    """RMS error of the profile, zero at the largest distance, over the RMS of the reference's: 1 if flat."""
    reference_energy_profile: list[float] | None = None
    energy_profile: list[float] | None = None
    distance_profile: list[float] | None = None


class NoncovalentInteractionsResult(EnergyErrorsResult):
    """Errors over all systems that could be predicted, also by data set and by group."""

    systems: list[NoncovalentInteractionsSystemResult]
    """First those with an answer, then those that failed; those that were skipped are not listed."""
    n_skipped_unallowed_elements: int = 0
    skipped_structures: list[str] = []
    mae_interaction_energy_all: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    rmse_interaction_energy_all: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    rmse_interaction_energy_subsets: dict[str, float] = {}
    """By "data set: group", kcal/mol."""
    mae_interaction_energy_subsets: dict[str, float] = {}
    rmse_interaction_energy_datasets: dict[str, float] = {}
    mae_interaction_energy_datasets: dict[str, float] = {}
    profile_score: Annotated[float | None, Metric(unit="", better="higher")] = None
    """Score of the shape of the profiles: soft threshold 0.2 on `relative_profile_error`."""


class NoncovalentInteractionsBenchmark(RelativeEnergies):
    """Are the interaction energies of dimers right?"""

    name = "noncovalent_interactions"
    category = "Small Molecules"
    result_class = NoncovalentInteractionsResult
    model_output_class = NoncovalentInteractionsModelOutput
    required_elements = {
        "H", "He", "B", "C", "N", "O", "F", "Ne", "P", "S", "Cl", "Ar", "As", "Se", "Br", "Kr", "I", "Xe",
    }  # fmt: skip
    skip_if_elements_missing = False

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Systems:
        """The systems that the protocol asks for, by id."""
        return dict(list(read_json(data_dir, DATASET, _SYSTEMS).items())[: protocol.max_systems])

    @classmethod
    def structures(cls, reference: Systems) -> dict[str, list[Labelled]]:
        """Every distance of each system."""
        return {
            name: [
                labelled(s.atom_symbols, positions, s.charge, energy / KCAL_MOL_PER_EV)
                for positions, energy in zip(s.coords, s.interaction_energy_profile, strict=True)
            ]
            for name, s in reference.items()
        }

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> NoncovalentInteractionsModelOutput:
        """Energies by system; those with missing elements apart from those that failed."""
        skipped = [name for name, f in failures.items() if f.kind is FailureKind.MISSING_ELEMENTS]
        return NoncovalentInteractionsModelOutput(
            systems=[
                NoncovalentInteractionsSystemModelOutput(system_id=name, energy_profile=profile)
                for name, profile in energies.items()
                if profile is not None
            ],
            n_skipped_unallowed_elements=len(skipped),
            skipped_structures=skipped,
            failed_structures=[name for name in failures if name not in skipped],
            failures=failures,
        )

    @classmethod
    def judge(
        cls, output: NoncovalentInteractionsModelOutput, reference: Systems, protocol: SinglePoints
    ) -> NoncovalentInteractionsResult:
        """Deviation of every system, mean errors over all and by subset, and the score."""
        skipped = output.skipped_structures
        profiles: dict[str, list[float] | None] = {s.system_id: s.energy_profile for s in output.systems}
        profiles |= dict.fromkeys([*output.failed_structures, *skipped])
        entries = {n: cls._judge_system(reference[n], p, output.failures) for n, p in profiles.items()}
        deviations = [s.deviation for s in entries.values()]
        aggregates = {
            "mae_interaction_energy_all": mean_of(s.abs_deviation for s in entries.values()),
            "rmse_interaction_energy_all": rms_of(deviations),
            "profile_score": profile_score(s.relative_profile_error for s in entries.values()),
        }
        fields = summary(output, entries, aggregates)
        # Not asked is not failed; both count 0.
        fields |= {"num_failed": fields["num_failed"] - len(skipped), "num_skipped": len(skipped)}
        return NoncovalentInteractionsResult(
            systems=[entry for name, entry in entries.items() if name not in skipped],
            n_skipped_unallowed_elements=len(skipped),
            skipped_structures=skipped,
            **_by_subset([s for s in entries.values() if not s.failed]),
            **fields,
        )

    @classmethod
    def _judge_system(
        cls, system: MolecularSystem, energies: list[float] | None, failures: Mapping[str, Failure]
    ) -> NoncovalentInteractionsSystemResult:
        expected = np.array(system.interaction_energy_profile)
        names: dict[str, Any] = {
            "system_id": system.system_id,
            "structure_name": system.system_name,
            "dataset": system.dataset,
            "group": system.described_group,
        }
        if failure := why_unusable(system.system_id, energies, len(expected), failures):
            return NoncovalentInteractionsSystemResult(**names, failed=True, failure=failure)
        predicted = np.array(energies) * KCAL_MOL_PER_EV
        depth = system.interaction_energy(predicted.tolist())
        reference_depth = system.interaction_energy(expected.tolist())
        return NoncovalentInteractionsSystemResult(
            **names,
            reference_interaction_energy=reference_depth,
            mlip_interaction_energy=depth,
            deviation=depth - reference_depth,
            abs_deviation=abs(depth - reference_depth),
            relative_profile_error=relative_profile_error(
                predicted - predicted[system.farthest], expected - expected[system.farthest]
            ),
            reference_energy_profile=expected.tolist(),
            energy_profile=predicted.tolist(),
            distance_profile=system.distance_profile,
        )


def _by_subset(systems: Sequence[NoncovalentInteractionsSystemResult]) -> dict[str, Any]:
    """Mean errors by data set, and by data set and group."""
    by_dataset: dict[str, list[float | None]] = {}
    by_group: dict[str, list[float | None]] = {}
    for system in systems:
        by_dataset.setdefault(system.dataset, []).append(system.abs_deviation)
        by_group.setdefault(f"{system.dataset}: {system.group}", []).append(system.abs_deviation)
    return {
        "mae_interaction_energy_datasets": {name: _value(mean_of(d)) for name, d in by_dataset.items()},
        "rmse_interaction_energy_datasets": {name: _value(rms_of(d)) for name, d in by_dataset.items()},
        "mae_interaction_energy_subsets": {name: _value(mean_of(d)) for name, d in by_group.items()},
        "rmse_interaction_energy_subsets": {name: _value(rms_of(d)) for name, d in by_group.items()},
    }


def _value(aggregate: Aggregate | None) -> float:
    return aggregate.value if aggregate else float("nan")


def _described(group: str) -> str:
    """`NHk-O` is NH(+)-O and `CH-Oa` CH-O(-): the atlas marks charged atoms with a letter."""
    if group == "B":
        return "Boron"
    parts = group.split("-")
    ionic = len(parts) == 2 and parts[0] in {"CH", "NH", "OH", "NHk", "OHk"}
    if not ionic:
        return group
    return "-".join(part[:-1] + IONS[part[-1]] if part[-1:] in IONS else part for part in parts)
