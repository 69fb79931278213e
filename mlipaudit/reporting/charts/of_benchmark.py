# SPDX-License-Identifier: Apache-2.0
"""Pictures of a whole benchmark: what it declares, and how the systems are distributed over each scored metric."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mlipaudit.metric import Fraction, Hill, Limit, Metric, metrics_of
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.blocks import Chart
from mlipaudit.reporting.charts.bars import result_bars, system_bars
from mlipaudit.reporting.charts.distribution import distribution_chart
from mlipaudit.reporting.charts.grammar import in_words, sentences
from mlipaudit.reporting.charts.readings import Answers, answers_of
from mlipaudit.reporting.charts.scatter import scatter_chart
from mlipaudit.reporting.contents import benchmark_class
from mlipaudit.reporting.declared import describe_rule, field_docs
from mlipaudit.views import Axis, Bars, Distribution, Scatter, View

UNITLESS = ("", "1")


def charts_of(
    benchmark: str, records: Sequence[TaskRecord], models: Sequence[str], systems: Collection[str] | None = None
) -> list[Chart]:
    """Pictures of a benchmark, all models in each.

    Args:
        benchmark: its name.
        records: its results, one per model.
        models: all models of the results folder, which fixes their colours.
        systems: those that are shown; None for all.
    """
    answers = answers_of(records, systems)
    declared = benchmark_class(benchmark)
    views: list[View] = list(declared.views) if declared else []
    shown = {view.value.field for view in views if isinstance(view, Distribution)}
    views += [view for view in distributions_of(answers) if view.value.field not in shown]
    charts = (_draw(view, answers, models) for view in views)
    return [chart for chart in charts if chart]


def distributions_of(answers: Sequence[Answers]) -> Iterator[Distribution]:
    """The view of each scored metric that the systems' entries declare."""
    entries = (entry for one in answers for entry in one.entries.values())
    entry = next(entries, None)
    if entry is None:
        return
    docs = field_docs(type(entry))
    for field, metric in metrics_of(type(entry)).items():
        if metric.score is not None:
            yield _distribution(field, metric, docs.get(field, ""))


def _distribution(field: str, metric: Metric, meaning: str) -> Distribution:
    unit = "" if metric.unit in UNITLESS else metric.unit
    label = in_words(field)
    better = "" if metric.better == "neither" else f"{metric.better.capitalize()} is better"
    rule = f"Score: {describe_rule(metric.score, unit)}"
    source = f"Source: {metric.source}" if metric.source else ""
    return Distribution(
        label[:1].upper() + label[1:],
        Axis(field, label, unit),
        threshold=threshold_of(metric),
        caption=sentences(meaning, better, rule, source),
    )


def threshold_of(metric: Metric) -> float | None:
    """Where the score of a metric changes most: its threshold or limit, or where it is one half."""
    rule = metric.score
    if rule is None or isinstance(rule, Fraction):
        return None
    if isinstance(rule, Hill):
        return rule.midpoint
    return rule.limit if isinstance(rule, Limit) else rule.threshold


def _draw(view: View, answers: Sequence[Answers], models: Sequence[str]) -> Chart | None:
    if isinstance(view, Scatter):
        return scatter_chart(view, answers, models)
    if isinstance(view, Distribution):
        return distribution_chart(view, answers, models)
    if isinstance(view, Bars):
        return result_bars(view, answers, models) if view.of_result else system_bars(view, answers, models)
    return None  # curves are drawn system by system
