# SPDX-License-Identifier: Apache-2.0
"""A cache that a killed process has left in pieces goes on working."""

import os
import subprocess
import sys

from mlipaudit.backends.compilation_cache import remove_unfinished

COMPILE = """
import warnings
warnings.simplefilter("error")
from mlipaudit.backends.compilation_cache import use_compilation_cache
print(use_compilation_cache())
import jax
jax.jit(lambda x: x * 3 + 1)(2.0).block_until_ready()
"""


def test_only_entries_without_a_time_are_removed(tmp_path):
    for name in ("whole-cache", "whole-atime", "half-cache", "other"):
        (tmp_path / name).write_bytes(b"x")
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"whole-cache", "whole-atime", "other"}
    assert not (tmp_path / "half-cache").exists()


def test_a_program_is_still_kept_after_a_kill_in_the_middle(tmp_path):
    folder = tmp_path / "jax"
    folder.mkdir()
    (folder / "jit_killed-0123-cache").write_bytes(b"half")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {
        "MLIPAUDIT_CACHE": str(tmp_path)
    }
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder)
    assert list(folder.glob("*-cache"))
    assert not (folder / "jit_killed-0123-cache").exists()
