# SPDX-License-Identifier: Apache-2.0
"""Densities of liquid CCl4, methanol and acetonitrile at 293.15 K and 1 bar.

The dynamics are those of `solvent_radial_distribution`. The published score is forgiving: it falls off with α = 0.1
where others have 3, so that a density 10 % off still scores 0.67. Look at the density and its interval as well. A box
that starts at the experimental density and does not leave it in a short run scores 1 whatever the model; then that
interval is None or `drift_distinguishable` true. `dev` and `fast` take the first solvent that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.solvent_radial_distribution import (
    SolventRadialDistributionModelOutput as SolventDensityModelOutput,
)
from mlipaudit.families.liquid_density import DENSITIES, DensityResult, measured_density
from mlipaudit.families.liquids import Liquid, Sample, SolventBenchmark
from mlipaudit.families.relative_energies import mean_of
from mlipaudit.metric import Metric

__all__ = [
    "SolventDensityBenchmark",
    "SolventDensityModelOutput",
    "SolventDensityResult",
    "SolventDensityStructureResult",
]


class SolventDensityStructureResult(DensityResult):
    """Density of one solvent."""


class SolventDensityResult(BenchmarkResult):
    """Densities of the solvents."""

    structure_names: list[str]
    structures: list[SolventDensityStructureResult]
    avg_density_deviation: Annotated[float | None, Metric(unit="g/cm³")] = None
    """Mean over the solvents that have a density."""


class SolventDensityBenchmark(SolventBenchmark):
    """Do liquid solvents have their densities?"""

    name = "solvent_density"
    result_class = SolventDensityResult
    model_output_class = SolventDensityModelOutput
    liquid_result_class = SolventDensityStructureResult
    views = DENSITIES

    @classmethod
    def measure(cls, sample: Sample, liquid: Liquid, reference: Any) -> dict[str, Any]:
        """Density and its error."""
        return measured_density(sample, liquid)

    @classmethod
    def summary(cls, entries: Sequence[SolventDensityStructureResult]) -> dict[str, Any]:
        """Names and mean."""
        mean = mean_of(entry.density_deviation for entry in entries)
        return {
            "structure_names": [entry.structure_name for entry in entries],
            "avg_density_deviation": mean.value if mean else None,
        }
