# SPDX-License-Identifier: Apache-2.0
"""How far a bond strays from its reference length while its molecule moves at 300 K in vacuum.

A trajectory counts only when it is complete, finite, near its temperature and whole at the end.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import TypeAdapter

from mlipaudit.analysis.molecules import distances
from mlipaudit.families.trajectories import (
    DeviationModelOutput,
    DeviationResult,
    DeviationsResult,
    Molecule,
    MoleculeDeviations,
    MoleculeModelOutput,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.views import Axis, Curves, Scatter

__all__ = [
    "BondLengthDistributionBenchmark",
    "BondLengthDistributionModelOutput",
    "BondLengthDistributionMoleculeResult",
    "BondLengthDistributionResult",
    "MoleculeModelOutput",
]


class BondMolecule(Molecule):
    """A molecule with the bond that is watched."""

    pattern_atom_indices: tuple[int, int]
    reference_bond_distance: float
    """Å"""


class BondLengthDistributionMoleculeResult(DeviationResult):
    """Deviation of the bond length of one molecule from its reference."""

    avg_deviation: Annotated[
        float | None,
        Metric(unit="Å", score=SoftThreshold(0.05), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Mean over the trajectory of the absolute deviation."""


class BondLengthDistributionResult(DeviationsResult[BondLengthDistributionMoleculeResult]):
    """Deviations of all molecules that stayed whole."""

    avg_deviation: Annotated[float | None, Metric(unit="Å")] = None
    """Mean over molecules of their mean absolute deviations."""


class BondLengthDistributionModelOutput(DeviationModelOutput):
    """Frames of every molecule."""


class BondLengthDistributionBenchmark(MoleculeDeviations[BondMolecule]):
    """Do bonds keep their length while a molecule moves?"""

    name = "bond_length_distribution"
    category = "Small Molecules"
    result_class = BondLengthDistributionResult
    model_output_class = BondLengthDistributionModelOutput
    molecule_result_class = BondLengthDistributionMoleculeResult
    required_elements = {"N", "H", "O", "F", "C"}
    dataset = "bond_length_distribution.json"
    molecules_schema = TypeAdapter(dict[str, BondMolecule])
    aggregate = "avg_deviation"
    views = (
        Curves(
            "Deviation of the bond length",
            y=Axis("deviation_trajectory", "deviation from the reference length", "Å"),
            caption="Bonds vibrate about their reference length: what should not happen is a trend.",
        ),
        Scatter(
            "Mean and spread over time",
            x=Axis("avg_deviation", "mean deviation", "Å"),
            y=Axis("std_deviation", "standard deviation", "Å"),
            caption="Both are small for a bond that vibrates about its reference length.",
        ),
    )

    @classmethod
    def deviations(cls, positions: np.ndarray, molecule: BondMolecule) -> np.ndarray:
        """Absolute deviation of the bond length from its reference."""
        one, other = molecule.pattern_atom_indices
        return np.abs(distances(positions[:, one], positions[:, other]) - molecule.reference_bond_distance)
