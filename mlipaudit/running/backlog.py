# SPDX-License-Identifier: Apache-2.0
"""What is still to be handed out, and to whom best. The chunks of a task are one entry, however many they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mlipaudit.models import ModelSpec
from mlipaudit.running.chunks import Chunk
from mlipaudit.running.plan import Task


@dataclass(frozen=True)
class Job:
    """A task, or one chunk of it, and the task's number in the plan."""

    index: int
    task: Task
    chunk: Chunk | None = None
    """None: the whole task."""


@dataclass
class Portion:
    """A task and which chunks of it are to be done."""

    index: int
    task: Task
    chunks: Sequence[int] | None = None
    """Numbers, ascending; None: the whole task, in one piece."""
    count: int = 1
    """Chunks that the task has."""
    taken: int = 0
    """Jobs of it that were handed out."""
    runs_alone: bool = field(init=False)
    shared_id: tuple[str, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        cls = self.task.benchmark_class
        self.runs_alone, self.shared_id = cls.runs_alone, cls.reusable_output_id

    def asks_what(self, other: Job | None) -> bool:
        """Whether one answer of the model serves both."""
        if other is None or self.shared_id is None or self.task.model != other.task.model:
            return False
        return self.shared_id == other.task.benchmark_class.reusable_output_id

    @property
    def num_jobs(self) -> int:
        """Jobs that it consists of."""
        return 1 if self.chunks is None else len(self.chunks)

    def take(self) -> Job:
        """The next job of it."""
        chunk = None if self.chunks is None else Chunk(self.chunks[self.taken], self.count)
        self.taken += 1
        return Job(self.index, self.task, chunk)


class Backlog:
    """Portions from which jobs are taken."""

    def __init__(self, portions: Iterable[Portion]) -> None:
        self._portions = {portion.index: portion for portion in portions if portion.num_jobs}

    def __bool__(self) -> bool:
        return bool(self._portions)

    def take(
        self,
        *,
        loaded: ModelSpec | None = None,
        elsewhere: Collection[ModelSpec | None] = (),
        running: Collection[Job | None] = (),
    ) -> Job | None:
        """The job that suits a worker best; None when there is none for now.

        That is one of the model that is loaded there, else of one that is loaded nowhere, else the first. Those that
        need a quiet machine come last all the same.

        Args:
            loaded: the worker's model.
            elsewhere: models of other workers.
            running: jobs at work. What one of them is about to answer need not be asked again.
        """
        ready = [p for p in self._portions.values() if not any(p.asks_what(job) for job in running)]
        if not ready:
            return None

        def rank(portion: Portion) -> tuple[bool, ...]:
            model = portion.task.model
            return portion.runs_alone, model != loaded, model in elsewhere

        portion = min(ready, key=rank)
        job = portion.take()
        if portion.taken == portion.num_jobs:
            del self._portions[portion.index]
        return job

    def give_up(self, index: int) -> None:
        """Hand out no more chunks of a task: one of them has failed."""
        self._portions.pop(index, None)
