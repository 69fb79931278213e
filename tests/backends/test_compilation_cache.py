# SPDX-License-Identifier: Apache-2.0
"""A cache that a killed process has left in pieces goes on working, and does not grow for ever."""

import os
import subprocess
import sys
import zlib

from mlipaudit.backends.compilation_cache import remove_oldest, remove_unfinished

COMPILE = """
import warnings
warnings.simplefilter("error")
from mlipaudit.backends.compilation_cache import use_compilation_cache
print(use_compilation_cache())
import jax
jax.jit(lambda x: x * 3 + 1)(2.0).block_until_ready()
"""
WHOLE = zlib.compress(bytes(range(256)))


def entry(folder, name, *, content=WHOLE, age=1000.0):
    path = folder / f"{name}-cache"
    path.write_bytes(content)
    now = path.stat().st_mtime
    os.utime(path, (now - age, now - age))
    return path


def names(folder):
    return {path.name.removesuffix("-cache") for path in folder.glob("*-cache")}


def test_only_entries_without_an_end_are_removed(tmp_path):
    entry(tmp_path, "whole")
    entry(tmp_path, "half", content=WHOLE[:-5])
    entry(tmp_path, "empty", content=b"")
    entry(tmp_path, "being-written", content=WHOLE[:-5], age=1.0)
    entry(tmp_path, "zstandard", content=b"\x28\xb5\x2f\xfd...")
    remove_unfinished(tmp_path)
    assert names(tmp_path) == {"whole", "being-written", "zstandard"}


def test_an_entry_that_was_young_is_looked_at_again(tmp_path):
    young = entry(tmp_path, "half", content=WHOLE[:-5], age=30.0)
    remove_unfinished(tmp_path)
    assert young.exists()
    for path in (young, tmp_path / ".looked-after"):
        later = path.stat().st_mtime - 100.0
        os.utime(path, (later, later))
    remove_unfinished(tmp_path)
    assert not young.exists()


def test_the_entries_longest_unused_make_room(tmp_path):
    for age in (40, 30, 20, 10):
        entry(tmp_path, f"{age}", content=b"x" * 100, age=age)
    remove_oldest(tmp_path, max_bytes=400)
    assert len(names(tmp_path)) == 4
    remove_oldest(tmp_path, max_bytes=399)
    assert names(tmp_path) == {"20", "10"}


def test_a_program_is_still_kept_after_a_kill_in_the_middle(tmp_path):
    folder = tmp_path / "jax"
    folder.mkdir()
    entry(folder, "jit_killed-0123", content=WHOLE[:100])
    environ = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {
        "MLIPAUDIT_CACHE": str(tmp_path)
    }
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder)
    assert len(names(folder)) == 1 and "jit_killed-0123" not in names(folder)
