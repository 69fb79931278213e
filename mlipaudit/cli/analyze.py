# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit analyze`: results and scores anew from stored model outputs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.record import TaskRecord
    from mlipaudit.store import ResultStore, Unreadable

HELP = "compute results and scores again from the stored model outputs, without a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument(
        "--data", type=Path, metavar="PATH", help="input data of results that were made on a folder of yours"
    )


def main(args: argparse.Namespace) -> int:
    """Judge again; 1 when a result could not be."""
    from mlipaudit.store import ResultStore, Unreadable

    store = ResultStore(args.results)
    stored = list(store.records())
    if not stored:
        print(f"no results in {args.results}")
        return 1
    with store.locked():
        lines = [(ok, line) for record in stored for ok, line in _analyze(record, store, args.data)]
        for record in stored:
            if not isinstance(record, Unreadable):
                store.tidy(record)
    for _, line in lines:
        print(line)
    return 0 if all(ok for ok, _ in lines) else 1


def _analyze(record: TaskRecord | Unreadable, store: ResultStore, data: Path | None) -> Iterator[tuple[bool, str]]:
    """Whether it went well, and a line about it."""
    from mlipaudit import __version__
    from mlipaudit.errors import UserError
    from mlipaudit.rejudge import differences, judge_again
    from mlipaudit.reporting.tables import score_text
    from mlipaudit.store import Unreadable

    if isinstance(record, Unreadable):
        yield False, f"{record.model} · {record.benchmark}: cannot be read: {record.reason}"
        return
    label = f"{record.provenance.model} · {record.provenance.identity.benchmark}"
    try:
        result = judge_again(record, store, data=data)
    except UserError as error:
        yield False, f"{label}: {error}"
        return
    if result is None:
        yield True, f"{label}: no model output to analyze, stays as it is"
    elif not any(differences(record.result, result)):
        yield True, f"{label}: unchanged, {score_text(result)}"
    else:
        before = score_text(record.result)
        record.result, record.provenance.analyzed_by = result, f"mlipaudit {__version__}"
        store.write(record)
        yield True, f"{label}: {score_text(result)}, was {before}"
