# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache, in a bounded folder of ours.

jax can bound the folder itself, but then looks at every entry whenever it adds one: a quarter of a cold start. Here
the folder is put in order once per process.
"""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

MAX_BYTES = 2 << 30
ENTRY = "*-cache"
"""The files of a cache, as jax names them."""
STAMP = ".looked-after"
GRACE_S = 60.0
"""A younger entry may still be being written."""


def use_compilation_cache() -> Path | None:
    """Keep compiled programs between processes.

    The folder is `$MLIPAUDIT_CACHE`, else `mlipaudit` below `$XDG_CACHE_HOME` or `~/.cache`. A cache that somebody
    has configured already is left alone, and a folder that cannot be written means no cache.
    """
    import jax

    configured = jax.config.values["jax_compilation_cache_dir"]
    if configured:
        return Path(configured)
    folder = cache_root() / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        look_after(folder)
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


def look_after(folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Remove what a killed process left unfinished, and the entries longest unused if there are too many."""
    remove_unfinished(folder)
    remove_oldest(folder, max_bytes=max_bytes)


def remove_unfinished(folder: Path) -> None:
    """Remove entries that a process was killed over, among those written since the last look.

    jax would neither read nor replace them.
    """
    stamp, now = folder / STAMP, time.time()
    since = stamp.stat().st_mtime - GRACE_S if stamp.exists() else 0.0
    for entry in folder.glob(ENTRY):
        if since <= entry.stat().st_mtime < now - GRACE_S and not _is_whole(entry.read_bytes()):
            entry.unlink(missing_ok=True)
    stamp.touch()


def remove_oldest(folder: Path, *, max_bytes: int) -> None:
    """Make room if the entries take more than `max_bytes`: a quarter of that, so that it is not needed every time."""
    used = {entry: entry.stat() for entry in folder.glob(ENTRY)}
    size = sum(status.st_size for status in used.values())
    if size <= max_bytes:
        return
    for entry in sorted(used, key=lambda path: max(used[path].st_atime, used[path].st_mtime)):
        entry.unlink(missing_ok=True)
        size -= used[entry].st_size
        if size <= 0.75 * max_bytes:
            return


def _is_whole(content: bytes) -> bool:
    """Whether a zlib stream has its end; other formats are not looked into."""
    if content[:1] != b"\x78":
        return bool(content)
    stream = zlib.decompressobj()
    try:
        stream.decompress(content)
    except zlib.error:
        return False
    return stream.eof


def cache_root() -> Path:
    """Where mlipaudit keeps what it can make again."""
    if own := os.environ.get("MLIPAUDIT_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlipaudit"
