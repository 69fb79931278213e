# SPDX-License-Identifier: Apache-2.0
"""What all pictures have in common: frame, axes, colours of models, captions.

Text and background have no colours of their own: the page supplies those, for light and for dark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.colours import REFERENCE, marks_of

Spec = dict[str, Any]
"""A piece of a Vega-Lite specification."""
Datum = dict[str, Any]
"""One row of its data."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 300
DASHED = [5, 4]
DECADES = 2.0
"""Positive values that span more are drawn on a logarithmic axis."""
NARROW = 270
"""Pixels: a legend fits a phone."""
FAR = 2.0
"""Times the range of the reference, beyond which a broken model would press all others flat."""
ABBREVIATIONS = {
    "mae": "MAE",
    "rmse": "RMSE",
    "rmsd": "RMSD",
    "abs": "absolute",
    "avg": "mean",
    "num": "number of",
}
"""In names of fields."""


def chart(
    name: str, title: str, layers: Sequence[Spec], *, data: Sequence[Datum], caption: str, height: int = HEIGHT
) -> Chart:
    """A picture as wide as its page.

    Args:
        name: of the file it is downloaded as.
        title: above it.
        layers: what is drawn.
        data: of the layers that have none of their own.
        caption: what it shows.
        height: in pixels, of the part inside the axes.
    """
    spec = {
        "$schema": SCHEMA,
        "title": {"text": title, "anchor": "start", "offset": 14},
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(data)},
        "layer": list(layers),
    }
    return Chart(spec, slug(name), caption)


def slug(text: str) -> str:
    """A name that a file can have."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def in_words(field: str) -> str:
    """The name of a field, as people write it."""
    return " ".join(ABBREVIATIONS.get(word, word) for word in field.split("_"))


def sentences(*parts: str) -> str:
    """Parts that say something, each ended by a full stop."""
    return " ".join(part if part.endswith((".", "…")) else f"{part}." for part in map(str.strip, parts) if part)


# Models


def colour_of(models: Sequence[str], shown: Iterable[str], *, legend: bool = True) -> Spec:
    """Colour by model: the same in every picture of a results folder."""
    marks = marks_of(models)
    return _by_model(models, shown, [mark.colour for mark in marks.values()], legend)


def shape_of(models: Sequence[str], shown: Iterable[str], *, legend: bool = True) -> Spec:
    """Shape by model, which tells those apart that share a colour."""
    marks = marks_of(models)
    return _by_model(models, shown, [mark.shape for mark in marks.values()], legend)


def dash_of(models: Sequence[str], shown: Iterable[str]) -> Spec:
    """The same for lines."""
    marks = marks_of(models)
    return _by_model(models, shown, [list(mark.dash) for mark in marks.values()], True)


def _by_model(models: Sequence[str], shown: Iterable[str], marks: Sequence[Any], legend: bool) -> Spec:
    # A channel's legend is left out where the results are of one model, and joined with those of other channels.
    names = in_order(models, shown) if legend and len(set(models)) > 1 else []
    scale = {"domain": list(marks_of(models)), "range": list(marks)}
    return {"field": "model", "type": "nominal", "scale": scale, "legend": legend_of(names) if names else None}


def in_order(models: Sequence[str], shown: Iterable[str]) -> list[str]:
    """The models that a picture shows, in the order that all pictures have."""
    found = set(shown)
    return [model for model in marks_of(models) if model in found]


def legend_of(names: Sequence[str]) -> Spec:
    """A legend above the picture, in one row where a phone is wide enough for it."""
    widths = [6 * len(name) + 30 for name in names]
    columns = len(names) if sum(widths) <= NARROW else max(1, NARROW // max(widths))
    look = {"columns": columns, "labelLimit": NARROW - 30, "symbolOpacity": 1}
    return {"values": list(names), "title": None, "orient": "top", **look}


# Axes


def quantity(field: str, title: str, *, axis: Spec | None = None, **scale: Any) -> Spec:
    """A numeric channel with its title."""
    ticks = {"title": title, "labelFlush": False, "tickCount": 6, **(axis or {})}
    zero = {} if scale.get("type") == "log" else {"zero": False}
    return {"field": field, "type": "quantitative", "axis": ticks, "scale": {**zero, **scale}}


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values want a logarithmic axis; those that have no logarithm are left aside, if they are few."""
    listed = list(values)
    positive = [value for value in listed if value > 0]
    if len(positive) < 2 or 2 * len(positive) < len(listed) or min(listed) < 0:
        return False
    return max(positive) / min(positive) > 10**DECADES


def logarithmic(values: Iterable[float]) -> Spec:
    """Scale for such values; a zero lies on the lower end of it."""
    positive = [value for value in values if value > 0]
    return {"type": "log", "domain": [min(positive) / 1.25, max(positive) * 1.25], "nice": False, "clamp": True}


def padded(values: Iterable[float], share: float = 0.04) -> list[float]:
    """A range that leaves a margin around all values."""
    listed = list(values)
    low, high = min(listed), max(listed)
    margin = share * (high - low) or abs(high) * share or 1.0
    return [low - margin, high + margin]


def tooltip(*fields: tuple[str, str]) -> list[Spec]:
    """(field, title) pairs; numbers with four digits."""
    words = {"model", "system", "group", "key", "text", "interval"}
    return [
        {"field": field, "title": title, "type": "nominal"}
        if field in words
        else {"field": field, "title": title, "type": "quantitative", "format": ".4~g"}
        for field, title in fields
    ]


# What is not a model


def reference_rule(channel: str, value: float, label: str) -> list[Spec]:
    """A dashed line across the picture where `channel` has a value, with a label."""
    at = {channel: {"datum": value}}
    place = {"x": {"align": "center", "baseline": "bottom", "y": -3}, "y": {"align": "left", "dy": -6, "x": 4}}
    line = {"type": "rule", "color": REFERENCE, "strokeDash": DASHED, "strokeWidth": 1.5}
    text = {"type": "text", "text": label, "color": REFERENCE, **place[channel]}
    # One row each: without data of their own they would be drawn once per row of the picture.
    return [{"data": {"values": [{}]}, "mark": mark, "encoding": at} for mark in (line, text)]


def parity_scales(x: Sequence[float], y: Iterable[float]) -> dict[str, Spec]:
    """Scales of a quantity against itself: all of x, and of y what is not far outside."""
    room = FAR * (max(x) - min(x)) or FAR * abs(x[0]) or FAR
    inside = [value for value in y if min(x) - room <= value <= max(x) + room]
    return {
        "x": {"domain": padded(x), "nice": False},
        "y": {"domain": padded([*x, *inside]), "nice": False},
    }


def outside_text(points: Iterable[Datum], scale: Spec) -> str:
    """How many points of which model a scale leaves out."""
    low, high = scale["domain"]
    left_out = Counter(p["model"] for p in points if p["y"] is not None and not low <= p["y"] <= high)
    parts = [f"{number} of {model}" for model, number in left_out.items()]
    return f"Points outside the picture: {', '.join(parts)}" if parts else ""


def diagonal(low: float, high: float) -> Spec:
    """The line of perfect answers."""
    ends = [{"x": low, "y": low}, {"x": high, "y": high}]
    mark = {"type": "line", "color": REFERENCE, "strokeDash": DASHED, "strokeWidth": 1.5, "clip": True}
    position = {axis: {"field": axis, "type": "quantitative"} for axis in ("x", "y")}
    return {"data": {"values": ends}, "mark": mark, "encoding": position}
