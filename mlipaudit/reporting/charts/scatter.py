# SPDX-License-Identifier: Apache-2.0
"""One quantity against another, a point per system and model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts import thinning
from mlipaudit.reporting.charts.grammar import (
    Datum,
    Spec,
    chart,
    colour_of,
    diagonal,
    in_order,
    logarithmic,
    outside_text,
    padded,
    parity_scales,
    quantity,
    sentences,
    shape_of,
    tooltip,
)
from mlipaudit.reporting.charts.missing import missing_text, settings_text, thinned_text
from mlipaudit.reporting.charts.readings import Answers
from mlipaudit.views import Axis, Scatter

HEIGHT = 360
ON_THE_DIAGONAL = "A perfect model lies on the dashed line"
CROWDED = 300
"""Points, from which on they are small and let others through."""


def scatter_chart(view: Scatter, answers: Sequence[Answers], models: Sequence[str]) -> Chart | None:
    """All systems of all models; None where there is no point."""
    points = {one.model: list(_points_of(one, view)) for one in answers}
    points = {model: found for model, found in points.items() if found}
    if not points:
        return None
    kept = {model: _thinned(found, view) for model, found in points.items()}
    systems = {model: len({point["system"] for point in found}) for model, found in points.items()}
    # In turns: no model covers another one wholly.
    drawn = [point for turn in zip_longest(*kept.values()) for point in turn if point]
    scales = _scales(view, drawn)
    caption = sentences(
        view.caption,
        ON_THE_DIAGONAL if view.diagonal else "",
        outside_text(drawn, scales["y"]),
        thinned_text([(model, len(kept[model]), len(found)) for model, found in points.items()]),
        missing_text(answers, systems, all_systems=True),
        settings_text(answers),
    )
    layers = _layers(view, drawn, scales, models)
    return chart(f"scatter {view.title}", view.title, layers, data=drawn, caption=caption, height=HEIGHT)


def _points_of(one: Answers, view: Scatter) -> Iterator[Datum]:
    for name, entry in one.alive.items():
        for key, y in one.values(entry, view.y):
            for at, height in _pairs(one.value(entry, view.x), y):
                if _can_be_drawn(view.x, at) and _can_be_drawn(view.y, height):
                    point = {"model": one.model, "system": name, "x": at, "y": height}
                    yield {**point, "key": key} if key else point


def _pairs(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Two numbers, or the elements of two lists."""
    if isinstance(x, list) and isinstance(y, list):
        yield from zip(x, y, strict=False)
    elif not isinstance(x, list) and not isinstance(y, list):
        yield x, y


def _can_be_drawn(axis: Axis, value: float | None) -> bool:
    return value is not None and (value > 0 or not axis.log)


def _thinned(points: Sequence[Datum], view: Scatter) -> list[Datum]:
    """The farthest from the diagonal, or the highest and the lowest, are kept."""
    heights = [point["y"] - point["x"] if view.diagonal else point["y"] for point in points]
    return [points[i] for i in thinning.of_marks(heights)]


def _layers(view: Scatter, points: Sequence[Datum], scales: dict[str, Spec], models: Sequence[str]) -> list[Spec]:
    shown = in_order(models, (point["model"] for point in points))
    encoding: Spec = {
        "x": quantity("x", view.x.title, **scales["x"]),
        "y": quantity("y", view.y.title, **scales["y"]),
        "color": colour_of(models, shown),
    }
    keyed = len({point.get("key", "") for point in points}) > 1
    text = [("system", "system"), ("model", "model"), *([("key", "of")] if keyed else [])]
    hover = tooltip(*text, ("x", view.x.title), ("y", view.y.title))
    crowded = len(points) > CROWDED
    mark: Spec = {"type": "point", "filled": True, "clip": True}
    mark |= {"size": 25, "opacity": 0.5} if crowded else {"size": 60, "opacity": 0.75}
    layers: list[Spec] = []
    if view.diagonal:
        layers.append(diagonal(*scales["x"]["domain"]))
    if view.joined:
        layers.append({"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": _joined(encoding, keyed)})
    shaped = {**encoding, "shape": shape_of(models, shown), "tooltip": hover}
    return [*layers, {"mark": mark, "encoding": shaped}]


def _joined(encoding: Spec, keyed: bool) -> Spec:
    """Lines through a model's points, with dashes of their own where there are several."""
    if not keyed:
        return encoding
    dash = {"field": "key", "type": "nominal", "legend": {"title": None, "orient": "top"}}
    return {**encoding, "strokeDash": dash}


def _scales(view: Scatter, points: Sequence[Datum]) -> dict[str, Spec]:
    values = {axis: [point[axis] for point in points] for axis in ("x", "y")}
    if view.diagonal:
        return parity_scales(values["x"], values["y"])
    logs = {"x": view.x.log, "y": view.y.log}
    return {
        axis: logarithmic(found) if logs[axis] else {"domain": padded(found), "nice": False}
        for axis, found in values.items()
    }
