# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit benchmark`: the command of mlipaudit 0.1.x, with its options."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlipaudit.cli import run
from mlipaudit.errors import UsageError

HELP = "the same as run, with the options of mlipaudit 0.1.x"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("-m", "--models", nargs="+", required=True, metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument("-i", "--input", default="./data", metavar="DIR", help="input data (default: ./data)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-b", "--benchmarks", nargs="+", default=["all"], metavar="NAME")
    which.add_argument("-e", "--exclude-benchmarks", nargs="+", dest="exclude", metavar="NAME")
    parser.add_argument("-rm", "--run-mode", choices=run.RUN_MODES, default="standard")
    parser.add_argument("-lt", "--log-timings", action="store_true", help="accepted; times are always shown")
    parser.add_argument("--seed", type=int, default=0)
    run.add_execution_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """See `run`."""
    if args.benchmarks and "all" in args.benchmarks:
        args.benchmarks = None
    if args.run_mode != "dev" and not Path(args.input).is_dir():
        raise UsageError(f"-i {args.input}: no such folder; mlipaudit run --data embedded needs none")
    return run.audit(args, data=None, data_input_dir=args.input)
