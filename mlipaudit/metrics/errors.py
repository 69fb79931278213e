# SPDX-License-Identifier: Apache-2.0
"""The built-in metrics: errors of one quantity, pooled over all its labelled components in double precision."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from mlipaudit.metrics.contract import DatasetMetric, Direction, Sample
from mlipaudit.metrics.values import ENERGY, FORCES, QUANTITIES, Values

FLAT = 1e-9
"""eV/Å: a labelled force below this has no direction."""


class ErrorMetric(DatasetMetric):
    """A number of one quantity, from predicted and labelled components. One is made for each quantity."""

    unit: ClassVar[str | None] = None
    """None: that of the quantity, which also stands for `{}`."""
    quantities: ClassVar[tuple[str, ...]] = tuple(QUANTITIES)
    """What it can be computed of."""

    def __init__(self, quantity: str, argument: str | None = None) -> None:
        """Args: name of the quantity, and what stands behind the colon of the metric's name."""
        if argument is not None:
            raise ValueError("it takes no argument")
        self.quantity = quantity
        self._parts: list[Values] = []

    @abstractmethod
    def of(self, values: Values) -> float:
        """The number, of all components together."""

    def of_each(self, values: Values) -> np.ndarray:
        """[systems]: the number of each system by itself; NaN where it has none."""
        found = np.full(values.num_systems, np.nan)
        for system in np.flatnonzero(values.counts).tolist():
            found[system] = _or_nan(self.of, values.alone(system))
        return found

    def sums(self, values: Values) -> np.ndarray | None:
        """[systems, n]: numbers per system, of whose sums the metric is a function; None where there are none such."""
        return None

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """The metric as a function of sums [..., n]."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget all systems."""
        self._parts = []

    def update(self, prediction: Sample, reference: Sample) -> None:
        """Keep the components of a system."""
        predicted, labelled = (_rows(self.quantity, sample) for sample in (prediction, reference))
        self._parts.append(Values.of_system(predicted, labelled))

    def compute(self) -> float:
        """The number, of the components of all systems."""
        return self.of(Values.joined(self._parts))

    def state(self) -> list[dict[str, Any]]:
        """The components, system by system."""
        return [{"predicted": p.predicted.tolist(), "labelled": p.labelled.tolist()} for p in self._parts]

    def merge(self, state: list[dict[str, Any]]) -> None:
        """Keep the components of these systems as well."""
        width = QUANTITIES[self.quantity].width
        for part in state:
            arrays = (np.reshape(part[side], (-1, width)).astype(float) for side in ("predicted", "labelled"))
            self._parts.append(Values.of_system(*arrays))


class MeanMetric(ErrorMetric):
    """A function of the mean of one term per component."""

    @abstractmethod
    def terms(self, values: Values) -> np.ndarray:
        """[components]"""

    def owners(self, values: Values) -> np.ndarray:
        """[components]: the system of each term."""
        return values.systems

    def finish(self, mean: Any) -> Any:
        """The metric, from the mean of the terms."""
        return mean

    def of(self, values: Values) -> float:
        """Of the mean over all components."""
        terms = self.terms(values)
        if not terms.size:
            raise ValueError("there is nothing that it could be of")
        return float(self.finish(np.mean(terms)))

    def of_each(self, values: Values) -> np.ndarray:
        """Of the means of the systems."""
        return self.of_sums(self.sums(values))

    def sums(self, values: Values) -> np.ndarray:
        """Sum and number of terms."""
        owners = self.owners(values)
        totals = np.bincount(owners, self.terms(values), values.num_systems)
        return np.stack([totals, np.bincount(owners, minlength=values.num_systems)], axis=1)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """Of sum over number."""
        with np.errstate(invalid="ignore"):
            return self.finish(sums[..., 0] / np.where(sums[..., 1], sums[..., 1], np.nan))


