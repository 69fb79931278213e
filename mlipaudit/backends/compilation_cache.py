# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache, in a bounded folder of ours."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 2 << 30


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
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    return folder


def cache_root() -> Path:
    """Where mlipaudit keeps what it can make again."""
    if own := os.environ.get("MLIPAUDIT_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlipaudit"
