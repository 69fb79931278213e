# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit run`: audit models."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.executor import Settings

HELP = "audit one or more models"
RUN_MODES = ("dev", "fast", "standard")
NO_LIMIT = float("inf")
_PATH = re.compile(r"[^=:,\s]*/(?=[^/])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "-m",
        "--models",
        nargs="+",
        required=True,
        metavar="MODEL",
        help="any number of: a .zip saved by mlip, a .py file that defines mlipaudit_external_model, "
        "or a registered name with options (gfn2-xtb, name:key=value,key=value)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-b", "--benchmarks", nargs="+", metavar="NAME", help="only these, in this order")
    which.add_argument(
        "--suite", default="core", metavar="NAME", help="a named list of benchmarks (default: core)"
    )
    parser.add_argument("-e", "--exclude", nargs="+", metavar="NAME", help="all of them but these")
    parser.add_argument(
        "-rm",
        "--run-mode",
        choices=RUN_MODES,
        default="standard",
        help="dev: seconds; fast: shorter; standard: the published protocol (default)",
    )
    parser.add_argument(
        "--data",
        metavar="EDITION",
        help="embedded (ships with mlipaudit), hub or hub@REVISION (the public dataset, downloaded once), or a "
        "folder of <data name>/ folders; by default dev takes embedded, the others hub",
    )
    parser.add_argument(
        "-o", "--output", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    add_execution_arguments(parser)


def add_execution_arguments(parser: argparse.ArgumentParser) -> None:
    """Options on which no result depends."""
    parser.add_argument(
        "--workers",
        type=_workers,
        metavar="N",
        help="worker processes, each with one task at a time; 0: none, work in this process "
        "(default: one per GPU, or one)",
    )
    parser.add_argument(
        "--timeout",
        type=_duration,
        metavar="TIME",
        help="limit of one task: seconds, 30m, 12h, 2d or none (default: dev 30m, fast 6h, standard 7d)",
    )
    parser.add_argument("--fresh", action="store_true", help="run again what the results folder holds already")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what libraries and models say")


def main(args: argparse.Namespace) -> int:
    """Audit; 1 when anything that was asked for failed."""
    return audit(args, data=args.data, data_input_dir=None)


def audit(args: argparse.Namespace, *, data: str | None, data_input_dir: str | None) -> int:
    """Plan, execute, show."""
    from mlipaudit.running.environment import restart_with_huge_pages

    if args.workers == 0 and args.is_command:  # and not a call from Python
        restart_with_huge_pages()
    from mlipaudit.cli.display import Display, configure_logging
    from mlipaudit.models import parse_models
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.executor import execute
    from mlipaudit.running.limits import terminable
    from mlipaudit.running.plan import choose_benchmarks, make_plan
    from mlipaudit.store import ResultStore

    configure_logging(verbose=args.verbose)
    run_mode = RunMode(args.run_mode)
    benchmarks = choose_benchmarks(
        include=args.benchmarks, exclude=args.exclude, suite=getattr(args, "suite", "core")
    )
    plan = make_plan(
        parse_models(args.models),
        benchmarks,
        run_mode=run_mode,
        data=data,
        data_input_dir=data_input_dir,
        seed=args.seed,
        command=_command(),
    )
    display = Display(sys.stderr)
    with display, terminable():
        records = execute(plan, ResultStore(args.output), display, _settings(args, run_mode))
    display.summarise(records, output=args.output)
    return 1 if any(record.reasons or record.result.failed for record in records) else 0


def _settings(args: argparse.Namespace, run_mode: RunMode) -> Settings:
    from mlipaudit.running.executor import DEFAULT_LIMIT_S, Settings

    limit = DEFAULT_LIMIT_S[run_mode] if args.timeout is None else args.timeout
    return Settings(args.workers, None if limit == NO_LIMIT else limit, args.fresh, args.verbose)


def _workers(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes (0, 1, 2, …)")
    return int(text)


def _duration(text: str) -> float:
    """Seconds; `NO_LIMIT` for none."""
    if text == "none":
        return NO_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time (90, 30m, 12h, 2d or none)")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def _command() -> str:
    """The command as typed, each path cut down to its last part: a record carries no home paths."""
    return " ".join(["mlipaudit", *(_PATH.sub("", word) for word in sys.argv[1:])])
