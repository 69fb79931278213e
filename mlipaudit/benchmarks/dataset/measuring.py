# SPDX-License-Identifier: Apache-2.0
"""Metrics of a comparison: pooled, as a mean over frames, by group, and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlipaudit.benchmarks.dataset.comparison import Comparison
from mlipaudit.benchmarks.dataset.schemas import DatasetModelOutput
from mlipaudit.failures import Failure
from mlipaudit.measurement import Measurement
from mlipaudit.metrics import Values
from mlipaudit.metrics.chosen import WHOLE, Chosen
from mlipaudit.metrics.errors import ErrorMetric
from mlipaudit.scoring import NUM_RESAMPLES, Interval, interval_of

BLOCK = 50
"""Resamples that are drawn at once: their weights take this many numbers per frame."""
NO_MEAN = "not defined for single systems"


def measure_all(chosen: Sequence[Chosen], comparison: Comparison) -> dict[str, dict[str, Measurement]]:
    """Quantity -> metric -> its value, of all frames; a quantity without labels is not there."""
    found: dict[str, dict[str, Measurement]] = {}
    for one in chosen:
        if one.quantity == WHOLE or comparison.reference.has(one.needs[0]):
            found.setdefault(one.quantity, {})[one.name] = _measure(one, comparison)
    for one, interval in _intervals(chosen, comparison.values).items():
        measurement = found[one.quantity][one.name]
        if measurement.value is not None:
            measurement.interval = interval
    return found


def measure_group(
    chosen: Iterable[Chosen], values: Mapping[str, Values], comparison: Comparison, positions: Sequence[int] | None
) -> dict[str, dict[str, Measurement]]:
    """The same of a group of frames; `positions` are theirs, None where it is no group of whole frames."""
    found: dict[str, dict[str, Measurement]] = {}
    for one in chosen:
        if one.quantity in values:
            found.setdefault(one.quantity, {})[one.name] = measure_values(one, values[one.quantity])
        elif one.quantity == WHOLE and positions is not None:
            found.setdefault(WHOLE, {})[one.name] = _measure_whole(one, comparison, positions)
    return found


def _measure(one: Chosen, comparison: Comparison) -> Measurement:
    if one.quantity == WHOLE:
        return _measure_whole(one, comparison, range(len(comparison.frames)))
    if one.quantity not in comparison.values:
        return _without(one, comparison.problem(one.quantity))
    return measure_values(one, comparison.values[one.quantity])


def _without(one: Chosen, reason: str) -> Measurement:
    return Measurement(unit=one.unit, better=one.direction, reason=reason, reason_of_mean=reason)


def measure_values(one: Chosen, values: Values) -> Measurement:
    """A metric of one quantity."""
    metric: ErrorMetric = one.make()
    value, reason = _number(lambda: metric.of(values))
    each, why_not = _array(lambda: metric.of_each(values))
    return Measurement(
        unit=one.unit,
        better=one.direction,
        value=value,
        reason=reason,
        **_mean(each, why_not),
        num_values=int(values.counts.sum()),
        num_systems=int((values.counts > 0).sum()),
    )


def _mean(each: np.ndarray, why_not: str | None) -> dict[str, Any]:
    known = each[np.isfinite(each)]
    if known.size:
        return {"mean_over_systems": float(np.mean(known))}
    return {"reason_of_mean": why_not or NO_MEAN}


def _number(compute: Callable[[], Any]) -> tuple[float | None, str | None]:
    """A finite number, or why there is none."""
    try:
        with np.errstate(all="ignore"):
            value = float(compute())
    except Exception as error:  # around a metric, which costs only itself
        return None, Failure.from_exception(error).message
    return (value, None) if np.isfinite(value) else (None, f"the metric is {value}")


def _array(compute: Callable[[], Any]) -> tuple[np.ndarray, str | None]:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(compute(), float), None
    except Exception as error:  # around a metric, which costs only itself
        return np.zeros(0), Failure.from_exception(error).message


# Metrics that see one system after the other


def _measure_whole(one: Chosen, comparison: Comparison, positions: Sequence[int]) -> Measurement:
    missing = [need for need in one.needs if need in comparison.output.absent]
    if missing:
        return _without(one, f"the model gives no {', '.join(missing)}")
    tellers = _tellers(one, comparison, positions)
    if isinstance(tellers, str):
        return _without(one, tellers)
    if not tellers:
        return _without(one, f"no frame has {', '.join(one.needs)} on both sides")
    value, reason = _number(lambda: _told(one, tellers))
    alone = [_number(partial(_told, one, [teller]))[0] for teller in tellers]
    each = np.array([number for number in alone if number is not None])
    return Measurement(
        unit=one.unit,
        better=one.direction,
        value=value,
        reason=reason,
        **_mean(each, None),
        num_values=len(tellers),
        num_systems=len(tellers),
    )


Teller = Callable[[Any], None]
"""Tells a metric of one system."""


def _told(one: Chosen, tellers: Sequence[Teller]) -> float:
    metric = one.make()
    for tell in tellers:
        tell(metric)
    return metric.compute()


def _tellers(one: Chosen, comparison: Comparison, positions: Sequence[int]) -> list[Teller] | str:
    """One per frame that has what the metric needs; or why the metric failed when the model was asked."""
    if one.keeps_states:
        return _tellers_of_states(one, comparison.output, [comparison.frames[i].name for i in positions])
    found: list[Teller] = []
    for position in positions:
        predicted, labelled = comparison.samples(position)
        if all(predicted.has(need) and labelled.has(need) for need in one.needs):
            found.append(lambda metric, p=predicted, r=labelled: metric.update(p, r))  # type: ignore[misc]
    return found


def _tellers_of_states(one: Chosen, output: DatasetModelOutput, names: Sequence[str]) -> list[Teller] | str:
    failures = output.metric_failures.get(one.key, {})
    if failed := [name for name in names if name in failures]:
        return f"frame {failed[0]}: {failures[failed[0]]}"
    states = output.states.get(one.key, {})
    return [lambda metric, s=states[name]: metric.merge(s) for name in names if name in states]  # type: ignore[misc]


# Intervals


def _intervals(chosen: Sequence[Chosen], values: Mapping[str, Values]) -> dict[Chosen, Interval]:
    """Bootstrap over frames, of the metrics that are functions of sums over frames; the same frames for all."""
    sums: dict[Chosen, np.ndarray] = {}
    for one in chosen:
        metric = one.make() if one.quantity in values else None
        if isinstance(metric, ErrorMetric):
            own, _ = _array(partial(metric.sums, values[one.quantity]))
            if own.ndim == 2:  # and not that there are none
                sums[one] = own
    num_systems = max((len(own) for own in sums.values()), default=0)
    if num_systems < 2:
        return {}
    samples = _resampled(sums, num_systems)
    finite = {one: found[np.isfinite(found)] for one, found in samples.items()}
    return {one: interval_of(found) for one, found in finite.items() if found.size}


def _resampled(sums: Mapping[Chosen, np.ndarray], num_systems: int) -> dict[Chosen, np.ndarray]:
    """[resamples] of each metric."""
    columns = np.concatenate(list(sums.values()), axis=1)
    edges = np.cumsum([own.shape[1] for own in sums.values()])[:-1]
    rng = np.random.default_rng(0)
    totals = []
    for _ in range(NUM_RESAMPLES // BLOCK):
        draws = rng.integers(0, num_systems, (BLOCK, num_systems))
        weights = np.stack([np.bincount(draw, minlength=num_systems) for draw in draws])
        totals.append(weights @ columns)
    parts = np.split(np.concatenate(totals), edges, axis=1)
    return {one: one.make().of_sums(part) for one, part in zip(sums, parts, strict=True)}
