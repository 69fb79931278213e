# SPDX-License-Identifier: Apache-2.0
"""Two models side by side: is one better than the other, really, or by luck?

On each benchmark the scores of the same systems are paired, which takes out how hard the systems are; what remains is a
mean difference with a 95 % interval. Nothing is compared that was not asked alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.failures import FailureKind
from mlipaudit.record import UNKNOWN, TaskRecord
from mlipaudit.reporting.contents import benchmark_class, category_of
from mlipaudit.reporting.paired import independent_samples, paired_samples
from mlipaudit.reporting.systems import scores_of, systems_of
from mlipaudit.scoring import Interval, interval_of

RESOLUTION = 1e-6
"""Differences of scores below this are rounding."""
NOT_THE_MODEL = {FailureKind.DATA_UNAVAILABLE, FailureKind.DATA_CORRUPT}
"""Failures that say nothing about the model."""


class Verdict(StrEnum):
    """What is known about a candidate and a baseline."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference shown"
    NOT_COMPARABLE = "not comparable"


class Obstacle(StrEnum):
    """Why two results are not comparable."""

    NO_BASELINE = "no baseline"
    NO_CANDIDATE = "no candidate"
    QUESTION = "not asked the same"
    MACHINE = "not measured alike"


@dataclass(frozen=True)
class BenchmarkComparison:
    """Two models on one benchmark; differences are candidate minus baseline."""

    benchmark: str
    baseline_score: float | None
    candidate_score: float | None
    difference: float | None
    interval: Interval | None
    verdict: Verdict
    num_systems: int
    """Systems that the difference rests on."""
    why: str = ""
    """What a reader of the verdict should know; empty where the interval says it all."""
    obstacle: Obstacle | None = None
    newly_failed: bool = False
    """Whether the candidate failed as a whole and the baseline did not."""
    num_uncovered: int = 0
    """Systems that the baseline was asked, and the candidate was not, for it does not cover their elements."""
    seconds: float = float("nan")
    """How long the candidate took; NaN where it is not known."""


@dataclass(frozen=True)
class Overall:
    """The mean over the benchmarks whose difference has an interval."""

    difference: float | None
    interval: Interval | None
    verdict: Verdict
    benchmarks: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    """Why other benchmarks are not in it."""


@dataclass(frozen=True)
class Comparison:
    """A candidate against a baseline."""

    baseline: str
    candidate: str
    benchmarks: tuple[BenchmarkComparison, ...]
    overall: Overall
    settings: tuple[str, ...] = ()
    """Run mode and edition of what was compared, in words."""

    def having(self, *verdicts: Verdict) -> list[str]:
        """Names of the benchmarks with one of these verdicts."""
        return [compared.benchmark for compared in self.benchmarks if compared.verdict in verdicts]


def compare_models(baseline: Sequence[TaskRecord], candidate: Sequence[TaskRecord]) -> Comparison:
    """Compare the results of one model with those of another, benchmark by benchmark and overall.

    Each holds at most one result of a benchmark. Exchanging the two gives the same numbers with the other sign.
    """
    ours, theirs = ({r.provenance.identity.benchmark: r for r in records} for records in (baseline, candidate))
    names = sorted({*ours, *theirs}, key=lambda name: (category_of(name), name))
    compared = [_compare(name, ours.get(name), theirs.get(name)) for name in names]
    return Comparison(
        _model_of(baseline),
        _model_of(candidate),
        tuple(entry for entry, _ in compared),
        _overall(compared),
        tuple(sorted({_setting(record) for record in (*baseline, *candidate)})),
    )


def _model_of(records: Sequence[TaskRecord]) -> str:
    return records[0].provenance.model if records else ""


def _setting(record: TaskRecord) -> str:
    return f"run mode {record.provenance.identity.run_mode} · data {record.provenance.data_edition or 'none'}"


