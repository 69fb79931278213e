# SPDX-License-Identifier: Apache-2.0
"""A results folder as it was at one moment, read once for all who look at it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import ase.io  # noqa: F401 # structures need it: better imported with the first page than with a later one
import streamlit as st

from mlipaudit.errors import StoreError
from mlipaudit.reporting.contents import Contents, open_results
from mlipaudit.reporting.structures import Structures
from mlipaudit.store import RESULT, RUN

MAX_STATES = 4


@dataclass(frozen=True)
class Moment:
    """What distinguishes one state of a folder from another: times and sizes of its files, without reading them."""

    files: frozenset[tuple[str, int, int]]

    @classmethod
    def of(cls, root: Path) -> Moment:
        """The state of a folder now; a file that goes away meanwhile was not there."""
        files = set()
        for path in (root / RUN, *root.glob(f"*/*/{RESULT}")):
            with suppress(OSError):
                status = path.stat()
                files.add((str(path.relative_to(root)), status.st_mtime_ns, status.st_size))
        return cls(frozenset(files))

    @property
    def key(self) -> str:
        """The same for the same state."""
        return sha256(repr(sorted(self.files)).encode()).hexdigest()

    def changed_since(self, earlier: Moment) -> int:
        """Number of results that appeared, went away, or were written again."""
        paths = {path for path, *_ in self.files ^ earlier.files}
        return sum(path != RUN for path in paths)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What was in the folder."""

    contents: Contents
    structures: Structures
    problem: str = ""
    """Why nothing could be read."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show, not even that something is missing."""
        return not (self.contents.records or self.contents.gaps)


def snapshot(root: Path, data: Path | None, moment: Moment) -> Snapshot:
    """The folder at that moment."""
    return _read(str(root), str(data) if data else "", moment.key)


@st.cache_resource(max_entries=MAX_STATES, show_spinner="Reading results …")
def _read(root: str, data: str, key: str) -> Snapshot:
    structures = Structures(Path(data) if data else None)
    try:
        return Snapshot(open_results(root), structures)
    except StoreError as error:
        return Snapshot(Contents(Path(root), (), (), ()), structures, str(error))
