# SPDX-License-Identifier: Apache-2.0
"""Names to objects through entry points: nothing is imported until it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlipaudit.errors import UnknownNameError, UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BENCHMARKS = "mlipaudit.benchmarks"
FILE_BENCHMARKS = "mlipaudit.file_benchmarks"
"""Benchmarks on a file of the user's: each is an option of `run`, and called `name:file` in results."""
MODELS = "mlipaudit.models"
SUITES = "mlipaudit.suites"
METRICS = "mlipaudit.metrics"
TRANSFORMS = "mlipaudit.transforms"
SCHEDULERS = "mlipaudit.schedulers"
"""Clusters that carry out plans; see `running.schedulers`."""
JOB_ARRAYS = "mlipaudit.job_arrays"
"""What says from the environment of a job which shard it is: environment -> `running.shards.Shard`."""

_KIND = {
    BENCHMARKS: "benchmark",
    FILE_BENCHMARKS: "benchmark of files",
    MODELS: "model",
    SUITES: "suite",
    METRICS: "metric",
    TRANSFORMS: "transform",
    SCHEDULERS: "scheduler",
    JOB_ARRAYS: "job array",
}


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name, sorted."""
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=group), key=lambda p: p.name)}


def names(group: str) -> list[str]:
    """Registered names of a group, sorted."""
    return list(registered(group))


def names_at_a_glance(group: str) -> list[str]:
    """The same, for what must begin quickly: `importlib.metadata` takes a hundred modules.

    Only packages that lie in folders are seen, which is how pip installs them.
    """
    folders = [Path(folder) for folder in dict.fromkeys(sys.path) if folder]
    files = (file for folder in folders for file in folder.glob("*.dist-info/entry_points.txt"))
    return sorted({name for file in files for name in _names_in(file, f"[{group}]")})


def _names_in(file: Path, section: str) -> Iterator[str]:
    """Names in one section of a file of entry points."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return
    inside = False
    for line in lines:
        inside = line == section if line.startswith("[") else inside
        if inside and "=" in line:
            yield line.partition("=")[0].strip()


def kind_of(group: str) -> str:
    """What is registered in a group, in words."""
    return _KIND[group]


def is_of_file(benchmark: str) -> bool:
    """Whether this is the name of a benchmark on a file of the user's."""
    return ":" in benchmark


def load(group: str, name: str) -> object:
    """The object registered under `name`; for a benchmark on a file of the user's, what stands before the colon.

    Raises:
        UnknownNameError: nothing is registered under that name.
        UserError: what is registered cannot be imported.
    """
    if group == BENCHMARKS and is_of_file(name):
        group, name = FILE_BENCHMARKS, name.partition(":")[0]
    points = registered(group)
    if name not in points:
        raise UnknownNameError(_KIND[group], name, points)
    try:
        return points[name].load()
    except Exception as error:  # around a plug-in: it costs only itself
        raise UserError(f"{_KIND[group]} {name!r} ({points[name].value}) cannot be imported: {error}") from error
