# SPDX-License-Identifier: Apache-2.0
"""The first page: who leads, by how much, how sure that is, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from mlipaudit.reporting.blocks import (
    Block,
    Cell,
    Column,
    Folded,
    Heading,
    Link,
    ModelName,
    Notice,
    Page,
    Paragraph,
    ScoreBar,
    Table,
)
from mlipaudit.reporting.charts import heatmap, price_chart, score_chart, speed_chart
from mlipaudit.reporting.contents import Contents, is_scored
from mlipaudit.reporting.leaderboard import Ranking, Standing, rankings
from mlipaudit.reporting.pages.parts import (
    NOTHING,
    benchmark_id,
    coverage_text,
    failure_table,
    score_cell,
    settings_of,
)
from mlipaudit.reporting.tables import seconds

HOW_TO_READ = (
    "A score lies between 0 and 1: the mean over benchmarks of the mean over their systems. The thin line on a bar is "
    "its 95 % interval. Models share a rank (`=`) when their paired interval does not tell them apart.",
    "A system that failed scores 0 and is counted: coverage says how many gave a number, of those that were asked. "
    "A benchmark that a model was not asked enters no average.",
    "Results of different run modes or data editions are never ranked together.",
)


def overview_page(contents: Contents) -> Page:
    """Leaderboards, pictures, and everything that is missing."""
    blocks: list[Block] = [*_missing(contents)]
    found = rankings(contents)
    for number, ranking in enumerate(found):
        blocks += _ranking(ranking, contents, number)
    if speed := speed_chart(contents):
        blocks += [Heading("Accuracy against speed"), speed]
    if price := price_chart(contents):
        blocks += [Heading("Accuracy against cost"), price]
    if failures := failure_table(contents.records, name="failures", with_benchmark=True):
        blocks.append(Folded(f"Everything that failed ({len(failures.rows)})", (failures,)))
    blocks.append(Folded("How to read this", tuple(Paragraph(text) for text in HOW_TO_READ)))
    counts = f"{len(contents.models)} models, {len(contents.benchmarks)} benchmarks; {settings_of(contents)}"
    return Page("overview", "Overview", tuple(blocks), counts, names=tuple(contents.models))


def _ranking(ranking: Ranking, contents: Contents, number: int) -> Iterator[Block]:
    yield Heading(f"Run mode {ranking.run_mode} · data {ranking.edition or 'none'}")
    yield from (Notice(text, "warning") for text in ranking.remarks)
    yield _leaderboard(ranking, f"leaderboard-{number + 1}")
    overall = [standing.overall for standing in ranking.standings]
    if len(overall) > 1 and (chart := score_chart(overall, contents.coloured)):
        yield chart
    tasks = [row for standing in ranking.standings for name, row in standing.tasks.items() if is_scored(name)]
    if len(ranking.benchmarks) > 1 and (chart := heatmap(tasks)):
        yield chart
    yield _by_benchmark(ranking, f"benchmarks-{number + 1}")


def _leaderboard(ranking: Ranking, name: str) -> Table:
    columns = (
        Column("rank", numeric=True, hint="shared by models that cannot be told apart"),
        Column("model"),
        Column("overall", numeric=True, hint="mean over benchmarks, with its 95 % interval"),
        *(Column(category, numeric=True) for category in ranking.categories),
        Column("coverage", numeric=True, hint="benchmarks that gave a score, of those asked for"),
        Column("time", numeric=True),
    )
    return Table(columns, tuple(_standing(s, ranking) for s in ranking.standings), name)


def _standing(standing: Standing, ranking: Ranking) -> tuple[Cell, ...]:
    row = standing.overall
    by_name = {category.name: category for category in standing.categories}
    categories = (by_name.get(name) for name in ranking.categories)
    rank = NOTHING if standing.rank is None else f"{standing.rank}{'=' if standing.tied else ''}"
    return (
        rank,
        ModelName(standing.model),
        score_cell(row),
        *(NOTHING if c is None else ScoreBar(c.score, c.interval, standing.model) for c in categories),
        coverage_text(row),
        seconds(row.seconds),
    )


def _by_benchmark(ranking: Ranking, name: str) -> Table:
    columns = (Column("benchmark"), *(Column(s.model, numeric=True) for s in ranking.standings))
    rows = tuple(
        (
            Link(benchmark, page=benchmark_id(benchmark)),
            *(_task(standing, benchmark) for standing in ranking.standings),
        )
        for benchmark in ranking.benchmarks
    )
    return Table(columns, rows, name, caption="Scores by benchmark.")


def _task(standing: Standing, benchmark: str) -> Cell:
    row = standing.tasks.get(benchmark)
    if row is None:
        return NOTHING
    return score_cell(row) if row.score is not None else ", ".join(row.failures) or NOTHING


def _missing(contents: Contents) -> Iterator[Notice]:
    """What a run asked for and this folder does not have."""
    if not contents.records:
        yield Notice("No result in this folder can be shown.", "failure")
    for bad in contents.unreadable:
        yield Notice(f"The result of {bad.model} on {bad.benchmark} cannot be read: {bad.reason}.", "failure")
    missing = [gap for gap in contents.gaps if gap.why == "missing"]
    for model in sorted({gap.model for gap in missing}):
        names = ", ".join(gap.benchmark for gap in missing if gap.model == model)
        yield Notice(f"{model} has no result yet on: {names}.", "warning")
