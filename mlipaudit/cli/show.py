# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit show`: what a results folder says."""

from __future__ import annotations

import argparse
import sys

HELP = "show the scores in a results folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)"
    )


def main(args: argparse.Namespace) -> int:
    """Print the table; 1 when a result cannot be read."""
    from mlipaudit.record import TaskRecord
    from mlipaudit.reporting.rows import gaps_of, rows_of
    from mlipaudit.reporting.tables import failure_lines, score_table, warning_lines
    from mlipaudit.store import ResultStore, Unreadable

    store = ResultStore(args.results)
    stored = list(store.records())
    records = [record for record in stored if isinstance(record, TaskRecord)]
    unreadable = [record for record in stored if isinstance(record, Unreadable)]
    gaps = gaps_of(store.read_run(), records, unreadable)
    if records or gaps:
        lines = [
            score_table(rows_of(records, gaps)),
            *warning_lines(records),
            *failure_lines(records, args.results),
        ]
        print("\n".join(lines))
    else:
        print(f"no results in {args.results}")
    for record in unreadable:
        print(f"mlipaudit: cannot read {record.path}: {record.reason}", file=sys.stderr)
    return 1 if unreadable or not records else 0
