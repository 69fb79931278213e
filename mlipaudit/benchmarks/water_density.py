# SPDX-License-Identifier: Apache-2.0
"""Density of liquid water at 295.15 K and 1 bar, from the dynamics of `water_radial_distribution`.

The published score is forgiving: it falls off with α = 0.1 where others have 3, so that a density 10 % off still scores
0.67. Look at the density and its interval as well. The box starts at the experimental density: a run too short to leave
it scores 1 whatever the model; then `density_interval` is None or `drift_distinguishable` true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.water_radial_distribution import (
    WaterRadialDistributionModelOutput as WaterDensityModelOutput,
)
from mlipaudit.families.liquid_density import DENSITIES, DensityResult, measured_density
from mlipaudit.families.liquids import WATER, Liquid, Sample, WaterBenchmark
from mlipaudit.metric import Metric
from mlipaudit.scoring import Interval

__all__ = ["WaterDensityBenchmark", "WaterDensityModelOutput", "WaterDensityResult", "WaterDensityStructureResult"]


class WaterDensityStructureResult(DensityResult):
    """Density of the box, how it scores, and whether it has settled."""


class WaterDensityResult(BenchmarkResult):
    """Density of water."""

    densities: list[float] | None = None
    """g/cm³, per frame."""
    average_density: Annotated[float | None, Metric(unit="g/cm³", better="neither")] = None
    """Mean over the frames after the first fifth."""
    density_interval: Interval | None = None
    """95 % interval of the mean."""
    density_deviation: Annotated[float | None, Metric(unit="g/cm³")] = None
    """Distance of the mean from experiment."""
    reference_density: float = WATER["water"].density
    structures: list[WaterDensityStructureResult] = []
    """The one box, if its data is there."""


class WaterDensityBenchmark(WaterBenchmark):
    """Does liquid water have its density?"""

    name = "water_density"
    result_class = WaterDensityResult
    model_output_class = WaterDensityModelOutput
    liquid_result_class = WaterDensityStructureResult
    views = DENSITIES

    @classmethod
    def measure(cls, sample: Sample, liquid: Liquid, reference: Any) -> dict[str, Any]:
        """Density and its error."""
        return measured_density(sample, liquid)

    @classmethod
    def summary(cls, entries: Sequence[WaterDensityStructureResult]) -> dict[str, Any]:
        """The published fields."""
        published = ("densities", "average_density", "density_interval", "density_deviation")
        return {name: getattr(entry, name) for entry in entries for name in published}
