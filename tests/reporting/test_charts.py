# SPDX-License-Identifier: Apache-2.0
"""Pictures show the numbers of the records, all of them or say which not, and every model in its own colour."""

import ast
import json
import math
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from filled_results import damaged, filled_task
from made_records import failed, task

import mlipaudit
from mlipaudit import registry
from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.metric import Fraction, Hill, Limit, Metric, SoftThreshold
from mlipaudit.reporting.charts import (
    charts_of,
    curves_of,
    heatmap,
    of_benchmark,
    of_results,
    of_system,
    score_chart,
    speed_chart,
    thinning,
)
from mlipaudit.reporting.charts.grammar import in_words, parity_scales, slug, spans_decades
from mlipaudit.reporting.charts.of_benchmark import threshold_of
from mlipaudit.reporting.colours import PALETTE, REFERENCE, marks_of
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.rows import Row
from mlipaudit.reporting.systems import systems_of
from mlipaudit.views import Axis, Bars, Curves, Scatter

NAMES = registry.names(registry.BENCHMARKS)
MODELS = ["beta", "alpha", "gamma"]
BROKEN = Failure(kind=FailureKind.EXPLODED, message="planted")


class Engine(Record):
    speed: float | None = None


class Entry(SystemResult):
    name: str
    found: float | None = None
    expected: float | None = None
    error: Annotated[float | None, Metric(unit="Å", score=SoftThreshold(0.5), source="planted")] = None
    """How far off it is."""
    atoms: int = 1
    series: list[float] | None = None
    places: list[float] | None = None
    truth: list[float] | None = None
    spread: list[float] | None = None
    level: float | None = None
    rates: dict[str, float] | None = None
    engines: dict[str, Engine] = {}


class Result(BenchmarkResult):
    entries: list[Entry] = []
    totals: dict[str, float] = {}
    perfect: dict[str, float] = {}
    series: list[float] | None = None


class Planted(Benchmark):
    """A benchmark of these tests."""

    name = "planted"
    result_class = Result
    model_output_class = ModelOutput
    required_elements = set()


@pytest.fixture
def drawn(monkeypatch):
    """Draw the charts, or curves, of entries under declared views."""

    def use(*views):
        declared = type("Declared", (Planted,), {"views": views})
        for module in (of_benchmark, of_system):
            monkeypatch.setattr(module, "benchmark_class", lambda name: declared)

    return use


def record(entries, model="alpha", **fields):
    return task(model, Result(entries=entries, num_systems=len(entries), **fields), "planted")


def rows_in(spec):
    """All rows of data, the shared ones first."""
    layers = [layer["data"]["values"] for layer in spec["layer"] if "data" in layer]
    return [row for values in [spec["data"]["values"], *layers] for row in values]


