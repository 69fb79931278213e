# SPDX-License-Identifier: Apache-2.0
"""Shows a run as it happens: one live line on a terminal, plain lines elsewhere; the table at the end."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Self, TextIO

from mlipaudit.record import TaskRecord
from mlipaudit.reporting.rows import rows_of
from mlipaudit.reporting.tables import failure_lines, number, score_table, seconds, warning_lines
from mlipaudit.running.events import Event, RunStarted, TaskFinished, TaskProgress, TaskStarted

LIVE_INTERVAL_S, PLAIN_INTERVAL_S = 0.1, 10.0
"""Between two shows of progress: on a terminal, and elsewhere."""


def configure_logging(*, verbose: bool) -> None:
    """The one place where logging is set up."""
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, format="%(name)s: %(message)s")
    if not verbose:
        warnings.simplefilter("ignore")


class Display:
    """Receives the events of a run."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.num_tasks = 0
        self.label = ""
        self.printed = 0.0
        self.what = ""
        self.first: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case RunStarted(plan):
                self.num_tasks = len(plan.tasks)
            case TaskStarted(index, task):
                self.first = None
                self.label = f"[{index}/{self.num_tasks}] {task.model.name} · {task.benchmark}"
                self._update(f"{self.label}: loading", always=True)
            case TaskProgress(what, done, total):
                text = f"{self.label}: {what} {done}/{total}{self._time_left(done, total)}"
                self._update(text, always=what != self.what)
                self.what = what
            case TaskFinished(_, _, record):
                self._finish(f"{self.label}: {_outcome(record)}")

    def summarise(self, records: Sequence[TaskRecord], *, output: str) -> None:
        """The table on standard output, and last of all what failed."""
        print(score_table(rows_of(records)))
        for line in warning_lines(records):
            print(line)
        sys.stdout.flush()
        for line in failure_lines(records, output):
            print(line, file=sys.stderr)

    def _time_left(self, done: int, total: int) -> str:
        """Estimated from the first report on, so that loading a model does not count."""
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done)
        since, before = self.first
        if done <= before or done >= total:
            return ""
        return f", about {seconds((now - since) / (done - before) * (total - done))} left"

    def _update(self, text: str, *, always: bool = False) -> None:
        interval = LIVE_INTERVAL_S if self.live else PLAIN_INTERVAL_S
        if not always and time.monotonic() - self.printed < interval:
            return
        self.printed = time.monotonic()
        self.stream.write(f"\r\033[K{text}" if self.live else f"{text}\n")
        self.stream.flush()

    def _finish(self, text: str) -> None:
        self._clear()
        print(text, file=self.stream, flush=True)

    def _clear(self) -> None:
        if self.live:
            self.stream.write("\r\033[K")
            self.stream.flush()


def _outcome(record: TaskRecord) -> str:
    result, took = record.result, seconds(record.provenance.wall_seconds)
    score = "no score" if result.score is None else f"score {number(result.score)}"
    failed = len(record.reasons)
    return f"{score}, {took}" + (f", {failed} failure{'s' if failed > 1 else ''}" if failed else "")
