# SPDX-License-Identifier: Apache-2.0
"""What is said of each frame by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlipaudit.benchmarks.dataset.comparison import Comparison
from mlipaudit.benchmarks.dataset.config import DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Frame
from mlipaudit.benchmarks.dataset.schemas import FrameResult
from mlipaudit.failures import Failure
from mlipaudit.metric import SoftThreshold
from mlipaudit.metrics import ENERGY, FORCES, STRESS
from mlipaudit.metrics.errors import Mae, Maximum, Rmse
from mlipaudit.scoring import apply_rule

DRAWN = 3000
"""Force components of all frames that a picture is made from."""


def entries_of(comparison: Comparison, protocol: DatasetProtocol) -> dict[str, FrameResult]:
    """Every frame with a label, in the order of the data."""
    numbers = _numbers_by_frame(comparison)
    scores = _scores(comparison, protocol)
    drawn = _drawn_forces(comparison)
    positions = {frame.name: i for i, frame in enumerate(comparison.frames)}
    found = {}
    for frame in comparison.reference.frames:
        position = positions.get(frame.name)
        if position is None:
            found[frame.name] = _failed(frame, comparison.output.failures.get(frame.name), protocol)
            continue
        fields = {name: _known(array[position]) for name, array in numbers.items()}
        score = _known(scores[position])
        skipped = bool(protocol.scored) and score is None
        found[frame.name] = _entry(frame, **fields, **drawn.get(position, {}), score=score, skipped=skipped)
    return found


def _entry(frame: Frame, **fields: Any) -> FrameResult:
    formula = frame.atoms.get_chemical_formula()
    return FrameResult(name=frame.name, index=frame.index, num_atoms=len(frame.atoms), formula=formula, **fields)


def _failed(frame: Frame, failure: Failure | None, protocol: DatasetProtocol) -> FrameResult:
    """A frame without an answer; it scores 0 where a threshold is about it."""
    needed = {need for one, _ in protocol.scored for need in one.needs}
    concerned = any(np.isfinite(frame.labels[need]).any() for need in needed if need in frame.labels)
    skipped = bool(needed) and not concerned
    score = 0.0 if concerned else None
    return _entry(frame, failed=True, failure=failure, score=score, skipped=skipped)


def _known(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None


def _numbers_by_frame(comparison: Comparison) -> dict[str, np.ndarray]:
    """Field -> [frames], NaN where there is nothing."""
    nothing = np.full(len(comparison.frames), np.nan)
    values = comparison.values
    found = dict.fromkeys(("energy_error", "labelled_energy", "predicted_energy"), nothing)
    if ENERGY.name in values:
        labelled, predicted = values[ENERGY.name].labelled[:, 0], values[ENERGY.name].predicted[:, 0]
        known = np.where(np.isfinite(labelled), predicted, np.nan)
        found |= {"labelled_energy": labelled, "predicted_energy": known, "energy_error": known - labelled}
    for field, quantity, metric in (
        ("force_mae", FORCES, Mae),
        ("force_rmse", FORCES, Rmse),
        ("force_max", FORCES, Maximum),
        ("stress_mae", STRESS, Mae),
    ):
        there = quantity.name in values
        found[field] = metric(quantity.name).of_each(values[quantity.name]) if there else nothing
    return found


def _scores(comparison: Comparison, protocol: DatasetProtocol) -> np.ndarray:
    """[frames]: mean over the thresholds that a frame has labels for; NaN without any."""
    scores = []
    for one, threshold in protocol.scored:
        each = np.full(len(comparison.frames), np.nan)
        if one.quantity in comparison.values:
            each = one.make().of_each(comparison.values[one.quantity])
        known = np.isfinite(each)
        scores.append(np.where(known, apply_rule(SoftThreshold(threshold), each.tolist()), np.nan))
    if not scores:
        return np.full(len(comparison.frames), np.nan)
    known = np.isfinite(scores)
    counts = known.sum(axis=0)
    return np.where(counts, np.where(known, scores, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _drawn_forces(comparison: Comparison) -> dict[int, dict[str, list[float]]]:
    """Some components of each frame: the worst, and others evenly."""
    values = comparison.values.get(FORCES.name)
    if values is None:
        return {}
    room = max(1, DRAWN // len(comparison.force_frames))
    ends = np.cumsum(values.counts)
    found = {}
    for position in np.flatnonzero(values.counts):
        part = slice(ends[position] - values.counts[position], ends[position])
        x, y = values.x[part], values.y[part]
        worst = int(np.argmax(np.abs(y - x)))
        chosen = sorted({worst, *np.linspace(0, len(x) - 1, min(room, len(x))).round().astype(int)[1:].tolist()})
        found[int(position)] = {"labelled_forces": x[chosen].tolist(), "predicted_forces": y[chosen].tolist()}
    return found
