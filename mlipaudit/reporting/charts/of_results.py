# SPDX-License-Identifier: Apache-2.0
"""Pictures of a whole results folder: who leads, where each model is good, and what accuracy costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from mlipaudit.metric import Metric, metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts.grammar import (
    Datum,
    Spec,
    chart,
    colour_of,
    in_order,
    in_words,
    logarithmic,
    quantity,
    sentences,
    shape_of,
    tooltip,
)
from mlipaudit.reporting.charts.readings import Answers, answers_of, finite
from mlipaudit.reporting.contents import Contents, benchmark_class
from mlipaudit.reporting.rows import Row, rows_of
from mlipaudit.reporting.tables import number
from mlipaudit.views import Axis

BAR, CELL = 26, 22
"""Pixels."""
FULL = [0.0, 1.0]
NO_SCORE = "#bdbdbd"
DARK = 0.55
"""Score from which on a cell is dark."""


def score_chart(rows: Sequence[Row], models: Sequence[str]) -> Chart | None:
    """Overall scores of one ranking, in the order of its rows; None where there is none."""
    data = [_with_interval(row, "x") for row in rows if row.score is not None]
    if not data:
        return None
    absent = [row.model for row in rows if row.score is None]
    y = {"field": "model", "type": "nominal", "sort": [datum["model"] for datum in data]}
    encoding: Spec = {
        "x": quantity("x", "score", domain=FULL),
        "y": {**y, "axis": {"title": None, "labelLimit": 140}},
        "color": colour_of(models, (), legend=False),
        "tooltip": tooltip(("model", "model"), ("x", "score"), ("interval", "95 % interval")),
    }
    layers = [
        {"mark": {"type": "bar", "opacity": 0.55, "height": {"band": 0.6}}, "encoding": encoding},
        {"mark": {"type": "rule", "strokeWidth": 2.5}, "encoding": _spread(encoding, "x")},
    ]
    caption = sentences(
        "Overall score, 1 is best; thin lines: 95 % intervals",
        f"Without a score: {', '.join(absent)}" if absent else "",
    )
    name = f"scores {rows[0].run_mode} {rows[0].edition or ''}"
    return chart(
        name,
        "Overall score",
        layers,
        data=data,
        caption=caption,
        height=BAR * len(data),
    )


def heatmap(rows: Sequence[Row]) -> Chart | None:
    """Scores of every model on every benchmark of one ranking; None where there is none."""
    cells = [_cell(row) for row in rows if row.benchmark]
    if not cells:
        return None
    order = {key: list(dict.fromkeys(cell[key] for cell in cells)) for key in ("model", "benchmark")}
    x_axis = {"title": None, "orient": "top", "labelAngle": -30, "labelLimit": 140}
    position: Spec = {
        "x": {"field": "model", "type": "nominal", "sort": order["model"], "axis": x_axis},
        "y": {
            "field": "benchmark",
            "type": "nominal",
            "sort": order["benchmark"],
            "axis": {"title": None, "labelLimit": 220},
        },
        "tooltip": tooltip(("model", "model"), ("group", "benchmark"), ("text", "score"), ("key", "")),
    }
    shade = {
        "field": "score",
        "type": "quantitative",
        "scale": {"scheme": "blues", "domain": FULL},
        "legend": None,
    }
    # These words stand on the colour of a cell, not of the page.
    ink = {"condition": {"test": f"datum.score > {DARK}", "value": "white"}, "value": "black"}
    rect = {"type": "rect"}
    scored = {"data": {"values": [cell for cell in cells if cell["score"] is not None]}}
    others = {"data": {"values": [cell for cell in cells if cell["score"] is None]}}
    words = {**position, "text": {"field": "text"}, "color": ink}
    layers: list[Spec] = [
        {**scored, "mark": rect, "encoding": {**position, "color": shade}},
        {**others, "mark": rect, "encoding": {**position, "color": {"value": NO_SCORE}}},
        {"mark": {"type": "text", "fontSize": 11}, "encoding": words},
    ]
    caption = "Scores from 0 (light) to 1 (dark); grey: nothing could be analysed, or there is no result"
    name = f"heatmap {rows[0].run_mode} {rows[0].edition or ''}"
    return chart(
        name,
        "Score by benchmark",
        layers,
        data=cells,
        caption=sentences(caption),
        height=CELL * len(order["benchmark"]),
    )


def _cell(row: Row) -> Datum:
    measured = row.score is not None and not row.failed
    reasons = ", ".join(row.failures)
    coverage = f"{row.covered} of {row.asked} systems" if row.asked else ""
    return {
        "model": row.model,
        "benchmark": row.benchmark,
        "group": row.benchmark,
        "score": row.score if measured else None,
        "text": number(row.score) if measured and row.score is not None else "–",
        "key": " · ".join(part for part in (coverage, reasons) if part),
    }


# Accuracy against speed


class Speed(NamedTuple):
    """How long a model takes, as the benchmark that times it judges."""

    record: TaskRecord
    field: str
    metric: Metric
    seconds: float
    """Median over the systems, in the metric's unit."""

    @property
    def setting(self) -> tuple:
        """Equal for speeds that may be compared."""
        p = self.record.provenance
        return p.identity.run_mode, p.data_edition, p.device


