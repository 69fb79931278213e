# SPDX-License-Identifier: Apache-2.0
"""Pages of a results folder as data. No benchmark is named: everything follows from metrics, views and records."""

from __future__ import annotations

from pathlib import Path

from mlipaudit.reporting.blocks import Page
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.pages.benchmark import benchmark_page
from mlipaudit.reporting.pages.model import model_page
from mlipaudit.reporting.pages.overview import overview_page
from mlipaudit.reporting.pages.parts import worst_first
from mlipaudit.reporting.pages.system import system_page
from mlipaudit.reporting.structures import Structures

__all__ = ["all_pages", "benchmark_page", "model_page", "overview_page", "system_page"]

NUM_SYSTEMS = 10
"""Pages of systems per benchmark: the worst, and all that failed up to as many again."""


def all_pages(contents: Contents, *, data: Path | None = None) -> list[Page]:
    """The overview, a page per benchmark and model, and one for each of the worst systems.

    Args:
        contents: of a results folder.
        data: folder with the input data, for results on a folder of the user's.
    """
    structures = Structures(data)
    shown = {benchmark: _systems_shown(contents, benchmark) for benchmark in contents.benchmarks}
    return [
        overview_page(contents),
        *(benchmark_page(contents, name, structures, linked=set(shown[name])) for name in contents.benchmarks),
        *(model_page(contents, name) for name in contents.models),
        *(system_page(contents, name, system, structures) for name in shown for system in shown[name]),
    ]


def _systems_shown(contents: Contents, benchmark: str) -> list[str]:
    records = contents.records_of(benchmark=benchmark)
    worst = worst_first(records)
    failed = [name for name in worst if any(name in r.result.failures for r in records)]
    return list(dict.fromkeys([*worst[:NUM_SYSTEMS], *failed[:NUM_SYSTEMS]]))
