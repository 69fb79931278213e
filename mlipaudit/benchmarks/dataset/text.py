# SPDX-License-Identifier: Apache-2.0
"""Results as lines for whoever calls from Python."""

from __future__ import annotations

from collections.abc import Iterator

from mlipaudit.benchmarks.dataset.schemas import DatasetResult


def summary_text(result: DatasetResult) -> str:
    """Every metric on a line of its own, and what takes no part."""
    counted = f"{(result.num_systems or 0) - (result.num_failed or 0)} of {result.num_systems} frames"
    return "\n".join([counted, *_lines(result), *(f"note: {text}" for text in result.warnings)])


def batch_text(result: DatasetResult, number: int, count: int) -> str:
    """The metrics of one batch by itself."""
    return "\n".join([f"batch {number} of {count}, {result.num_systems} frames", *_lines(result)])


def _lines(result: DatasetResult) -> Iterator[str]:
    for quantity, metrics in result.metrics.items():
        for name, m in metrics.items():
            value = f"{m.value:.6g} {m.unit}".rstrip() if m.value is not None else f"none: {m.reason}"
            yield f"  {quantity} {name}: {value}"
