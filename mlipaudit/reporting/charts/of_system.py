# SPDX-License-Identifier: Apache-2.0
"""Pictures of one system: what every model says of it, against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts.bars import groups_of_system
from mlipaudit.reporting.charts.curves import Curve, curve_chart
from mlipaudit.reporting.charts.grammar import sentences
from mlipaudit.reporting.charts.missing import settings_text
from mlipaudit.reporting.charts.readings import Answers, answers_of, finite
from mlipaudit.reporting.contents import benchmark_class
from mlipaudit.views import Bars, Curves


def curves_of(benchmark: str, records: Sequence[TaskRecord], models: Sequence[str], system: str) -> list[Chart]:
    """Pictures of one system, all models in each. A model that failed on it is drawn as far as it got.

    Args:
        benchmark: its name.
        records: its results, one per model.
        models: all models of the results folder, which fixes their colours.
        system: name of the system.
    """
    declared = benchmark_class(benchmark)
    answers = answers_of(records, [system])
    charts = []
    for view in declared.views if declared else ():
        if isinstance(view, Curves):
            charts.append(_curves(view, answers, models, system))
        elif isinstance(view, Bars) and not view.of_result:
            charts.append(groups_of_system(view, answers, models, system))
    return [chart for chart in charts if chart]


def _curves(view: Curves, answers: Sequence[Answers], models: Sequence[str], system: str) -> Chart | None:
    found = [(one, curve) for one in answers if (curve := _curve(view, one, system))]
    if not found:
        return None
    reference = next(filter(None, (_reference(view, one, system, curve) for one, curve in found)), None)
    level = next(filter(None, (_level(view, one, system) for one, _ in found)), None)
    curves = {one.model: curve for one, curve in found}
    note = sentences(_absent(answers, curves), *_failed(answers, curves, system), settings_text(answers))
    return curve_chart(view, curves, models, reference=reference, level=level, note=note)


def _curve(view: Curves, one: Answers, system: str) -> Curve | None:
    """One model's curve; None where it has no number."""
    entry = one.entries.get(system)
    y = one.value(entry, view.y) if entry else None
    if entry is None or not isinstance(y, list):
        return None
    x = one.value(entry, view.x) if view.x else list(range(len(y)))
    errors = one.read(entry, view.error) if view.error else None
    scale = view.y.scale
    band = [finite(error, scale) for error in errors] if isinstance(errors, list) else None
    curve = Curve.of(x if isinstance(x, list) else [], y, band, zero_at_end=view.zero_at_end)
    return curve if any(value is not None for value in curve.y) else None


def _reference(view: Curves, one: Answers, system: str, curve: Curve) -> Curve | None:
    """What the curve should be, at the same x."""
    expected = one.read(one.entries[system], view.reference) if view.reference else None
    if not isinstance(expected, list):
        return None
    x = one.value(one.entries[system], view.x) if view.x else list(range(len(expected)))
    values = [finite(value, view.y.scale) for value in expected]
    return Curve.of(x or [], values, None, zero_at_end=view.zero_at_end)


def _level(view: Curves, one: Answers, system: str) -> float | None:
    """What every value should be, where that is one number."""
    return finite(one.read(one.entries[system], view.reference), view.y.scale) if view.reference else None


def _absent(answers: Sequence[Answers], curves: dict[str, Curve]) -> str:
    names = [one.model for one in answers if one.model not in curves]
    return f"Nothing to draw from {', '.join(names)}" if names else ""


def _failed(answers: Sequence[Answers], curves: dict[str, Curve], system: str) -> Iterator[str]:
    for one in answers:
        entry = one.entries.get(system)
        if one.model in curves and entry is not None and entry.failed:
            reason = f" ({entry.failure.kind})" if entry.failure else ""
            yield f"{one.model} failed on this system{reason}"
