# SPDX-License-Identifier: Apache-2.0
"""Benchmarks on files of the user's: how they are asked for, and under which name each of them is one of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark
from mlipaudit.data import DataSet
from mlipaudit.errors import UsageError
from mlipaudit.models import clean_name, unique_name
from mlipaudit.run_mode import RunMode


@dataclass(frozen=True)
class Request:
    """Files for one benchmark, and its configuration."""

    benchmark: str
    files: Sequence[str]
    config: str | None = None


@dataclass(frozen=True)
class OwnFile:
    """A file that was read, and everything that was asked of it."""

    data: DataSet | None = None
    options: dict[str, Any] = field(default_factory=dict)


NO_FILE = OwnFile()
"""Of the other benchmarks."""


def own_files(requests: Sequence[Request], run_mode: RunMode) -> dict[str, OwnFile]:
    """Name of a benchmark in the plan, `benchmark:file`, to what it works on.

    Raises:
        UserError: a file or a configuration is not what the benchmark can work with.
    """
    found: dict[str, OwnFile] = {}
    for request in requests:
        if request.config is not None and not request.files:
            raise UsageError(f"--{request.benchmark}-config is of no use without --{request.benchmark} FILE")
        cls: Any = registry.load(registry.FILE_BENCHMARKS, request.benchmark)
        for text in request.files:
            own = _own_file(cls, Path(text), request.config, run_mode)
            found[f"{request.benchmark}:{_name_for(text, request.benchmark, found)}"] = own
    return found


def _own_file(cls: type[Benchmark], file: Path, config: str | None, run_mode: RunMode) -> OwnFile:
    data = DataSet.of_file(file)
    return OwnFile(data, cls.options_for(data.path, None if config is None else Path(config), run_mode))


def _name_for(text: str, benchmark: str, taken: Mapping[str, OwnFile]) -> str:
    others = {name.partition(":")[2] for name in taken if name.startswith(f"{benchmark}:")}
    return unique_name(clean_name(Path(text).stem), others)


def with_own_files(benchmarks: Sequence[str], files: Mapping[str, OwnFile]) -> list[str]:
    """The benchmarks of a plan: a bare name of one on files stands for all of these, and files not named come last."""
    found: list[str] = []
    for name in benchmarks:
        mine = [file for file in files if file.startswith(f"{name}:")]
        found += mine or [name]
    return list(dict.fromkeys([*found, *files]))
