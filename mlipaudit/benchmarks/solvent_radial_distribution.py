# SPDX-License-Identifier: Apache-2.0
"""First peaks of the radial distributions in CCl4 (C-C), methanol (O-O) and acetonitrile (N-N) at 293.15 K and 1 bar.

The published score looks at the radius of the largest value alone. Acetonitrile's is sought between 3.5 and 4.5 Å, so
that its score cannot fall below exp(-3/8) = 0.687, whatever the liquid looks like: a remark says when there is no peak
in that window, and `smooth_peak` is the highest one anywhere. `dev` and `fast` take the first solvent that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mlipaudit.benchmark import BenchmarkResult, ModelOutput
from mlipaudit.failures import Failure
from mlipaudit.families.liquid_structure import (
    RADIAL_DISTRIBUTION,
    StructureResult,
    measured_structure,
    structure_of,
)
from mlipaudit.families.liquids import Liquid, Sample, SolventBenchmark
from mlipaudit.families.relative_energies import mean_of
from mlipaudit.families.trajectories import SimulationState
from mlipaudit.metric import Metric

__all__ = [
    "SolventRadialDistributionBenchmark",
    "SolventRadialDistributionModelOutput",
    "SolventRadialDistributionResult",
    "SolventRadialDistributionStructureResult",
]


class SolventRadialDistributionModelOutput(ModelOutput):
    """Frames of every solvent; None where the dynamics never began."""

    structure_names: list[str]
    simulation_states: list[SimulationState | None]


class SolventRadialDistributionStructureResult(StructureResult):
    """Radial distribution of one solvent."""


class SolventRadialDistributionResult(BenchmarkResult):
    """Radial distributions of the solvents."""

    structure_names: list[str]
    structures: list[SolventRadialDistributionStructureResult]
    avg_peak_deviation: Annotated[float | None, Metric(unit="Å")] = None
    """Mean over the solvents that have a peak."""


class SolventRadialDistributionBenchmark(SolventBenchmark):
    """Are neighbours in liquid solvents where they belong?"""

    name = "solvent_radial_distribution"
    result_class = SolventRadialDistributionResult
    model_output_class = SolventRadialDistributionModelOutput
    liquid_result_class = SolventRadialDistributionStructureResult
    views = (RADIAL_DISTRIBUTION,)

    @classmethod
    def measure(cls, sample: Sample, liquid: Liquid, reference: Any) -> dict[str, Any] | Failure:
        """Distribution, its first peak, and their errors."""
        found = structure_of(sample, liquid)
        return found if isinstance(found, Failure) else measured_structure(found, liquid)

    @classmethod
    def summary(cls, entries: Sequence[SolventRadialDistributionStructureResult]) -> dict[str, Any]:
        """Names and mean."""
        mean = mean_of(entry.peak_deviation for entry in entries)
        return {
            "structure_names": [entry.structure_name for entry in entries],
            "avg_peak_deviation": mean.value if mean else None,
        }
