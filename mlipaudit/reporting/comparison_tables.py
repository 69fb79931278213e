# SPDX-License-Identifier: Apache-2.0
"""A comparison as text: for a terminal, for a pull request, and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlipaudit.reporting.comparison import RESOLUTION, BenchmarkComparison, Comparison, Overall, Verdict
from mlipaudit.reporting.export import escaped, markdown_table
from mlipaudit.reporting.gate import OVERALL, Finding, Judgement, Outcome
from mlipaudit.reporting.grid import grid
from mlipaudit.reporting.tables import NOTHING, score_of
from mlipaudit.scoring import Interval

HEADER = ("benchmark", "baseline", "candidate", "difference", "95 % interval", "systems", "verdict")
RIGHT = {1, 2, 3, 4, 5}


def signed(difference: float | None) -> str:
    """A difference with three decimals, and with its sign where there is any."""
    if difference is None:
        return NOTHING
    return f"{difference:+.3f}" if abs(difference) > RESOLUTION else "0.000"


def interval_text(interval: Interval | None) -> str:
    """The interval of a difference, or that there is none."""
    return NOTHING if interval is None else " … ".join(map(signed, interval))


def sentence(comparison: Comparison) -> str:
    """The verdicts in one sentence."""
    baseline, candidate = comparison.baseline, comparison.candidate
    counted = {verdict: len(comparison.having(verdict)) for verdict in Verdict}
    apart = counted[Verdict.NOT_COMPARABLE]
    if not (compared := len(comparison.benchmarks) - apart):
        return f"{candidate} cannot be compared with {baseline} on any benchmark."
    found = [f"{v} than {baseline} on {counted[v]}" for v in (Verdict.WORSE, Verdict.BETTER) if counted[v]]
    which = " and ".join(found) if found else f"not shown to differ from {baseline} on any"
    benchmarks = f"{compared} benchmark{'' if compared == 1 else 's'}"
    left = f" ({apart} not comparable)" if apart else ""
    return f"{candidate} is {which} of {benchmarks}{left}; overall {comparison.overall.verdict}."


def gate_sentence(judgement: Judgement, *, strict: bool) -> str:
    """Whether the gate is passed, and what stands in the way."""
    decisive = (Outcome.FAILS, *((Outcome.UNDECIDED,) if strict else ()))
    failing = ", ".join(finding.name for finding in judgement.having(*decisive))
    undecided = [] if strict else [finding.name for finding in judgement.having(Outcome.UNDECIDED)]
    note = f" Undecided: {', '.join(undecided)}." if undecided else ""
    if failing:
        return f"Gate failed by {judgement.comparison.candidate}: {failing}.{note}"
    return f"Gate passed by {judgement.comparison.candidate}.{note}"


def _lines(judgement: Judgement, *, gated: bool) -> list[list[str]]:
    """Cells of every benchmark and of the overall row, the same in all texts."""
    comparison = judgement.comparison
    cells = [*map(_cells, comparison.benchmarks), _overall_cells(comparison.overall)]
    if not gated:
        return cells
    return [[*row, str(finding.outcome)] for row, finding in zip(cells, judgement.findings, strict=True)]


def _cells(entry: BenchmarkComparison) -> list[str]:
    return [
        entry.benchmark,
        score_of(entry.baseline_score),
        score_of(entry.candidate_score),
        signed(entry.difference),
        interval_text(entry.interval),
        str(entry.num_systems) if entry.num_systems else NOTHING,
        str(entry.verdict),
    ]


def _overall_cells(overall: Overall) -> list[str]:
    numbers = [signed(overall.difference), interval_text(overall.interval)]
    return [OVERALL, "", "", *numbers, "", str(overall.verdict)]


def _header(*, gated: bool) -> list[str]:
    return [*HEADER, *(["gate"] if gated else [])]


def _notes(judgement: Judgement, *, gated: bool) -> list[str]:
    """What is to be said about single benchmarks, each thing once."""
    overall = judgement.comparison.overall
    num_left_out = len(overall.left_out)
    mean = f"the mean of {len(overall.benchmarks)}; {num_left_out} others have no difference or no interval"
    names: dict[str, list[str]] = {}
    whys = [*(entry.why for entry in judgement.comparison.benchmarks), mean if num_left_out else ""]
    for finding, why in zip(judgement.findings, whys, strict=True):
        for text in dict.fromkeys(filter(None, [why, finding.why if gated else ""])):
            names.setdefault(text, []).append(finding.name)
    return [f"{', '.join(which)}: {text}" for text, which in names.items()]


def _title(comparison: Comparison) -> str:
    return f"candidate {comparison.candidate} against baseline {comparison.baseline}"


# Terminal


def as_text(judgement: Judgement, *, gated: bool, strict: bool = False) -> str:
    """A table, remarks, and the verdict in a sentence."""
    comparison = judgement.comparison
    lines = [
        " · ".join([_title(comparison), " / ".join(comparison.settings)]),
        "",
        *grid(_header(gated=gated), _lines(judgement, gated=gated), right=RIGHT),
        "",
        *(f"note: {text}" for text in _notes(judgement, gated=gated)),
        sentence(comparison),
        *([gate_sentence(judgement, strict=strict)] if gated else []),
    ]
    return "\n".join(lines)


# Markdown


def as_markdown(judgements: Sequence[Judgement], *, gated: bool, strict: bool = False) -> str:
    """For a pull request: the verdict first, the numbers folded away."""
    return "\n\n".join(_section(judgement, gated=gated, strict=strict) for judgement in judgements) + "\n"


def _section(judgement: Judgement, *, gated: bool, strict: bool) -> str:
    comparison = judgement.comparison
    settings = escaped(" / ".join(comparison.settings))
    failed = [f"- **{escaped(f.name)}** {escaped(f.why)}" for f in judgement.having(Outcome.FAILS) if gated]
    parts = [
        f"### {escaped(_title(comparison))}",
        f"**{escaped(gate_sentence(judgement, strict=strict))}**" if gated else "",
        escaped(sentence(comparison)),
        "\n".join(failed),
        f"<details><summary>Differences, candidate minus baseline, {settings}</summary>",
        markdown_table(_header(gated=gated), _lines(judgement, gated=gated), left={0, 6, 7}),
        "\n".join(f"- {escaped(text)}" for text in _notes(judgement, gated=gated)),
        "</details>",
    ]
    return "\n\n".join(filter(None, parts))


# JSON


def as_json(judgements: Sequence[Judgement], *, strict: bool = False) -> list[dict[str, Any]]:
    """Everything as plain data, which strict JSON can hold."""
    return [_as_dict(judgement, strict=strict) for judgement in judgements]


def _as_dict(judgement: Judgement, *, strict: bool) -> dict[str, Any]:
    comparison = judgement.comparison
    *findings, last = judgement.findings
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "settings": list(comparison.settings),
        "benchmarks": {
            entry.benchmark: {
                "baseline_score": entry.baseline_score,
                "candidate_score": entry.candidate_score,
                **_numbers(entry),
                "systems": entry.num_systems,
                "why": entry.why,
                "seconds": None if math.isnan(entry.seconds) else entry.seconds,
                "gate": _gate(finding),
            }
            for entry, finding in zip(comparison.benchmarks, findings, strict=True)
        },
        "overall": {
            **_numbers(comparison.overall),
            "benchmarks": list(comparison.overall.benchmarks),
            "left_out": comparison.overall.left_out,
            "gate": _gate(last),
        },
        "passes": judgement.is_passed(strict=strict),
        "sentence": sentence(comparison),
    }


def _numbers(entry: BenchmarkComparison | Overall) -> dict[str, Any]:
    interval = list(entry.interval) if entry.interval else None
    return {"difference": entry.difference, "interval": interval, "verdict": str(entry.verdict)}


def _gate(finding: Finding) -> dict[str, Any]:
    return {"outcome": str(finding.outcome), "why": finding.why, "margin": finding.margin}
