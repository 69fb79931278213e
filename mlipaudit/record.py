# SPDX-License-Identifier: Apache-2.0
"""A result and how it was made. Nothing personal: no user names, host names or home paths."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Any

from mlipaudit.benchmark import BenchmarkResult, Record
from mlipaudit.failures import Failure


class Identity(Record):
    """Everything that a result may depend on, besides the machine."""

    model_sha256: str
    benchmark: str
    benchmark_version: str
    data_sha256: str | None = None
    protocol: dict[str, Any] = {}
    run_mode: str
    seed: int
    precision: str = "unknown"

    @property
    def task_id(self) -> str:
        """Hash of the identity: equal identities give equal results, except for times."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Provenance(Record):
    """How a result was made."""

    task_id: str
    identity: Identity
    model: str
    model_source: str
    """File or registered name, without folders."""
    model_options: dict[str, Any] = {}
    data_edition: str | None = None
    """The edition that was asked for, also where nothing was read from it."""
    data_name: str | None = None
    versions: dict[str, str]
    device: str
    huge_pages: bool = False
    """Whether malloc asked for huge pages, which speeds models on a CPU up; see `running.environment`."""
    started_at: str
    """UTC, ISO 8601."""
    wall_seconds: float
    compile_seconds: float
    num_compilations: int
    peak_memory_bytes: int
    command: str

    @property
    def comparable(self) -> tuple:
        """Equal for results whose scores may stand in one average: same model, run mode, edition and seed."""
        return (
            self.model,
            self.identity.model_sha256,
            self.identity.run_mode,
            self.data_edition,
            self.identity.seed,
        )


class TaskRecord(Record):
    """One finished task: the result, however it ended, and its provenance."""

    result: BenchmarkResult
    provenance: Provenance

    @property
    def reasons(self) -> dict[str, Failure]:
        """All failures, the whole benchmark's under its own name."""
        whole = {self.provenance.identity.benchmark: self.result.failure} if self.result.failure else {}
        return {**whole, **self.result.failures}


def protocol_as_dict(protocol: Any) -> dict[str, Any]:
    """A frozen protocol as plain data."""
    return asdict(protocol) if is_dataclass(protocol) and not isinstance(protocol, type) else {}
