# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit run`: audit models."""

from __future__ import annotations

import argparse
import re
import sys

HELP = "audit one or more models"
RUN_MODES = ("dev", "fast", "standard")
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
        help="embedded (ships with mlipaudit) or a folder of <data name>/ folders; dev takes embedded by default",
    )
    parser.add_argument(
        "-o", "--output", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what libraries say")


def main(args: argparse.Namespace) -> int:
    """Audit; 1 when anything that was asked for failed."""
    return audit(args, data=args.data, data_input_dir=None)


def audit(args: argparse.Namespace, *, data: str | None, data_input_dir: str | None) -> int:
    """Plan, execute, show."""
    from mlipaudit.running.environment import restart_with_huge_pages

    if args.is_command:  # and not a call from Python
        restart_with_huge_pages()
    from mlipaudit.cli.display import Display, configure_logging
    from mlipaudit.models import parse_models
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.executor import execute
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
    if data_input_dir is None:
        _require_data(data, run_mode)
    display = Display(sys.stderr)
    with display:
        records = execute(plan, ResultStore(args.output), display)
    display.summarise(records, output=args.output)
    return 1 if any(record.reasons or record.result.failed for record in records) else 0


def _require_data(data: str | None, run_mode: object) -> None:
    from mlipaudit.data import EditionKind, parse_edition
    from mlipaudit.errors import UsageError

    if parse_edition(data, run_mode).kind is EditionKind.HUB:  # type: ignore[arg-type]
        raise UsageError(
            f"run mode {run_mode} uses the public dataset, which this version does not download; "
            "add --data embedded (the data that ships with mlipaudit) or --data PATH (a folder of yours)"
        )


def _command() -> str:
    """The command as typed, each path cut down to its last part: a record carries no home paths."""
    return " ".join(["mlipaudit", *(_PATH.sub("", word) for word in sys.argv[1:])])
