# SPDX-License-Identifier: Apache-2.0
"""Whether the fields that a view names are there, and are what it needs: a wrong name would be no picture, silently."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from mlipaudit.benchmark import Benchmark, SystemResult
from mlipaudit.reporting.charts.readings import EACH
from mlipaudit.views import Axis, Bars, Curves, Distribution, Scatter, View

Shape = Literal["number", "list", "mapping", "other"]


def view_problems(benchmark: type[Benchmark]) -> list[str]:
    """What is wrong with the views of a benchmark, in words; empty when nothing is."""
    result = benchmark.result_class
    entry = entry_class(result) if result else None
    problems = []
    for view in benchmark.views:
        holder = result if isinstance(view, Bars) and view.of_result else entry
        if holder is None:
            problems.append(f"{view.title}: the result has no entries of systems")
        else:
            problems += [f"{view.title}: {what}" for what in _problems(view, holder)]
    return problems


def entry_class(result: type[BaseModel]) -> type[SystemResult] | None:
    """The class of a result's entries of systems; None where it has none."""
    return next(_entry_classes(result), None)


def shape_of(holder: Any, path: str) -> Shape | None:
    """What a dotted field of a class holds; None where there is no such field."""
    kind = holder
    for field in path.split("."):
        kind = _inner(kind, field)
        if kind is None:
            return None
    return _shape(kind)


def _problems(view: View, holder: type[BaseModel]) -> Iterator[str]:
    for path, allowed in _needed(view, holder):
        found = shape_of(holder, path)
        if found is None:
            yield f"{holder.__name__} has no field {path}"
        elif found not in allowed:
            yield f"{holder.__name__}.{path} is a {found}, not a {' or a '.join(allowed)}"


def _needed(view: View, holder: type[BaseModel]) -> Iterator[tuple[str, tuple[Shape, ...]]]:
    """Fields that a view reads, and what each may hold."""
    if isinstance(view, Scatter):
        # Both numbers or both lists: x follows y.
        either: tuple[Shape, ...] = ("list",) if shape_of(holder, view.y.field) == "list" else ("number",)
        yield from ((axis.field, either) for axis in (view.x, view.y))
    elif isinstance(view, Curves):
        yield from ((axis.field, ("list",)) for axis in (view.x, view.y) if axis)
        yield from ((path, ("list",)) for path in [view.error] if path)
        yield from ((path, ("list", "number")) for path in [view.reference] if path)
    elif isinstance(view, Distribution):
        yield view.value.field, ("number",)
    else:
        yield view.value.field, ("mapping",) if view.of_result else ("mapping", "number")
        found = shape_of(holder, view.value.field)
        yield from ((path, (found,)) for path in [view.reference] if path and found)
    yield from ((axis.per, ("number",)) for axis in _axes(view) if axis.per)


def _axes(view: View) -> list[Axis]:
    axes = [view.x, view.y] if isinstance(view, Scatter | Curves) else [view.value]
    return [axis for axis in axes if axis]


# Annotations


def _entry_classes(kind: Any) -> Iterator[type[SystemResult]]:
    if isinstance(kind, type) and issubclass(kind, SystemResult):
        yield kind
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            yield from _entry_classes(field.annotation)
    else:
        for part in get_args(kind):
            yield from _entry_classes(part)


def _inner(kind: Any, field: str) -> Any:
    """Type of a field of a class, or of what a mapping holds."""
    kind = _bare(kind)
    if field == EACH:
        return get_args(kind)[1] if get_origin(kind) is dict else None
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or field not in kind.model_fields:
        return None
    return kind.model_fields[field].annotation


def _bare(kind: Any) -> Any:
    """A type without its annotations, and without None."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        (kind, *_) = [part for part in get_args(kind) if part is not type(None)]
        return _bare(kind)
    return kind


def _shape(kind: Any) -> Shape:
    kind = _bare(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, int | float):
        return "number"
    if origin is list and _shape(parts[0]) == "number":
        return "list"
    return "mapping" if origin is dict and _shape(parts[1]) == "number" else "other"
