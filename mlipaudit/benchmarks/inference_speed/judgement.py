# SPDX-License-Identifier: Apache-2.0
"""From raw timings to averages, spreads and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlipaudit.analysis.timing import interquartile_range, trend, trim_slowest, trimmed_mean
from mlipaudit.benchmarks.inference_speed.schemas import (
    SPEED_RULE,
    InferenceSpeedModelOutput,
    InferenceSpeedStructureResult,
    MDBackendResult,
)
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.scoring import Interval, apply_rule, block_bootstrap, interval_of

REFERENCE_OVERHEAD_S, REFERENCE_PER_ATOM_S = 4.10e-3, 9.00e-6
"""The reference's cost curve: overhead and cost per atom of a fast model on an H100 (mlipaudit 0.1.8)."""


UNPHYSICAL = {FailureKind.NON_FINITE, FailureKind.EXPLODED, FailureKind.NEIGHBOUR_OVERFLOW}


def reference_forward_time(num_atoms: int) -> float:
    """Forward time of the reference curve, s."""
    return REFERENCE_OVERHEAD_S + REFERENCE_PER_ATOM_S * num_atoms


def forward_fields(times: list[float], num_atoms: int, reference_seconds: float | None) -> dict[str, Any]:
    """Fields of a structure's result that its forward passes fill."""
    average = trimmed_mean(times)
    return {
        "average_forward_time": average,
        "forward_times": trim_slowest(times),
        "relative_forward_time": average / reference_forward_time(num_atoms),
        "normalised_forward_time": average / reference_seconds if reference_seconds else None,
        "median_forward_time": float(np.median(times)),
        "forward_time_interval": interval_of(block_bootstrap(np.array(times), trimmed_mean)),
        "forward_time_iqr": interquartile_range(times),
        "forward_time_trend": trend(times),
        "atoms_per_second": num_atoms / average if average else None,
    }


def judge_md(samples: list[float], timestep_fs: float) -> MDBackendResult:
    """Average step time and simulated time per day."""
    average = sum(samples) / len(samples) if samples else None
    ns_per_day = 86400.0 / average * timestep_fs * 1e-6 if average else None
    return MDBackendResult(average_step_time=average, step_time_samples=samples, ns_per_day=ns_per_day)


def broken_dynamics(structure: str, failures: Mapping[str, Failure]) -> Failure | None:
    """How a model's dynamics of a structure left the physical range, if they did on any engine."""
    of_engines = (failure for what, failure in failures.items() if what.startswith(f"{structure}/"))
    return next((failure for failure in of_engines if failure.kind in UNPHYSICAL), None)


def score_interval(
    score: float, output: InferenceSpeedModelOutput, structures: Sequence[InferenceSpeedStructureResult]
) -> Interval:
    """Interval of the score from the scatter of the passes; the structures are fixed and are not resampled.

    Widened to hold the score itself: resamples of three passes need not.
    """
    per_structure = []
    for index, structure in enumerate(structures):
        times = None if structure.failed else item(output.forward_times, index)
        averages = block_bootstrap(np.array(times), trimmed_mean, seed=index) if times else np.array([np.nan])
        per_structure.append(apply_rule(SPEED_RULE, averages / reference_forward_time(structure.num_atoms)))
    low, high = interval_of(np.mean(np.broadcast_arrays(*per_structure), axis=0))
    return min(low, score), max(high, score)


def normalised_score(structures: Sequence[InferenceSpeedStructureResult]) -> float | None:
    """The score with the device's own speed as the yardstick; None without a calibration."""
    ratios = [None if s.failed else s.normalised_forward_time for s in structures]
    if all(ratio is None for ratio in ratios):
        return None
    return float(apply_rule(SPEED_RULE, ratios).mean())


def item(values: Sequence[Any], index: int) -> Any:
    """The value at an index; None beyond the end, as in outputs of mlipaudit 0.1.x."""
    return values[index] if index < len(values) else None
