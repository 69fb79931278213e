# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit merge`: one results folder from those of several shards."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "put the results folders of several shards together"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "parts",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="results folders of `mlipaudit run --shard`, in any order",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("results"), metavar="DIR", help="where to (default: results)"
    )
    parser.add_argument(
        "--data", type=Path, metavar="PATH", help="input data of results that were made on a folder of yours"
    )


def main(args: argparse.Namespace) -> int:
    """Merge; 1 when something is missing or cannot be used."""
    from mlipaudit.running.merge import merge

    merged = merge(args.parts, args.output, data=args.data)
    for line in merged.twice:
        print(line)
    joined = f", {merged.num_joined} of them from chunks" if merged.num_joined else ""
    print(f"{merged.num_copied + merged.num_joined} results in {args.output}{joined}")
    sys.stdout.flush()
    for line in merged.unusable:
        print(f"cannot be used: {line}", file=sys.stderr)
    for line in merged.missing:
        print(f"missing: {line}", file=sys.stderr)
    return 0 if merged.complete else 1
