# SPDX-License-Identifier: Apache-2.0
"""Models in order: who is better, who shares a rank, and who cannot be ranked, for a reason in words.

There is one ranking per run mode and edition. Ranked are the models that have a score on the same benchmarks, with the
same data, protocol and versions; ranks are shared where the paired 95 % interval of the difference covers zero.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeVar

from mlipaudit.record import UNKNOWN, TaskRecord
from mlipaudit.reporting.contents import Contents, category_of, is_scored
from mlipaudit.reporting.rows import Gap, Row, overall_of, rows_of
from mlipaudit.scoring import Interval

NO_EDITION = "none"

T = TypeVar("T")


@dataclass(frozen=True)
class CategoryScore:
    """One model on the benchmarks of one category; `covered` and `asked` count benchmarks."""

    name: str
    score: float | None
    interval: Interval | None
    covered: int
    asked: int


@dataclass(frozen=True)
class Standing:
    """One model in a ranking."""

    model: str
    rank: int | None
    """None where it cannot be ranked; the ranking's remarks say why."""
    tied: bool
    """Whether it shares its rank."""
    overall: Row
    """Mean over its benchmarks, which `covered` and `asked` count."""
    categories: tuple[CategoryScore, ...]
    """One for each category of the ranking."""
    tasks: dict[str, Row]
    """By benchmark, in the order of the ranking's."""


@dataclass(frozen=True)
class Ranking:
    """The models of one run mode and edition, best first; those without a score last."""

    run_mode: str
    edition: str
    benchmarks: tuple[str, ...]
    categories: tuple[str, ...]
    standings: tuple[Standing, ...]
    remarks: tuple[str, ...]
    """What a reader of the ranks must know."""


def rankings(contents: Contents) -> list[Ranking]:
    """One ranking for each run mode and edition."""
    by_setting: dict[tuple[str, str], list[_Entry]] = {}
    for entry in _entries(contents):
        setting = (entry.overall.run_mode or UNKNOWN, entry.overall.edition or NO_EDITION)
        by_setting.setdefault(setting, []).append(entry)
    order = contents.benchmarks
    return [_ranking(*setting, entries, order) for setting, entries in sorted(by_setting.items())]


@dataclass(frozen=True)
class _Question:
    """What must be the same for two results on a benchmark to be compared; fields are named as in remarks."""

    version: str
    input_data: str | None
    protocol: str
    scoring_version: int

    @classmethod
    def of(cls, record: TaskRecord) -> _Question:
        identity = record.provenance.identity
        protocol = json.dumps(identity.protocol, sort_keys=True)
        return cls(identity.benchmark_version, identity.data_sha256, protocol, record.result.scoring_version)


@dataclass(frozen=True, eq=False)
class _Entry:
    """Tasks of one model that may stand in one average."""

    records: list[TaskRecord]
    rows: dict[str, Row]
    overall: Row

    @property
    def model(self) -> str:
        return self.overall.model

    @property
    def scored(self) -> frozenset[str]:
        """Benchmarks that give it a score."""
        return frozenset(name for name, row in self.rows.items() if row.score is not None)

    @property
    def questions(self) -> dict[str, _Question]:
        """By benchmark; one that failed as a whole scores 0 whatever was asked, and is not there."""
        return {r.provenance.identity.benchmark: _Question.of(r) for r in self.records if r.result.failure is None}


def _entries(contents: Contents) -> list[_Entry]:
    """One for each model, or more where its results differ in weights or seed."""
    groups: dict[tuple, tuple[list[TaskRecord], list[Gap]]] = {}
    homes: dict[tuple, tuple] = {}
    for record in contents.records:
        p = record.provenance
        groups.setdefault(p.comparable, ([], []))[0].append(record)
        homes.setdefault((p.model, p.identity.run_mode, p.data_edition), p.comparable)
    for gap in contents.gaps:
        setting = (gap.model, gap.run_mode, gap.edition)
        groups.setdefault(homes.get(setting, setting), ([], []))[1].append(gap)
    return [_entry(records, gaps) for records, gaps in groups.values()]