class _Measured(NamedTuple):
    """A difference, and samples of it where its uncertainty is known."""

    difference: float
    samples: np.ndarray | None = None
    interval: Interval | None = None
    num_systems: int = 0
    why: str = ""
    num_uncovered: int = 0


_Compared = tuple[BenchmarkComparison, np.ndarray | None]


def _compare(name: str, baseline: TaskRecord | None, candidate: TaskRecord | None) -> _Compared:
    if baseline is None:
        return _not_compared(name, baseline, candidate, Obstacle.NO_BASELINE, "the baseline has no result")
    if candidate is None:
        return _not_compared(name, baseline, candidate, Obstacle.NO_CANDIDATE, "the candidate has no result")
    ours, theirs = _scores(baseline.result), _scores(candidate.result)
    if found := next(_obstacles(baseline, candidate, ours, theirs), None):
        return _not_compared(name, baseline, candidate, *found)
    measured = _measure(baseline.result, candidate.result, ours, theirs, name=name)
    entry = BenchmarkComparison(
        name,
        baseline.result.score,
        candidate.result.score,
        measured.difference,
        measured.interval,
        _verdict(measured, is_fact=baseline.result.failed != candidate.result.failed),
        measured.num_systems,
        _what_failed(baseline, candidate) or measured.why,
        newly_failed=candidate.result.failed and not baseline.result.failed,
        num_uncovered=measured.num_uncovered,
        seconds=candidate.provenance.wall_seconds,
    )
    return entry, measured.samples


def _not_compared(
    name: str, baseline: TaskRecord | None, candidate: TaskRecord | None, obstacle: Obstacle, why: str
) -> _Compared:
    entry = BenchmarkComparison(
        name,
        baseline.result.score if baseline else None,
        candidate.result.score if candidate else None,
        None,
        None,
        Verdict.NOT_COMPARABLE,
        0,
        why,
        obstacle,
        seconds=candidate.provenance.wall_seconds if candidate else float("nan"),
    )
    return entry, None


def _verdict(measured: _Measured, *, is_fact: bool) -> Verdict:
    """A fact needs no interval: a model that failed everywhere scores 0, whatever systems are drawn."""
    low, high = measured.interval or (-1.0, 1.0)
    if is_fact:
        low = high = measured.difference
    if low > RESOLUTION:
        return Verdict.BETTER
    return Verdict.WORSE if high < -RESOLUTION else Verdict.NO_DIFFERENCE


def _what_failed(baseline: TaskRecord, candidate: TaskRecord) -> str:
    """Which of the two failed as a whole, and why."""
    sides = {"the baseline": baseline, "the candidate": candidate}
    failed = {side: _reason(record) for side, record in sides.items() if record.result.failed}
    if len(failed) == 2 and len({*failed.values()}) == 1:
        failed = {"both": failed["the baseline"]}
    return f"failed as a whole: {', '.join(f'{side} ({why})' for side, why in failed.items())}" if failed else ""


def _reason(record: TaskRecord) -> str:
    return str(next(iter(record.reasons.values()), "no reason is recorded"))


# Whether they can be compared


def _obstacles(
    baseline: TaskRecord, candidate: TaskRecord, ours: _Scores, theirs: _Scores
) -> Iterator[tuple[Obstacle, str]]:
    """Reasons not to compare two results, the gravest first."""
    if why := _why_unscored(baseline):
        yield Obstacle.NO_BASELINE, f"the baseline {why}"
    if why := _why_unscored(candidate):
        yield Obstacle.NO_CANDIDATE, f"the candidate {why}"
    if question := [*_other_question(baseline, candidate), *_other_systems(ours, theirs)]:
        yield Obstacle.QUESTION, f"they differ in {', '.join(question)}"
    if machine := list(_other_machine(baseline, candidate)):
        yield Obstacle.MACHINE, f"speed is compared only on the same {' and '.join(machine)}"


def _why_unscored(record: TaskRecord) -> str:
    if record.result.failure and record.result.failure.kind in NOT_THE_MODEL:
        return f"was not asked ({record.result.failure})"
    return "has no score" if record.result.score is None else ""


