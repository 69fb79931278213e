# SPDX-License-Identifier: Apache-2.0
"""From names in a configuration to metrics: `mae`, `forces/within:0.05`, `my_package.my_metrics:Torsion`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlipaudit import plugins
from mlipaudit.errors import UsageError
from mlipaudit.metrics.contract import KEPT, DatasetMetric, Direction
from mlipaudit.metrics.errors import ErrorMetric, from_function
from mlipaudit.metrics.values import QUANTITIES
from mlipaudit.registry import METRICS

WHOLE = "system"
"""Heading of metrics that are not of one quantity."""
SLASH = "/"


@dataclass(frozen=True)
class Chosen:
    """A metric, and of which quantity."""

    name: str
    quantity: str
    """Or `WHOLE`."""
    unit: str
    direction: Direction
    needs: tuple[str, ...]
    thing: Any
    argument: str | None

    @property
    def key(self) -> str:
        """Quantity and name in one."""
        return f"{self.quantity}{SLASH}{self.name}"

    @property
    def keeps_states(self) -> bool:
        """Whether it is told of a system as soon as the model has answered: it needs what is not stored."""
        return bool(set(self.needs) - set(KEPT))

    def make(self) -> Any:
        """The metric, without any system."""
        metric = _made(self.thing, self.quantity, self.argument)
        metric.reset()
        return metric


def choose_metrics(texts: Iterable[str], quantities: Sequence[str]) -> list[Chosen]:
    """The metrics that texts name, each of every quantity that it can be computed of.

    Args:
        texts: names as in a configuration; `quantity/name` is of that quantity only.
        quantities: those that are scored at all.

    Raises:
        UnknownNameError: nothing is called so.
        UsageError: it is no metric, or not one of the quantity, or does not take such an argument.
    """
    return list({one.key: one for text in texts for one in _choose(text, quantities)}.values())


def _choose(text: str, quantities: Sequence[str]) -> Iterator[Chosen]:
    quantity, slash, rest = text.partition(SLASH)
    if not slash or quantity not in (*QUANTITIES, WHOLE):
        quantity, rest = "", text
    plugin = plugins.find(METRICS, rest)
    thing = _metric_of(plugin.thing, text)
    if not _is_of_quantities(thing):
        yield _chosen(text, rest, WHOLE, thing, plugin.argument)
        return
    if quantity and quantity not in thing.quantities:
        raise UsageError(f"metric {text!r}: {rest} is one of {', '.join(thing.quantities)}")
    for name in (quantity,) if quantity else quantities:
        if name in thing.quantities:
            yield _chosen(text, rest, name, thing, plugin.argument)


def _metric_of(thing: Any, text: str) -> Any:
    """A class or an object with the methods of a metric."""
    if all(callable(getattr(thing, method, None)) for method in ("update", "compute", "reset")):
        return thing
    if callable(thing) and not isinstance(thing, type):
        return from_function(thing)
    raise UsageError(
        f"metric {text!r} is neither a function of two arrays nor a class with update(), compute() and reset()"
    )


def _is_of_quantities(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, ErrorMetric)


def _chosen(text: str, name: str, quantity: str, thing: Any, argument: str | None) -> Chosen:
    try:
        made = _made(thing, quantity, argument)
    except (ValueError, TypeError) as error:
        raise UsageError(f"metric {text!r}: {error}") from error
    own = QUANTITIES[quantity].unit if quantity in QUANTITIES else ""
    needs = (QUANTITIES[quantity].needs,) if quantity in QUANTITIES else tuple(getattr(made, "needs", KEPT[:1]))
    unit = getattr(made, "unit", "")
    unit = own if unit is None else unit.replace("{}", own)
    direction = getattr(made, "direction", DatasetMetric.direction)
    chosen = Chosen(name, quantity, unit, direction, needs, thing, argument)
    _require_states(chosen, made, text)
    return chosen


def _made(thing: Any, quantity: str, argument: str | None) -> Any:
    arguments = () if argument is None else (argument,)
    if not isinstance(thing, type):
        return thing
    return thing(quantity, *arguments) if _is_of_quantities(thing) else thing(*arguments)


def _require_states(chosen: Chosen, made: Any, text: str) -> None:
    """Of what is not stored only states survive: a metric without them would depend on how the work is split."""
    absent = [
        method
        for method in ("state", "merge")
        if getattr(type(made), method, None) in (None, getattr(DatasetMetric, method))
    ]
    if chosen.keeps_states and absent:
        what = ", ".join(sorted(set(chosen.needs) - set(KEPT)))
        raise UsageError(f"metric {text!r} needs {what}, and so must have {'() and '.join(absent)}()")
