# SPDX-License-Identifier: Apache-2.0
"""A worker process as its supervisor sees it: something that may die, hang or be killed at any time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any

from mlipaudit.failures import Failure, FailureKind, without_folders
from mlipaudit.running.chunks import Chunk
from mlipaudit.running.devices import Place
from mlipaudit.running.environment import for_models
from mlipaudit.running.plan import Task
from mlipaudit.running.provenance import Surroundings

STACK_WAIT_S = 0.5
"""How long a process that hangs gets to say where."""
Message = tuple[str, Any]


class WorkerProcess:
    """Runs tasks in a process of its own, in a process group of its own."""

    def __init__(self, place: Place, store: Path, *, verbose: bool) -> None:
        self.surroundings = Surroundings.without_device()
        self.ready = False
        # Open as long as the process lives: closed in `stop`.
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115
        self._stderr: IO[bytes] | None = None if verbose else tempfile.TemporaryFile()  # noqa: SIM115
        self._heard = 0
        """How much of standard error belongs to earlier tasks."""
        self.connection, theirs = Pipe()
        self._process = self._start(place, theirs, store)
        theirs.close()

    def _start(self, place: Place, theirs: Connection, store: Path) -> subprocess.Popen:
        files = theirs.fileno(), self._last_words.fileno()
        arguments = [*map(str, files), str(store.absolute()), json.dumps(place.cores)]
        return subprocess.Popen(
            # -P: what lies in the current folder must not stand in for what is installed.
            [sys.executable, "-P", "-m", "mlipaudit.running.serve", *arguments],
            env={**for_models(os.environ), **place.environment()},
            pass_fds=files,
            stdin=subprocess.DEVNULL,
            # Standard output is the table's; what models print is noise there.
            stdout=sys.stderr.fileno() if self._stderr is None else subprocess.DEVNULL,
            stderr=self._stderr,
            process_group=0,
        )

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def give(self, task: Task, chunk: Chunk | None = None) -> None:
        """Hand over a task, or a chunk of it; a process that has just died does not get it."""
        if self._stderr is not None:
            self._heard = os.fstat(self._stderr.fileno()).st_size
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send((task, chunk))

    def messages(self) -> Iterator[Message]:
        """What has come in; ends when there is nothing more for now."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                yield self._decode(self.connection.recv_bytes())

    def _decode(self, content: bytes) -> Message:
        kind, about = json.loads(content)
        if kind == "ready":
            self.ready, self.surroundings = True, Surroundings(**about)
        return kind, about

    def where_it_hangs(self) -> str | None:
        """The innermost Python frame of the main thread, if the process can still say."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + STACK_WAIT_S
        while time.monotonic() < deadline and not self._spoken():
            time.sleep(0.02)
        time.sleep(0.02)  # the rest of the stack
        return innermost_frame(self._spoken())

    def cause_of_death(self) -> Failure:
        """The failure that the end of the process stands for."""
        message = _in_words(self._process.wait())
        if self._stderr is not None and (last := _last_line(self._stderr, self._heard)):
            message += f"; its last words: {last}"
        return Failure(kind=FailureKind.CRASHED, message=message, where=innermost_frame(self._spoken()))

    def kill(self) -> None:
        """Let the process die, and whatever it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the process and whatever it has started, at once."""
        self.kill()
        self._process.wait()
        self.connection.close()
        self._last_words.close()
        if self._stderr is not None:
            self._stderr.close()

    def _spoken(self) -> str:
        return _read(self._last_words)


def innermost_frame(stack: str) -> str | None:
    """The innermost frame of the last thread in a stack that faulthandler wrote, as `file.py:line function`."""
    thread = re.split(r"^(?:Current t|T)hread .*$", stack, flags=re.MULTILINE)[-1]
    frames = re.search(r'File "(.*)", line (\d+) in (\S+)', thread)
    if frames is None:
        return None
    file, line, function = frames.groups()
    return f"{Path(file).name}:{line} {function}"


def _in_words(code: int) -> str:
    if code >= 0:
        return f"the worker process ended by itself, with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system does that when memory runs out)" if -code == signal.SIGKILL else ""
    return f"the worker process died: {name}{hint}"


def _last_line(stream: IO[bytes], start: int) -> str:
    lines = [line.strip() for line in _read(stream, start).splitlines() if line.strip()]
    return without_folders(lines[-1])[:300] if lines else ""


def _read(stream: IO[bytes], start: int = 0, most: int = 1 << 16) -> str:
    """What was written after `start`, or the end of that; leaves the place where the other process writes alone."""
    size = os.fstat(stream.fileno()).st_size
    return os.pread(stream.fileno(), most, max(size - most, start)).decode(errors="replace")
