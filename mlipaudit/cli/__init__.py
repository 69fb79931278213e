# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per command, arguments in, exit code out.

Exit codes: 0 all well · 1 something that was asked for failed · 2 the command itself cannot be carried out ·
130 interrupted · 143 terminated.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from mlipaudit.cli import (
    analyze,
    benchmark,
    compare,
    data,
    gui,
    list_,
    merge,
    report,
    run,
    selftest,
    show,
    tables,
    verify,
)
from mlipaudit.errors import StoreError, UserError

COMMANDS = {
    "run": run,
    "merge": merge,
    "list": list_,
    "show": show,
    "tables": tables,
    "report": report,
    "compare": compare,
    "gui": gui,
    "data": data,
    "analyze": analyze,
    "verify": verify,
    "selftest": selftest,
    "benchmark": benchmark,
}

EXAMPLES = """\
examples:
  mlipaudit run --models m.zip --run-mode dev                  is the plumbing whole? (seconds)
  mlipaudit run --models m.zip my_calculator.py gfn2-xtb --run-mode fast --data embedded
  mlipaudit show results/                                      what came out
  mlipaudit report results/ -o report.html                     the same as one page, with pictures
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name or a sign that a terminal cannot show harms no command
            stream.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(argv)
    args.is_command = argv is None
    try:
        return args.main(args)
    except UserError as error:
        print(f"mlipaudit: error: {error}", file=sys.stderr)
        return 1 if isinstance(error, StoreError) and args.main not in (run.main, benchmark.main) else 2
    except BrokenPipeError:
        # Whoever reads has read enough; nothing is left that the interpreter could fail to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        how, code = ("terminated", 143) if "SIGTERM" in error.args else ("interrupted", 130)
        kept = "; finished results are kept, and the same command goes on" if hasattr(args, "fresh") else ""
        print(f"mlipaudit: {how}{kept}", file=sys.stderr)
        return code


class _Version(argparse.Action):
    """`--version`, looked up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(
            option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="show the version and exit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import mlipaudit

        print(f"mlipaudit {mlipaudit.__version__}")
        parser.exit()


class _Help(argparse.HelpFormatter):
    """As wide as the terminal, which argparse would import a dozen modules to find out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class _WithExamples(_Help, argparse.RawDescriptionHelpFormatter):
    """The same, with lines as they are written."""


class _Parser(argparse.ArgumentParser):
    """Of the command, and of the commands below it."""

    def __init__(self, *, formatter_class: type[argparse.HelpFormatter] = _Help, **settings: Any) -> None:
        super().__init__(formatter_class=formatter_class, **settings)


def _columns() -> int:
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (ValueError, OSError):  # no terminal
        return 80


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mlipaudit",
        description="The audit for machine-learning interatomic potentials.",
        epilog=EXAMPLES,
        formatter_class=_WithExamples,
    )
    parser.add_argument("-V", "--version", action=_Version)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    return parser
