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
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from mlipaudit.benchmarks.noncovalent_interactions.schemas import (
    MolecularSystem,
    NoncovalentInteractionsModelOutput,
    NoncovalentInteractionsResult,
    NoncovalentInteractionsSystemModelOutput,
    NoncovalentInteractionsSystemResult,
    Systems,
)
from mlipaudit.data import read_json
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.relative_energies import (
    Aggregate,
    Labelled,
    RelativeEnergies,
    first_systems,
    labelled_profile,
    mean_of,
    profile_score,
    relative_profile_error,
    rms_of,
    summary,
    why_unusable,
)
from mlipaudit.protocol import SinglePoints
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Bars, Curves, Scatter

__all__ = [
    "NoncovalentInteractionsBenchmark",
    "NoncovalentInteractionsModelOutput",
    "NoncovalentInteractionsResult",
    "NoncovalentInteractionsSystemModelOutput",
    "NoncovalentInteractionsSystemResult",
]

DATASET = "NCI_Atlas.json"
_SYSTEMS = TypeAdapter(Systems)


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
    views = (
        Scatter(
            "Interaction energies",
            x=Axis("reference_interaction_energy", "reference interaction energy", "kcal/mol"),
            y=Axis("mlip_interaction_energy", "predicted interaction energy", "kcal/mol"),
            diagonal=True,
        ),
        Bars(
            "Mean absolute error of each data set",
            value=Axis("mae_interaction_energy_datasets", "mean absolute error", "kcal/mol"),
        ),
        Curves(
            "Interaction energy along the distance",
            x=Axis("distance_profile", "distance", "unit of the data set"),
            y=Axis("energy_profile", "interaction energy", "kcal/mol"),
            reference="reference_energy_profile",
            zero_at_end=True,
            caption="Energies above that at the largest distance.",
        ),
    )

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Systems:
        """The systems that the protocol asks for, by id."""
        return first_systems(read_json(data_dir, DATASET, _SYSTEMS), protocol)

    @classmethod
    def structures(cls, reference: Systems) -> dict[str, list[Labelled]]:
        """Every distance of each system."""
        return {
            name: labelled_profile(s.atom_symbols, s.coords, s.charge, s.interaction_energy_profile)
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
