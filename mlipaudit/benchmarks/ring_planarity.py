# SPDX-License-Identifier: Apache-2.0
"""How flat an aromatic ring stays while its molecule moves at 300 K in vacuum.

A trajectory counts only when it is complete, finite, near its temperature and whole at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import TypeAdapter

from mlipaudit.analysis.planarity import deviation_from_plane
from mlipaudit.data import read_json
from mlipaudit.families.trajectories import (
    DeviationModelOutput,
    DeviationResult,
    DeviationsResult,
    Molecule,
    MoleculeDeviations,
    MoleculeModelOutput,
    first_systems,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import Trajectories
from mlipaudit.views import Axis, Curves, Scatter

__all__ = [
    "MoleculeModelOutput",
    "RingPlanarityBenchmark",
    "RingPlanarityModelOutput",
    "RingPlanarityMoleculeResult",
    "RingPlanarityResult",
]

FIRST = ("benzene", "furan")
"""Asked first when not all are: a ring of six and one of five."""


class RingMolecule(Molecule):
    """A molecule with the ring that is watched."""

    pattern_atoms: list[int]


class RingPlanarityMoleculeResult(DeviationResult):
    """Deviation of the ring of one molecule from its best plane."""

    avg_deviation: Annotated[
        float | None,
        Metric(unit="Å", score=SoftThreshold(0.05), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Mean over the trajectory of the root-mean-square distance from the plane."""


class RingPlanarityResult(DeviationsResult[RingPlanarityMoleculeResult]):
    """Deviations of all molecules that stayed whole."""

    mae_deviation: Annotated[float | None, Metric(unit="Å")] = None
    """Mean over molecules of their mean deviations."""


class RingPlanarityModelOutput(DeviationModelOutput):
    """Frames of every molecule."""


class RingPlanarityBenchmark(MoleculeDeviations[RingMolecule]):
    """Do aromatic rings stay flat while a molecule moves?"""

    name = "ring_planarity"
    category = "Small Molecules"
    result_class = RingPlanarityResult
    model_output_class = RingPlanarityModelOutput
    molecule_result_class = RingPlanarityMoleculeResult
    required_elements = {"H", "C", "O", "N", "F"}
    dataset = "ring_planarity_data.json"
    molecules_schema = TypeAdapter(dict[str, RingMolecule])
    aggregate = "mae_deviation"
    views = (
        Curves(
            "Deviation of the ring from its plane",
            y=Axis("deviation_trajectory", "deviation from the best plane", "Å"),
            caption="Rings vibrate about their plane: what should not happen is a trend.",
        ),
        Scatter(
            "Mean and spread over time",
            x=Axis("avg_deviation", "mean deviation", "Å"),
            y=Axis("std_deviation", "standard deviation", "Å"),
            caption="Both are small for a ring that vibrates about its plane.",
        ),
    )

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> dict[str, RingMolecule]:
        """The molecules that the protocol asks for, by name."""
        molecules = read_json(data_dir, cls.dataset, cls.molecules_schema)
        if protocol.max_systems is None:
            return molecules
        ahead = {name: molecules[name] for name in FIRST if name in molecules}
        return first_systems(ahead | molecules, protocol)

    @classmethod
    def deviations(cls, positions: np.ndarray, molecule: RingMolecule) -> np.ndarray:
        """Root-mean-square distance of the ring's atoms from their best plane."""
        return deviation_from_plane(positions[:, molecule.pattern_atoms])