def _short(sha256: str | None) -> str:
    return sha256[:8] if sha256 else "unknown"


_Part = tuple[str, Callable[[TaskRecord], Any], Callable[[Any], str]]
_QUESTION: tuple[_Part, ...] = (
    ("benchmark version", lambda r: r.provenance.identity.benchmark_version, str),
    ("input data", lambda r: r.provenance.identity.data_sha256, _short),
    ("edition", lambda r: r.provenance.data_edition, str),
    ("run mode", lambda r: r.provenance.identity.run_mode, str),
    ("scoring version", lambda r: r.result.scoring_version, str),
)
"""What must be the same, and how it is named and shown."""


def _other_question(baseline: TaskRecord, candidate: TaskRecord) -> Iterator[str]:
    """What the two were asked differently; seeds and weights may differ."""
    for name, part, shown in _QUESTION:
        one, other = part(baseline), part(candidate)
        if one != other and not (name == "input data" and _unknown_to_a_failed_one(baseline, candidate)):
            yield f"{name} ({shown(one)}, {shown(other)})"
    one, other = (record.provenance.identity.protocol for record in (baseline, candidate))
    if keys := sorted(key for key in {*one, *other} if one.get(key) != other.get(key)):
        yield f"protocol ({', '.join(keys)})"


def _unknown_to_a_failed_one(*records: TaskRecord) -> bool:
    """Whether a model that failed as a whole did so before it saw the data."""
    return any(record.result.failed and record.provenance.identity.data_sha256 is None for record in records)


def _other_machine(*records: TaskRecord) -> Iterator[str]:
    """What else must agree where time is measured; what a failed one does not know does not count."""
    declared = benchmark_class(records[0].provenance.identity.benchmark)
    if declared is None or not declared.runs_alone:
        return
    parts: dict[str, list[str]] = {
        "device": [r.provenance.device for r in records],
        "precision": [r.provenance.identity.precision for r in records],
    }
    for name, values in parts.items():
        known = [v for v, r in zip(values, records, strict=True) if v != UNKNOWN or not r.result.failed]
        if len({*known}) > 1:
            yield f"{name} ({', '.join(known)})"


# What the difference is


class _Scores(NamedTuple):
    """Score of each system that a result lists."""

    listed: dict[str, float]
    num_hidden: int
    """Systems that were asked for and are not listed."""
    hidden_count: bool
    """Whether these count 0 in the score, as failed ones do, or not at all, as skipped ones may."""


def _scores(result: BenchmarkResult) -> _Scores:
    listed, num_systems = scores_of(result), result.num_systems or 0
    if listed and (num_systems <= len(listed) or (result.score or 0.0) > RESOLUTION):
        return _Scores(listed, max(num_systems - len(listed), 0), hidden_count=False)
    num_listed = sum(not vars(entry).get("skipped") for entry in systems_of(result).values())
    if not num_listed or num_listed >= num_systems or result.score is None:
        return _Scores(listed, max(num_systems - num_listed, 0), hidden_count=False)
    mean_of_listed = min(result.score * num_systems / num_listed, 1.0)  # if the hidden ones count 0
    counted = scores_of(result.model_copy(update={"score": mean_of_listed}))
    return _Scores(counted, num_systems - num_listed, hidden_count=bool(counted))


def _other_systems(ours: _Scores, theirs: _Scores) -> Iterator[str]:
    """Systems of one result that the other cannot even have failed on or skipped."""
    if not ours.listed or not theirs.listed:
        return
    lacking = len(theirs.listed.keys() - ours.listed.keys()), len(ours.listed.keys() - theirs.listed.keys())
    if lacking[0] > ours.num_hidden or lacking[1] > theirs.num_hidden:
        yield f"systems ({lacking[1]} and {lacking[0]} that the other does not have)"


