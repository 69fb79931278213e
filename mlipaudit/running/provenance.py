# SPDX-License-Identifier: Apache-2.0
"""How a result was made, also when the process that should have made it is gone."""

from __future__ import annotations

import platform
import resource
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mlipaudit.failures import Failure
from mlipaudit.record import UNKNOWN, Provenance, TaskRecord
from mlipaudit.running.environment import uses_huge_pages
from mlipaudit.running.plan import Task

PACKAGES = ("mlipaudit", "mlip", "jax", "jaxlib", "jax-md", "ase", "numpy", "scipy", "tblite")


@dataclass(frozen=True)
class Surroundings:
    """What a process that runs models says about itself."""

    versions: dict[str, str] = field(default_factory=dict)
    device: str = UNKNOWN
    huge_pages: bool = False

    @classmethod
    def of_this_process(cls) -> Surroundings:
        """Versions, device and memory settings; imports jax."""
        return cls(_versions(), _device(), uses_huge_pages())

    @classmethod
    def without_device(cls) -> Surroundings:
        """The same of a process that runs no models and does not import jax."""
        return cls(_versions(), UNKNOWN, uses_huge_pages())


def provenance_of(task: Task, surroundings: Surroundings, *, precision: str = UNKNOWN, **about: Any) -> Provenance:
    """How a task's result was made; `about` gives the times and whatever else is known."""
    identity = task.identity.model_copy(update={"precision": precision})
    return Provenance(
        task_id=identity.task_id,
        identity=identity,
        model=task.model.name,
        model_source=task.model.basename,
        model_options=task.model.options,
        data_edition=task.dataset.edition if task.dataset else task.edition,
        data_name=task.dataset.name if task.dataset else task.benchmark_class.data_folder_name(),
        data_origin=task.dataset.origin if task.dataset else {},
        versions=surroundings.versions,
        device=surroundings.device,
        huge_pages=surroundings.huge_pages,
        command=task.command,
        **about,
    )


def failed_record(
    task: Task, failure: Failure, surroundings: Surroundings, *, started_at: str, wall_seconds: float, **about: Any
) -> TaskRecord:
    """The record of a task that came to nothing."""
    about |= {
        "started_at": started_at,
        "wall_seconds": wall_seconds,
        "compile_seconds": 0.0,
        "num_compilations": 0,
    }
    provenance = provenance_of(task, surroundings, **about)
    result = task.benchmark_class.result_of_failure(failure, task.protocol)
    return TaskRecord.model_construct(result=result, provenance=provenance)


def peak_memory_bytes() -> int:
    """Highest resident size of this process so far, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _device() -> str:
    import jax

    try:
        device = jax.devices()[0]
    except RuntimeError as error:  # jax found no device: whatever needed one has failed by name
        return f"none: {error}"
    return f"{device.platform}: {device.device_kind}"
