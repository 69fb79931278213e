# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit verify`: do stored results still follow from the stored model outputs?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.record import TaskRecord
    from mlipaudit.store import ResultStore, Unreadable

HELP = "check that stored results and scores still follow from the stored model outputs"
Finding = tuple[bool, str]
"""Whether all is well, and a line about it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    from mlipaudit.cli import analyze

    analyze.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Check; 1 when anything differs or cannot be checked."""
    from mlipaudit.reporting.rows import gaps_of
    from mlipaudit.store import ResultStore, Unreadable

    store = ResultStore(args.results)
    stored = list(store.records())
    unreadable = [record for record in stored if isinstance(record, Unreadable)]
    records = [record for record in stored if not isinstance(record, Unreadable)]
    findings = [finding for record in stored for finding in _check(record, store, args.data)]
    for gap in gaps_of(store.read_run(), records, unreadable):
        if gap.why == "missing":
            findings.append((False, f"{gap.model} · {gap.benchmark}: no result, though the last run asked for it"))
    findings += _check_scores(records, store)
    for _, line in findings:
        print(line)
    if not findings:
        print(f"no results in {args.results}")
    return 0 if findings and all(ok for ok, _ in findings) else 1


def _check(record: TaskRecord | Unreadable, store: ResultStore, data: Path | None) -> Iterator[Finding]:
    from mlipaudit.errors import StoreError, UserError
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
        hint = "; run it again with --fresh" if isinstance(error, StoreError) else ""
        yield False, f"{label}: cannot be checked: {error}{hint}"
        return
    if result is None:
        yield True, f"{label}: untouched; there is no model output to judge again"
    elif changed := list(differences(record.result, result)):
        yield False, f"{label}: differs in {', '.join(changed)}; mlipaudit analyze brings it up to date"
    else:
        yield True, f"{label}: agrees, {score_text(result)}"


def _check_scores(records: Sequence[TaskRecord], store: ResultStore) -> Iterator[Finding]:
    """Each score file against the results it may be the mean of."""
    for model in store.models_with_scores() | {record.provenance.model for record in records}:
        found = store.read_scores(model)
        possible = [store.scores(r.provenance) for r in records if r.provenance.model == model]
        if found not in possible:
            what = "mlipaudit analyze mends it" if possible else "there are none, delete it"
            yield False, f"{model}/score.json: does not agree with the results; {what}"
