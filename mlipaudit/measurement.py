# SPDX-License-Identifier: Apache-2.0
"""Metrics that are chosen when a benchmark runs, and so cannot be declared on a field: the value carries its unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel

from mlipaudit.benchmark import Record
from mlipaudit.scoring import Interval


class Measurement(Record):
    """A metric over many systems: of all their values together, and as the mean over systems."""

    unit: str
    better: Literal["lower", "higher", "neither"]
    value: float | None = None
    """Pooled over all values of all systems; None: see `reason`."""
    interval: Interval | None = None
    """95 % interval of that: bootstrap over systems. None where it is not known."""
    mean_over_systems: float | None = None
    """Mean of the metric of each system by itself, over those that have it; None: see `reason_of_mean`."""
    num_values: int = 0
    """That were pooled."""
    num_systems: int = 0
    """That have any of them."""
    reason: str | None = None
    """Why there is no value."""
    reason_of_mean: str | None = None


def measurements_of(model: BaseModel) -> Iterator[tuple[tuple[str, ...], Measurement]]:
    """All measurements in a result, each with the names of the fields and mappings that lead to it."""
    for field in type(model).model_fields:
        yield from _inside(getattr(model, field), (field,))


def _inside(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Measurement]]:
    if isinstance(value, Measurement):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _inside(inner, (*path, str(key)))
