# SPDX-License-Identifier: Apache-2.0
"""Plug-ins as they are named in a configuration: a registered name, with an argument if it takes one, or a place in
a module.

    mae    within:0.05    my_package.my_metrics:Torsion
"""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlipaudit import registry
from mlipaudit.errors import UnknownNameError, UsageError

_PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
OWN = "mlipaudit"
"""The distribution whose plug-ins change with the version of the benchmark that uses them."""
_given: dict[str, Any] = {}
"""Objects that were handed over in Python, by the name under which results know them."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in and how it was named."""

    text: str
    """As in the configuration."""
    thing: Any
    argument: str | None
    """What stands behind the colon of a registered name."""
    made_by: str
    """Distribution and version it comes from, or the hash of its source: what a result depends on besides its name."""


@cache
def find(group: str, text: str) -> Plugin:
    """The plug-in that a text names.

    Raises:
        UnknownNameError: nothing is called so.
        UserError: it is, but cannot be imported.
    """
    name, colon, argument = text.partition(":")
    points = registry.registered(group)
    if name in points:
        point = points[name]
        made_by = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        return Plugin(text, registry.load(group, name), argument if colon else None, made_by)
    if text in _given:
        return Plugin(text, _given[text], None, _source_hash(_given[text]))
    if not _PLACE.fullmatch(text):
        raise UnknownNameError(registry.kind_of(group), text, points)
    thing = _imported(registry.kind_of(group), name, argument)
    return Plugin(text, thing, None, _source_hash(thing))


def name_of(thing: Any) -> str:
    """The name of an object that is handed over in Python; a text is one already.

    Under it `find` gives the object, in this process.
    """
    if isinstance(thing, str):
        return thing
    owner = thing if hasattr(thing, "__qualname__") else type(thing)
    name = f"{owner.__module__}:{owner.__qualname__}"
    while _given.setdefault(name, thing) is not thing:
        name += "'"
    return name


def _imported(kind: str, module: str, name: str) -> Any:
    from importlib import import_module

    try:
        found = import_module(module)
    except Exception as error:  # around a plug-in: it costs only itself
        raise UsageError(
            f"{kind} {module}:{name}: {module} cannot be imported ({type(error).__name__}: {error}); "
            "install it, or put its folder on PYTHONPATH"
        ) from error
    if not hasattr(found, name):
        known = [other for other in vars(found) if not other.startswith("_")]
        raise UnknownNameError(f"{kind} in {module}", name, known)
    return getattr(found, name)


def _source_hash(thing: Any) -> str:
    """sha256 of the file that defines it, so that an edited plug-in is another one."""
    try:
        file = inspect.getsourcefile(thing if hasattr(thing, "__qualname__") else type(thing))
        return "sha256 " + hashlib.sha256(Path(file or "").read_bytes()).hexdigest()[:16]
    except (TypeError, OSError):
        return "unknown"
