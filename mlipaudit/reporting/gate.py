# SPDX-License-Identifier: Apache-2.0
"""May a candidate take the baseline's place? Non-inferiority, benchmark by benchmark and overall.

A candidate fails where it is shown to be worse, by more than a margin. Where the interval reaches beyond the margin but
the candidate is not shown to be worse, or there is no interval, nothing is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mlipaudit.reporting.comparison import BenchmarkComparison, Comparison, Obstacle, Overall, Verdict

DEFAULT_MARGIN = 0.02
OVERALL = "overall"


class Outcome(StrEnum):
    """What the gate says about one benchmark."""

    PASSES = "passes"
    FAILS = "fails"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Margins:
    """By how much a candidate's score may fall below the baseline's."""

    default: float = DEFAULT_MARGIN
    of_benchmarks: Mapping[str, float] = field(default_factory=dict)

    def of(self, benchmark: str) -> float:
        """The margin of a benchmark."""
        return self.of_benchmarks.get(benchmark, self.default)

    def of_all(self, benchmarks: Collection[str]) -> float:
        """The margin of their mean: as much as it falls when each falls by its own."""
        own = sum(self.of(name) for name in benchmarks) / len(benchmarks) if benchmarks else self.default
        return self.of_benchmarks.get(OVERALL, own)


@dataclass(frozen=True)
class Finding:
    """One benchmark, or all of them, judged."""

    name: str
    outcome: Outcome
    why: str
    """In words; empty where it passes without a remark."""
    margin: float
    seconds: float = float("nan")
    """How long the candidate took; NaN where it is not known."""


@dataclass(frozen=True)
class Judgement:
    """A comparison and what the gate says about it."""

    comparison: Comparison
    findings: tuple[Finding, ...]
    """One per benchmark, in the order of the comparison, and the overall one last."""

    def having(self, *outcomes: Outcome) -> list[Finding]:
        """The findings with one of these outcomes."""
        return [finding for finding in self.findings if finding.outcome in outcomes]

    def is_passed(self, *, strict: bool = False) -> bool:
        """Whether the candidate passes; if strict, only where everything is decided."""
        return not self.having(Outcome.FAILS, *([Outcome.UNDECIDED] if strict else []))


def judge(comparison: Comparison, margins: Margins) -> Judgement:
    """Judge a comparison by its margins."""
    findings = [_finding(entry, margins.of(entry.benchmark)) for entry in comparison.benchmarks]
    overall = comparison.overall
    outcome, why = _overall(overall, margin := margins.of_all(overall.benchmarks))
    return Judgement(comparison, (*findings, Finding(OVERALL, outcome, why, margin)))


def refused(comparison: Comparison) -> list[BenchmarkComparison]:
    """What the gate refuses to judge: benchmarks that were not asked alike, and a comparison of nothing."""
    entries = comparison.benchmarks
    can_skip = {Obstacle.NO_BASELINE, Obstacle.MACHINE}
    if all(entry.obstacle in can_skip for entry in entries):
        return list(entries)
    return [entry for entry in entries if entry.obstacle is Obstacle.QUESTION]


_Said = tuple[Outcome, str]


def _finding(entry: BenchmarkComparison, margin: float) -> Finding:
    outcome, why = _by_obstacle(entry) or _by_failure(entry) or _by_interval(entry, margin)
    if outcome in (Outcome.PASSES, Outcome.UNDECIDED) and entry.num_uncovered:
        outcome = Outcome.UNDECIDED
        why = f"the candidate does not cover {entry.num_uncovered} of the baseline's systems"
    return Finding(entry.benchmark, outcome, why, margin, entry.seconds)


def _by_obstacle(entry: BenchmarkComparison) -> _Said | None:
    if entry.obstacle is None:
        return None
    return Outcome.FAILS if entry.obstacle is Obstacle.NO_CANDIDATE else Outcome.SKIPPED, entry.why


def _by_failure(entry: BenchmarkComparison) -> _Said | None:
    return (Outcome.FAILS, entry.why) if entry.newly_failed else None


def _overall(overall: Overall, margin: float) -> _Said:
    if overall.difference is None:
        return Outcome.SKIPPED, "no benchmark has a difference with an interval"
    return _by_interval(overall, margin)


def _by_interval(entry: BenchmarkComparison | Overall, margin: float) -> _Said:
    difference, within = entry.difference or 0.0, f"the margin of {margin:g}"
    if entry.verdict is Verdict.WORSE and difference < -margin:
        between = f", 95 % interval {-entry.interval[1]:.3f} … {-entry.interval[0]:.3f}" if entry.interval else ""
        return Outcome.FAILS, f"worse by {-difference:.3f}{between}, beyond {within}"
    if entry.interval is None:
        return Outcome.UNDECIDED, getattr(entry, "why", "")
    if entry.interval[0] < -margin:
        return Outcome.UNDECIDED, f"may be worse by up to {-entry.interval[0]:.3f}, beyond {within}"
    return Outcome.PASSES, ""