def _entry(records: list[TaskRecord], gaps: list[Gap]) -> _Entry:
    rows = {row.benchmark: row for row in rows_of(records, gaps) if row.benchmark is not None}
    return _Entry(records, rows, _summary(list(rows.values())))


def _summary(rows: Sequence[Row]) -> Row:
    """The mean over tasks, with coverage in benchmarks; the numbers of a single one are its own."""
    if len(rows) == 1:
        return replace(rows[0], benchmark=None, covered=int(not rows[0].failed), asked=1)
    return overall_of(rows)


def _ranking(run_mode: str, edition: str, entries: list[_Entry], order: Sequence[str]) -> Ranking:
    names = [name for name in order if any(name in entry.rows for entry in entries)]
    categories = {name: category_of(name) for name in names}
    entries = sorted(entries, key=_best_first)
    ranked = _same_questions(entries)
    places = dict(zip(map(id, ranked), _places(ranked), strict=True))
    standings = [_standing(entry, places.get(id(entry), NO_PLACE), categories) for entry in entries]
    remarks = _remarks(entries, ranked, names)
    unique = tuple(dict.fromkeys(categories.values()))
    return Ranking(run_mode, edition, tuple(names), unique, tuple(standings), tuple(remarks))


def _best_first(entry: _Entry) -> tuple:
    score = entry.overall.score
    return (score is None, -(score or 0.0), entry.model)


def _standing(entry: _Entry, place: _Place, categories: dict[str, str]) -> Standing:
    tasks = {name: entry.rows[name] for name in categories if name in entry.rows}
    by_category: dict[str, list[Row]] = {category: [] for category in categories.values()}
    for name, row in tasks.items():
        by_category[categories[name]].append(row)
    scores = tuple(_category_score(name, rows) for name, rows in by_category.items())
    return Standing(entry.model, *place, entry.overall, scores, tasks)


def _category_score(name: str, rows: Sequence[Row]) -> CategoryScore:
    if not rows:
        return CategoryScore(name, None, None, 0, 0)
    row = _summary(rows)
    return CategoryScore(name, row.score, row.interval, row.covered, row.asked)


# Who is ranked


def _same_questions(entries: Sequence[_Entry]) -> list[_Entry]:
    """The models with a score on most benchmarks, less those that were asked something else than most of them."""
    chosen = _benchmarks_of_ranks(entries)
    candidates = [entry for entry in entries if chosen and _is_complete(entry, chosen)]
    usual = dict(_usual_questions(candidates))
    asked = {name for entry in candidates for name in entry.questions if name in chosen}
    if asked - usual.keys():
        return []
    return [e for e in candidates if all(e.questions.get(name, usual[name]) == usual[name] for name in asked)]


def _benchmarks_of_ranks(entries: Sequence[_Entry]) -> frozenset[str]:
    """What the models with most scores have in common with each other; empty where they disagree."""
    # One that failed everywhere has all scores, each 0: it must not be the only one that is complete.
    alive = [entry for entry in entries if not entry.overall.failed] or entries
    most = max(len(entry.scored) for entry in alive)
    return _most_common(entry.scored for entry in alive if len(entry.scored) == most) or frozenset()


def _is_complete(entry: _Entry, chosen: frozenset[str]) -> bool:
    """Whether a model's overall score is one over these benchmarks; that of one that failed everywhere is 0 anyway."""
    return chosen <= entry.scored if entry.overall.failed else chosen == entry.scored


def _usual_questions(entries: Sequence[_Entry]) -> Iterator[tuple[str, _Question]]:
    """What most models were asked, on each benchmark where there is such a thing."""
    for name in sorted({name for entry in entries for name in entry.questions}):
        usual = _most_common(entry.questions[name] for entry in entries if name in entry.questions)
        if usual is not None:
            yield name, usual


def _most_common(values: Iterable[T]) -> T | None:
    """The value found most often; None where there is no such single one."""
    ranking = Counter(values).most_common(2)
    is_single = len(ranking) == 1 or (len(ranking) == 2 and ranking[0][1] > ranking[1][1])
    return ranking[0][0] if is_single else None


class _Place(NamedTuple):
    rank: int | None
    tied: bool


NO_PLACE = _Place(None, tied=False)


