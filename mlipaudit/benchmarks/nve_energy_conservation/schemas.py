# SPDX-License-Identifier: Apache-2.0
"""What is measured about energy conservation."""

from __future__ import annotations

from typing import Annotated

from mlipaudit.benchmark import BenchmarkResult, ModelOutput, SystemResult
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.scoring import Interval


class NVEStructureResult(SystemResult):
    """One system."""

    structure_name: str
    description: str
    system_class: str
    """`vacuum`, `bulk_water` or `solvated`."""
    num_atoms: int = 0
    num_frames: int = 0
    """Frames with energies, the starting one included."""
    times_ps: list[float] = []
    energy_drift_ev: list[float] = []
    """Total energy of each frame less that of the first."""
    drift_slope_ev_per_ps: float | None = None
    slope_error_ev_per_ps: float | None = None
    """Standard error of the slope, with the autocorrelation of the residuals."""
    slope_interval_ev_per_ps: Interval | None = None
    """95 % interval of the slope; None where the run is too short to tell."""
    drift_distinguishable: bool | None = None
    """Whether the drift is more than chance: zero is outside the interval."""
    drift_mev_per_atom_per_ps: Annotated[float | None, Metric(unit="meV/atom/ps", better="neither")] = None
    """The same slope in the unit of the field."""
    total_drift_ev: float | None = None
    """Size of the fitted drift over the whole run."""
    kinetic_energy_std_ev: float | None = None
    energy_drift_ratio: Annotated[
        float | None,
        Metric(unit="1", score=SoftThreshold(1.0), source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = None
    """Fitted drift over the run, over the standard deviation of the kinetic energy."""
    largest_deviation_ratio: Annotated[float | None, Metric(unit="1")] = None
    """Largest distance from the starting energy over the standard deviation of the kinetic energy: of the whole run
    or of its first half, whichever is less, since a late explosion raises its own measure."""
    intercept_ev: float | None = None
    skipped: bool = False
    """Whether the model was not asked, for it does not cover the elements."""
    score: float | None = None


class NVEEnergyConservationResult(BenchmarkResult):
    """Drift of every system. Skipped ones do not count in the score, as published."""

    structure_results: list[NVEStructureResult]
    n_skipped_unallowed_elements: int = 0


class NVEEnergyConservationModelOutput(ModelOutput):
    """Energies of every system; None where the dynamics never began."""

    structure_names: list[str]
    num_atoms: list[int | None]
    times_ps: list[list[float] | None]
    potential_energies_ev: list[list[float] | None]
    kinetic_energies_ev: list[list[float] | None]
    skipped_structures: list[str]
    n_skipped_unallowed_elements: int = 0
