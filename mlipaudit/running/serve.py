# SPDX-License-Identifier: Apache-2.0
"""The program of a worker process: takes tasks from a supervisor, gives records back.

Started as `python -m mlipaudit.running.serve`, with an open connection and a file for its last words. What goes back
is JSON and not a pickle: a model that has trodden on this process's memory cannot mislead the supervisor's.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PROGRESS_INTERVAL_S = 0.1
_PR_SET_PDEATHSIG = 1


def main(connection: Connection, last_words: int, store: Path, cores: list[int]) -> None:
    """Serve until the supervisor hangs up."""
    _die_with_the_supervisor()
    # Python's stack, for the record: when this process crashes, and when it is asked where it hangs.
    faulthandler.enable(last_words, all_threads=False)
    faulthandler.register(signal.SIGUSR1, last_words, all_threads=True)
    if cores:
        os.sched_setaffinity(0, cores)
    from mlipaudit.errors import StoreError
    from mlipaudit.running.worker import Worker
    from mlipaudit.store import ResultStore, content_of

    worker = Worker(ResultStore(store))
    reporter = Reporter(connection)
    reporter.send("ready", asdict(worker.surroundings))
    while True:
        try:
            task, chunk = connection.recv()
        except EOFError:
            return
        try:
            if chunk is None:
                content = content_of(worker.run(task, reporter.progress))
            else:
                content = json.loads(worker.run_chunk(task, chunk, reporter.progress).model_dump_json())
        except StoreError as error:
            reporter.send("store_error", str(error))
        else:
            reporter.send("finished", content)


class Reporter:
    """Sends what happens to the supervisor."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._what, self._sent = "", 0.0

    def send(self, kind: str, content: Any) -> None:
        """One message."""
        self._connection.send_bytes(json.dumps([kind, content]).encode())

    def progress(self, what: str, done: int, total: int) -> None:
        """Progress, as often as somebody could look at it."""
        now = time.monotonic()
        if what == self._what and done < total and now - self._sent < PROGRESS_INTERVAL_S:
            return
        self._what, self._sent = what, now
        self.send("progress", [what, done, total])


def _die_with_the_supervisor() -> None:
    """Ask Linux to end this process when the one that started it dies, however that happens."""
    if sys.platform == "linux":
        supervisor = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before the request
            sys.exit(1)


if __name__ == "__main__":
    wire, words, root, bound_to = sys.argv[1:]
    main(Connection(int(wire)), int(words), Path(root), json.loads(bound_to))
