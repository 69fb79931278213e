# SPDX-License-Identifier: Apache-2.0
"""Reading results as scripts for mlipaudit 0.1.x do; `mlipaudit.store` is what this package uses."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mlipaudit.benchmark import Benchmark, BenchmarkResult
from mlipaudit.store import RESULT, SCORE, write_json

__all__ = [
    "load_benchmark_result_from_disk",
    "load_score_from_disk",
    "load_scores_from_disk",
    "write_benchmark_result_to_disk",
]


def load_benchmark_result_from_disk(
    results_dir: str | os.PathLike, benchmark_class: type[Benchmark]
) -> BenchmarkResult:
    """The result of one benchmark below a model's folder."""
    assert benchmark_class.result_class is not None
    text = (Path(results_dir) / benchmark_class.name / RESULT).read_text(encoding="utf-8")
    return benchmark_class.result_class.model_validate_json(text)


def load_score_from_disk(output_dir: str | os.PathLike) -> dict[str, float]:
    """Scores of one model: benchmark -> score, and `overall_score`."""
    return json.loads((Path(output_dir) / SCORE).read_text(encoding="utf-8"))


def load_scores_from_disk(scores_dir: str | os.PathLike) -> dict[str, dict[str, float]]:
    """Scores of every model in a results folder."""
    return {
        file.parent.name: load_score_from_disk(file.parent) for file in sorted(Path(scores_dir).glob(f"*/{SCORE}"))
    }


def write_benchmark_result_to_disk(
    benchmark_name: str, result: BenchmarkResult, output_dir: str | os.PathLike
) -> None:
    """Write a result below a model's folder, without provenance."""
    write_json(Path(output_dir) / benchmark_name / RESULT, json.loads(result.model_dump_json()))