def _places(entries: Sequence[_Entry]) -> Iterator[_Place]:
    """Rank of each model; it shares that of the best one that it is not shown to be worse than."""
    groups: list[list[_Entry]] = []
    for entry in entries:
        if groups and not _is_shown_to_be_worse(entry, groups[-1][0]):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    rank = 1
    for group in groups:
        yield from [_Place(rank, len(group) > 1)] * len(group)
        rank += len(group)


def _is_shown_to_be_worse(entry: _Entry, best: _Entry) -> bool:
    """Whether the paired interval of a model's difference to a better one lies below zero."""
    from mlipaudit.reporting.comparison import Verdict, compare_models

    if entry.overall.failed and not best.overall.failed and best.overall.score:
        return True  # a model that failed everywhere needs no interval to be worse
    # Where no interval is known a difference may be luck, and where it lies above zero the order is.
    return compare_models(best.records, entry.records).overall.verdict is Verdict.WORSE


# Remarks


def _remarks(entries: Sequence[_Entry], ranked: Sequence[_Entry], names: Sequence[str]) -> Iterator[str]:
    times = Counter(entry.model for entry in entries)
    for model in (model for model, count in times.items() if count > 1):
        yield f"{model} has results of different weights or seeds; they are listed apart and not averaged"
    for name in names:
        yield from _difference(name, entries)
    reached = [name for name in names if any(name in entry.scored for entry in entries)]
    if unreached := [name for name in names if name not in reached and is_scored(name)]:
        yield f"no model has a score on {listed(unreached)}"
    shared = [name for name in reached if all(name in entry.scored for entry in ranked)]
    if reached and not ranked:
        yield "no model is ranked: there is nothing that most of them were asked alike"
    elif unshared := [name for name in reached if name not in shared]:
        yield f"ranks do not rest on {listed(unshared)}, where not every ranked model has a score"
    yield from _not_ranked(entries, ranked, shared)
    yield from _without_interval(entries, names)


def _difference(name: str, entries: Sequence[_Entry]) -> Iterator[str]:
    """What tells the results on one benchmark apart, if anything."""
    models: dict[_Question, list[str]] = {}
    for entry in entries:
        if name in entry.questions:
            models.setdefault(entry.questions[name], []).append(entry.model)
    parts = [f.name for f in fields(_Question) if len({getattr(question, f.name) for question in models}) > 1]
    if parts:
        words = listed([part.replace("_", " ") for part in parts])
        groups = " / ".join(listed(group) for group in models.values())
        yield f"{name}: the results of {groups} differ in {words} and are not compared"


def _not_ranked(entries: Sequence[_Entry], ranked: Sequence[_Entry], shared: Sequence[str]) -> Iterator[str]:
    """Which models are not, and each reason once."""
    usual = {name: question for e in ranked for name, question in e.questions.items() if name in shared}
    models: dict[str, list[str]] = {}
    for entry in entries:
        if entry not in ranked and (why := _why_not(entry, shared, usual)):
            models.setdefault(why, []).append(entry.model)
    for why, names in models.items():
        yield f"not ranked: {listed(names)}, without {why}"


def _why_not(entry: _Entry, shared: Sequence[str], usual: dict[str, _Question]) -> str:
    missing = [name for name in shared if name not in entry.scored]
    other = [name for name in usual if entry.questions.get(name, usual[name]) != usual[name]]
    if not entry.scored:
        return "any score"
    if missing:
        return f"a score on {listed(missing)}"
    return f"a result on {listed(other)} that can be compared with the others'" if other else ""


def _without_interval(entries: Sequence[_Entry], names: Sequence[str]) -> Iterator[str]:
    """Benchmarks whose score nobody knows the uncertainty of."""
    rows = [row for entry in entries for row in entry.rows.values() if row.score is not None and not row.failed]
    bare = {row.benchmark for row in rows if row.interval is None}
    if bare and len(bare) == len(names):
        yield "no benchmark has a 95 % interval, and so no overall score"
    elif bare:
        which = listed([name for name in names if name in bare])
        yield f"there is no 95 % interval on {which}, and so none of the overall scores with them"


def listed(words: Sequence[str]) -> str:
    """Words with commas and a last `and`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
