# SPDX-License-Identifier: Apache-2.0
"""Oxygen-oxygen radial distribution of liquid water at 295.15 K and 1 bar, against X-ray diffraction.

The published score is the mean of two: of the radius of the largest value, and of the RMSE to experiment between 2.5
and 10 Å, in bins of 0.01 Å. By that score the classical model TIP3P beats TIP4P, whose liquid has the better structure:
look at the curve and at `profile_score`, which compares the shapes over the same range, averaged over 0.1 Å. Counting
noise raises the RMSE of a short run or a small box, and `rmse_noise` says how large it is. Nothing is compared beyond
half the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from mlipaudit.analysis.density import number_density
from mlipaudit.analysis.radial_distribution import WIDTH, coordination_number, smoothed
from mlipaudit.benchmark import BenchmarkResult, ModelOutput
from mlipaudit.failures import Failure
from mlipaudit.families.liquid_structure import (
    RADIAL_DISTRIBUTION,
    Experiment,
    Structure,
    StructureResult,
    measured_structure,
    read_experiment,
    structure_of,
)
from mlipaudit.families.liquids import Liquid, Sample, WaterBenchmark
from mlipaudit.families.relative_energies import PROFILE_RULE, relative_profile_error
from mlipaudit.families.trajectories import SimulationState
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import Trajectories
from mlipaudit.scoring import Interval, apply_rule

if TYPE_CHECKING:
    from ase import Atoms

__all__ = [
    "WaterRadialDistributionBenchmark",
    "WaterRadialDistributionModelOutput",
    "WaterRadialDistributionResult",
    "WaterRadialDistributionStructureResult",
]

RANGE = (2.5, 10.0)
"""Å: where the curves are compared, as published."""
RMSE_RULE = SoftThreshold(0.1)
SHAPE = 0.1
"""Å: widths over which shapes are averaged."""
FIRST_SHELL = 3.3
"""Å: near the first minimum."""


class WaterRadialDistributionModelOutput(ModelOutput):
    """Frames of the box of water."""

    simulation_state: SimulationState | None = None
    failed: bool = False
    """Whether the dynamics never began, or ended early."""


class WaterRadialDistributionStructureResult(StructureResult):
    """Radial distribution of the box, against experiment."""

    compared_range: tuple[float, float] | None = None
    """Å: `range_of_interest`, or as far as half the box."""
    mae: Annotated[float | None, Metric(unit="1")] = None
    rmse: Annotated[
        float | None, Metric(unit="1", score=RMSE_RULE, source="mlipaudit 0.1.8 (arXiv:2511.20487)")
    ] = None
    rmse_interval: Interval | None = None
    """95 % interval of the RMSE."""
    rmse_noise: float | None = None
    """RMSE that the statistical errors of g(r) alone would give."""
    profile_deviation: Annotated[float | None, Metric(unit="1")] = None
    """RMSE of both curves averaged over 0.1 Å, over the RMS of g - 1 in experiment: 1 for a gas."""
    profile_deviation_interval: Interval | None = None
    profile_score: float | None = None
    """Score of the shape, with a threshold of a fifth; not part of `score`."""
    coordination_number: Annotated[float | None, Metric(unit="1", better="neither")] = None
    """Neighbours within 3.3 Å."""
    coordination_number_interval: Interval | None = None
    reference_coordination_number: float | None = None
    """The same of the experimental curve."""


class WaterRadialDistributionResult(BenchmarkResult):
    """Radial distribution of water."""

    radii: list[float] | None = None
    """Å, as far as half the smallest length of the box in the frames that count."""
    rdf: list[float] | None = None
    mae: Annotated[float | None, Metric(unit="1")] = None
    rmse: Annotated[float | None, Metric(unit="1")] = None
    first_solvent_peak: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    peak_deviation: Annotated[float | None, Metric(unit="Å")] = None
    range_of_interest: tuple[float, float] = RANGE
    """Å"""
    structures: list[WaterRadialDistributionStructureResult] = []
    """The one box, if its data is there; its curve is above."""


class WaterReference(NamedTuple):
    """The box and the experimental curve."""

    boxes: dict[str, Atoms]
    experiment: Experiment


class WaterRadialDistributionBenchmark(WaterBenchmark):
    """Are neighbours in liquid water where they belong?"""

    name = "water_radial_distribution"
    result_class = WaterRadialDistributionResult
    model_output_class = WaterRadialDistributionModelOutput
    liquid_result_class = WaterRadialDistributionStructureResult
    views = (RADIAL_DISTRIBUTION,)

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> WaterReference:
        """The box and the experimental curve."""
        return WaterReference(super().load(data_dir, protocol), read_experiment(data_dir))

    @classmethod
    def systems(cls, reference: WaterReference) -> dict[str, Atoms]:
        """The box."""
        return reference.boxes

    @classmethod
    def measure(cls, sample: Sample, liquid: Liquid, reference: WaterReference) -> dict[str, Any] | Failure:
        """Distribution, its first peak, its distance from experiment, and their errors."""
        found = structure_of(sample, liquid)
        if isinstance(found, Failure):
            return found
        return _with_both(measured_structure(found, liquid), _against(found, reference.experiment, liquid))

    @classmethod
    def summary(cls, entries: Sequence[WaterRadialDistributionStructureResult]) -> dict[str, Any]:
        """The published fields. The curve moves here from the entry of the box."""
        published = ("radii", "rdf", "mae", "rmse", "first_solvent_peak", "peak_deviation")
        fields = {name: getattr(entry, name) for entry in entries for name in published}
        for entry in entries:
            entry.radii = entry.rdf = None
        return fields


def _against(found: Structure, experiment: Experiment, liquid: Liquid) -> dict[str, Any]:
    """The distance of a distribution from the experimental one."""
    radii = found.pairs.radii
    low, high = RANGE[0], min(RANGE[1], float(radii[-1]) + WIDTH / 2)
    ours, theirs = ((r > low) & (r < high) for r in (radii, experiment.radii))

    def on_grid(g: np.ndarray) -> np.ndarray:
        return np.interp(experiment.radii[theirs], radii[ours], g[ours])

    def shape_error(g: np.ndarray) -> float:
        shapes = on_grid(smoothed(g, SHAPE)), smoothed(experiment.rdf, SHAPE)[theirs]
        return relative_profile_error(shapes[0] - 1, shapes[1] - 1) or 0.0

    def difference(g: np.ndarray) -> np.ndarray:
        return on_grid(g) - experiment.rdf[theirs]

    rmse = found.estimate(lambda g: np.sqrt(np.mean(difference(g) ** 2)))
    shape = found.estimate(shape_error)
    errors = found.rdf_error
    return {
        "reference_rdf": experiment.at(radii),
        "compared_range": (low, high),
        "mae": float(np.mean(np.abs(difference(found.rdf)))),
        "rmse": rmse.value,
        "rmse_interval": rmse.interval,
        "rmse_noise": None if errors is None else float(np.sqrt(np.mean(errors[ours] ** 2))),
        "profile_deviation": shape.value,
        "profile_deviation_interval": shape.interval,
        "profile_score": float(apply_rule(PROFILE_RULE, [shape.value])[0]),
        "remarks": [f"compared up to {high:.2f} Å, half the box, not {RANGE[1]:g}"] if high < RANGE[1] else [],
        **_neighbours(found, experiment, liquid),
    }


def _neighbours(found: Structure, experiment: Experiment, liquid: Liquid) -> dict[str, Any]:
    """Coordination numbers of the box and of the experimental curve."""

    def within_shell(radii: np.ndarray, g: np.ndarray, density: float) -> float:
        return coordination_number(radii, g, density=density, within=FIRST_SHELL)

    ours = found.estimate(lambda g: within_shell(found.pairs.radii, g, found.pairs.density))
    real = number_density(liquid.density, molar_mass=liquid.molar_mass)
    return {
        "coordination_number": ours.value,
        "coordination_number_interval": ours.interval,
        "reference_coordination_number": within_shell(experiment.radii, experiment.rdf, real),
    }


def _with_both(fields: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """All fields, with the interval of the mean of both scores: as if their errors always added up."""
    interval, peak = more["rmse_interval"], fields["score_interval"]
    both = None
    if interval is not None and peak is not None:
        low, high = apply_rule(RMSE_RULE, [max(interval[1], 0.0), max(interval[0], 0.0)])
        both = ((peak[0] + float(low)) / 2, (peak[1] + float(high)) / 2)
    remarks = [*fields["remarks"], *more["remarks"]]
    return {**fields, **more, "remarks": remarks, "score_interval": both}
