# SPDX-License-Identifier: Apache-2.0
"""One metric over all systems: a strip per model, a mark per system, and their median."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts import thinning
from mlipaudit.reporting.charts.grammar import (
    Datum,
    Spec,
    chart,
    colour_of,
    in_order,
    logarithmic,
    padded,
    quantity,
    reference_rule,
    sentences,
    shape_of,
    spans_decades,
    tooltip,
)
from mlipaudit.reporting.charts.missing import missing_text, settings_text, thinned_text
from mlipaudit.reporting.charts.readings import Answers
from mlipaudit.views import Distribution

FEW = 40
"""Systems that have room as points; more are ticks."""
STRIP = 46
"""Pixels per model."""
ENOUGH = 3
"""Systems that a median stands for."""


def distribution_chart(view: Distribution, answers: Sequence[Answers], models: Sequence[str]) -> Chart | None:
    """Values of one metric; None where no system has one."""
    values = {one.model: _values_of(one, view) for one in answers}
    values = {model: found for model, found in values.items() if found}
    if not values:
        return None
    kept = {model: _thinned(found) for model, found in values.items()}
    marks = [datum for found in kept.values() for datum in found]
    middles = [
        {"model": model, "system": f"median of {len(found)}", "x": median(d["x"] for d in found)}
        for model, found in values.items()
        if len(found) >= ENOUGH
    ]
    caption = sentences(
        "One mark per system; the thick one is the median" if middles else "One mark per system",
        view.caption,
        thinned_text([(model, len(kept[model]), len(found)) for model, found in values.items()]),
        missing_text(answers, {model: len(found) for model, found in values.items()}, all_systems=True),
        settings_text(answers),
    )
    layers = _layers(view, marks, middles, models)
    height = STRIP * len(values)
    name = f"distribution {view.value.field}"
    return chart(name, view.title, layers, data=marks, caption=caption, height=height)


def _values_of(one: Answers, view: Distribution) -> list[Datum]:
    found = ((name, one.value(entry, view.value)) for name, entry in one.alive.items())
    return [{"model": one.model, "system": name, "x": x} for name, x in found if x is not None]


def _thinned(data: Sequence[Datum]) -> list[Datum]:
    return [data[i] for i in thinning.of_marks([datum["x"] for datum in data])]


def _layers(
    view: Distribution, marks: Sequence[Datum], middles: Sequence[Datum], models: Sequence[str]
) -> list[Spec]:
    shown = in_order(models, (datum["model"] for datum in marks))
    x = quantity(
        "x",
        view.value.title,
        axis={"titleAnchor": "end", "grid": False},
        **_scale(view, [datum["x"] for datum in marks]),
    )
    y = {"field": "model", "type": "nominal", "sort": shown, "axis": {"title": None, "labelLimit": 140}}
    colour = colour_of(models, shown, legend=False)
    few = len(marks) <= FEW * len(shown)
    encoding: Spec = {"x": x, "y": y, "color": colour}
    encoding["tooltip"] = tooltip(("system", "system"), ("model", "model"), ("x", view.value.title))
    strip = {**encoding, "shape": shape_of(models, shown, legend=False)} if few else encoding
    mark = {"type": "point", "filled": True, "size": 60, "opacity": 0.6}
    crowd = len(marks) / len(shown)
    ticks = {"type": "tick", "thickness": 1, "opacity": max(0.15, min(0.5, FEW / crowd)), "bandSize": STRIP * 0.6}
    layers: list[Spec] = [
        {"mark": mark if few else ticks, "encoding": strip},
        {
            "data": {"values": list(middles)},
            "mark": {"type": "tick", "thickness": 3, "bandSize": STRIP * 0.8},
            "encoding": encoding,
        },
    ]
    if view.threshold is not None:
        layers += reference_rule("x", view.threshold, f"{view.threshold:g} {view.value.unit}".rstrip())
    return layers


def _scale(view: Distribution, values: Sequence[float]) -> Spec:
    in_sight = [*values, *_known([view.threshold])]
    if view.value.log or spans_decades(in_sight):
        return logarithmic(in_sight)
    return {"domain": padded([0.0, *in_sight]), "nice": False}


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
