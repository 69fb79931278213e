# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan. This one works in the calling process."""

from __future__ import annotations

from mlipaudit.record import TaskRecord
from mlipaudit.running.events import Emit, RunStarted, TaskFinished, TaskProgress, TaskStarted
from mlipaudit.running.plan import Plan
from mlipaudit.store import ResultStore


def execute(plan: Plan, store: ResultStore, emit: Emit) -> list[TaskRecord]:
    """Run every task of a plan and store each result as soon as it is there.

    Raises:
        StoreError: results cannot be written.
    """
    store.prepare()
    store.write_run(plan.as_dict())
    emit(RunStarted(plan))
    from mlipaudit.running.worker import Worker

    worker = Worker(plan)
    records = []
    for index, task in enumerate(plan.tasks, start=1):
        emit(TaskStarted(index, task))
        record = worker.run(task, lambda what, done, total: emit(TaskProgress(what, done, total)))
        store.write(record)
        records.append(record)
        emit(TaskFinished(index, task, record))
    return records
