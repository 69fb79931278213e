# SPDX-License-Identifier: Apache-2.0
"""What happens during a run, for whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.record import TaskRecord
    from mlipaudit.running.plan import Plan, Task


@dataclass(frozen=True)
class RunStarted:
    """A plan begins."""

    plan: Plan


@dataclass(frozen=True)
class TaskStarted:
    """Task number `index`, counted from 1, begins."""

    index: int
    task: Task


@dataclass(frozen=True)
class TaskProgress:
    """The current task has done so many of so many."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class TaskFinished:
    """Task number `index` is stored."""

    index: int
    task: Task
    record: TaskRecord


Event = RunStarted | TaskStarted | TaskProgress | TaskFinished
Emit = Callable[[Event], None]
