# SPDX-License-Identifier: Apache-2.0
"""What `noncovalent_interactions` reads and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

from mlipaudit.benchmark import DEFAULT_CHARGE, Record, SystemResult
from mlipaudit.families.relative_energies import EnergiesModelOutput, EnergyErrorsResult
from mlipaudit.metric import Metric, SoftThreshold

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


def _described(group: str) -> str:
    """`NHk-O` is NH(+)-O and `CH-Oa` CH-O(-): the atlas marks charged atoms with a letter."""
    if group == "B":
        return "Boron"
    parts = group.split("-")
    ionic = len(parts) == 2 and parts[0] in {"CH", "NH", "OH", "NHk", "OHk"}
    if not ionic:
        return group
    return "-".join(part[:-1] + IONS[part[-1]] if part[-1:] in IONS else part for part in parts)
