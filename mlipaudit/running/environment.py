# SPDX-License-Identifier: Apache-2.0
"""The environment a process that runs models should start with."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

TUNABLES, HUGE_PAGES = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
THP_SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def uses_huge_pages(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether malloc was told to ask for huge pages."""
    return f"{HUGE_PAGES}=1" in environ.get(TUNABLES, "")


def with_huge_pages(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with huge pages for malloc.

    XLA on a CPU takes its scratch memory from malloc anew for every call, and the kernel clears it page by page: a
    forward pass of a small MACE over 748 atoms takes 0.73 s with pages of 4 kB and 0.39 s with huge ones.
    """
    tunables = [part for part in environ.get(TUNABLES, "").split(":") if part]
    return {**environ, TUNABLES: ":".join([*tunables, f"{HUGE_PAGES}=1"])}


def restart_with_huge_pages() -> None:
    """Begin the running command again with huge pages, where that helps and is not so already.

    glibc reads its tunables at the start of a process only. Returns where there is nothing to gain.
    """
    decided = HUGE_PAGES in os.environ.get(TUNABLES, "")
    if decided or not _can_gain():
        return
    os.execve(sys.executable, sys.orig_argv, with_huge_pages(os.environ))


def _can_gain() -> bool:
    """Linux, glibc 2.35 or newer, and a kernel that gives huge pages to those who ask."""
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split("."))) < (2, 35):
        return False
    try:
        return "[madvise]" in THP_SWITCH.read_text(encoding="ascii")
    except OSError:
        return False
