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
    seed: int | None
    """None where it is not known."""
    precision: str = "unknown"
    """Of the weights; unknown until the model is loaded, and where it does not say."""

    @property
    def task_id(self) -> str:
        """Hash of the identity: equal identities give equal results, except for times."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def differences(self, wanted: Identity) -> list[str]:
        """What tells this identity from a wanted one, in words; empty when results may stand for each other.

        A precision that one of them does not know yet makes no difference: it follows from the weights. Nor does data
        that cannot be had at the moment: what was measured with it remains measured.
        """
        parts = [name for name in _WORDS if getattr(self, name) != getattr(wanted, name)]
        if UNKNOWN in (self.precision, wanted.precision):
            parts = [name for name in parts if name != "precision"]
        if wanted.data_sha256 is None:
            parts = [name for name in parts if name != "data_sha256"]
        return [_in_words(name, getattr(self, name), getattr(wanted, name)) for name in parts]


UNKNOWN = "unknown"
_WORDS = {
    "model_sha256": "model weights",
    "benchmark": "benchmark",
    "benchmark_version": "benchmark version",
    "data_sha256": "input data",
    "protocol": "protocol",
    "run_mode": "run mode",
    "seed": "seed",
    "precision": "precision",
}


def _in_words(name: str, stored: Any, wanted: Any) -> str:
    if name in ("model_sha256", "data_sha256"):
        return f"{_WORDS[name]} (were {_short(stored)}, are {_short(wanted)})"
    if name == "protocol":
        keys = sorted(key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key))
        return f"protocol ({', '.join(keys)})"
    return f"{_WORDS[name]} (was {stored}, is {wanted})"


def _short(sha256: str | None) -> str:
    return sha256[:8] if sha256 else "unknown"


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
    data_origin: dict[str, str] = {}
    """Of the hub edition: revision, commit, and sha256 of the archive."""
    output_sha256: str | None = None
    """Of the stored model output, which `mlipaudit analyze` judges again; None where there is none."""
    output_from: str | None = None
    """Benchmark whose answers of the model were judged here as well, for it asks the same; None if it was asked."""
    versions: dict[str, str]
    device: str
    huge_pages: bool = False
    """Whether malloc asked for huge pages, which speeds models on a CPU up; see `running.environment`."""
    started_at: str
    """UTC, ISO 8601."""
    wall_seconds: float
    """NaN where it is not known, as in the next one."""
    compile_seconds: float
    num_compilations: int | None
    peak_memory_bytes: int | None = None
    """Of the process that did it, since it started; None when that died."""
    time_limit_seconds: float | None = None
    """What `--timeout` allowed the task."""
    analyzed_by: str | None = None
    """Version of mlipaudit that judged the stored model output again."""
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
    """A frozen protocol as plain data, the same as what comes back from disk."""
    if not is_dataclass(protocol) or isinstance(protocol, type):
        return {}
    return json.loads(json.dumps(asdict(protocol)))
