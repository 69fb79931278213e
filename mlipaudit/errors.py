# SPDX-License-Identifier: Apache-2.0
"""What a user can fix: one family of errors, printed without a traceback."""

from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right; the message says what, where, and what to type."""


class UsageError(UserError):
    """The command line asks for something that cannot be done."""


class UnknownNameError(UsageError):
    """A name that nothing is registered under."""

    def __init__(self, kind: str, name: str, allowed: Iterable[str]) -> None:
        self.name, self.allowed = name, sorted(allowed)
        super().__init__(f"unknown {kind} {name!r}{self._suggestion()} Known: {', '.join(self.allowed)}")

    def _suggestion(self) -> str:
        from difflib import get_close_matches

        close = get_close_matches(self.name, self.allowed, n=1)
        return f"; did you mean {close[0]!r}?" if close else "."


class ModelLoadError(UserError):
    """A model file or name that gives no usable force field."""


class DataUnavailableError(UserError):
    """Input data that is not there."""


class DataCorruptError(UserError):
    """Input data that is not what its manifest says."""


class StoreError(UserError):
    """A results folder that cannot be written or read."""


class ChemicalElementsMissingError(UserError):
    """The model does not cover elements that the benchmark's input contains."""
