# SPDX-License-Identifier: Apache-2.0
"""Density of a liquid at constant pressure, its error over time, and whether it has settled."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from mlipaudit.analysis.blocks import Estimate, block_mean, num_blocks
from mlipaudit.analysis.density import densities
from mlipaudit.analysis.drift import linear_drift
from mlipaudit.families.liquids import Liquid, LiquidResult, Sample
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.scoring import Interval, apply_rule
from mlipaudit.views import Axis, Bars, Curves

RULE = SoftThreshold(0.02, alpha=0.1)
"""As published: forgiving, 10 % off still scores 0.67."""
DENSITIES = (
    Bars(
        "Density of each liquid",
        value=Axis("average_density", "density", "g/cm³"),
        of_result=False,
        reference="reference_density",
        caption="Mean over the frames after the first fifth; the mark is experiment.",
    ),
    Curves(
        "Density over time",
        y=Axis("densities", "density", "g/cm³"),
        reference="reference_density",
        caption="It should go up and down about experiment; the first fifth of the frames does not count.",
    ),
)
"""Pictures of a density."""


class DensityResult(LiquidResult):
    """Density of one liquid."""

    densities: list[float] | None = None
    """g/cm³, per frame."""
    average_density: Annotated[float | None, Metric(unit="g/cm³", better="neither")] = None
    """Mean over the frames after the first fifth."""
    density_error: float | None = None
    """g/cm³: standard error of the mean, from block averages; None where the run is too short to tell."""
    density_interval: Interval | None = None
    """95 % interval of the mean. It does not know of changes slower than the run."""
    density_drift: float | None = None
    """g/cm³: of a line through the frames that count, from the first to the last of them."""
    drift_distinguishable: bool | None = None
    """Whether that is more than chance: then the density has not settled."""
    density_deviation: Annotated[float | None, Metric(unit="g/cm³")] = None
    """Distance of the mean from experiment."""
    relative_deviation: Annotated[
        float | None, Metric(unit="1", score=RULE, source="mlipaudit 0.1.8 (arXiv:2511.20487)")
    ] = None
    """The same over the experimental density."""
    reference_density: float | None = None
    """g/cm³, experiment."""


def measured_density(sample: Sample, liquid: Liquid) -> dict[str, Any]:
    """Fields of a `DensityResult`."""
    series = densities(sample.boxes, num_molecules=sample.num_molecules, molar_mass=liquid.molar_mass)
    used = series[sample.equilibrated]
    mean = block_mean(used)
    deviation = abs(mean.value - liquid.density)
    return {
        "densities": series.tolist(),
        "average_density": mean.value,
        "density_error": mean.error,
        "density_interval": mean.interval,
        "num_blocks": num_blocks(used),
        "density_deviation": deviation,
        "relative_deviation": deviation / liquid.density,
        "reference_density": liquid.density,
        "score_interval": score_interval(mean, liquid.density),
        **_drift(used),
    }


def score_interval(mean: Estimate, reference: float) -> Interval | None:
    """Scores that the interval of a mean density reaches."""
    if mean.interval is None:
        return None
    low, high = mean.interval
    worst = max(abs(low - reference), abs(high - reference)) / reference
    best = max(low - reference, reference - high, 0.0) / reference
    scores = apply_rule(RULE, [worst, best])
    return float(scores[0]), float(scores[1])


def _drift(series: np.ndarray) -> dict[str, Any]:
    if np.ptp(series) == 0:
        return {"remarks": ["the volume never changed: the density is that of the start, whatever the model"]}
    drift = linear_drift(np.arange(len(series)), series)
    change = drift.slope * (len(series) - 1)
    remark = f"the density has not settled: it changes by {change:.2g} g/cm³"
    return {
        "density_drift": change,
        "drift_distinguishable": drift.distinguishable,
        "remarks": [remark] if drift.distinguishable else [],
    }
