# SPDX-License-Identifier: Apache-2.0
"""Results of mlipaudit 0.1.x, to be looked at beside each other.

Its `<model>/<benchmark>/result.json` holds the fields of a result and nothing about how it was made. What cannot be
known stays unknown, the run mode and the data included, so that such a result never shares a ranking with ours.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlipaudit import registry
from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.errors import UserError
from mlipaudit.record import UNKNOWN, Identity, Provenance, TaskRecord
from mlipaudit.store import CHECKSUM, PROVENANCE

VERSION = "0.1.x"
EDITION = f"{UNKNOWN} (mlipaudit {VERSION})"
OURS = {PROVENANCE, CHECKSUM, "scoring_version"}
"""Keys of our own results, of which 0.1.x writes none."""


def published_record(path: Path) -> TaskRecord | None:
    """A result file of mlipaudit 0.1.x; None for any other file, a damaged one of ours included."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))  # also NaN and Infinity, which are not JSON
    except (OSError, ValueError, RecursionError):
        return None
    if not _is_published(content):
        return None
    model, benchmark = path.parent.parent.name, path.parent.name
    if (result := _result(benchmark, content)) is None:
        return None
    return TaskRecord.model_construct(result=result, provenance=_provenance(model, benchmark))


def _is_published(content: Any) -> bool:
    if not isinstance(content, dict) or OURS & content.keys():
        return False
    score, failed = content.get("score", ""), content.get("failed")
    return isinstance(failed, bool) and (score is None or isinstance(score, int | float))


def _result(benchmark: str, content: dict[str, Any]) -> BenchmarkResult | None:
    """The result in our own class, whose fields have the same names; else no more than its score."""
    for cls in (_result_class(benchmark), BenchmarkResult):
        try:
            return cls.model_validate(content)
        except (ValidationError, RecursionError):
            content = {"score": content["score"], "failed": content["failed"]}
    return None


def _result_class(benchmark: str) -> type[BenchmarkResult]:
    try:
        declared: Any = registry.load(registry.BENCHMARKS, benchmark)
    except UserError:  # not installed, or broken: the score can still be shown
        return BenchmarkResult
    return declared.result_class


def _provenance(model: str, benchmark: str) -> Provenance:
    """All that is known: whose result it is, and on what."""
    identity = Identity(
        model_sha256=UNKNOWN, benchmark=benchmark, benchmark_version=UNKNOWN, run_mode=UNKNOWN, seed=None
    )
    return Provenance(
        task_id=UNKNOWN,
        identity=identity,
        model=model,
        model_source=UNKNOWN,
        data_edition=EDITION,
        versions={"mlipaudit": VERSION},
        device=UNKNOWN,
        started_at="",
        wall_seconds=math.nan,
        compile_seconds=math.nan,
        num_compilations=None,
        command="",
    )
