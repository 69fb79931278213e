# SPDX-License-Identifier: Apache-2.0
"""Names to objects through entry points: nothing is imported until it is asked for."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from mlipaudit.errors import UnknownNameError, UserError

BENCHMARKS = "mlipaudit.benchmarks"
MODELS = "mlipaudit.models"
SUITES = "mlipaudit.suites"

_KIND = {BENCHMARKS: "benchmark", MODELS: "model", SUITES: "suite"}


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name, sorted."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda p: p.name)}


def names(group: str) -> list[str]:
    """Registered names of a group, sorted."""
    return list(registered(group))


def load(group: str, name: str) -> object:
    """The object registered under `name`.

    Raises:
        UnknownNameError: nothing is registered under that name.
        UserError: what is registered cannot be imported.
    """
    points = registered(group)
    if name not in points:
        raise UnknownNameError(_KIND[group], name, points)
    try:
        return points[name].load()
    except Exception as error:  # around a plug-in: it costs only itself
        raise UserError(f"{_KIND[group]} {name!r} ({points[name].value}) cannot be imported: {error}") from error
