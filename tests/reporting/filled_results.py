# SPDX-License-Identifier: Apache-2.0
"""Results of any class with a number in every field, so that every picture that is declared can be drawn."""

import types
from typing import Annotated, Literal, Union, get_args, get_origin

from made_records import task
from pydantic import BaseModel

from mlipaudit.benchmark import BenchmarkResult, SystemResult

LENGTH, ENTRIES = 5, 3
BASES = {**BenchmarkResult.model_fields, **SystemResult.model_fields}


def bare(kind):
    """A type without annotations and None."""
    if get_origin(kind) is Annotated:
        return bare(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return bare(next(part for part in get_args(kind) if part is not type(None)))
    return kind


def filled(kind, number):
    """A value of a type: numbers are `number` and those after it."""
    kind = bare(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return filled_model(kind, number)
    if kind is bool:
        return False
    if kind in (int, float):
        return kind(number)
    if kind is str:
        return f"text {int(number)}"
    if origin is list:
        few = ENTRIES if isinstance(bare(parts[0]), type) and issubclass(bare(parts[0]), BaseModel) else LENGTH
        return [filled(parts[0], number + i) for i in range(few)]
    if origin is dict:
        return {f"key {i}": filled(parts[1], number + i) for i in range(ENTRIES)}
    if origin is tuple:
        return tuple(filled(part, number + i) for i, part in enumerate(parts) if part is not Ellipsis)
    return parts[0] if origin is Literal else None


def filled_model(cls, number):
    """A record with all fields of its own filled."""
    own = {name: field for name, field in cls.model_fields.items() if name not in BASES or name == "score"}
    values = {name: filled(field.annotation, number + 1) for name, field in own.items()}
    return cls.model_construct(**values)


def filled_task(cls, model, number=1.0):
    """A model's record of a benchmark: numbers differ between models by less than 1, names of systems do not."""
    result = filled_model(cls.result_class, number)
    result.score = 0.5
    return task(model, result, cls.name)


def damaged(value, number):
    """The same with `number` in place of every number."""
    if isinstance(value, BaseModel):
        changes = {name: damaged(getattr(value, name), number) for name in type(value).model_fields}
        return value.model_copy(update=changes)
    if isinstance(value, dict):
        return {key: damaged(inner, number) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(damaged(inner, number) for inner in value)
    return number if isinstance(value, float) else value
