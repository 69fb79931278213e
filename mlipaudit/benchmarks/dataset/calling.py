# SPDX-License-Identifier: Apache-2.0
"""A data set scored by a call from Python, which prints what it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlipaudit.benchmarks.dataset.schemas import DatasetResult
from mlipaudit.benchmarks.dataset.text import batch_text, summary_text

if TYPE_CHECKING:
    from mlipaudit.benchmarks.dataset import DatasetBenchmark


def call(benchmark: DatasetBenchmark, *, quiet: bool, verbose: bool, device: str | None) -> DatasetResult:
    """Ask the model batch by batch, and judge its answers.

    Args:
        benchmark: what to run; nothing of it changes.
        quiet: print nothing.
        verbose: print the values of each batch by itself.
        device: to evaluate on; None: where the model is.

    Raises:
        UserError: the model cannot be put on that device.
    """
    reference, protocol, parts = benchmark.reference, benchmark.protocol, []
    chunks = benchmark.chunks(reference)
    with benchmark.backend.on_device(device):
        for number, names in enumerate(chunks, start=1):
            parts.append(benchmark.ask_chunk(benchmark.backend, reference, names))
            if verbose and not quiet:
                own = replace(reference, frames=tuple(reference.by_name[name] for name in names))
                print(batch_text(benchmark.judge(parts[-1], own, protocol), number, len(chunks)), flush=True)
    result = benchmark.judge(benchmark.join(parts), reference, protocol)
    if not quiet:
        print(summary_text(result), flush=True)
    return result
