# SPDX-License-Identifier: Apache-2.0
"""What the code says about itself, in words: docstrings of benchmarks and of the fields of results, rules of scores."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from mlipaudit.metric import Fraction, Hill, Limit, ScoreRule


def first_line(thing: Any) -> str:
    """First line of an object's own docstring."""
    return (thing.__doc__ or "").strip().split("\n", maxsplit=1)[0]


def body_of(module: Any) -> str:
    """A module's docstring without its title."""
    return inspect.cleandoc(module.__doc__ or "").partition("\n\n")[2]


def one_line(text: str | None) -> str:
    """Text without line breaks."""
    return " ".join((text or "").split())


def describe_rule(rule: ScoreRule | None, unit: str) -> str:
    """How a metric becomes a score, in words."""
    if rule is None:
        return "not scored"
    if isinstance(rule, Hill):
        return f"Hill: one half at {rule.midpoint:g} {unit}".rstrip() + f", sharpness {rule.sharpness:g}"
    if isinstance(rule, Limit):
        return f"1 below {rule.limit:g} {unit}".rstrip() + ", else 0"
    if isinstance(rule, Fraction):
        return "is the score"
    return f"soft threshold {rule.threshold:g} {unit}".rstrip() + f", alpha {rule.alpha:g}"


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Field -> the string that stands under it in the source, of the class and its parents."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found |= _strings_below_fields(cls)
    return found


def _strings_below_fields(cls: type) -> dict[str, str]:
    """The same, of one class; empty where its source cannot be read."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    except (OSError, SyntaxError):
        return {}
    return {
        field.target.id: one_line(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_string(below)
    }


def _is_string(statement: ast.stmt) -> bool:
    """Whether a statement is nothing but a string."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