def speed_chart(contents: Contents) -> Chart | None:
    """Mean score of the benchmarks that need no quiet machine, against the speed that one that does measures.

    Where models were timed under different settings, the most frequent one is shown.
    """
    speeds = [speed for record in contents.records if (speed := _speed_of(record))]
    if not speeds:
        return None
    setting = Counter(speed.setting for speed in speeds).most_common(1)[0][0]
    chosen = [speed for speed in speeds if speed.setting == setting]
    scores = _accuracies(contents, run_mode=setting[0], edition=setting[1])
    data = [
        {
            **_with_interval(scores[model], "y"),
            "x": speed.seconds,
            "text": speed.record.provenance.identity.precision,
        }
        for speed in chosen
        if (model := speed.record.provenance.model) in scores
    ]
    if not data:
        return None
    shown = {datum["model"] for datum in data}
    others = sorted({speed.record.provenance.model for speed in speeds} - shown)
    absent = [model for model in contents.models if model not in shown and model not in others]
    caption = sentences(
        f"{'Left' if chosen[0].metric.better == 'lower' else 'Right'} is faster, up is more accurate",
        "Lines: 95 % intervals of the score",
        f"Measured on {setting[2]}, run mode {setting[0]}",
        f"Timed elsewhere, and not shown: {', '.join(others)}" if others else "",
        f"Without a speed or a score: {', '.join(absent)}" if absent else "",
    )
    metric = chosen[0].metric
    title = Axis("", f"{in_words(chosen[0].field)}, median over systems", _unit(metric)).title
    layers = _score_against(data, title, contents.coloured)
    return chart("speed", "Accuracy against speed", layers, data=data, caption=caption)


def _speed_of(record: TaskRecord) -> Speed | None:
    """Median over systems of the scored metric of a benchmark that runs alone; None for any other."""
    declared = benchmark_class(record.provenance.identity.benchmark)
    if declared is None or not declared.runs_alone:
        return None
    (one,) = answers_of([record])
    for entry in one.alive.values():
        for field, metric in metrics_of(type(entry)).items():
            if metric.score is not None and (values := _values(one, field)):
                return Speed(record, field, metric, median(values))
    return None


def _values(one: Answers, field: str) -> list[float]:
    found = (one.value(entry, Axis(field, field)) for entry in one.alive.values())
    return [value for value in found if value is not None and value > 0]


