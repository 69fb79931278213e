# SPDX-License-Identifier: Apache-2.0
"""The table of the worst systems: scores, or errors where systems have no score."""

from types import SimpleNamespace
from typing import Annotated

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.reporting.blocks import ScoreBar
from mlipaudit.reporting.pages.benchmark import _worst_table


class Bare(SystemResult):
    """An entry without a score."""

    name: str
    shift: Annotated[float | None, Metric(unit="eV", better="neither")] = None
    force_mae: Annotated[float | None, Metric(unit="eV/Å")] = None


class Scored(SystemResult):
    """An entry with one."""

    name: str
    error: Annotated[float, Metric(unit="Å", score=SoftThreshold(0.1))]


class Result(BenchmarkResult):
    """Of either."""

    entries: list[Bare | Scored]


def record(model, entries, **fields):
    return SimpleNamespace(provenance=SimpleNamespace(model=model), result=Result(entries=entries, **fields))


def test_without_scores_it_shows_the_first_error():
    failure = {"b": Failure(kind=FailureKind.EXPLODED, message="gone")}
    records = [
        record("good", [Bare(name="a", shift=1.0, force_mae=0.25), Bare(name="b", force_mae=0.5)]),
        record("bad", [Bare(name="a", force_mae=2.0)], failures=failure),
    ]
    table = _worst_table(records, "some", ["a", "b"], linked=())
    assert table.rows == (("a", "0.25", "2"), ("b", "0.5", "exploded"))
    assert table.caption == "Those that the results name, with force MAE (eV/Å)."


def test_with_scores_it_shows_them():
    (row,) = _worst_table([record("m", [Scored(name="a", error=0.05)], score=1.0)], "some", ["a"], linked=()).rows
    assert row == ("a", ScoreBar(1.0, None, "m"))
