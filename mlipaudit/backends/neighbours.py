# SPDX-License-Identifier: Apache-2.0
"""Neighbour lists that are built once and shared by all models with the same cutoff.

Every model runs in a process of its own, and so does every worker: what they share lies in a bounded folder of ours, in
one file for each set of structures and cutoff. Its name is a hash of both, so that nothing in it can be out of date;
whoever needs it first builds it, and others wait for that. Where nothing can be written everybody builds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from mlipaudit.backends.compilation_cache import cache_root, remove_oldest

if TYPE_CHECKING:
    from ase import Atoms

MAX_BYTES = 1 << 30
FORMAT = b"1"
"""Changed with the way in which neighbours are found or stored."""
LOCK_WAIT_S = 60.0
_folder: ContextVar[Path | None] = ContextVar("folder of neighbour lists", default=None)
Lists = list[Any]
"""`Edges` of several structures."""


@contextmanager
def shared_neighbours(folder: Path | None = None) -> Iterator[None]:
    """Share the neighbour lists of whatever is predicted in this context: of frames that other models are asked too.

    Args:
        folder: where; by default below `$MLIPAUDIT_CACHE`, as compiled programs are.
    """
    token = _folder.set(folder or cache_root() / "neighbours")
    try:
        yield
    finally:
        _folder.reset(token)


def neighbours_of(systems: Sequence[Atoms], cutoff: float, build: Callable[[], Lists]) -> Lists:
    """Neighbour lists of systems: as another model found them where lists are shared, else as `build` finds them."""
    folder = _folder.get()
    if folder is None or not systems:
        return build()
    path = folder / f"{_key(systems, cutoff)}.npz-cache"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _read_or_build(path, build)
    except OSError:
        return build()


def _read_or_build(path: Path, build: Callable[[], Lists]) -> Lists:
    from filelock import FileLock, Timeout

    if (found := _read(path)) is not None:
        return found
    try:
        with FileLock(f"{path}.lock", timeout=LOCK_WAIT_S):
            if (found := _read(path)) is not None:
                return found
            lists = build()
            _write(path, lists)
            return lists
    except Timeout:
        return build()
    finally:
        with suppress(OSError):
            Path(f"{path}.lock").unlink(missing_ok=True)


def _key(systems: Sequence[Atoms], cutoff: float) -> str:
    digest = hashlib.sha256(FORMAT + repr(float(cutoff)).encode())
    for atoms in systems:
        for array in (atoms.positions, np.asarray(atoms.cell), atoms.pbc):
            digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def _read(path: Path) -> Lists | None:
    from mlipaudit.backends.jax_batching import Edges

    try:
        with np.load(path) as stored:
            ends = np.cumsum(stored["counts"])[:-1]
            parts = [np.split(stored[name], ends) for name in ("senders", "receivers", "shifts")]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return [Edges(*one) for one in zip(*parts, strict=True)]


def _write(path: Path, lists: Lists) -> None:
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        with temporary.open("wb") as stream:
            np.savez(
                stream,
                counts=np.array([len(edges) for edges in lists]),
                senders=np.concatenate([edges.senders for edges in lists]),
                receivers=np.concatenate([edges.receivers for edges in lists]),
                shifts=np.concatenate([edges.shifts for edges in lists]),
            )
        temporary.replace(path)
        remove_oldest(path.parent, max_bytes=MAX_BYTES)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