def pieces(part):
    """All dictionaries inside."""
    if isinstance(part, dict):
        yield part
        for inner in part.values():
            yield from pieces(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from pieces(inner)


def legends(spec):
    return [piece["legend"] for piece in pieces(spec["layer"]) if piece.get("legend")]


def scales_of(spec, channel):
    return [
        layer["encoding"][channel]["scale"]
        for layer in spec["layer"]
        if "scale" in layer["encoding"].get(channel, {})
    ]


def all_charts(name, records, models):
    charts = charts_of(name, records, models)
    systems = dict.fromkeys(system for record in records for system in systems_of(record.result))
    return charts + [chart for system in list(systems)[:2] for chart in curves_of(name, records, models, system)]


# Points


def test_scatter_shows_the_numbers_of_the_records(drawn):
    drawn(Scatter("p", Axis("expected", "x", "eV"), Axis("found", "y", "meV/atom", scale=1000.0, per="atoms")))
    entries = [Entry(name=str(i), expected=i + 0.5, found=0.1 * i, atoms=4) for i in range(5)]
    (chart,) = charts_of("planted", [record(entries)], ["alpha"])
    assert [(p["system"], p["x"], p["y"]) for p in chart.spec["data"]["values"]] == [
        (str(i), i + 0.5, pytest.approx(25.0 * i)) for i in range(5)
    ]


def test_what_failed_is_absent_and_counted(drawn):
    drawn(Scatter("p", Axis("expected", "x"), Axis("found", "y")))
    whole = {"expected": 1.0, "found": 2.0}
    entries = [Entry(name="a", **whole), Entry(name="b", **whole, failed=True), Entry(name="c", expected=1.0)]
    (chart,) = charts_of("planted", [record(entries), failed("beta", "planted")], ["alpha", "beta"])
    assert [p["system"] for p in chart.spec["data"]["values"]] == ["a"]
    assert "2 of 3 systems of alpha" in chart.caption
    assert "all of beta (load_error)" in chart.caption


def test_lists_give_a_point_per_element(drawn):
    drawn(Scatter("p", Axis("truth", "x"), Axis("series", "y"), diagonal=True))
    entry = Entry(name="a", truth=[1.0, 2.0, math.nan], series=[1.5, 2.5, 3.5])
    (chart,) = charts_of("planted", [record([entry])], ["alpha"])
    assert [(p["x"], p["y"]) for p in chart.spec["data"]["values"]] == [(1.0, 1.5), (2.0, 2.5)]


def test_records_in_a_mapping_are_told_apart(drawn):
    view = Scatter("p", Axis("atoms", "n", log=True), Axis("engines.*.speed", "v", "1/s", log=True), joined=True)
    drawn(view)
    engines = {
        "one": Engine(speed=2.0),
        "other": Engine(speed=4.0),
        "dead": Engine(speed=None),
        "still": Engine(speed=0.0),
    }
    (chart,) = charts_of("planted", [record([Entry(name="a", engines=engines, atoms=3)])], ["alpha"])
    assert [(p["key"], p["x"], p["y"]) for p in chart.spec["data"]["values"]] == [
        ("one", 3.0, 2.0),
        ("other", 3.0, 4.0),
    ]
    line = next(layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["strokeDash"]["field"] == "key"


def test_a_broken_model_does_not_press_the_others_flat(drawn):
    drawn(Scatter("p", Axis("expected", "x"), Axis("found", "y"), diagonal=True))
    good = [Entry(name=str(i), expected=float(i), found=float(i)) for i in range(11)]
    bad = [Entry(name=str(i), expected=float(i), found=1e6 * (i - 5)) for i in range(11)]
    (chart,) = charts_of("planted", [record(good), record(bad, "beta")], ["alpha", "beta"])
    (low, high), *_ = [scale["domain"] for scale in scales_of(chart.spec, "y")]
    assert -3.0 < low < 0.0 and 10.0 < high < 13.0
    assert "Points outside the picture: 10 of beta" in chart.caption


def test_parity_scales_leave_nothing_out_that_is_near():
    scales = parity_scales([0.0, 10.0], [-15.0, 25.0, 31.0])
    assert scales["y"]["domain"] == [pytest.approx(-16.6), pytest.approx(26.6)]
    assert parity_scales([3.0], [3.0])["x"]["domain"][0] < 3.0 < parity_scales([3.0], [3.0])["x"]["domain"][1]


def test_chosen_systems_are_shown_alone(drawn):
    drawn(Scatter("p", Axis("expected", "x"), Axis("found", "y")))
    entries = [Entry(name=name, expected=1.0, found=1.0, error=1.0) for name in "abc"]
    charts = charts_of("planted", [record(entries)], ["alpha"], systems={"b"})
    assert {row["system"] for chart in charts for row in chart.spec["data"]["values"]} == {"b"}


# Distributions


def strip_of(errors, **kwargs):
    entries = [Entry(name=f"s{i}", error=error) for i, error in enumerate(errors)]
    (chart,) = charts_of("planted", [record(entries, **kwargs)], ["alpha"])
    return chart


def test_distribution_has_every_system_its_median_and_the_threshold(drawn):
    drawn()
    chart = strip_of([0.1, 0.2, 0.9, None])
    assert [(d["system"], d["x"]) for d in chart.spec["data"]["values"]] == [("s0", 0.1), ("s1", 0.2), ("s2", 0.9)]
    assert ("median of 3", 0.2) in [(row.get("system"), row.get("x")) for row in rows_in(chart.spec)]
    rule = next(layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "rule")
    assert rule["encoding"]["x"]["datum"] == 0.5 and rule["mark"]["strokeDash"]
    text = next(layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "text")
    assert text["mark"]["text"] == "0.5 Å"
    for said in (
        "How far off it is.",
        "Lower is better.",
        "soft threshold 0.5 Å",
        "Source: planted.",
        "1 of 4 systems of alpha",
    ):
        assert said in chart.caption


@pytest.mark.parametrize(
    "errors, scale",
    [([0.1, 0.2, 0.9], None), ([1e-4, 0.1, 3.0], "log"), ([0.0, 1e-4, 3.0], "log"), ([0.0] * 5, None)],
)
def test_axis_is_logarithmic_where_values_span_decades(drawn, errors, scale):
    drawn()
    x, *_ = scales_of(strip_of(errors).spec, "x")
    assert x.get("type") == scale
    assert x["domain"][0] < x["domain"][1]


def test_values_with_a_sign_have_a_linear_axis():
    assert not spans_decades([-1.0, 1e-4, 3.0])
    assert not spans_decades([0.0, 0.0, 0.0, 1e-4, 3.0]), "most have no logarithm"


@pytest.mark.parametrize(
    "rule, threshold",
    [(SoftThreshold(0.3), 0.3), (Limit(0.05), 0.05), (Hill(2.0, 1.5), 2.0), (Fraction(), None), (None, None)],
)
def test_threshold_of_every_rule(rule, threshold):
    assert threshold_of(Metric(unit="", score=rule)) == threshold


def test_many_systems_are_thinned_and_the_caption_says_so(drawn):
    drawn()
    errors = [1.0 + 0.001 * i for i in range(5000)]
    random.Random(1).shuffle(errors)
    chart = strip_of(errors)
    shown = [d["x"] for d in chart.spec["data"]["values"]]
    assert len(shown) == thinning.MAX_MARKS
    assert {min(errors), max(errors)} <= set(shown)
    assert f"{thinning.MAX_MARKS} of 5000 of alpha" in chart.caption
    assert f"median of {len(errors)}" in json.dumps(chart.spec)


# Bars


def test_bars_of_a_result_with_reference_marks(drawn):
    drawn(Bars("p", Axis("totals", "t", "eV"), reference="perfect"))
    chosen = record([Entry(name="a")], totals={"A": 1.0, "B": math.nan, "C": 0.25}, perfect={"A": 0.5, "B": 1.0})
    (chart,) = charts_of("planted", [chosen], ["alpha"])
    assert [(row["group"], row["x"]) for row in chart.spec["data"]["values"]] == [("A", 1.0), ("C", 0.25)]
    (marks,) = [layer["data"]["values"] for layer in chart.spec["layer"] if layer["mark"]["type"] == "tick"]
    assert marks == [{"group": "A", "x": 0.5}]


def test_bars_of_numbers_have_the_systems_as_groups(drawn):
    drawn(Bars("p", Axis("found", "f", "eV"), of_result=False, reference="level"))
    entries = [Entry(name="a", found=1.0, level=2.0), Entry(name="b", found=3.0, failed=True)]
    (chart,) = charts_of("planted", [record(entries)], ["alpha"])
    assert [(row["group"], row["x"]) for row in rows_in(chart.spec)] == [("a", 1.0), ("a", 2.0)]
    assert curves_of("planted", [record(entries)], ["alpha"], "a") == []


def test_bars_of_mappings_are_drawn_system_by_system(drawn):
    drawn(Bars("p", Axis("rates", "r"), of_result=False))
    chosen = record([Entry(name="a", rates={"A": 0.5}), Entry(name="b", rates={"A": 0.75})])
    assert charts_of("planted", [chosen], ["alpha"]) == []
    (chart,) = curves_of("planted", [chosen], ["alpha"], "b")
    assert [(row["group"], row["x"]) for row in chart.spec["data"]["values"]] == [("A", 0.75)]


def test_of_too_many_groups_the_largest_are_kept(drawn):
    drawn(Bars("p", Axis("totals", "t")))
    totals = {f"g{i}": float(i % 97) for i in range(200)}
    (chart,) = charts_of("planted", [record([Entry(name="a")], totals=totals)], ["alpha"])
    shown = [row["x"] for row in chart.spec["data"]["values"]]
    assert len(shown) == 60 and min(shown) >= sorted(totals.values())[-61]
    assert "140 more are not shown" in chart.caption


# Curves


def curve(chart, model="alpha"):
    return [(row["x"], row["y"]) for row in chart.spec["data"]["values"] if row["model"] == model]


def test_curves_have_numbers_reference_and_band(drawn):
    drawn(Curves("p", Axis("series", "y", "eV"), x=Axis("places", "x", "Å"), reference="truth", error="spread"))
    entry = Entry(
        name="a",
        places=[2.0, 1.0, 3.0],
        series=[20.0, 10.0, 30.0],
        truth=[2.0, 1.0, 3.0],
        spread=[1.0, 0.5, math.nan],
    )
    (chart,) = curves_of("planted", [record([entry])], ["alpha"], "a")
    assert curve(chart) == [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]
    bands = [(row.get("low"), row.get("high")) for row in chart.spec["data"]["values"]]
    assert bands == [(9.02, 10.98), (18.04, 21.96), (None, None)]
    reference = next(layer for layer in chart.spec["layer"] if layer["mark"].get("color") == REFERENCE)
    assert [(row["x"], row["y"]) for row in reference["data"]["values"]] == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert reference["mark"]["strokeDash"]


def test_a_single_number_is_a_horizontal_line(drawn):
    drawn(Curves("p", Axis("series", "y", "eV"), reference="level"))
    (chart,) = curves_of("planted", [record([Entry(name="a", series=[1.0, 1.01], level=1.2)])], ["alpha"], "a")
    rule = next(layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "rule")
    assert rule["encoding"] == {"y": {"datum": 1.2}}
    assert curve(chart) == [(0, 1.0), (1, 1.01)]


def test_curves_can_be_zero_at_their_largest_x(drawn):
    drawn(Curves("p", Axis("series", "y"), x=Axis("places", "x"), reference="truth", zero_at_end=True))
    entry = Entry(name="a", places=[3.0, 1.0], series=[100.0, 98.0], truth=[0.5, -1.0])
    (chart,) = curves_of("planted", [record([entry])], ["alpha"], "a")
    assert curve(chart) == [(1.0, -2.0), (3.0, 0.0)]
    reference = next(layer for layer in chart.spec["layer"] if "data" in layer)
    assert [row["y"] for row in reference["data"]["values"]] == [-1.5, 0.0]


def test_what_is_not_finite_is_a_gap(drawn):
    drawn(Curves("p", Axis("series", "y")))
    (chart,) = curves_of(
        "planted", [record([Entry(name="a", series=[1.0, math.nan, math.inf, 2.0])])], ["alpha"], "a"
    )
    assert curve(chart) == [(0, 1.0), (1, None), (2, None), (3, 2.0)]


def test_what_an_only_entry_lacks_is_looked_for_on_the_result(drawn):
    drawn(Curves("p", Axis("series", "y")))
    one, two = [Entry(name="a")], [Entry(name="a"), Entry(name="b")]
    (chart,) = curves_of("planted", [record(one, series=[1.0, 2.0])], ["alpha"], "a")
    assert curve(chart) == [(0, 1.0), (1, 2.0)]
    assert curves_of("planted", [record(two, series=[1.0, 2.0])], ["alpha"], "a") == []


def test_a_failed_system_is_drawn_as_far_as_it_got(drawn):
    drawn(Curves("p", Axis("series", "y")))
    entry = Entry(name="a", series=[1.0, 9.0], failed=True, failure=BROKEN)
    records = [record([entry]), record([Entry(name="a", failed=True)], "beta")]
    (chart,) = curves_of("planted", records, ["alpha", "beta"], "a")
    assert curve(chart) == [(0, 1.0), (1, 9.0)]
    assert "alpha failed on this system (exploded)" in chart.caption
    assert "Nothing to draw from beta" in chart.caption


def test_a_curve_far_from_its_reference_does_not_press_the_others_flat(drawn):
    drawn(Curves("p", Axis("series", "y"), reference="truth"))
    truth = [0.0, 1.0, 2.0]
    records = [record([Entry(name="a", series=truth, truth=truth)])]
    records.append(record([Entry(name="a", series=[1e9, 1.0, 2.0], truth=truth)], "beta"))
    (chart,) = curves_of("planted", records, ["alpha", "beta"], "a")
    assert scales_of(chart.spec, "y")[0]["domain"][1] < 10
    assert "1 of beta" in chart.caption


def test_two_protocols_are_not_compared_silently(drawn):
    drawn(Curves("p", Axis("series", "y")))
    result = Result(entries=[Entry(name="a", series=[1.0])])
    records = [task("alpha", result, "planted"), task("beta", result, "planted", run_mode="dev")]
    (chart,) = curves_of("planted", records, ["alpha", "beta"], "a")
    assert "do not compare: alpha fast on hub data, beta dev on hub data" in chart.caption


# Thinning


def every_nth(values, *, limit):
    return list(range(0, len(values), -(-len(values) // limit)))


def keeps_spikes(thin, *, seed):
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(50_000)]
    spikes = {rng.randrange(1, 49_999): 100.0, rng.randrange(1, 49_999): -100.0}
    for index, height in spikes.items():
        values[index] = height
    kept = thin(values, limit=400)
    return len(kept) <= 400 and set(spikes) <= set(kept)


@pytest.mark.parametrize("seed", range(5))
def test_thinning_keeps_spikes_which_leaving_out_does_not(seed):
    assert keeps_spikes(thinning.of_curve, seed=seed)
    assert not keeps_spikes(every_nth, seed=seed)


def test_thinning_keeps_ends_order_and_envelope():
    values = [math.sin(i / 300) for i in range(10_000)]
    kept = thinning.of_curve(values)
    assert kept == sorted(set(kept)) and kept[0] == 0 and kept[-1] == 9_999
    assert max(values[i] for i in kept) == max(values) and min(values[i] for i in kept) == min(values)
    assert np.interp(range(10_000), kept, [values[i] for i in kept]) == pytest.approx(values, abs=0.1)


def test_thinning_keeps_gaps_and_short_curves_whole():
    values = [1.0] * 1000 + [None] * 1000 + [2.0] * 1000
    kept = thinning.of_curve(values)
    assert any(values[i] is None for i in kept) and len(kept) <= thinning.MAX_POINTS
    assert thinning.of_curve([1.0, None, 2.0]) == [0, 1, 2]


def test_a_long_curve_is_thinned(drawn):
    drawn(Curves("p", Axis("series", "y")))
    series = [0.0] * 100_000
    series[54_321] = 7.0
    (chart,) = curves_of("planted", [record([Entry(name="a", series=series)])], ["alpha"], "a")
    assert len(curve(chart)) <= thinning.MAX_POINTS
    assert (54_321, 7.0) in curve(chart)


# All benchmarks


def filled_charts(name, *, models=MODELS, change=None):
    cls = registry.load(registry.BENCHMARKS, name)
    records = [filled_task(cls, model, 1 + 0.1 * number) for number, model in enumerate(models)]
    for r in records:
        r.result = change(r.result) if change else r.result
    return all_charts(name, records, models)


@pytest.mark.parametrize("name", NAMES)
def test_every_declared_picture_is_drawn(name):
    views = registry.load(registry.BENCHMARKS, name).views
    assert {view.title for view in views} <= {chart.spec["title"]["text"] for chart in filled_charts(name)}


def plain(view):
    """Whether a scatter shows one stored number against another."""
    return (
        isinstance(view, Scatter)
        and "." not in view.x.field + view.y.field
        and (view.x.scale, view.x.per) == (1, None)
    )


@pytest.mark.parametrize("name", NAMES)
def test_points_of_every_benchmark_are_the_numbers_of_its_records(name):
    cls = registry.load(registry.BENCHMARKS, name)
    record = filled_task(cls, "alpha", 1.25)
    titles = {chart.spec["title"]["text"]: chart for chart in charts_of(name, [record], MODELS)}
    for view in filter(plain, cls.views):
        shown = [(p["x"], p["y"]) for p in titles[view.title].spec["data"]["values"]]
        stored = []
        for entry in systems_of(record.result).values():
            x, y = getattr(entry, view.x.field), getattr(entry, view.y.field)
            stored += list(zip(x, y, strict=True)) if isinstance(x, list) else [(x, y)]
        assert shown == [(x, pytest.approx(y * view.y.scale)) for x, y in stored]


@pytest.mark.parametrize("name", NAMES)
def test_curves_of_every_benchmark_are_the_numbers_of_its_records(name):
    cls = registry.load(registry.BENCHMARKS, name)
    record = filled_task(cls, "alpha", 1.25)
    system, entry = next(iter(systems_of(record.result).items()))
    titles = {chart.spec["title"]["text"]: chart for chart in curves_of(name, [record], MODELS, system)}
    for view in (view for view in cls.views if isinstance(view, Curves) and not view.zero_at_end):
        divisor = getattr(entry, view.y.per) if view.y.per else 1
        stored = [value * view.y.scale / divisor for value in getattr(entry, view.y.field)]
        assert [y for _, y in curve(titles[view.title])] == pytest.approx(stored, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_specs_stand_alone_and_fit_a_page(name):
    for chart in filled_charts(name):
        assert chart.spec["$schema"].endswith("/vega-lite/v6.json")
        assert chart.spec["width"] == "container" and chart.spec["height"] > 0
        assert not any("url" in piece for piece in pieces(chart.spec))
        assert "config" not in chart.spec and "background" not in chart.spec


@pytest.mark.parametrize("name", NAMES)
def test_colours_are_those_of_models_or_of_the_reference(name):
    for chart in filled_charts(name):
        assert {layer["mark"].get("color", REFERENCE) for layer in chart.spec["layer"]} == {REFERENCE}
        for channel in ("color", "shape", "strokeDash"):
            attribute = {"color": "colour", "shape": "shape", "strokeDash": "dash"}[channel]
            expected = [getattr(mark, attribute) for mark in marks_of(MODELS).values()]
            for scale in scales_of(chart.spec, channel):
                assert scale["domain"] == sorted(MODELS)
                assert [tuple(r) if isinstance(r, list) else r for r in scale["range"]] == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_of_one_model_in_a_folder_of_three_keeps_its_colour(name):
    cls = registry.load(registry.BENCHMARKS, name)
    for chart in all_charts(name, [filled_task(cls, "gamma")], MODELS):
        for scale in scales_of(chart.spec, "color"):
            assert dict(zip(scale["domain"], scale["range"], strict=True))["gamma"] == PALETTE[2]


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_legend_only_for_several_models(name):
    assert not any(
        legend.get("values") for chart in filled_charts(name, models=["alpha"]) for legend in legends(chart.spec)
    )
    for chart in filled_charts(name):
        for legend in legends(chart.spec):
            assert legend.get("values", sorted(MODELS)) == sorted(MODELS)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_is_not_finite_reaches_a_page(name, number):
    for chart in filled_charts(name, change=lambda result: damaged(result, number)):
        json.dumps(chart.spec, allow_nan=False)


@pytest.mark.parametrize("number", [0.0, -3.0, 1e300, 5e-324])
@pytest.mark.parametrize("name", NAMES)
def test_odd_numbers_are_drawn_on_finite_axes(name, number):
    for chart in filled_charts(name, change=lambda result: damaged(result, number)):
        json.dumps(chart.spec, allow_nan=False)
        for piece in pieces(chart.spec):
            low, high = piece["domain"] if len(piece.get("domain", [])) == 2 and "type" not in piece else (0, 1)
            assert isinstance(low, str) or low < high


@pytest.mark.parametrize("name", NAMES)
def test_without_data_there_is_no_picture(name):
    assert all_charts(name, [failed("alpha", name)], ["alpha"]) == []
    assert all_charts(name, [], ["alpha"]) == []


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files_differ(name):
    cls = registry.load(registry.BENCHMARKS, name)
    records = [filled_task(cls, model) for model in MODELS]
    system = next(iter(systems_of(records[0].result)))
    names = [chart.name for chart in charts_of(name, records, MODELS) + curves_of(name, records, MODELS, system)]
    assert len(set(names)) == len(names)
    assert all(slug(found) == found for found in names)


def test_a_benchmark_that_is_not_installed_has_its_distributions():
    charts = charts_of("of_somebody_else", [record([Entry(name="a", error=0.25)])], ["alpha"])
    assert [row["x"] for chart in charts for row in chart.spec["data"]["values"]] == [0.25]
    assert curves_of("of_somebody_else", [record([Entry(name="a")])], ["alpha"], "a") == []


def test_no_benchmark_is_named():
    sources = (Path(mlipaudit.__file__).parent / "reporting" / "charts").glob("*.py")
    strings = [
        n.value for f in sources for n in ast.walk(ast.parse(f.read_text("utf-8"))) if isinstance(n, ast.Constant)
    ]
    assert not {s for s in strings if isinstance(s, str)} & set(NAMES)


def test_fields_are_written_as_people_do():
    assert in_words("avg_abs_rmsd_error") == "mean absolute RMSD error"


# The whole folder


def row(model, score, benchmark=None, interval=None, *, failed=False):
    return Row(model, benchmark, score, interval, 3, 4, ("timeout",) if failed else (), 1.0, failed, "hub", "fast")


def test_scores_of_a_ranking_in_its_order():
    rows = [row("beta", 0.75, interval=(0.5, 0.875)), row("alpha", 0.25), row("gamma", None)]
    chart = score_chart(rows, MODELS)
    assert [(d["model"], d["x"], d.get("low"), d.get("high")) for d in chart.spec["data"]["values"]] == [
        ("beta", 0.75, 0.5, 0.875),
        ("alpha", 0.25, None, None),
    ]
    assert chart.spec["layer"][0]["encoding"]["y"]["sort"] == ["beta", "alpha"]
    assert "Without a score: gamma" in chart.caption
    assert score_chart([row("gamma", None)], MODELS) is None


def test_heatmap_tells_a_score_of_zero_from_a_failure():
    rows = [
        row("alpha", 0.0, "one"),
        row("alpha", 0.0, "two", failed=True),
        row("beta", 0.875, "one"),
        row("beta", 0.5),
    ]
    chart = heatmap(rows)
    cells = {
        (cell["model"], cell["benchmark"]): (cell["score"], cell["text"]) for cell in chart.spec["data"]["values"]
    }
    assert cells == {
        ("alpha", "one"): (0.0, "0.000"),
        ("alpha", "two"): (None, "–"),
        ("beta", "one"): (0.875, "0.875"),
    }
    grey = next(layer for layer in chart.spec["layer"] if "value" in layer["encoding"].get("color", {}))
    assert [cell["benchmark"] for cell in grey["data"]["values"]] == ["two"]
    assert heatmap([row("beta", 0.5)]) is None


class Timed(SystemResult):
    name: str
    slowness: Annotated[float | None, Metric(unit="s", score=Hill(1.0, 1.0))] = None


class TimedResult(BenchmarkResult):
    entries: list[Timed] = []


def timed(model, times, *, device="cpu: cpu"):
    result = TimedResult(
        entries=[Timed(name=f"{i}", slowness=t) for i, t in enumerate(times)], score=0.5, num_systems=3
    )
    made = task(model, result, "timing")
    made.provenance.device = device
    return made


@pytest.fixture
def timing(monkeypatch):
    declared = {"timing": type("Timing", (Planted,), {"runs_alone": True}), "planted": Planted}
    monkeypatch.setattr(of_results, "benchmark_class", declared.get)


def judged(model, score, name="planted"):
    return task(model, Result(entries=[Entry(name="a")], score=score, num_systems=1), name)


def test_speed_is_the_median_over_systems_and_does_not_count_as_accuracy(timing):
    records = [timed("alpha", [1.0, 4.0, 2.0]), judged("alpha", 0.75), timed("beta", [8.0]), judged("beta", 0.25)]
    chart = speed_chart(Contents(Path("r"), tuple(records), (), ()))
    points = {d["model"]: (d["x"], d["y"]) for d in chart.spec["data"]["values"]}
    assert points == {"alpha": (2.0, 0.75), "beta": (8.0, 0.25)}
    assert chart.spec["layer"][0]["encoding"]["x"]["axis"]["title"] == "slowness, median over systems (s)"
    assert chart.caption.startswith("Left is faster")


def test_speeds_of_different_devices_are_not_compared(timing):
    models = ("alpha", "beta", "gamma")
    records = [timed(model, [1.0], device="gpu" if model == "gamma" else "cpu: cpu") for model in models]
    records += [judged(model, 0.5) for model in models]
    chart = speed_chart(Contents(Path("r"), tuple(records), (), ()))
    assert [d["model"] for d in chart.spec["data"]["values"]] == ["alpha", "beta"]
    assert "Timed elsewhere, and not shown: gamma" in chart.caption


def test_without_speed_or_score_there_is_no_picture_of_both(timing):
    assert speed_chart(Contents(Path("r"), (judged("alpha", 0.5),), (), ())) is None
    assert speed_chart(Contents(Path("r"), (timed("alpha", [1.0]),), (), ())) is None


# Vega-Lite itself

COMPILE = """
const fs = require('fs'), vm = require('vm');
// As in a page: without the loader of modules that node has.
const page = (code) => vm.runInThisContext(`(function (exports, module, require, define) {${code}\\n})`)();
for (const file of process.argv.slice(1, 3)) page(fs.readFileSync(file, 'utf8'));
const problems = [];
const log = (level) => (...words) => { problems.push(level + ' ' + words.join(' ')); return logger; };
const quiet = () => logger;
const logger = { level: quiet, error: log('error'), warn: log('warn'), info: quiet, debug: quiet };
(async () => {
  for (const spec of JSON.parse(fs.readFileSync(0, 'utf8'))) {
    try {
      const compiled = vegaLite.compile({ ...spec, width: 400 }, { logger }).spec;
      await new vega.View(vega.parse(compiled), { renderer: 'none', logger }).runAsync();
    } catch (error) { problems.push(spec.title.text + ': ' + error.message); }
  }
  console.log(JSON.stringify(problems));
})();
"""


def vega_files():
    """Vega and Vega-Lite: those that the report is made with, or of an npm folder named in VEGA_MODULES."""
    folders = [Path(mlipaudit.__file__).parent, Path(os.environ.get("VEGA_MODULES", "nowhere"))]
    for folder in folders:
        found = [next(folder.rglob(name), None) for name in ("vega.min.js", "vega-lite.min.js")]
        if all(found):
            return found
    return None


def problems_of(specs):
    """What Vega and Vega-Lite say of specifications."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if (files := vega_files()) is None:
        pytest.skip("no vega.min.js and vega-lite.min.js in the package, nor in VEGA_MODULES")
    command = ["node", "-e", COMPILE, *map(str, files)]
    done = subprocess.run(command, input=json.dumps(specs), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_vega_says_when_a_picture_is_wrong():
    wrong = {
        "$schema": "v6",
        "title": {"text": "p"},
        "mark": "no such mark",
        "encoding": {},
        "data": {"values": []},
    }
    assert problems_of([wrong])


@pytest.mark.parametrize("change", [None, 0.0, -3.0], ids=["filled", "zero", "negative"])
def test_vega_draws_all_pictures_without_a_warning(change):
    changed = None if change is None else lambda result: damaged(result, change)
    charts = [chart for name in NAMES for chart in filled_charts(name, change=changed)]
    rows = [row(model, 0.5, name, (0.25, 0.75)) for model in MODELS for name in NAMES]
    rows.append(row("delta", 0.0, NAMES[0], failed=True))
    charts += [heatmap(rows), score_chart([row(model, 0.5, interval=(0.25, 0.75)) for model in MODELS], MODELS)]
    assert problems_of([chart.spec for chart in charts]) == []


def test_vega_draws_accuracy_against_speed(timing):
    records = (timed("alpha", [1.0]), judged("alpha", 0.75), timed("beta", [8.0]), judged("beta", 0.25))
    assert problems_of([speed_chart(Contents(Path("r"), records, (), ())).spec]) == []
