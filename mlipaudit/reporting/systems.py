# SPDX-License-Identifier: Apache-2.0
"""The systems of any benchmark's result, found by their type: what is compared, ranked and drawn system by system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import BaseModel

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.metric import metrics_of
from mlipaudit.scoring import system_scores


def systems_of(result: BenchmarkResult) -> dict[str, SystemResult]:
    """Entries of a result by name, in their order; empty for a result without any.

    Entries are the `SystemResult`s in lists, mappings and nested models of the result. An entry in a mapping is named
    by its key, another by its first required field of text; those in a nested model get its field's name in front, as
    in the keys of `failures`.
    """
    systems: dict[str, SystemResult] = {}
    for name, entry in _entries(result, ""):
        systems[name if name not in systems else f"{name} #{len(systems) + 1}"] = entry
    return systems


def scores_of(result: BenchmarkResult) -> dict[str, float]:
    """Score of each system that counts in the result's score, which is their mean; a failed one scores 0.

    Systems that were skipped, where the benchmark leaves them out of its score, are not there. Empty for a result whose
    score is no mean over its systems.
    """
    # Not `getattr` with a default, for a field that few classes have: with pydantic it takes most of the time.
    entries = {name: e for name, e in systems_of(result).items() if not vars(e).get("skipped")}
    if not entries or not _is_scored(next(iter(entries.values()))):
        return {}
    scores = dict(zip(entries, system_scores(list(entries.values())).tolist(), strict=True))
    if result.score is None or abs(float(np.mean(list(scores.values()))) - result.score) > 1e-6:
        return {}
    return scores


def _entries(model: BaseModel, prefix: str) -> Iterator[tuple[str, SystemResult]]:
    """Name and entry of every system."""
    for field in type(model).model_fields:
        value = getattr(model, field)
        if isinstance(value, BaseModel) and not isinstance(value, SystemResult):
            yield from _entries(value, f"{field}/")
            continue
        for name, entry in _items(value):
            if isinstance(entry, SystemResult):
                yield prefix + (name or name_of(entry)), entry


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from (("", entry) for entry in value)


def name_of(entry: SystemResult) -> str:
    """An entry's own name: its first required field of text."""
    for field, info in type(entry).model_fields.items():
        if info.is_required() and isinstance(value := getattr(entry, field), str):
            return value
    return "system"


def _is_scored(entry: SystemResult) -> bool:
    return any(metric.score for metric in metrics_of(type(entry)).values())
