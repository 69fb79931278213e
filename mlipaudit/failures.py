# SPDX-License-Identifier: Apache-2.0
"""The failure taxonomy: a failure is a value with a reason, never a bare None."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from traceback import extract_tb

from pydantic import BaseModel

from mlipaudit import errors


class FailureKind(StrEnum):
    """Why a system or a benchmark has no result."""

    MISSING_ELEMENTS = "missing_elements"
    LOAD_ERROR = "load_error"
    DATA_UNAVAILABLE = "data_unavailable"
    DATA_CORRUPT = "data_corrupt"
    EXCEPTION = "exception"
    NON_FINITE = "non_finite"
    EXPLODED = "exploded"
    INCOMPLETE = "incomplete"
    NEIGHBOUR_OVERFLOW = "neighbour_overflow"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


class NeighbourOverflowError(RuntimeError):
    """A neighbour list kept growing past its limit: the system collapses."""


class TaskTimeoutError(BaseException):
    """A task's time is up. Not an `Exception`, so that no model can swallow it."""


class Failure(BaseModel):
    """A named reason, with what a person needs to look further."""

    kind: FailureKind
    message: str
    where: str | None = None
    """Innermost frame of an exception, as `file.py:line function`."""
    frame: int | None = None
    """Sampled frame of a trajectory at which it happened."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @classmethod
    def from_exception(cls, error: BaseException) -> Failure:
        """The failure that an exception stands for; keeps its message and innermost frame.

        What was written for people says where by itself.
        """
        where = None if isinstance(error, errors.UserError) else _innermost_frame(error)
        return cls(kind=_kind_of(error), message=_message_of(error), where=where)


def _kind_of(error: BaseException) -> FailureKind:
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return FailureKind.OUT_OF_MEMORY
    by_type: dict[type[BaseException], FailureKind] = {
        NeighbourOverflowError: FailureKind.NEIGHBOUR_OVERFLOW,
        TaskTimeoutError: FailureKind.TIMEOUT,
        errors.ModelLoadError: FailureKind.LOAD_ERROR,
        errors.DataUnavailableError: FailureKind.DATA_UNAVAILABLE,
        errors.DataCorruptError: FailureKind.DATA_CORRUPT,
        errors.ChemicalElementsMissingError: FailureKind.MISSING_ELEMENTS,
    }
    return next((kind for cls, kind in by_type.items() if isinstance(error, cls)), FailureKind.EXCEPTION)


def _message_of(error: BaseException) -> str:
    """First line of an exception's text, after its class unless the text was written for people."""
    lines = str(error).encode(errors="backslashreplace").decode().strip().splitlines()
    text = without_folders(lines[0])[:500] if lines else ""
    if text and isinstance(error, errors.UserError | TaskTimeoutError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def without_folders(text: str) -> str:
    """Absolute paths cut down to their last part: results carry no home paths."""
    return re.sub(r"(?<![\w.:/])/(?:[^\s/'\"]+/)+(?=[^\s/'\"])", "", text)


_CLOCK = "mlipaudit/running/limits.py"
"""Interrupts what takes too long, and is not where the time went."""


def _innermost_frame(error: BaseException) -> str | None:
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.endswith(_CLOCK)]
    if not frames:
        return None
    # The name only: results carry no home paths.
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}"
