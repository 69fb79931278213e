# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit list`: benchmarks, models and suites that are installed."""

from __future__ import annotations

import argparse

HELP = "list installed benchmarks, models and suites"
WHAT = ("benchmarks", "models", "suites")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("what", nargs="*", metavar="WHAT", help="benchmarks, models, suites (default: all three)")


def main(args: argparse.Namespace) -> int:
    """Print the lists."""
    from mlipaudit.errors import UnknownNameError

    for what in args.what:
        if what not in WHAT:
            raise UnknownNameError("list", what, WHAT)
    chosen = args.what or WHAT
    printers = {"benchmarks": _benchmarks, "models": _models, "suites": _suites}
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


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0] if thing.__doc__ else ""
