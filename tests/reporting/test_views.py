# SPDX-License-Identifier: Apache-2.0
"""Every benchmark has pictures, and every field that they name is there."""

from typing import Annotated

import pytest

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.reporting.charts.declared_views import entry_class, shape_of, view_problems
from mlipaudit.views import Axis, Bars, Curves, Distribution, Scatter

NAMES = registry.names(registry.BENCHMARKS)
WITHOUT_PICTURES: dict[str, str] = {}
"""Benchmark -> why it has none besides the distribution of its metrics."""


class Engine(Record):
    speed: float | None = None


class Entry(SystemResult):
    name: str
    number: Annotated[float | None, Metric(unit="Å", score=SoftThreshold(1.0))] = None
    count: int = 1
    series: list[float] | None = None
    rates: dict[str, float | None] | None = None
    engines: dict[str, Engine] = {}
    words: list[str] = []


class Result(BenchmarkResult):
    entries: list[Entry] = []
    totals: dict[str, float] = {}


def benchmark_with(*declared):
    class Planted(Benchmark):
        name = "planted"
        result_class = Result
        model_output_class = ModelOutput
        required_elements = set()
        views = declared

    return Planted


NUMBER, COUNT, SERIES = Axis("number", "n", "Å"), Axis("count", "c"), Axis("series", "s", "Å")
GOOD = [
    Scatter("p", NUMBER, COUNT),
    Scatter("p", SERIES, SERIES),
    Scatter("p", COUNT, Axis("engines.*.speed", "v", "1/s")),
    Curves("p", SERIES),
    Curves("p", SERIES, x=SERIES, reference="series", error="series"),
    Curves("p", SERIES, reference="number"),
    Curves("p", Axis("series", "s", "Å", per="count")),
    Distribution("p", NUMBER),
    Bars("p", Axis("totals", "t")),
    Bars("p", Axis("rates", "t"), of_result=False),
    Bars("p", NUMBER, of_result=False, reference="count"),
]
BAD = [
    (Scatter("p", NUMBER, Axis("numbre", "n")), "Entry has no field numbre"),
    (Scatter("p", NUMBER, SERIES), "Entry.number is a number, not a list"),
    (Scatter("p", COUNT, Axis("engines.*.sped", "v")), "Entry has no field engines.*.sped"),
    (Scatter("p", COUNT, Axis("count.*.speed", "v")), "Entry has no field count.*.speed"),
    (Curves("p", NUMBER), "Entry.number is a number, not a list"),
    (Curves("p", Axis("words", "w")), "Entry.words is a other, not a list"),
    (Curves("p", SERIES, reference="referense"), "Entry has no field referense"),
    (Curves("p", SERIES, error="number"), "Entry.number is a number, not a list"),
    (Curves("p", Axis("series", "s", per="series")), "Entry.series is a list, not a number"),
    (Distribution("p", SERIES), "Entry.series is a list, not a number"),
    (Bars("p", Axis("rates", "r")), "Result has no field rates"),
    (Bars("p", NUMBER, of_result=False, reference="rates"), "Entry.rates is a mapping, not a number"),
]


@pytest.mark.parametrize("view", GOOD, ids=repr)
def test_checker_lets_good_views_pass(view):
    assert view_problems(benchmark_with(view)) == []


@pytest.mark.parametrize("view, problem", BAD, ids=[problem for _, problem in BAD])
def test_checker_finds_a_planted_fault(view, problem):
    assert view_problems(benchmark_with(view)) == [f"p: {problem}"]


def test_a_result_without_entries_has_no_fields_of_systems():
    class Bare(benchmark_with(GOOD[0])):
        result_class = BenchmarkResult

    assert view_problems(Bare) == ["p: the result has no entries of systems"]


def test_shapes_of_fields():
    assert entry_class(Result) is Entry
    paths = ("number", "count", "series", "rates", "engines.*.speed", "words", "nothing", "engines.speed")
    expected = ["number", "number", "list", "mapping", "number", "other", None, None]
    assert [shape_of(Entry, path) for path in paths] == expected


# The benchmarks


@pytest.mark.parametrize("name", NAMES)
def test_fields_of_views_exist(name):
    assert view_problems(registry.load(registry.BENCHMARKS, name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_picture_besides_distributions(name):
    views = registry.load(registry.BENCHMARKS, name).views
    pictures = [view for view in views if not isinstance(view, Distribution)]
    assert bool(pictures) != (name in WITHOUT_PICTURES)


@pytest.mark.parametrize("name", NAMES)
def test_titles_differ_for_they_name_files(name):
    titles = [view.title for view in registry.load(registry.BENCHMARKS, name).views]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", NAMES)
def test_energies_distances_and_times_have_units(name):
    """A label of a quantity that has a dimension, without a unit, is a mistake that no schema would find."""
    words = {"energy", "barrier", "distance", "time", "rmsd", "deviation", "force", "density", "angle", "gyration"}
    views = registry.load(registry.BENCHMARKS, name).views
    axes = [axis for view in views for axis in vars(view).values() if isinstance(axis, Axis)]
    assert [axis for axis in axes if words & set(axis.label.lower().split()) and not axis.unit] == []
