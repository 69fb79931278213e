# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit report`: a results folder as one HTML file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HELP = "write a results folder as one HTML file that opens without a server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="file to write (default: report.html)"
    )
    parser.add_argument("--title", default="MLIP audit", metavar="TEXT", help="of the report")
    parser.add_argument(
        "--data", metavar="DIR", help="folder with the input data, for results on a folder of your own"
    )


def main(args: argparse.Namespace) -> int:
    """Write the file; 1 when a result cannot be read, or there is none."""
    from mlipaudit.errors import UsageError
    from mlipaudit.reporting.contents import open_results
    from mlipaudit.reporting.html import render
    from mlipaudit.reporting.pages import all_pages
    from mlipaudit.reporting.tables import size_text
    from mlipaudit.store import write_text

    output = Path(args.output)
    if output.is_dir():
        raise UsageError(f"{output} is a folder; name a file, as in --output {output / 'report.html'}")
    contents = open_results(args.results)
    pages = all_pages(contents, data=Path(args.data) if args.data else None)
    href = Path(os.path.relpath(args.results, output.parent)).as_posix()
    text = render(pages, title=args.title, models=contents.models, results_href=href)
    write_text(output, text)
    print(f"{output}: {len(pages)} pages, {size_text(len(text.encode()))}; open it in a browser")
    for record in contents.unreadable:
        print(f"mlipaudit: cannot read {record.path}: {record.reason}", file=sys.stderr)
    if not contents.records:
        print(f"mlipaudit: no results in {args.results}", file=sys.stderr)
    return 1 if contents.unreadable or not contents.records else 0
