# SPDX-License-Identifier: Apache-2.0
"""Declarations of what is measured: unit, direction, threshold and source live in the field's type.

class PairResult(SystemResult):
    abs_deviation: Annotated[float | None, Metric(unit="kcal/mol", score=SoftThreshold(0.05))] = None
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True)
class SoftThreshold:
    """Score 1 up to `threshold`, then exp(-alpha (x - threshold) / threshold)."""

    threshold: float
    alpha: float = 3.0


@dataclass(frozen=True)
class Hill:
    """Score 1 / (1 + (x / midpoint)^sharpness): smaller is always better, `midpoint` scores one half."""

    midpoint: float
    sharpness: float


@dataclass(frozen=True)
class Limit:
    """Score 1 below `limit`, 0 from there on."""

    limit: float


@dataclass(frozen=True)
class Fraction:
    """The number is a score already, between 0 and 1."""


ScoreRule = SoftThreshold | Hill | Limit | Fraction


@dataclass(frozen=True)
class Metric:
    """A measured number: its unit, how it is scored (or not), which way is better, and where that comes from."""

    unit: str
    score: ScoreRule | None = None
    better: Literal["lower", "higher", "neither"] = "lower"
    source: str = ""
    is_price: bool = False
    """Whether scores are drawn against it: what a model costs, whatever it runs on."""


def metrics_of(model: type[BaseModel]) -> dict[str, Metric]:
    """Metrics declared on the fields of `model`, in order of declaration."""
    return {
        name: declared
        for name, field in model.model_fields.items()
        for declared in field.metadata
        if isinstance(declared, Metric)
    }
