# SPDX-License-Identifier: Apache-2.0
"""What is scored, and how: the options of a configuration file, which are the protocol of the result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from mlipaudit.metrics import QUANTITIES
from mlipaudit.metrics.chosen import SLASH, Chosen, choose_metrics

STRICT = ConfigDict(extra="forbid")
ELEMENT, SIZE = "element", "size"
METRICS_BY_DEFAULT = ("mae", "rmse", "r2", "p95", "max", "force_cosine")
GIVEN, MODEL, FIT, NONE = "given", "model", "fit", "none"


@dataclass(frozen=True, config=STRICT)
class Labels:
    """Keys of the labels, in `info`, `arrays` or stored results of a calculator; None: found by their usual names."""

    energy: str | None = None
    forces: str | None = None
    stress: str | None = None


@dataclass(frozen=True, config=STRICT)
class Units:
    """Units of the labels."""

    energy: str = "eV"
    """Of the whole system, or per atom: `eV/atom`."""
    forces: str = "eV/Å"
    stress: str = "eV/Å³"


@dataclass(frozen=True, config=STRICT)
class ReferenceEnergies:
    """Energies of elements that are subtracted before energies are compared."""

    source: Literal["none", "given", "model", "fit"] = "none"
    """`model`: those that the model adds. `fit`: least squares of label minus prediction over the composition."""
    energies: dict[str, float] | None = None
    """By element, in the unit of the energy labels; for `given`."""
    subtract_from: Literal["labels", "both"] | None = None
    """None: from both sides for `model`, whose predictions contain them; else from the labels."""

    @property
    def from_predictions(self) -> bool:
        """Whether they are subtracted from predictions too."""
        return (self.subtract_from or ("both" if self.source == MODEL else "labels")) == "both"


def _spelt_out(value: Any) -> Any:
    """`"fit"` and a table of elements stand for the longer form."""
    if isinstance(value, str):
        return {"source": value}
    if isinstance(value, dict) and value and not set(value) & {"source", "energies", "subtract_from"}:
        return {"source": GIVEN, "energies": value}
    return {"source": GIVEN, **value} if isinstance(value, dict) and "energies" in value else value


Names = tuple[str, ...]


@dataclass(frozen=True, config=STRICT)
class DatasetProtocol:
    """All options, with their defaults."""

    format: str | None = None
    """Of the file, as ase calls it; None: as its name says."""
    max_systems: int | None = None
    """The first so many frames; None takes all."""
    name: str | None = None
    """Key in `info` that names a frame; None: its number."""
    labels: Labels = Labels()
    units: Units = Units()
    reference_energies: Annotated[ReferenceEnergies, BeforeValidator(_spelt_out)] = ReferenceEnergies()
    quantities: Names | None = None
    """Of `energy_per_atom`, `forces` and `stress`; None: those that are labelled."""
    metrics: Names = METRICS_BY_DEFAULT
    preprocessors: Names = ()
    postprocessors: Names = ()
    group_by: Names = (ELEMENT, SIZE)
    """`element`, `size`, and keys in `info`."""
    size_bins: tuple[int, ...] = (10, 20, 50, 100, 200)
    """Largest numbers of atoms of the groups by size."""
    thresholds: dict[str, float] | None = None
    """`quantity/metric`, lower being better, to the value up to which a frame scores 1; None: there is no score."""
    made_by: dict[str, str] | None = None
    """Version, or hash of the source, of each metric and transform that is not our own."""

    @property
    def chosen(self) -> list[Chosen]:
        """The metrics."""
        return choose_metrics(self.metrics, self.quantities or tuple(QUANTITIES))

    @property
    def scored(self) -> list[tuple[Chosen, float]]:
        """The metrics that make the score, with their thresholds."""
        limits = self.thresholds or {}
        return [(one, limits[one.key]) for one in choose_metrics(limits, tuple(QUANTITIES))]

    @property
    def needed(self) -> set[str]:
        """Quantities that are named one by one, and so must have labels."""
        named = {text.partition(SLASH)[0] for text in (*self.metrics, *(self.thresholds or ()))}
        return {*(self.quantities or ()), *(named & set(QUANTITIES))}
