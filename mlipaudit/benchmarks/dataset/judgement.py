# SPDX-License-Identifier: Apache-2.0
"""From predictions and labels to a result: metrics, groups, frames, score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlipaudit.benchmarks.dataset.comparison import Comparison, compare
from mlipaudit.benchmarks.dataset.config import ELEMENT, SIZE, DatasetProtocol
from mlipaudit.benchmarks.dataset.entries import entries_of
from mlipaudit.benchmarks.dataset.frames import Reference, group_of
from mlipaudit.benchmarks.dataset.groups import groups_of, ordered_groups
from mlipaudit.benchmarks.dataset.measuring import measure_all, measure_group
from mlipaudit.benchmarks.dataset.schemas import DatasetModelOutput, DatasetResult, FrameResult
from mlipaudit.measurement import Measurement
from mlipaudit.metrics import ENERGY, FORCES, STRESS, Values
from mlipaudit.metrics.errors import Rmse
from mlipaudit.scoring import score_systems

NUM_WORST = 10


def judge(output: DatasetModelOutput, reference: Reference, protocol: DatasetProtocol) -> DatasetResult:
    """The result of a data set."""
    comparison = compare(output, reference, protocol)
    metrics = measure_all(protocol.chosen, comparison)
    groups = _groups(comparison, protocol)
    frames = entries_of(comparison, protocol)
    entries = list(frames.values())
    return DatasetResult(
        frames=entries,
        metrics=metrics,
        groups=groups,
        **_headlines(metrics),
        **_pictured(groups),
        **_worst(comparison, entries),
        labels=reference.counts,
        num_in_file=reference.num_in_file,
        num_unlabelled=reference.num_asked_for - len(reference.frames),
        reference_energies=_by_symbol(comparison.zero.energies),
        reference_energies_from=comparison.zero.in_words,
        failures=output.failures,
        warnings=_warnings(comparison, output, metrics),
        **_score(entries, scored=bool(protocol.scored)),
    )


def _by_symbol(energies: Mapping[int, float]) -> dict[str, float]:
    from ase.data import chemical_symbols

    return {chemical_symbols[number]: energy for number, energy in sorted(energies.items())}


def _groups(comparison: Comparison, protocol: DatasetProtocol) -> dict[str, Any]:
    chosen = protocol.chosen
    found: dict[str, Any] = {}
    for key in protocol.group_by:
        positions: dict[str, list[int]] = {}
        if key != ELEMENT:
            names = [group_of(frame, key, protocol) for frame in comparison.frames]
            positions = {g: [i for i, n in enumerate(names) if n == g] for g in ordered_groups(names, protocol)}
        values = groups_of(comparison, key, protocol)
        found[key] = {
            group: measure_group(chosen, values.get(group, {}), comparison, positions.get(group))
            for group in (positions or values)
        }
    return found


def _headlines(metrics: Mapping[str, Mapping[str, Measurement]]) -> dict[str, Any]:
    """The fields that are there for every configuration."""
    fields: dict[str, float | None] = {}
    intervals = {}
    for quantity, stem in ((ENERGY, "energy"), (FORCES, "forces"), (STRESS, "stress")):
        for name in ("mae", "rmse"):
            found = metrics.get(quantity.name, {}).get(name)
            if found is not None and found.value is not None:
                fields[f"{stem}_{name}"] = found.value
                if found.interval is not None:
                    intervals[f"{stem}_{name}"] = found.interval
    return {**fields, "intervals": intervals}


def _pictured(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Mean absolute errors by group."""

    def errors(key: str, quantity: str) -> dict[str, float]:
        found = {group: metrics.get(quantity, {}).get("mae") for group, metrics in groups.get(key, {}).items()}
        return {group: m.value for group, m in found.items() if m is not None and m.value is not None}

    return {
        "force_mae_by_element": errors(ELEMENT, FORCES.name),
        "force_mae_by_size": errors(SIZE, FORCES.name),
        "energy_mae_by_size": errors(SIZE, ENERGY.name),
    }


# The whole


def _worst(comparison: Comparison, entries: Sequence[FrameResult]) -> dict[str, Any]:
    worst = {name: _worst_frames(values, comparison) for name, values in comparison.values.items()}
    scored = [entry for entry in entries if entry.score is not None]
    by_score = sorted(scored, key=lambda entry: entry.score or 0.0)
    if by_score:
        names = [entry.name for entry in by_score]
    else:
        names = list(worst.get(FORCES.name) or worst.get(ENERGY.name) or worst.get(STRESS.name) or {})
    return {"worst": worst, "worst_systems": names[:NUM_WORST]}


def _worst_frames(values: Values, comparison: Comparison) -> dict[str, float]:
    each = Rmse(ENERGY.name).of_each(values)  # of one component: its absolute value
    order = np.argsort(-np.nan_to_num(each, nan=-1.0), kind="stable")[:NUM_WORST]
    return {comparison.frames[i].name: float(each[i]) for i in order if np.isfinite(each[i])}


def _score(entries: Sequence[FrameResult], *, scored: bool) -> dict[str, Any]:
    """The fields that every result has; without thresholds there is no score."""
    counted = [entry for entry in entries if not entry.skipped]
    fields = DatasetResult.fields_of(score_systems(counted))
    failed = sum(entry.failed for entry in entries)
    everything = {"num_systems": len(entries), "num_failed": failed, "failed": failed == len(entries)}
    return {**fields, **everything} if scored else {**fields, **everything, "score": None, "score_interval": None}


def _warnings(
    comparison: Comparison, output: DatasetModelOutput, metrics: Mapping[str, Mapping[str, Measurement]]
) -> list[str]:
    """What takes no part, and which metrics failed."""
    reference = comparison.reference
    found = []
    if reference.num_asked_for < reference.num_in_file:
        found.append(f"the first {reference.num_asked_for} of {reference.num_in_file} frames were scored")
    if unlabelled := reference.num_asked_for - len(reference.frames):
        found.append(f"{unlabelled} frames without any label are left out")
    for what, count in reference.counts.items():
        if bad := count.components_not_finite:
            frames = f"{count.systems_not_finite} of {reference.num_asked_for} frames"
            found.append(f"{what}: left out are components that are not finite, {bad} in {frames}")
    if output.failures:
        found.append(f"{len(output.failures)} frames failed, and no metric rests on them")
    failed: dict[str, list[str]] = {}
    for quantity, by_name in metrics.items():
        for name, measurement in by_name.items():
            if measurement.reason:
                failed.setdefault(measurement.reason, []).append(f"{quantity}/{name}")
    found += [f"no {', '.join(names)}: {reason}" for reason, names in failed.items()]
    return [*found, *([comparison.zero.note] if comparison.zero.note else [])]
