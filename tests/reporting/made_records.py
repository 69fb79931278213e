# SPDX-License-Identifier: Apache-2.0
"""Records made in code, whose systems have scores that are known."""

from typing import Annotated

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.metric import Fraction, Metric
from mlipaudit.record import Identity, Provenance, TaskRecord
from mlipaudit.scoring import score_systems

BROKEN = Failure(kind=FailureKind.LOAD_ERROR, message="planted")


class Entry(SystemResult):
    name: str
    value: Annotated[float | None, Metric(unit="", score=Fraction())] = None


class Result(BenchmarkResult):
    entries: list[Entry] = []


def result_of(scores):
    """A result whose systems have these scores."""
    entries = [Entry(name=f"system {i}", value=score) for i, score in enumerate(scores)]
    return Result(entries=entries, **BenchmarkResult.fields_of(score_systems(entries)))


def task(model, result, benchmark="tautomers", *, run_mode="fast", edition="hub", sha256=None, seed=0, **identity):
    asked = {"benchmark_version": "1", "data_sha256": "d" * 64, "protocol": {"steps": 10}} | identity
    identity = Identity(model_sha256=sha256 or model, benchmark=benchmark, run_mode=run_mode, seed=seed, **asked)
    provenance = Provenance(
        task_id=identity.task_id,
        identity=identity,
        model=model,
        model_source=f"{model}.zip",
        data_edition=edition,
        versions={},
        device="cpu: cpu",
        started_at="2026-01-01T00:00:00+00:00",
        wall_seconds=1.5,
        compile_seconds=0.0,
        num_compilations=0,
        command="mlipaudit run",
    )
    return TaskRecord.model_construct(result=result, provenance=provenance)


def scored(model, scores, *args, **kwargs):
    return task(model, result_of(scores), *args, **kwargs)


def failed(model, *args, **kwargs):
    return task(model, BenchmarkResult(failed=True, score=0.0, failure=BROKEN), *args, **kwargs)


def around(mean, number=40, spread=0.02):
    """Scores of systems with this mean."""
    return [mean + spread * (-1) ** i for i in range(number)]
