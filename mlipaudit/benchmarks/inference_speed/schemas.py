# SPDX-License-Identifier: Apache-2.0
"""What `inference_speed` measures, under which settings, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import NonNegativeFloat, PositiveInt

from mlipaudit.benchmark import BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.metric import Hill, Metric
from mlipaudit.protocol import MolecularDynamics
from mlipaudit.scoring import Interval
from mlipaudit.views import Axis, Scatter

if TYPE_CHECKING:
    from mlipaudit.backends.calibration import Calibration

SPEED_RULE = Hill(midpoint=1.0, sharpness=1.5)
"""Applied to the forward time over that of the reference curve."""
VIEWS = (
    Scatter(
        "Forward pass by size",
        x=Axis("num_atoms", "atoms", log=True),
        y=Axis("average_forward_time", "time of a forward pass", "ms", log=True, scale=1000.0),
        joined=True,
        caption="Energy and forces. Times of different devices do not compare.",
    ),
    Scatter(
        "Molecular dynamics by size",
        x=Axis("num_atoms", "atoms", log=True),
        y=Axis("md.*.ns_per_day", "simulated time per day", "ns/day", log=True),
        joined=True,
        caption="On every engine that the model can use. Times of different devices do not compare.",
    ),
)


@dataclass(frozen=True)
class SpeedProtocol:
    """What is measured, how often, and when it is cut short."""

    md: MolecularDynamics
    num_chunks: int
    num_timed: int
    num_warmup: int = 2
    device_warmup_seconds: float = 2.0
    calibration_seconds: float = 0.5
    """Of each of the four workloads that show how fast the device is, before and after."""
    spare_pairs: bool = False
    """Whether passes are over the padded graph of dynamics through ASE: a twentieth more pairs, a compilation less."""
    max_structures: int | None = None
    max_seconds: float | None = None
    """Limit of one measurement; a slower model gets fewer repeats, which the result says. None: no limit."""


@dataclass(frozen=True)
class SpeedStructure:
    """One structure of the data set."""

    name: str
    path: Path
    num_atoms: int


class CalibrationResult(Record):
    """Speed of the device itself around the measurements."""

    device: str
    workload_seconds: list[dict[int, float]]
    """Before and after: atoms -> seconds of the reference workload."""
    matrix_flops_per_second: list[float]
    memory_bytes_per_second: list[float]
    drift: float
    """Relative change of the workload's time from before to after."""

    @classmethod
    def around(cls, before: Calibration, after: Calibration) -> CalibrationResult:
        """From the measurements at both ends."""
        largest = max(before.workload_seconds)
        return cls(
            device=before.device,
            workload_seconds=[before.workload_seconds, after.workload_seconds],
            matrix_flops_per_second=[before.matrix_flops_per_second, after.matrix_flops_per_second],
            memory_bytes_per_second=[before.memory_bytes_per_second, after.memory_bytes_per_second],
            drift=after.workload_seconds[largest] / before.workload_seconds[largest] - 1.0,
        )


class InferenceSpeedModelOutput(ModelOutput):
    """Raw timings. Lists run over structures."""

    structure_names: list[str]
    forward_times: list[list[float]] = []
    """Seconds per pass, untrimmed, in the order of measurement; empty where it failed."""
    md_step_times: list[dict[str, list[float]]] = []
    """Engine -> seconds per step between reports, without compilation; an engine that failed is absent."""
    compile_seconds: list[float | None] = []
    neighbour_seconds: list[float | None] = []
    """Building the neighbour list once; None where it is part of the forward pass."""
    reference_seconds: list[float | None] = []
    """Time of the calibration workload at this number of atoms."""
    calibration: CalibrationResult | None = None
    graph_cutoff_angstrom: float | None = None
    notes: list[str] = []
    """What was cut short or looked odd."""


class MDBackendResult(Record):
    """Molecular-dynamics speed on one engine."""

    average_step_time: Annotated[NonNegativeFloat | None, Metric(unit="s")] = None
    """Mean time of a step, neighbour list and integrator included."""
    step_time_samples: list[float] = []
    """One per interval between reports, s."""
    ns_per_day: Annotated[float | None, Metric(unit="ns/day", better="higher")] = None
    """Simulated time per day of computing."""


class InferenceSpeedStructureResult(SystemResult):
    """Speed at one size."""

    structure_name: str
    num_atoms: PositiveInt
    num_steps: PositiveInt
    num_episodes: PositiveInt
    timestep_fs: float | None = None
    average_forward_time: Annotated[NonNegativeFloat | None, Metric(unit="s")] = None
    """Mean of the kept passes."""
    forward_times: list[float] = []
    """Kept passes (the slowest fifth is dropped), ascending, s."""
    md: dict[str, MDBackendResult] = {}
    relative_forward_time: Annotated[
        float | None, Metric(unit="", score=SPEED_RULE, source="mlipaudit 0.1.8: t / (4.10 ms + 9.00 µs N)")
    ] = None
    """Forward time over that of the reference curve at this size."""
    normalised_forward_time: Annotated[float | None, Metric(unit="")] = None
    """Forward time over that of the calibration workload on the same device."""
    median_forward_time: float | None = None
    forward_time_interval: Interval | None = None
    """95 % interval of the average, block bootstrap, s."""
    forward_time_iqr: float | None = None
    forward_time_trend: float | None = None
    """Relative change from the first to the last third of the passes."""
    atoms_per_second: Annotated[float | None, Metric(unit="1/s", better="higher")] = None
    """Atoms over the average forward time."""
    compile_seconds: float | None = None
    neighbour_seconds: float | None = None


class InferenceSpeedResult(BenchmarkResult):
    """Speeds over all sizes."""

    structure_names: list[str]
    structures: list[InferenceSpeedStructureResult]
    graph_cutoff_angstrom: float | None = None
    normalised_score: float | None = None
    """The score with the device's own speed as the yardstick: one half for a model as fast as the workload."""
    scaling_exponent: float | None = None
    """Forward time grows as atoms to this power."""
    calibration: CalibrationResult | None = None
