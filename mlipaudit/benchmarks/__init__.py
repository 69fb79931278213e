# SPDX-License-Identifier: Apache-2.0
"""One module per benchmark; the module's name is also the name on the command line, of the data and of the docs page.

The classes of every module can be imported from here as well, as in mlipaudit 0.1.x.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from mlipaudit import registry

    if name == "BENCHMARK_NAMES":
        return registry.names(registry.BENCHMARKS)
    if name == "BENCHMARKS":
        return [registry.load(registry.BENCHMARKS, known) for known in registry.names(registry.BENCHMARKS)]
    if not name.startswith("_"):
        return _find(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _find(name: str) -> Any:
    """The object called `name` in the one benchmark module that has it."""
    from importlib import import_module
    from pkgutil import iter_modules

    for module in iter_modules(__path__):
        found = getattr(import_module(f"{__name__}.{module.name}"), name, None)
        if getattr(found, "__module__", "").startswith(__name__):
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
