# SPDX-License-Identifier: Apache-2.0
"""The numbers that a view names, taken from results. What is not finite is None, which no picture shows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from mlipaudit.benchmark import BenchmarkResult, SystemResult
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.systems import systems_of
from mlipaudit.views import Axis

DIGITS = 6
"""That a picture holds of a number: far more than can be seen, and half the size."""
EACH = "*"


class Value(NamedTuple):
    """What a field holds; `key` says which record of a mapping it comes from, where it comes from one."""

    key: str
    value: Any


@dataclass(frozen=True)
class Answers:
    """One model's result on one benchmark, and those of its systems that are asked for."""

    record: TaskRecord
    entries: Mapping[str, SystemResult]
    alone: bool
    """Whether the result has one system."""

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.record.provenance.model

    @property
    def result(self) -> BenchmarkResult:
        """The whole result."""
        return self.record.result

    @property
    def alive(self) -> dict[str, SystemResult]:
        """Systems that neither failed nor were left out."""
        return {
            name: entry
            for name, entry in self.entries.items()
            if not (entry.failed or getattr(entry, "skipped", False))
        }

    def values(self, entry: BaseModel, axis: Axis) -> Iterator[Value]:
        """What an axis shows of an entry: numbers, lists or mappings of numbers, in the unit of the axis."""
        divisor = finite(self.read(entry, axis.per)) if axis.per else 1.0
        if not divisor:
            return
        for key, value in read_all(self._holder(entry, axis.field), axis.field):
            if value is not None:
                yield Value(key, _scaled(value, axis.scale / divisor))

    def value(self, entry: BaseModel, axis: Axis) -> Any:
        """The first of them; None where there is none."""
        return next((value for _, value in self.values(entry, axis)), None)

    def read(self, entry: BaseModel, path: str) -> Any:
        """The value of a field as it is stored."""
        return next((value for _, value in read_all(self._holder(entry, path), path)), None)

    def _holder(self, entry: BaseModel, path: str) -> BaseModel:
        """The entry, or the result where the only entry does not hold a field that the result does."""
        field = path.partition(".")[0]
        return self.result if self.alone and getattr(entry, field, None) is None else entry


def answers_of(records: Sequence[TaskRecord], systems: Collection[str] | None = None) -> list[Answers]:
    """What every model said about some systems, or about all."""
    return [_answers(record, systems) for record in records]


def _answers(record: TaskRecord, systems: Collection[str] | None) -> Answers:
    found = systems_of(record.result)
    chosen = {name: entry for name, entry in found.items() if systems is None or name in systems}
    return Answers(record, chosen, alone=len(found) == 1)


def read_all(holder: Any, path: str) -> Iterator[Value]:
    """Values at a dotted path, one for each record of a mapping where it says `*`."""
    field, _, rest = path.partition(".")
    if field == EACH and isinstance(holder, Mapping):
        for key, inner in holder.items():
            yield from (Value(str(key), value) for _, value in read_all(inner, rest))
        return
    value = getattr(holder, field, None)
    if rest and value is not None:
        yield from read_all(value, rest)
    elif not rest:
        yield Value("", value)


def finite(value: Any, scale: float = 1.0) -> float | None:
    """A number with the digits that a picture needs; None for what is none, or is not finite."""
    if not isinstance(value, int | float) or not math.isfinite(value * scale):
        return None
    return float(f"{value * scale:.{DIGITS}g}")


def _scaled(value: Any, scale: float) -> Any:
    if isinstance(value, Mapping):
        return {str(key): finite(number, scale) for key, number in value.items()}
    if isinstance(value, list | tuple):
        return [finite(number, scale) for number in value]
    return finite(value, scale)
