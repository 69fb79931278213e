# SPDX-License-Identifier: Apache-2.0
"""Curves of one system: a line or a cloud per model, with its error band, and what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts import thinning
from mlipaudit.reporting.charts.grammar import (
    DASHED,
    Datum,
    Spec,
    chart,
    colour_of,
    dash_of,
    diagonal,
    in_order,
    outside_text,
    padded,
    parity_scales,
    quantity,
    reference_rule,
    sentences,
    shape_of,
    tooltip,
)
from mlipaudit.reporting.colours import REFERENCE
from mlipaudit.views import Curves

STANDARD_ERRORS = 1.96
"""Of a normal distribution, for 95 %."""
FEW = 40
"""Points of a curve that are shown one by one."""
ROOM = 0.02
"""Around a reference, of its size."""
FAR = 2.0
"""Times the range of the reference, beyond which a broken model would press all others flat."""
FLAT = 1e-6
"""Of its size, that a curve varies at least to have an axis of its own."""
Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    """Points in the order of x, None where there is a gap."""

    x: tuple[float, ...]
    y: tuple[float | None, ...]
    error: tuple[float | None, ...] | None = None

    @classmethod
    def of(cls, x: Numbers, y: Numbers, error: Numbers | None, *, zero_at_end: bool = False) -> Curve:
        """Sorted by x; points without an x are left out."""
        number = min(len(x), len(y), len(error) if error is not None else len(y))
        order = sorted((i for i in range(number) if x[i] is not None), key=lambda i: x[i] or 0.0)
        shift = (y[order[-1]] or 0.0) if zero_at_end and order else 0.0
        return cls(
            tuple(x[i] or 0.0 for i in order),
            tuple(_minus(y[i], shift) for i in order),
            None if error is None else tuple(error[i] for i in order),
        )

    def data(self, model: str | None = None) -> list[Datum]:
        """Rows of a picture, fewer than there are points where these are too many."""
        return [
            {**({"model": model} if model else {}), "x": self.x[i], "y": self.y[i], **self._band(i)}
            for i in thinning.of_curve(self.y)
        ]

    def _band(self, index: int) -> dict[str, float]:
        y, error = self.y[index], self.error[index] if self.error else None
        if y is None or error is None:
            return {}
        return {"low": _short(y - STANDARD_ERRORS * error), "high": _short(y + STANDARD_ERRORS * error)}


def curve_chart(
    view: Curves,
    curves: Mapping[str, Curve],
    models: Sequence[str],
    *,
    reference: Curve | None,
    level: float | None,
    note: str,
) -> Chart:
    """Curves of all models of one system.

    Args:
        view: what is drawn.
        curves: by model.
        models: all models of the results folder, which fixes their colours.
        reference: what the curves should be.
        level: what all values should be, where that is one number.
        note: what else a reader should know.
    """
    data = [datum for model, curve in curves.items() for datum in curve.data(model)]
    expected = reference.data() if reference else []
    banded = any("low" in datum for datum in data)
    scales = _scales(view, data, _heights(expected), level)
    caption = sentences(
        view.caption,
        outside_text(data, scales["y"]) if "domain" in scales["y"] else "",
        "Grey and dashed: the reference" if reference or level is not None else "",
        "A perfect model lies on the dashed line" if view.diagonal else "",
        "Bands: 95 %" if banded else "",
        "The run is too short for a band of errors" if view.error and not banded else "",
        note,
    )
    position: Spec = {
        "x": quantity("x", _x_title(view), axis=_ticks(view), **scales["x"]),
        "y": quantity("y", view.y.title, **scales["y"]),
    }
    layers = [diagonal(*scales["x"]["domain"])] if view.diagonal else []
    layers += _model_layers(view, data, models, position)
    layers += [_reference_layer(view, expected, position)] if expected else []
    if level is not None:
        layers += reference_rule("y", level, f"reference {level:g} {view.y.unit}".rstrip())
    return chart(f"curve {view.title}", view.title, layers, data=data, caption=caption)


def _model_layers(view: Curves, data: Sequence[Datum], models: Sequence[str], position: Spec) -> list[Spec]:
    shown = in_order(models, (datum["model"] for datum in data))
    hover = tooltip(("model", "model"), ("x", _x_title(view)), ("y", view.y.title))
    encoding = {**position, "color": colour_of(models, shown)}
    if view.points:
        mark: Spec = {"type": "point", "filled": True, "size": 50, "opacity": 0.75, "clip": True}
        shaped = {**encoding, "shape": shape_of(models, shown), "tooltip": hover}
        return [{"mark": mark, "encoding": shaped}]
    dashed = {**encoding, "strokeDash": dash_of(models, shown), "tooltip": hover}
    line = {"type": "line", "strokeWidth": 1.75, "clip": True, "point": _dots(len(data) <= FEW * len(shown))}
    layers: list[Spec] = [{"mark": line, "encoding": dashed}]
    if any("low" in datum for datum in data):
        edges = {"y": {**position["y"], "field": "low"}, "y2": {"field": "high"}}
        area = {"type": "area", "opacity": 0.2, "clip": True}
        layers.insert(0, {"mark": area, "encoding": {**encoding, **edges}})
    return layers


def _reference_layer(view: Curves, data: Sequence[Datum], position: Spec) -> Spec:
    mark: Spec = {
        "type": "line",
        "strokeDash": DASHED,
        "strokeWidth": 2,
        "color": REFERENCE,
        "point": _dots(False),
    }
    if view.points:
        mark = {"type": "point", "color": REFERENCE}
    hover = tooltip(("text", ""), ("x", _x_title(view)), ("y", view.y.title))
    rows = {"data": {"values": [{**datum, "text": "reference"} for datum in data]}}
    return {**rows, "mark": mark, "encoding": {**position, "tooltip": hover}}


def _dots(visible: bool) -> Any:
    """Few points are shown as such, for between them nobody knows; unseen ones still answer to the pointer."""
    return {"size": 28} if visible else "transparent"


def _scales(
    view: Curves, data: Sequence[Datum], expected: Sequence[float], level: float | None
) -> dict[str, dict[str, Any]]:
    x, y = [datum["x"] for datum in data], [*_heights(data), *expected]
    if view.diagonal:
        return parity_scales(x, y)
    if expected:
        room = FAR * (max(expected) - min(expected)) or abs(expected[0])
        inside = [value for value in y if min(expected) - room <= value <= max(expected) + room]
        return {"x": {"nice": False}, "y": {"domain": padded(inside)} if len(inside) < len(y) else {}}
    if level is not None:
        # A curve that hardly leaves its reference is not to look as if it did.
        return {"x": {"nice": False}, "y": {"domain": padded([*y, level * (1 - ROOM), level * (1 + ROOM)])}}
    flat = max(y) - min(y) <= FLAT * max(map(abs, y))
    return {"x": {"nice": False}, "y": {"domain": padded(y)} if flat else {}}


def _heights(data: Sequence[Datum]) -> list[float]:
    """All values, and the edges of their bands."""
    return [datum[key] for datum in data for key in ("y", "low", "high") if datum.get(key) is not None]


def _x_title(view: Curves) -> str:
    return view.x.title if view.x else view.index


def _ticks(view: Curves) -> Spec:
    """Whole frames, and angles that people know."""
    if view.x is None:
        return {"tickMinStep": 1}
    return {"values": list(range(-360, 361, 60))} if view.x.unit == "°" else {}


def _minus(value: float | None, shift: float) -> float | None:
    return None if value is None else _short(value - shift)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