def _measure(
    baseline: BenchmarkResult, candidate: BenchmarkResult, ours: _Scores, theirs: _Scores, *, name: str
) -> _Measured:
    if not (baseline.failed or candidate.failed) and (paired := _paired(ours, theirs, name=name)):
        return paired
    return _unpaired(baseline, candidate, name=name)


def _paired(ours: _Scores, theirs: _Scores, *, name: str) -> _Measured | None:
    """The mean difference over the systems of both; None with fewer than two."""
    if not ours.listed or not theirs.listed:
        return None
    names = sorted(_counted(ours, theirs) & _counted(theirs, ours))
    if len(names) < 2:
        return None
    differences = np.array([theirs.listed.get(n, 0.0) - ours.listed.get(n, 0.0) for n in names])
    if (
        ours.hidden_count and theirs.hidden_count
    ):  # what neither could do makes no difference, and is in both scores
        differences = np.append(differences, np.zeros(ours.num_hidden + len(ours.listed) - len(names)))
    samples = paired_samples(differences, name=name)
    uncovered = len(ours.listed.keys() - names)
    why = f"on the {len(names)} systems that both were asked" if {*ours.listed, *theirs.listed} - {*names} else ""
    return _Measured(float(differences.mean()), samples, interval_of(samples), len(differences), why, uncovered)


def _counted(scores: _Scores, others: _Scores) -> set[str]:
    """Systems that count in a score: those that are listed and, where hidden ones count, those of the other."""
    return {*scores.listed, *others.listed} if scores.hidden_count else {*scores.listed}


def _unpaired(baseline: BenchmarkResult, candidate: BenchmarkResult, *, name: str) -> _Measured:
    """The difference of two scores that are known on their own; half-widths of intervals add in quadrature."""
    if _are_the_same_answers(baseline, candidate):
        return _Measured(0.0, np.zeros(1), (0.0, 0.0), baseline.num_systems or 0)
    scores = [result.score or 0.0 for result in (baseline, candidate)]
    # A benchmark that failed as a whole scores 0, whatever would have been drawn.
    intervals = [(0.0, 0.0) if result.failed else result.score_interval for result in (baseline, candidate)]
    difference, num_systems = scores[1] - scores[0], max(baseline.num_systems or 0, candidate.num_systems or 0)
    if intervals[0] is None or intervals[1] is None:
        what = "one system cannot" if num_systems < 2 else "scores without intervals cannot"
        return _Measured(difference, None, None, num_systems, f"{what} tell a difference from luck")
    (low, high), (candidate_low, candidate_high) = intervals[0], intervals[1]
    below = float(np.hypot(scores[1] - candidate_low, high - scores[0]))
    above = float(np.hypot(candidate_high - scores[1], scores[0] - low))
    interval = max(difference - below, -1.0), min(difference + above, 1.0)
    samples = independent_samples(difference, interval, name=name)
    return _Measured(
        difference, samples, interval, num_systems, "not paired: compared by the scores' own intervals"
    )


def _are_the_same_answers(one: BenchmarkResult, other: BenchmarkResult) -> bool:
    """Whether two results agree in all that was measured; a score and its interval alone do not say so."""
    # As text, where NaN equals NaN.
    return type(one) is not BenchmarkResult and one.model_dump_json() == other.model_dump_json()


# Overall


def _overall(compared: Sequence[_Compared]) -> Overall:
    known = [(entry, samples) for entry, samples in compared if samples is not None]
    left_out = {entry.benchmark: entry.why for entry, samples in compared if samples is None}
    if not known:
        return Overall(None, None, Verdict.NOT_COMPARABLE, (), left_out)
    difference = float(np.mean([entry.difference or 0.0 for entry, _ in known]))
    total = np.asarray(sum(samples for _, samples in known))  # samples of different benchmarks are independent
    interval = interval_of(total.ravel() / len(known))
    measured = _Measured(difference, interval=interval)
    names = tuple(entry.benchmark for entry, _ in known)
    return Overall(difference, interval, _verdict(measured, is_fact=False), names, left_out)
