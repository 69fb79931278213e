# SPDX-License-Identifier: Apache-2.0
"""A number per group and model, as bars side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts.grammar import (
    Datum,
    Spec,
    chart,
    colour_of,
    in_order,
    quantity,
    sentences,
    tooltip,
)
from mlipaudit.reporting.charts.missing import missing_text, settings_text
from mlipaudit.reporting.charts.readings import Answers, finite
from mlipaudit.reporting.colours import REFERENCE
from mlipaudit.views import Bars

MAX_GROUPS = 60
BAR, GAP = 13, 4
"""Pixels of one bar, and around a group."""
Numbers = Mapping[str, float | None]


def result_bars(view: Bars, answers: Sequence[Answers], models: Sequence[str]) -> Chart | None:
    """Groups of the whole result."""
    numbers = {one.model: _mapping(one.value(one.result, view.value)) for one in answers}
    references = [_mapping(one.read(one.result, view.reference)) for one in answers if view.reference]
    note = sentences(_failed_text(answers), settings_text(answers))
    return _bars(view, numbers, references, models, note)


def system_bars(view: Bars, answers: Sequence[Answers], models: Sequence[str]) -> Chart | None:
    """One number of each system: the systems are the groups."""
    numbers = {one.model: _of_systems(one, view) for one in answers}
    references = [
        {name: finite(one.read(entry, view.reference)) for name, entry in one.alive.items()}
        for one in answers
        if view.reference
    ]
    shown = {model: sum(n is not None for n in found.values()) for model, found in numbers.items()}
    if not any(shown.values()):
        return None
    note = sentences(missing_text(answers, shown, all_systems=True), settings_text(answers))
    return _bars(view, numbers, references, models, note)


def groups_of_system(view: Bars, answers: Sequence[Answers], models: Sequence[str], system: str) -> Chart | None:
    """Groups of one system."""
    found = {one.model: one.alive[system] for one in answers if system in one.alive}
    numbers = {
        one.model: _mapping(one.value(found[one.model], view.value)) for one in answers if one.model in found
    }
    references = [
        _mapping(one.read(found[one.model], view.reference))
        for one in answers
        if view.reference and one.model in found
    ]
    return _bars(view, numbers, references, models, settings_text(answers))


def _of_systems(one: Answers, view: Bars) -> dict[str, float | None]:
    found = {name: one.value(entry, view.value) for name, entry in one.alive.items()}
    return {name: number for name, number in found.items() if isinstance(number, int | float)}


def _mapping(value: Any) -> dict[str, float | None]:
    """Groups in the order of the result; none for what is no mapping."""
    return {str(key): finite(number) for key, number in value.items()} if isinstance(value, Mapping) else {}


def _failed_text(answers: Sequence[Answers]) -> str:
    failed = [one.model for one in answers if one.result.failed]
    return f"Without numbers: {', '.join(failed)}" if failed else ""


def _bars(
    view: Bars,
    numbers: Mapping[str, Numbers],
    references: Sequence[Numbers],
    models: Sequence[str],
    note: str,
) -> Chart | None:
    data: list[Datum] = [
        {"model": model, "group": group, "x": number}
        for model, found in numbers.items()
        for group, number in found.items()
        if number is not None
    ]
    if not data:
        return None
    groups = _largest(data)
    data = [datum for datum in data if datum["group"] in groups]
    expected = {group: value for found in references for group, value in found.items() if value is not None}
    marks = [{"group": group, "x": expected[group]} for group in groups if group in expected]
    dropped = len({group for found in numbers.values() for group in found}) - len(groups)
    caption = sentences(
        view.caption,
        f"The {len(groups)} with the largest values; {dropped} more are not shown" if dropped > 0 else "",
        note,
    )
    shown = in_order(models, (datum["model"] for datum in data))
    height = (BAR * len(shown) + GAP) * len(groups)
    layers = _layers(view, (data, marks), groups, (models, shown))
    return chart(f"bars {view.title}", view.title, layers, data=data, caption=caption, height=height)


def _largest(data: Sequence[Datum]) -> list[str]:
    """Groups in their order; of too many those with the largest values."""
    groups = list(dict.fromkeys(datum["group"] for datum in data))
    if len(groups) <= MAX_GROUPS:
        return groups
    peaks = dict.fromkeys(groups, 0.0)
    for datum in data:
        peaks[datum["group"]] = max(peaks[datum["group"]], abs(datum["x"]))
    chosen = set(sorted(groups, key=lambda group: -peaks[group])[:MAX_GROUPS])
    return [group for group in groups if group in chosen]


def _layers(
    view: Bars,
    data: tuple[Sequence[Datum], Sequence[Datum]],
    groups: Sequence[str],
    names: tuple[Sequence[str], Sequence[str]],
) -> list[Spec]:
    bars, marks = data
    models, shown = names
    nothing = all(datum["x"] == 0 for datum in (*bars, *marks))
    x = quantity(
        "x",
        view.value.title,
        axis={"titleAnchor": "end"},
        **({"domain": [0.0, 1.0]} if nothing else {"zero": True}),
    )
    y = {"field": "group", "type": "nominal", "sort": list(groups), "axis": {"title": None, "labelLimit": 180}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": x,
                "y": y,
                "yOffset": {"field": "model", "type": "nominal", "sort": list(shown)},
                "color": colour_of(models, shown),
                "tooltip": tooltip(("group", "of"), ("model", "model"), ("x", view.value.title)),
            },
        }
    ]
    if marks:
        mark = {"type": "tick", "color": REFERENCE, "thickness": 3, "bandSize": BAR * len(shown) + GAP}
        hover = tooltip(("group", "of"), ("x", f"reference, {view.value.title}"))
        layers.append(
            {"data": {"values": list(marks)}, "mark": mark, "encoding": {"x": x, "y": y, "tooltip": hover}}
        )
    return layers
