# SPDX-License-Identifier: Apache-2.0
"""Pictures as data: which fields of a result are drawn against which. Report and GUI draw the same ones.

views = (
    Scatter("Energy differences", x=Axis("ref_energy_diff", "reference", "kcal/mol"),
            y=Axis("predicted_energy_diff", "model", "kcal/mol"), diagonal=True),
)

Fields are those of a benchmark's system entries, unless a view says otherwise; where a result has one system, what its
entry does not hold is looked for on the result itself. Where a field is absent, or None for every system, the picture
is left out. The distribution of each scored metric is drawn without being declared.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A field of a result and how its axis is labelled."""

    field: str
    """`outer.inner` is a field of a nested record; `outer.*.inner` one of each record in a mapping."""
    label: str
    unit: str = ""
    log: bool = False
    scale: float = 1.0
    """What the field is multiplied with, to have it in `unit`."""
    per: str | None = None
    """Field with a number that it is divided by: atoms, for a quantity per atom."""

    @property
    def title(self) -> str:
        """Label with unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Scatter:
    """One point per system and model, or one per element where both fields are lists."""

    title: str
    x: Axis
    y: Axis
    diagonal: bool = False
    """Whether both axes show the same quantity, so that a perfect model lies on the diagonal."""
    joined: bool = False
    """Whether a line joins a model's points, in the order of x."""
    caption: str = ""


@dataclass(frozen=True)
class Curves:
    """One picture per system: a list of numbers per model, over another list or over its own index."""

    title: str
    y: Axis
    x: Axis | None = None
    """None: over the index, which `index` names."""
    reference: str | None = None
    """Field with what the curve should be, over the same x; or with one number, drawn as a horizontal line."""
    error: str | None = None
    """Field with the standard error of y, drawn as a band of 95 %."""
    points: bool = False
    """Points rather than a line, where the order means nothing."""
    diagonal: bool = False
    """Whether both axes show the same quantity."""
    zero_at_end: bool = False
    """Whether every curve is shifted to zero at its largest x, where only differences mean something."""
    index: str = "frame"
    caption: str = ""


@dataclass(frozen=True)
class Distribution:
    """Values of one metric over the systems, per model."""

    title: str
    value: Axis
    threshold: float | None = None
    """Drawn as a line."""
    caption: str = ""


@dataclass(frozen=True)
class Bars:
    """A number per group and model: from a field that maps groups to numbers, or one number of each system."""

    title: str
    value: Axis
    of_result: bool = True
    """Whether the field is one of the whole result. Else it is one of each system: a mapping is drawn system by
    system, for numbers the systems are the groups."""
    reference: str | None = None
    """Field of the same kind with what the numbers should be, drawn as a mark across the bar."""
    caption: str = ""


View = Scatter | Curves | Distribution | Bars
