# SPDX-License-Identifier: Apache-2.0
"""Tables of metrics: units in the header, counts in full, nothing where nothing is known."""

import csv
import io
import json
from types import SimpleNamespace
from typing import Annotated

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.metric import Metric
from mlipaudit.reporting.metric_tables import tables


class Counted(BenchmarkResult):
    """A count and an error."""

    parameters: Annotated[int | None, Metric(unit="parameters")] = None
    force_error: Annotated[float | None, Metric(unit="eV/Å")] = None


RECORDS = [
    SimpleNamespace(
        provenance=SimpleNamespace(model="a_b"), result=Counted(parameters=52464, force_error=0.123456)
    ),
    SimpleNamespace(provenance=SimpleNamespace(model="c"), result=Counted(failed=True, score=0.0)),
]


def test_for_people():
    drawn = tables(RECORDS)
    assert drawn["markdown"].splitlines() == [
        "| model | average | parameters | force error (eV/Å) |",
        "| :--- | :--- | ---: | ---: |",
        "| a_b | pooled | 52464 | 0.1235 |",
        "| c | pooled | – | – |",
    ]
    assert r"model & average & parameters & force error (eV/\AA{}) \\" in drawn["latex"]
    assert r"a\_b & pooled & 52464 & 0.1235 \\" in drawn["latex"]


def test_for_programs():
    drawn = tables(RECORDS)
    first, second = csv.DictReader(io.StringIO(drawn["csv"]))
    assert (first["parameters"], float(first["force error (eV/Å)"])) == ("52464", 0.123456)
    assert second["parameters"] == ""
    (row, failed) = json.loads(drawn["json"])
    assert [m["value"] for m in row["metrics"]] == [52464, 0.123456]
    assert [m["unit"] for m in row["metrics"]] == ["parameters", "eV/Å"]
    assert [m["value"] for m in failed["metrics"]] == [None, None]
