# SPDX-License-Identifier: Apache-2.0
"""Radial distribution of one kind of atom in a liquid, its first peak, and their errors over time.

The published peak is the largest of bins 0.01 Å wide, which is the noisiest one; it scores. Beside it is the top of a
parabola through the region of the peak. Errors come from blocks of the run that are long beside the correlation time
of the number of near neighbours and of the volume.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from mlipaudit.analysis.blocks import (
    Estimate,
    jackknife,
    num_blocks,
    resampled_interval,
    resampling_weights,
)
from mlipaudit.analysis.density import volumes
from mlipaudit.analysis.radial_distribution import WIDTH, PairCounts, count_pairs, first_peak, smooth_peak
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.liquids import Liquid, LiquidResult, Sample
from mlipaudit.metric import Fraction, Metric
from mlipaudit.scoring import ALPHA, Interval
from mlipaudit.views import Axis, Curves

NEAR = 1.25
"""Times the reference distance of the first peak: neighbours within are counted, and so far a box must reach."""
RADIAL_DISTRIBUTION = Curves(
    "Radial distribution",
    x=Axis("radii", "distance", "Å"),
    y=Axis("rdf", "g(r)"),
    reference="reference_rdf",
    error="rdf_error",
    caption="As far as half the box.",
)


class StructureResult(LiquidResult):
    """Radial distribution of one liquid."""

    radii: list[float] | None = None
    """Å, as far as half the smallest length of the box in the frames that count."""
    rdf: list[float] | None = None
    rdf_error: list[float] | None = None
    """Standard error of each value; None where the run is too short to tell."""
    reference_rdf: list[float] | None = None
    """What experiment gives at `radii`, NaN beyond its end; None where there is no such curve."""
    first_solvent_peak: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    """Radius of the largest value, as published."""
    peak_interval: Interval | None = None
    """95 % interval of that radius."""
    peak_deviation: Annotated[float | None, Metric(unit="Å")] = None
    """Its distance from the reference."""
    peak_score: Annotated[
        float | None,
        Metric(unit="1", score=Fraction(), better="higher", source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """exp(-3 deviation / reference), without a threshold."""
    smooth_peak: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    """Radius of the highest peak anywhere: top of a parabola through the values within 0.15 Å of it."""
    smooth_peak_interval: Interval | None = None
    peak_height: Annotated[float | None, Metric(unit="1", better="neither")] = None
    """Height of that parabola."""
    largest_radius: float | None = None
    """Å: half the smallest length of the box in the frames that count."""


class Experiment(NamedTuple):
    """A radial distribution from diffraction."""

    radii: np.ndarray
    """Å"""
    rdf: np.ndarray

    def at(self, radii: np.ndarray) -> list[float]:
        """Its values at other radii, NaN where it does not reach."""
        return np.interp(radii, self.radii, self.rdf, left=np.nan, right=np.nan).tolist()


@dataclass(frozen=True)
class Structure:
    """Pairs counted in the frames that count, whole and in independent blocks."""

    pairs: PairCounts
    volumes: np.ndarray
    """Å³, [frames]."""
    near: float
    """Å"""

    @cached_property
    def rdf(self) -> np.ndarray:
        """g(r) over all frames."""
        return self.pairs.distribution()

    @cached_property
    def blocks(self) -> PairCounts | None:
        """Independent blocks; None where the run is too short for them."""
        number = num_blocks(self.pairs.within(self.near), self.volumes)
        return self.pairs.in_blocks(number) if number else None

    def estimate(self, statistic: Any) -> Estimate:
        """A smooth function of g(r), with its error where there is one."""
        value = float(statistic(self.rdf))
        blocks = self.blocks
        if blocks is None:
            return Estimate(value)
        found = jackknife(len(blocks.counts), lambda weights: float(statistic(blocks.distribution(weights))))
        shift = value - found.value  # blocks may leave out a few frames
        assert found.interval is not None
        return Estimate(value, found.error, (found.interval[0] + shift, found.interval[1] + shift))

    @cached_property
    def rdf_error(self) -> np.ndarray | None:
        """Standard error of every value of g(r)."""
        if self.blocks is None:
            return None
        number = len(self.blocks.counts)
        each = self.blocks.distribution(np.eye(number))
        return each.std(axis=0, ddof=1) / np.sqrt(number)

    def peak_interval(self, peak: float, window: tuple[float, float]) -> Interval | None:
        """Of the radius of the largest value: a bootstrap of blocks, for it is no smooth function of them."""
        if self.blocks is None:
            return None
        number = len(self.blocks.counts)
        resamples = self.blocks.distribution(resampling_weights(number))
        low, high = resampled_interval(peak, first_peak(self.blocks.radii, resamples, window), number)
        return low - WIDTH / 2, high + WIDTH / 2


def read_experiment(data_dir: Path) -> Experiment:
    """The experimental curve between oxygens.

    Raises:
        DataCorruptError: it cannot be read.
    """
    file = data_dir / "experimental_reference.npz"
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return Experiment(np.asarray(arrays["r_OO"], float), np.asarray(arrays["g_OO"], float))
    except (OSError, ValueError, KeyError) as error:
        raise DataCorruptError(f"{data_dir.name}/{file.name} does not hold r_OO and g_OO") from error


def structure_of(sample: Sample, liquid: Liquid) -> Structure | Failure:
    """Count the pairs; a failure where the box is too small for the first peak."""
    frames = sample.equilibrated
    boxes = sample.boxes[frames]
    limit, needed = float(boxes.min()) / 2, min(NEAR * liquid.peak, liquid.window[1] + WIDTH)
    if limit < needed:
        message = f"half the box is {limit:.2f} Å; the first peak needs {needed:.2f} Å"
        return Failure(kind=FailureKind.INCOMPLETE, message=message)
    chosen = sample.start.symbols.search(liquid.atom)
    pairs = count_pairs(sample.positions[frames][:, chosen], boxes)
    return Structure(pairs, volumes(boxes), NEAR * liquid.peak)


def measured_structure(found: Structure, liquid: Liquid) -> dict[str, Any]:
    """Fields of a `StructureResult`."""
    radii, rdf = found.pairs.radii, found.rdf
    peak = float(first_peak(radii, rdf, liquid.window))
    interval = found.peak_interval(peak, liquid.window)
    top = found.estimate(lambda g: smooth_peak(radii, g).radius)
    return {
        "radii": radii.tolist(),
        "rdf": rdf.tolist(),
        "rdf_error": None if found.rdf_error is None else found.rdf_error.tolist(),
        "first_solvent_peak": peak,
        "peak_interval": interval,
        "peak_deviation": abs(peak - liquid.peak),
        "peak_score": peak_score(abs(peak - liquid.peak), liquid.peak),
        "smooth_peak": top.value,
        "smooth_peak_interval": top.interval,
        "peak_height": smooth_peak(radii, rdf).height,
        "largest_radius": float(radii[-1] + WIDTH / 2),
        "num_blocks": None if found.blocks is None else len(found.blocks.counts),
        "score_interval": peak_score_interval(interval, liquid.peak),
        "remarks": _at_the_edge(peak, liquid, float(radii[-1])),
    }


def peak_score(deviation: float, reference: float) -> float:
    """Score of a peak that is off by so many Å."""
    return float(np.exp(-ALPHA * deviation / reference))


def peak_score_interval(interval: Interval | None, reference: float) -> Interval | None:
    """Scores that an interval of radii reaches."""
    if interval is None:
        return None
    low, high = interval
    worst, best = max(abs(low - reference), abs(high - reference)), max(low - reference, reference - high, 0.0)
    return peak_score(worst, reference), peak_score(best, reference)


def _at_the_edge(peak: float, liquid: Liquid, largest: float) -> list[str]:
    low, high = liquid.window[0], min(liquid.window[1], largest)
    if peak - low > 2 * WIDTH and high - peak > 2 * WIDTH:
        return []
    return [f"no peak between {max(low, 0):g} and {high:g} Å: the largest value is at the edge, {peak:.2f} Å"]
