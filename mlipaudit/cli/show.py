# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit show`: what a results folder says."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.reporting.contents import Contents

HELP = "show the scores in a results folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)"
    )
    formats = parser.add_mutually_exclusive_group()
    for name, what in (
        ("json", "everything, for programs"),
        ("csv", "a line per task"),
        ("markdown", "tables for a pull request"),
    ):
        formats.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=f"print {what}")


def main(args: argparse.Namespace) -> int:
    """Print what is there; 1 when a result cannot be read."""
    from mlipaudit.reporting.contents import open_results

    contents = open_results(args.results)
    sys.stdout.write(_text(contents, args.form, where=args.results))
    for record in contents.unreadable:
        print(f"mlipaudit: cannot read {record.path}: {record.reason}", file=sys.stderr)
    return 1 if contents.unreadable or not contents.records else 0


def _text(contents: Contents, form: str | None, *, where: str) -> str:
    import json

    from mlipaudit.reporting.export import as_csv, as_json, as_markdown

    if form == "json":
        return json.dumps(as_json(contents), indent=1, allow_nan=False) + "\n"
    if form == "csv":
        return as_csv(contents)
    return as_markdown(contents) if form == "markdown" else _tables(contents, where)


def _tables(contents: Contents, where: str) -> str:
    """Leaderboard, table of tasks, and what a reader of them should know."""
    from mlipaudit.reporting.leaderboard import rankings
    from mlipaudit.reporting.rows import rows_of
    from mlipaudit.reporting.tables import failure_lines, leaderboards, score_table, warning_lines

    if not contents.records and not contents.gaps:
        return f"no results in {where}\n"
    parts = [leaderboards(rankings(contents)), score_table(rows_of(contents.records, contents.gaps))]
    lines = [*filter(None, parts), *warning_lines(contents.records), *failure_lines(contents.records, where)]
    return "\n".join(lines) + "\n"
