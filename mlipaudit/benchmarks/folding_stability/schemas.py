# SPDX-License-Identifier: Apache-2.0
"""What is measured about the stability of folds."""

from __future__ import annotations

from typing import Annotated

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.scoring import Interval


class FoldingStabilityMoleculeResult(SystemResult):
    """One protein. Lists and averages are over the frames that score, intervals over all."""

    structure_name: str
    rmsd_trajectory: list[float] | None = None
    """Å: of the Cα to the reference structure, after the best superposition."""
    tm_score_trajectory: list[float] | None = None
    radius_of_gyration_deviation: list[float] | None = None
    """Å: from the first of these frames."""
    match_secondary_structure: list[float] | None = None
    """Share of residues with the letter that they have in the reference structure."""
    avg_rmsd: Annotated[
        float | None,
        Metric(unit="Å", score=SoftThreshold(2.0), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    avg_tm_score: Annotated[float | None, Metric(unit="1", better="higher")] = None
    """1 for the reference structure itself."""
    avg_match: Annotated[float | None, Metric(unit="1", better="higher")] = None
    radius_of_gyration_fluctuation: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    """Standard deviation of the radius of gyration."""
    max_abs_deviation_radius_of_gyration: Annotated[float | None, Metric(unit="Å")] = None
    """Largest deviation of the radius of gyration from the first of these frames."""
    avg_radius_of_gyration: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    reference_radius_of_gyration: float | None = None
    """Å: of the reference structure."""
    secondary_structure: list[str] | None = None
    """One letter per residue, per frame."""
    reference_secondary_structure: str | None = None
    rmsd_all_frames: list[float] | None = None
    """Å: ten times as many frames as score, in `fast` and `standard`."""
    avg_rmsd_interval: Interval | None = None
    """95 % interval of the mean over time: block bootstrap over all frames. It does not know of rare events."""
    avg_match_interval: Interval | None = None
    avg_radius_of_gyration_interval: Interval | None = None


class FoldingStabilityResult(BenchmarkResult):
    """All proteins that stayed whole."""

    molecules: list[FoldingStabilityMoleculeResult]
    avg_rmsd: Annotated[float | None, Metric(unit="Å")] = None
    """Mean over proteins."""
    min_rmsd: float | None = None
    avg_tm_score: Annotated[float | None, Metric(unit="1", better="higher")] = None
    """Mean over proteins."""
    max_tm_score: float | None = None
    avg_match: Annotated[float | None, Metric(unit="1", better="higher")] = None
    """Mean over proteins."""
    max_abs_deviation_radius_of_gyration: Annotated[float | None, Metric(unit="Å")] = None
    """Largest over proteins."""