class Mae(MeanMetric):
    """Mean absolute error."""

    def terms(self, values: Values) -> np.ndarray:
        """Absolute errors."""
        return np.abs(values.errors)


class Mse(MeanMetric):
    """Mean squared error."""

    unit: ClassVar[str | None] = "({})²"

    def terms(self, values: Values) -> np.ndarray:
        """Squared errors."""
        return values.errors**2


class Rmse(Mse):
    """Root of the mean squared error."""

    unit = None

    def finish(self, mean: Any) -> Any:
        """The root."""
        return np.sqrt(mean)


class Smape(MeanMetric):
    """Symmetric mean absolute percentage error: the error over the mean of both absolute values, 0 to 200 %."""

    unit = "%"

    def terms(self, values: Values) -> np.ndarray:
        """Per cent; 0 where both are zero."""
        scale = (np.abs(values.x) + np.abs(values.y)) / 2
        return 100 * np.abs(values.errors) / np.where(scale, scale, 1.0)


class Within(MeanMetric):
    """Share of components whose error is at most a threshold, given in the unit of the quantity: within:0.05."""

    unit = ""
    direction: ClassVar[Direction] = "higher"

    def __init__(self, quantity: str, argument: str | None = None) -> None:
        super().__init__(quantity)
        self.threshold = _number(argument, "a threshold, such as within:0.05", lambda t: t >= 0)

    def terms(self, values: Values) -> np.ndarray:
        """One or zero."""
        return (np.abs(values.errors) <= self.threshold).astype(float)


class ForceCosine(MeanMetric):
    """Cosine of the angle between predicted and labelled force: mean over atoms, where a predicted zero counts 0.

    Atoms without a labelled force, or with one that is zero, are left out.
    """

    unit = ""
    direction: ClassVar[Direction] = "higher"
    quantities = (FORCES.name,)

    def terms(self, values: Values) -> np.ndarray:
        """Cosines, per atom."""
        atoms = self._atoms(values)
        predicted, labelled = values.predicted[atoms], values.labelled[atoms]
        lengths = np.linalg.norm(predicted, axis=1) * np.linalg.norm(labelled, axis=1)
        return (predicted * labelled).sum(axis=1) / np.where(lengths, lengths, 1.0)

    def owners(self, values: Values) -> np.ndarray:
        """The system of each atom."""
        return values.owner[self._atoms(values)]

    def _atoms(self, values: Values) -> np.ndarray:
        return values.whole_rows & (np.linalg.norm(np.nan_to_num(values.labelled), axis=1) > FLAT)


