# SPDX-License-Identifier: Apache-2.0
"""Imports put off until somebody uses the module."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class _Deferring:
    """Finds modules of one name as usual, but has them executed at their first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual spec with a loader that waits, for the one name."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._name else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def deferring(name: str) -> Iterator[None]:
    """Within the block, importing the module `name` costs nothing; it is executed when an attribute is read."""
    finder = _Deferring(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
