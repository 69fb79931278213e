# SPDX-License-Identifier: Apache-2.0
"""What models cost, against their scores; and benchmarks without a score, which no average counts."""

from pathlib import Path
from typing import Annotated

import pytest
from made_records import around, scored, task

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.metric import Metric
from mlipaudit.reporting.charts import price_chart
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.leaderboard import rankings
from mlipaudit.reporting.pages.overview import overview_page
from mlipaudit.reporting.rows import rows_of

UNSCORED = "model_cost"


class Priced(BenchmarkResult):
    parameters: Annotated[int | None, Metric(unit="parameters")] = None
    work_per_atom: Annotated[float | None, Metric(unit="MAC/atom", is_price=True)] = None


def priced(model, work, **kwargs):
    result = Priced(parameters=5, work_per_atom=work, num_systems=1, num_failed=0)
    return task(model, result, UNSCORED, **kwargs)


def contents_of(*records):
    return Contents(Path("r"), records, (), ())


def points(chart):
    return {datum["model"]: (datum["x"], datum["y"]) for datum in chart.spec["data"]["values"]}


def test_scores_over_prices():
    records = [
        scored("alpha", around(0.75)),
        priced("alpha", 2e6),
        scored("beta", around(0.25)),
        priced("beta", 3e4),
    ]
    chart = price_chart(contents_of(*records))
    assert points(chart) == {"alpha": (2e6, pytest.approx(0.75)), "beta": (3e4, pytest.approx(0.25))}
    assert chart.spec["layer"][0]["encoding"]["x"]["axis"]["title"] == "work per atom (MAC/atom)"
    headings = [block.text for block in overview_page(contents_of(*records)).blocks if hasattr(block, "text")]
    assert "Accuracy against cost" in headings


def test_prices_of_another_run_mode_are_not_compared():
    records = [priced("alpha", 2.0), priced("beta", 3.0), priced("gamma", 4.0, run_mode="dev")]
    records += [scored(model, around(0.5)) for model in ("alpha", "beta", "gamma")]
    chart = price_chart(contents_of(*records))
    assert set(points(chart)) == {"alpha", "beta"}
    assert "Without a price or a score: gamma" in chart.caption


@pytest.mark.parametrize("work", [None, 0.0, float("nan"), float("inf")])
def test_without_price_or_score_there_is_no_picture(work):
    assert price_chart(contents_of(priced("alpha", 2.0))) is None
    assert price_chart(contents_of(scored("alpha", around(0.5)), priced("alpha", work))) is None


def test_a_benchmark_without_a_score_is_in_no_average_and_no_coverage():
    alone = contents_of(scored("alpha", around(0.5)))
    both = contents_of(scored("alpha", around(0.5)), priced("alpha", 2.0))
    overall = next(row for row in rows_of(both.records) if row.benchmark is None)
    assert overall.score == pytest.approx(0.5)
    assert (overall.covered, overall.asked) == (1, 1)
    (ranking,) = rankings(both)
    assert ranking.standings[0].overall.interval == pytest.approx(rankings(alone)[0].standings[0].overall.interval)
    assert not any("no model has a score" in remark for remark in ranking.remarks)
