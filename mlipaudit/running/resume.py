# SPDX-License-Identifier: Apache-2.0
"""Which stored results still count."""

from __future__ import annotations

from mlipaudit.failures import FailureKind
from mlipaudit.record import TaskRecord
from mlipaudit.running.plan import Task
from mlipaudit.scoring import SCORING_VERSION
from mlipaudit.store import Unreadable

TRIED_AGAIN = {
    FailureKind.LOAD_ERROR,
    FailureKind.DATA_UNAVAILABLE,
    FailureKind.DATA_CORRUPT,
    FailureKind.OUT_OF_MEMORY,
    FailureKind.CRASHED,
}
"""Failures of a whole task that may have had their reason outside of model and data."""


def reason_to_repeat(stored: TaskRecord | Unreadable, task: Task, *, limit: float | None) -> str | None:
    """Why a stored result does not count for a task; None when it does.

    A task that ran out of time is repeated when it may take longer than before.
    """
    if isinstance(stored, Unreadable):
        return f"the stored result cannot be used: {stored.reason}"
    different = stored.provenance.identity.differences(task.identity)
    if different:
        return f"the stored result differs in {', '.join(different)}"
    if (scoring := stored.result.scoring_version) != SCORING_VERSION:
        return f"the stored result differs in scoring version (was {scoring}, is {SCORING_VERSION})"
    failure = stored.result.failure
    if failure is None:
        return None
    if failure.kind in TRIED_AGAIN:
        return f"the last try ended with {failure.kind}"
    before = stored.provenance.time_limit_seconds
    if failure.kind is FailureKind.TIMEOUT and before is not None and (limit is None or limit > before):
        return f"the last try ended with {failure.kind}, and has more time now"
    return None
