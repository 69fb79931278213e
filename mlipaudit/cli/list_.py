# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit list`: what is installed: benchmarks, models, suites, metrics and transforms."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

HELP = "list installed benchmarks, models, suites, metrics and transforms"
WHAT = ("benchmarks", "models", "suites", "metrics", "transforms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(WHAT)} (default: all)")


def main(args: argparse.Namespace) -> int:
    """Print the lists."""
    from mlipaudit.errors import UnknownNameError

    for what in args.what:
        if what not in WHAT:
            raise UnknownNameError("list", what, WHAT)
    chosen = args.what or WHAT
    printers = {
        "benchmarks": _benchmarks,
        "models": _models,
        "suites": _suites,
        "metrics": _metrics,
        "transforms": _transforms,
    }
    print("\n\n".join("\n".join([what, *printers[what]()]) for what in chosen))
    return 0


def _benchmarks() -> list[str]:
    from mlipaudit import registry
    from mlipaudit.data import embedded_names
    from mlipaudit.errors import UserError

    embedded = embedded_names()
    lines = []
    for name in registry.names(registry.BENCHMARKS):
        try:
            cls: type = registry.load(registry.BENCHMARKS, name)  # type: ignore[assignment]
        except UserError as error:
            lines.append(f"  {name:<28} unavailable: {error}")
            continue
        data = "embedded" if cls.data_folder_name() in embedded else "hub"  # type: ignore[attr-defined]
        lines.append(f"  {name:<28} {cls.category:<18} data: {data:<9} {_first_line(cls)}")  # type: ignore[attr-defined]
    for name in registry.names(registry.FILE_BENCHMARKS):
        try:
            cls = registry.load(registry.FILE_BENCHMARKS, name)  # type: ignore[assignment]
        except UserError as error:
            lines.append(f"  {name:<28} unavailable: {error}")
            continue
        lines.append(f"  {name:<28} {cls.category:<18} --{name} FILE    {_first_line(cls)}")  # type: ignore[attr-defined]
    return lines


def _models() -> list[str]:
    from mlipaudit import registry
    from mlipaudit.errors import UserError

    lines = []
    for name in registry.names(registry.MODELS):
        try:
            lines.append(f"  {name:<28} {_first_line(registry.load(registry.MODELS, name))}")
        except UserError as error:
            lines.append(f"  {name:<28} unavailable: {error}")
    return [*lines, "  any .zip saved by mlip, any .py file that defines mlipaudit_external_model"]


def _suites() -> list[str]:
    from mlipaudit import registry

    known = registry.names(registry.BENCHMARKS)
    lines = []
    for name in registry.names(registry.SUITES):
        members: tuple[str, ...] = registry.load(registry.SUITES, name)  # type: ignore[assignment]
        installed = [member for member in members if member in known]
        lines.append(f"  {name:<28} {len(installed)} of {len(members)} installed: {', '.join(installed)}")
    return lines


def _metrics() -> list[str]:
    from mlipaudit import registry

    lines = []
    for name, thing, why_not in _loaded(registry.METRICS):
        unit = getattr(thing, "unit", "")
        of = ", ".join(getattr(thing, "quantities", ()) or getattr(thing, "needs", ()))
        about = f"{of:<34} {'' if unit is None else unit:<6} {_first_line(thing)}"
        lines.append(f"  {name:<28} {why_not or about}")
    return [*lines, "  any function of two arrays, predicted and labelled, as module:function"]


def _transforms() -> list[str]:
    from mlipaudit import registry
    from mlipaudit.transforms import stage_of

    lines = []
    for name, thing, why_not in _loaded(registry.TRANSFORMS):
        about = f"{stage_of(thing) or '':<18} {_first_line(thing)}"
        lines.append(f"  {name:<28} {why_not or about}")
    return [*lines, "  any function of a structure, or of a prediction and a structure, as module:function"]


def _loaded(group: str) -> Iterator[tuple[str, object, str]]:
    """Name, object, and why there is none."""
    from mlipaudit import registry
    from mlipaudit.errors import UserError

    for name in registry.names(group):
        try:
            yield name, registry.load(group, name), ""
        except UserError as error:
            yield name, None, f"unavailable: {error}"


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0] if thing.__doc__ else ""