def _accuracies(contents: Contents, *, run_mode: str, edition: str | None) -> dict[str, Row]:
    """Model -> its row over all benchmarks that do not run alone, or over the only one."""
    names = [name for name in contents.benchmarks if not getattr(benchmark_class(name), "runs_alone", False)]
    part = contents.only(benchmarks=names)
    rows: dict[str, Row] = {}
    for row in rows_of(part.records, part.gaps):
        same = row.score is not None and (row.run_mode, row.edition) == (run_mode, edition)
        if same and (row.benchmark is None or row.model not in rows):
            rows[row.model] = row
    return rows


def _unit(metric: Metric) -> str:
    return metric.unit if metric.unit not in ("", "1") else ""


def _score_against(data: Sequence[Datum], title: str, models: Sequence[str]) -> list[Spec]:
    """A point per model: its score over what `title` says of it."""
    shown = in_order(models, (datum["model"] for datum in data))
    encoding: Spec = {
        "x": quantity(
            "x", title, **logarithmic([datum["x"] / 1.3 for datum in data] + [d["x"] * 1.3 for d in data])
        ),
        "y": quantity("y", "mean score of the other benchmarks", domain=FULL),
        "color": colour_of(models, shown),
    }
    hover = tooltip(
        ("model", "model"), ("x", title), ("y", "score"), ("interval", "95 % interval"), ("text", "precision")
    )
    point = {"type": "point", "filled": True, "size": 140}
    return [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": _spread(encoding, "y")},
        {"mark": point, "encoding": {**encoding, "shape": shape_of(models, shown), "tooltip": hover}},
    ]


# Accuracy against cost


def price_chart(contents: Contents) -> Chart | None:
    """Mean score against the price that a benchmark declares, where models have both.

    Of prices under different run modes and editions, the most frequent ones are shown.
    """
    prices = [price for record in contents.records if (price := _price_of(record))]
    if not prices:
        return None
    kind = Counter(price.kind for price in prices).most_common(1)[0][0]
    chosen = {price.record.provenance.model: price for price in prices if price.kind == kind}
    run_mode, edition, field, unit = kind
    scores = _accuracies(contents, run_mode=run_mode, edition=edition)
    data = [
        {
            **_with_interval(scores[model], "y"),
            "x": price.value,
            "text": price.record.provenance.identity.precision,
        }
        for model, price in chosen.items()
        if model in scores
    ]
    if not data:
        return None
    absent = [model for model in contents.models if model not in {datum["model"] for datum in data}]
    caption = sentences(
        "Left is cheaper, up is more accurate",
        "Lines: 95 % intervals of the score",
        f"Counted, not timed, run mode {run_mode}",
        f"Without a price or a score: {', '.join(absent)}" if absent else "",
    )
    layers = _score_against(data, Axis("", in_words(field), unit).title, contents.coloured)
    return chart("cost", "Accuracy against cost", layers, data=data, caption=caption)


class Price(NamedTuple):
    """What a model costs, as a benchmark that declares a price says."""

    record: TaskRecord
    field: str
    metric: Metric
    value: float

    @property
    def kind(self) -> tuple[str, str | None, str, str]:
        """Equal for prices that may be compared: run mode, edition, field and unit."""
        p = self.record.provenance
        return p.identity.run_mode, p.data_edition, self.field, _unit(self.metric)


def _price_of(record: TaskRecord) -> Price | None:
    """The first declared price of a result that has a value."""
    for field, metric in metrics_of(type(record.result)).items():
        value = finite(getattr(record.result, field)) if metric.is_price else None
        if value is not None and value > 0:
            return Price(record, field, metric, value)
    return None


# Intervals


def _with_interval(row: Row, axis: str) -> Datum:
    score = {"model": row.model, axis: row.score}
    if row.interval is None:
        return {**score, "interval": "unknown"}
    low, high = row.interval
    return {**score, "low": low, "high": high, "interval": f"{number(low)} … {number(high)}"}


def _spread(encoding: Spec, axis: str) -> Spec:
    """The same picture from the lower to the upper end of the interval."""
    return {**encoding, axis: {**encoding[axis], "field": "low"}, f"{axis}2": {"field": "high"}}
