# SPDX-License-Identifier: Apache-2.0
"""Shows a run as it happens: one live line on a terminal, plain lines elsewhere; the table at the end."""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TextIO

from mlipaudit.record import TaskRecord
from mlipaudit.reporting.rows import rows_of
from mlipaudit.reporting.tables import (
    download_text,
    failure_lines,
    score_table,
    score_text,
    seconds,
    warning_lines,
)
from mlipaudit.running.events import (
    DataProgress,
    Event,
    RunStarted,
    TaskFinished,
    TaskKept,
    TaskPartlyDone,
    TaskProgress,
    TaskRepeated,
    TaskStarted,
)
from mlipaudit.running.plan import Task

LIVE_INTERVAL_S, PLAIN_INTERVAL_S = 0.1, 10.0
"""Between two shows of progress: on a terminal, and elsewhere."""


def configure_logging(*, verbose: bool) -> None:
    """The one place where logging is set up."""
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, format="%(name)s: %(message)s")
    if not verbose:
        warnings.simplefilter("ignore")


@dataclass
class Running:
    """A task at work, and how far it is."""

    label: str
    what: str = "loading"
    progress: str = ""
    first: tuple[float, int] | None = None
    """Time and count of the first report: time left is estimated from there, so that loading does not count."""
    printed: float = 0.0

    def advance(self, what: str, done: int, total: int) -> bool:
        """Take a report in; True when something new has begun."""
        new, self.what = what != self.what, what
        if new:
            self.first = None
        self.progress = f" {done}/{total}{self._time_left(done, total)}"
        return new

    def _time_left(self, done: int, total: int) -> str:
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done)
        since, before = self.first
        if done <= before or done >= total:
            return ""
        return f", about {seconds((now - since) / (done - before) * (total - done))} left"

    def __str__(self) -> str:
        return f"{self.label}: {self.what}{self.progress}"


class Display:
    """Receives the events of a run."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.num_tasks = 0
        self.running: dict[int, Running] = {}
        self.printed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case RunStarted(plan):
                self.num_tasks = len(plan.tasks)
            case DataProgress(name, done, total):
                self._show_download(name, done, total)
            case TaskKept(index, task, record, note):
                self._line(f"{self._label(index, task)}: kept from an earlier run, {_outcome(record)}{note}")
            case TaskRepeated(index, task, why):
                self._line(f"{self._label(index, task)}: run again: {why}")
            case TaskStarted(index, task):
                self.running[index] = Running(self._label(index, task))
                self._update(self.running[index], always=True)
            case TaskProgress(index, what, _, 0):
                self._line(f"{self.running[index].label}: {what}")
            case TaskProgress(index, what, done, total):
                running = self.running[index]
                self._update(running, always=running.advance(what, done, total))
            case TaskPartlyDone(index, _, done, count, failure):
                label, failed = self.running.pop(index).label, f", {failure}" if failure else ""
                self._line(f"{label}: {done} of {count} chunks done{failed}")
            case TaskFinished(index, _, record):
                self._line(f"{self.running.pop(index).label}: {_outcome(record)}")

    def summarise(self, records: Sequence[TaskRecord], *, output: str) -> None:
        """The table on standard output, and last of all what failed."""
        print(score_table(rows_of(records)))
        for line in warning_lines(records):
            print(line)
        sys.stdout.flush()
        for line in failure_lines(records, output):
            print(line, file=sys.stderr)

    def _label(self, index: int, task: Task) -> str:
        return f"[{index}/{self.num_tasks}] {task.model.name} · {task.benchmark}"

    def _show_download(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        whole = total and done >= total
        if not whole and now - self.printed < (LIVE_INTERVAL_S if self.live else PLAIN_INTERVAL_S):
            return
        self.printed = now
        self._write(f"downloading {download_text(name, done, total)}")

    def _update(self, running: Running, *, always: bool) -> None:
        now = time.monotonic()
        last = self.printed if self.live else running.printed
        if not always and now - last < (LIVE_INTERVAL_S if self.live else PLAIN_INTERVAL_S):
            return
        self.printed = running.printed = now
        self._write(" │ ".join(map(str, self.running.values())) if self.live else str(running))

    def _write(self, text: str) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            text = text if len(text) <= width else f"{text[: width - 1]}…"
        self.stream.write(f"\r\033[K{text}" if self.live else f"{text}\n")
        self.stream.flush()

    def _line(self, text: str) -> None:
        self._clear()
        print(text, file=self.stream, flush=True)

    def _clear(self) -> None:
        if self.live:
            self.stream.write("\r\033[K")
            self.stream.flush()


def _outcome(record: TaskRecord) -> str:
    took, failed = seconds(record.provenance.wall_seconds), len(record.reasons)
    return f"{score_text(record.result)}, {took}" + (
        f", {failed} failure{'s' if failed > 1 else ''}" if failed else ""
    )
