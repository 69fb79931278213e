# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache, in a bounded folder of ours."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 2 << 30
ENTRY, TIME = "-cache", "-atime"
"""Endings of the two files of an entry, as jax names them."""
LOCK_TIMEOUT_S = 10.0


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
        remove_unfinished(folder)
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    return folder


def remove_unfinished(folder: Path) -> None:
    """Remove entries that a process was killed over: half of a program, or a whole one without its time of last use.

    jax writes an entry in two steps, and from then on fails to add any other while the second is missing.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / ".lockfile", timeout=LOCK_TIMEOUT_S):  # jax's own: nobody is writing now
            for entry in folder.glob(f"*{ENTRY}"):
                if not entry.with_name(entry.name.removesuffix(ENTRY) + TIME).exists():
                    entry.unlink()
    except Timeout:
        return  # somebody else is at it


def cache_root() -> Path:
    """Where mlipaudit keeps what it can make again."""
    if own := os.environ.get("MLIPAUDIT_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlipaudit"
