# SPDX-License-Identifier: Apache-2.0
"""What is measured about sampled dihedral angles. Dictionaries have a number per type of residue."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.metric import Fraction, Metric
from mlipaudit.scoring import Interval

Rates = dict[str, float]


class ResidueTypeBackbone(BaseModel):
    """Reference points of a class of residues, in degrees."""

    phi: list[float]
    psi: list[float]


class ResidueTypeSidechain(BaseModel):
    """Reference points of a type of residue, in degrees."""

    chi1: list[float] | None = None
    chi2: list[float] | None = None
    chi3: list[float] | None = None
    chi4: list[float] | None = None
    chi5: list[float] | None = None


class SamplingSystemResult(SystemResult):
    """One protein, over the frames that score; intervals over all frames."""

    structure_name: str
    rmsd_backbone_dihedrals: Rates | None = None
    """Root-mean-square difference of the histograms of phi and psi, sampled and reference."""
    hellinger_distance_backbone_dihedrals: Rates | None = None
    rmsd_sidechain_dihedrals: Rates | None = None
    hellinger_distance_sidechain_dihedrals: Rates | None = None
    outliers_ratio_backbone_dihedrals: Rates | None = None
    """Share of samples farther than 10° from every reference point."""
    outliers_ratio_sidechain_dihedrals: Rates | None = None
    outliers_ratio_backbone_interval: Interval | None = None
    """95 % interval of the mean over residue types: block bootstrap over all frames."""
    outliers_ratio_sidechain_interval: Interval | None = None
    score: Annotated[
        float,
        Metric(unit="1", score=Fraction(), better="higher", source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = 0.0
    """What the benchmark would score with this protein alone."""


class SamplingResult(BenchmarkResult):
    """Means over the proteins that stayed whole, by type of residue; totals are means over types."""

    systems: list[SamplingSystemResult]
    exploded_systems: list[str]
    """All proteins that failed, for whatever reason."""
    rmsd_backbone_total: Annotated[float | None, Metric(unit="1")] = None
    """Difference of the histograms of phi and psi."""
    hellinger_distance_backbone_total: Annotated[float | None, Metric(unit="1")] = None
    """0 where the histograms of phi and psi are equal, 1 where they share nothing."""
    rmsd_sidechain_total: Annotated[float | None, Metric(unit="1")] = None
    """Difference of the histograms of chi angles."""
    hellinger_distance_sidechain_total: Annotated[float | None, Metric(unit="1")] = None
    """0 where the histograms of chi angles are equal, 1 where they share nothing."""
    outliers_ratio_backbone_total: Annotated[float | None, Metric(unit="1")] = None
    """Share of samples whose phi and psi no reference point is near."""
    outliers_ratio_sidechain_total: Annotated[float | None, Metric(unit="1")] = None
    """Share of samples whose chi angles no reference point is near."""
    rmsd_backbone_dihedrals: Rates | None = None
    hellinger_distance_backbone_dihedrals: Rates | None = None
    rmsd_sidechain_dihedrals: Rates | None = None
    hellinger_distance_sidechain_dihedrals: Rates | None = None
    outliers_ratio_backbone_dihedrals: Rates | None = None
    outliers_ratio_sidechain_dihedrals: Rates | None = None

    null_outliers_ratio_backbone_dihedrals: Rates | None = None
    """What the outlier test gives for a sample of the reference distribution itself: each reference point against the
    others. It grows with the number of angles and falls with the number of points."""
    null_outliers_ratio_sidechain_dihedrals: Rates | None = None
    null_outliers_ratio_backbone_total: Annotated[float | None, Metric(unit="1", better="neither")] = None
    """Mean of that over the types present: what a perfect model gets for the backbone."""
    null_outliers_ratio_sidechain_total: Annotated[float | None, Metric(unit="1", better="neither")] = None
    """The same for side chains."""
    excess_outliers_ratio_backbone_dihedrals: dict[str, float | None] | None = None
    """Outliers beyond those: 0 for a sample of the reference distribution, 1 when all are. None where the test flags
    everything."""
    excess_outliers_ratio_sidechain_dihedrals: dict[str, float | None] | None = None
    excess_outliers_ratio_backbone_total: Annotated[float | None, Metric(unit="1")] = None
    """Mean of that over the types where it exists."""
    excess_outliers_ratio_sidechain_total: Annotated[float | None, Metric(unit="1")] = None
    """The same for side chains."""
    calibrated_score: Annotated[float | None, Metric(unit="1", better="higher")] = None
    """The score that the excess would give under the same thresholds. Not the published one."""
