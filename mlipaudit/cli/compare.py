# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit compare`: is a model better than another, really, or by luck?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.reporting.comparison import Comparison
    from mlipaudit.reporting.contents import Contents
    from mlipaudit.reporting.gate import Judgement, Margins

HELP = "compare models with a baseline: differences with intervals, and a gate for CI"
REMEDY = (
    "Run both on the same data (--data), in the same --run-mode, with the same version of mlipaudit and, for speed, on"
    " the same device; `mlipaudit analyze` brings the scores of stored answers up to date."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)")
    add("--baseline", required=True, metavar="MODEL", help="the model to compare with")
    add("--candidate", nargs="+", metavar="MODEL", help="models to compare (default: all others in DIR)")
    add("--baseline-results", metavar="DIR", help="results folder of the baseline, if it is another one")
    add("--gate", action="store_true", help="exit with 1 if a candidate is worse than the margin allows")
    add(
        "--margin",
        nargs="+",
        default=[],
        metavar="M",
        help="how much worse is allowed: 0.02 (default) for all benchmarks, or NAME=0.05 for one",
    )
    add("--strict", action="store_true", help="with --gate, exit with 1 also where nothing can be decided")
    add("--markdown", metavar="FILE", help="write a summary for a pull request")
    add("--junit", metavar="FILE", help="write the gate's verdicts as JUnit XML")
    add("--json", action="store_true", help="print everything, for programs")


def main(args: argparse.Namespace) -> int:
    """Compare; 1 when the gate is not passed, 2 when there is nothing that can be compared."""
    from mlipaudit.errors import StoreError, UsageError
    from mlipaudit.reporting.gate import judge

    try:
        comparisons = _comparisons(args)
    except StoreError as error:  # 1 is for a gate that is not passed
        raise UsageError(str(error)) from error
    margins = _margins(args.margin, comparisons)
    _refuse(comparisons, gate=args.gate)
    judgements = [judge(comparison, margins) for comparison in comparisons]
    _print(judgements, args)
    _write(judgements, args)
    passes = all(judgement.is_passed(strict=args.strict) for judgement in judgements)
    return 0 if passes or not args.gate else 1


# What is compared


def _comparisons(args: argparse.Namespace) -> list[Comparison]:
    from dataclasses import replace

    from mlipaudit.reporting.comparison import compare_models
    from mlipaudit.reporting.contents import open_results

    contents = open_results(args.results)
    others = open_results(args.baseline_results) if args.baseline_results else contents
    baseline, candidates = _models(args, contents, others)
    _mind_unreadable(others, [baseline], refuse=args.gate)
    _mind_unreadable(contents, candidates, refuse=False)
    records = others.records_of(model=baseline)
    comparisons = []
    for candidate in candidates:
        is_namesake = candidate == baseline and others is not contents
        labels = (f" ({folder.root})" if is_namesake else "" for folder in (others, contents))
        names = [name + label for name, label in zip((baseline, candidate), labels, strict=True)]
        compared = compare_models(records, contents.records_of(model=candidate))
        comparisons.append(replace(compared, baseline=names[0], candidate=names[1]))
    return comparisons


def _models(args: argparse.Namespace, contents: Contents, others: Contents) -> tuple[str, list[str]]:
    """Baseline and candidates, which are there."""
    from mlipaudit.errors import UnknownNameError, UsageError

    if args.baseline not in others.models:
        raise UnknownNameError(f"model in {others.root}", args.baseline, others.models)
    for name in args.candidate or ():
        if name not in contents.models:
            raise UnknownNameError(f"model in {contents.root}", name, contents.models)
    is_elsewhere = others is not contents
    candidates = args.candidate or [name for name in contents.models if is_elsewhere or name != args.baseline]
    if not candidates:
        raise UsageError(f"there is no other model than {args.baseline} in {contents.root}")
    if not others.records_of(model=args.baseline):
        raise UsageError(f"{args.baseline} has no result in {others.root} that can be read")
    return args.baseline, list(dict.fromkeys(candidates))


def _mind_unreadable(contents: Contents, models: Sequence[str], *, refuse: bool) -> None:
    """Say which results cannot be read; a gate must not open because the baseline's are damaged."""
    from mlipaudit.errors import UsageError

    lines = [f"cannot read {bad.path}: {bad.reason}" for bad in contents.unreadable if bad.model in models]
    if lines and refuse:
        raise UsageError("\n".join([f"the baseline's results are not whole: {lines[0]}", *lines[1:]]))
    for line in lines:
        print(f"mlipaudit: {line}", file=sys.stderr)


def _refuse(comparisons: Sequence[Comparison], *, gate: bool) -> None:
    """Compare nothing that was not asked alike.

    Raises:
        UsageError: there is such a benchmark, for a gate; there is nothing else, without one.
    """
    from mlipaudit.errors import UsageError
    from mlipaudit.reporting.comparison import Verdict
    from mlipaudit.reporting.gate import refused

    entries = {c.candidate: refused(c) if gate else list(c.benchmarks) for c in comparisons}
    lines = [f"{candidate} · {entry.benchmark}: {entry.why}" for candidate, of in entries.items() for entry in of]
    verdicts = {entry.verdict for of in entries.values() for entry in of}
    if lines and verdicts == {Verdict.NOT_COMPARABLE}:
        raise UsageError("\n  ".join(["these results cannot be compared:", *lines]) + f"\n{REMEDY}")


# Margins


def _margins(arguments: Sequence[str], comparisons: Sequence[Comparison]) -> Margins:
    from mlipaudit import registry
    from mlipaudit.errors import UnknownNameError
    from mlipaudit.reporting.gate import DEFAULT_MARGIN, OVERALL, Margins

    compared = {entry.benchmark for comparison in comparisons for entry in comparison.benchmarks}
    known = {*registry.names(registry.BENCHMARKS), *compared, OVERALL}
    default, own = DEFAULT_MARGIN, {}
    for argument in arguments:
        name, is_own, value = argument.rpartition("=")
        if not is_own:
            default = _margin(value, argument)
        elif name not in known:
            raise UnknownNameError("benchmark", name, known)
        else:
            own[name] = _margin(value, argument)
    return Margins(default, own)


def _margin(text: str, argument: str) -> float:
    from mlipaudit.errors import UsageError

    try:
        margin = float(text)
    except ValueError:
        margin = float("nan")
    if not 0 <= margin <= 1:
        raise UsageError(f"--margin {argument}: a margin is a number from 0 to 1, or NAME=0.05 for one benchmark")
    return margin


# What is said


def _print(judgements: Sequence[Judgement], args: argparse.Namespace) -> None:
    import json

    from mlipaudit.reporting.comparison_tables import as_json, as_text

    if args.json:
        print(json.dumps(as_json(judgements, strict=args.strict), indent=1, allow_nan=False))
        return
    print("\n\n".join(as_text(judgement, gated=args.gate, strict=args.strict) for judgement in judgements))


def _write(judgements: Sequence[Judgement], args: argparse.Namespace) -> None:
    from pathlib import Path

    from mlipaudit.errors import StoreError, UsageError
    from mlipaudit.reporting.comparison_tables import as_markdown
    from mlipaudit.reporting.junit import as_junit
    from mlipaudit.store import write_text

    try:
        if args.markdown:
            text = as_markdown(judgements, gated=args.gate, strict=args.strict)
            write_text(Path(args.markdown), text)
        if args.junit:
            write_text(Path(args.junit), as_junit(judgements, strict=args.strict))
    except StoreError as error:
        raise UsageError(str(error)) from error
