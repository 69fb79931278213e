# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit selftest`: does this installation keep what it promises about broken models?"""

from __future__ import annotations

import argparse
import sys

HELP = "audit broken models, each beside a good one, and say whether every promise is kept (minutes)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("only", nargs="*", metavar="FAULT", help="only these, by their first column")


def main(args: argparse.Namespace) -> int:
    """Print a line per fault as it is tried; 1 when a promise was broken."""
    import tempfile
    from pathlib import Path

    from mlipaudit.errors import UnknownNameError
    from mlipaudit.selftest.check import Bench
    from mlipaudit.selftest.faults import FAULTS

    known = dict.fromkeys(fault.name for fault in FAULTS)
    for name in args.only:
        if name not in known:
            raise UnknownNameError("fault", name, known)
    chosen = [fault for fault in FAULTS if not args.only or fault.name in args.only]
    broken = 0
    with tempfile.TemporaryDirectory(prefix="mlipaudit-selftest-") as folder:
        bench = Bench(Path(folder))
        print(f"{'fault':<22}{'benchmark':<17}{'promised':<30}found")
        for fault in chosen:
            outcome = bench.check(fault)
            broken += not outcome.kept
            promised = f"{fault.kind or 'no failure'}, score {fault.score:.3g}"
            print(f"{fault.name:<22}{fault.benchmark:<17}{promised:<30}{outcome.found}", flush=True)
            for complaint in outcome.complaints:
                print(f"{'':<22}BROKEN PROMISE: {complaint}", flush=True)
    if broken:
        print(f"mlipaudit: {broken} of {len(chosen)} faults broke a promise", file=sys.stderr)
        return 1
    print(
        f"{len(chosen)} of {len(chosen)} faults end by name, score what they should, and cost the good model nothing"
    )
    return 0
