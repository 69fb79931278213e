# SPDX-License-Identifier: Apache-2.0
"""What happens during a run, for whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.failures import Failure
    from mlipaudit.record import TaskRecord
    from mlipaudit.running.plan import Plan, Task


@dataclass(frozen=True)
class RunStarted:
    """A plan begins."""

    plan: Plan


@dataclass(frozen=True)
class DataProgress:
    """So many bytes of a data set have been downloaded, of so many."""

    name: str
    done: int
    total: int


@dataclass(frozen=True)
class TaskKept:
    """Task number `index`, counted from 1, was done by an earlier run; `note` says what is different today."""

    index: int
    task: Task
    record: TaskRecord
    note: str = ""


@dataclass(frozen=True)
class TaskRepeated:
    """Task number `index` has a stored result that does not count, and why."""

    index: int
    task: Task
    why: str


@dataclass(frozen=True)
class TaskStarted:
    """Task number `index` begins."""

    index: int
    task: Task


@dataclass(frozen=True)
class TaskProgress:
    """Task number `index` has done so many of so many; with a total of 0, something to be told once."""

    index: int
    what: str
    done: int
    total: int


@dataclass(frozen=True)
class TaskPartlyDone:
    """So many chunks of task number `index` are stored, of so many; others do the rest."""

    index: int
    task: Task
    done: int
    count: int
    failure: Failure | None = None
    """Why the task comes to nothing, where a chunk has failed."""


@dataclass(frozen=True)
class TaskFinished:
    """Task number `index` is stored."""

    index: int
    task: Task
    record: TaskRecord


Event = (
    RunStarted
    | DataProgress
    | TaskKept
    | TaskRepeated
    | TaskStarted
    | TaskProgress
    | TaskPartlyDone
    | TaskFinished
)
Emit = Callable[[Event], None]
