# SPDX-License-Identifier: Apache-2.0
"""What is measured about the stability of dynamics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from mlipaudit.benchmark import BenchmarkResult, ModelOutput, SystemResult
from mlipaudit.families.trajectories import SimulationState
from mlipaudit.metric import Fraction, Metric


class StabilityStructureResult(SystemResult):
    """One structure. `failed` only when there are no frames; one that exploded has a reason all the same."""

    structure_name: str
    description: str
    num_frames: NonNegativeInt = 0
    """Frames that there are, without the starting one."""
    num_expected_frames: NonNegativeInt = 0
    num_steps: PositiveInt
    """Steps that were asked for."""
    exploded_frame: int = 0
    """Frame at which it exploded, -1 if it did not."""
    drift_frame: int = 0
    """First frame from which a hydrogen is gone, -1 if none is."""
    lost_hydrogens: list[int] = []
    """Atoms that are gone at the end."""
    score: Annotated[
        float,
        Field(ge=0, le=1),
        Metric(unit="1", score=Fraction(), better="higher", source="mlipaudit 0.1.8 (arXiv:2511.20487)"),
    ] = 0.0
    """1 when nothing happened; less the earlier something did."""


class StabilityResult(BenchmarkResult):
    """What became of every structure."""

    structure_results: list[StabilityStructureResult]
    num_stable: Annotated[int, Metric(unit="structures", better="higher")] = 0
    """Structures to which nothing happened."""


class StabilityModelOutput(ModelOutput):
    """Frames of every structure; None where the dynamics never began."""

    structure_names: list[str]
    simulation_states: list[SimulationState | None]