class R2(ErrorMetric):
    """Coefficient of determination: 1 for a perfect model, 0 for one that always says the mean of the labels."""

    unit = ""
    direction: ClassVar[Direction] = "higher"

    def of(self, values: Values) -> float:
        """One minus squared errors over squared deviations."""
        spread = np.sum((values.x - np.mean(values.x)) ** 2)
        if not spread > 0:
            raise ValueError("the labels are all the same")
        return float(1 - np.sum(values.errors**2) / spread)

    def of_each(self, values: Values) -> np.ndarray:
        """Of each system, about its own mean."""
        owners, n = values.systems, values.num_systems
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(owners, values.x, n) / values.counts
            spread = np.bincount(owners, (values.x - means[owners]) ** 2, n)
            return 1 - np.bincount(owners, values.errors**2, n) / np.where(spread > 0, spread, np.nan)

    def sums(self, values: Values) -> np.ndarray:
        """Number of components, their sum and squares about a common middle, and squared errors."""
        x = values.x - (np.mean(values.x) if values.x.size else 0.0)
        terms = (np.ones_like(x), x, x**2, values.errors**2)
        return np.stack([np.bincount(values.systems, term, values.num_systems) for term in terms], axis=1)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        """From these."""
        n, x, squares, errors = np.moveaxis(sums, -1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = squares - x**2 / n
            return 1 - errors / np.where(spread > 0, spread, np.nan)


class Maximum(ErrorMetric):
    """Largest absolute error."""

    def of(self, values: Values) -> float:
        """Of all components."""
        return float(np.max(np.abs(values.errors)))

    def of_each(self, values: Values) -> np.ndarray:
        """Of each system."""
        found = np.full(values.num_systems, -np.inf)
        np.maximum.at(found, values.systems, np.abs(values.errors))
        return np.where(values.counts, found, np.nan)


class Percentile(ErrorMetric):
    """Percentile of the absolute error, with linear interpolation: percentile:99 (p50, p90, p95 and p99 for short)."""

    def __init__(self, quantity: str, argument: str | None = None) -> None:
        super().__init__(quantity)
        self.percent = _number(argument, "a percentage, such as percentile:99", lambda p: 0 <= p <= 100)

    def of(self, values: Values) -> float:
        """Of all components."""
        return float(np.percentile(np.abs(values.errors), self.percent))

    def of_each(self, values: Values) -> np.ndarray:
        """Of each system: between the two errors that lie next to it in order."""
        errors = np.abs(values.errors)
        ranked = errors[np.lexsort((errors, values.systems))]
        last = np.maximum(values.counts - 1, 0)
        place = last * (self.percent / 100)
        lower = np.floor(place).astype(int)
        start = np.minimum(np.cumsum(values.counts) - values.counts, len(ranked) - 1)
        low, high = ranked[start + lower], ranked[start + np.minimum(lower + 1, last)]
        return np.where(values.counts, low + (high - low) * (place - lower), np.nan)


class _Fixed(Percentile):
    """A percentile with a name of its own."""

    percent_text: ClassVar[str]

    def __init__(self, quantity: str, argument: str | None = None) -> None:
        if argument is not None:
            raise ValueError("it takes no argument")
        super().__init__(quantity, self.percent_text)


class P50(_Fixed):
    """Median of the absolute error."""

    percent_text = "50"


class P90(_Fixed):
    """90th percentile of the absolute error."""

    percent_text = "90"


class P95(_Fixed):
    """95th percentile of the absolute error."""

    percent_text = "95"


class P99(_Fixed):
    """99th percentile of the absolute error."""

    percent_text = "99"


class FunctionMetric(ErrorMetric):
    """A plain function of predicted and labelled components, two arrays of the same length."""

    function: Callable[[np.ndarray, np.ndarray], float]

    def of(self, values: Values) -> float:
        """What the function says."""
        return float(self.function(values.y, values.x))


def from_function(function: Callable[..., float]) -> type[FunctionMetric]:
    """The metric that a plain function stands for; its attributes `unit` and `direction` are the metric's."""
    about: Mapping[str, Any] = vars(function) if hasattr(function, "__dict__") else {}
    body = {name: about[name] for name in ("unit", "direction", "quantities") if name in about}
    body |= {"function": staticmethod(function), "__doc__": function.__doc__}
    return type(getattr(function, "__name__", "function"), (FunctionMetric,), body)


def _rows(quantity: str, sample: Sample) -> np.ndarray:
    """[rows, width]: the components of a quantity."""
    if quantity == ENERGY.name:
        energy = np.nan if sample.energy is None else sample.energy
        return np.array([[energy / len(sample.atoms)]], float)
    width = QUANTITIES[quantity].width
    return np.asarray(getattr(sample, QUANTITIES[quantity].needs), float).reshape(-1, width)


def _number(text: str | None, what: str, fits: Callable[[float], bool]) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = np.nan
    if not fits(number):
        raise ValueError(f"it takes {what}" + (f", not {text!r}" if text else ""))
    return number


def _or_nan(number: Callable[[Values], float], values: Values) -> float:
    """What a function says of one system; NaN where it is not defined."""
    try:
        return float(number(values))
    except Exception:  # around a system: the mean is over those that have the number
        return float("nan")
