# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit tables`: the metrics of one benchmark, for a paper or a program."""

from __future__ import annotations

import argparse
import sys

HELP = "print the metrics of one benchmark, of all models, as csv, json, markdown or latex"
FORMATS = ("csv", "json", "markdown", "latex")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("-b", "--benchmark", metavar="NAME", help="which; needed where there are several")
    parser.add_argument("-f", "--format", choices=FORMATS, default="markdown", help="(default: markdown)")
    parser.add_argument("--groups", action="store_true", help="with a row for each group of systems")


def main(args: argparse.Namespace) -> int:
    """Print the table; 1 when a result cannot be read."""
    from mlipaudit.errors import UnknownNameError, UsageError
    from mlipaudit.reporting.contents import open_results
    from mlipaudit.reporting.metric_tables import FORMATS as DRAW
    from mlipaudit.reporting.metric_tables import metric_table

    contents = open_results(args.results)
    names = sorted({record.provenance.identity.benchmark for record in contents.records})
    if args.benchmark is None and len(names) != 1:
        raise UsageError(
            f"which one? --benchmark {' | '.join(names)}" if names else f"no results in {args.results}"
        )
    name = args.benchmark or names[0]
    if name not in names:
        raise UnknownNameError("benchmark", name, names)
    table = metric_table(contents.records_of(benchmark=name), groups=args.groups)
    sys.stdout.write(DRAW[args.format](table))
    return 1 if any(bad.benchmark == name for bad in contents.unreadable) else 0
