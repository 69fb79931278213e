# SPDX-License-Identifier: Apache-2.0
"""Time limits within a process, and how it ends when told to.

What hangs outside of Python needs a supervisor: see `running.crew`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from mlipaudit.failures import TaskTimeoutError


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise in the block when its time is up. Without a limit, or outside the main thread, do nothing.

    Raises:
        TaskTimeoutError: the time is up.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TaskTimeoutError(f"not done after {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that everything is put in order on the way out.

    Raises:
        KeyboardInterrupt: with "SIGTERM" as its argument.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt("SIGTERM")

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
