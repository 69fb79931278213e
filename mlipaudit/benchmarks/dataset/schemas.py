# SPDX-License-Identifier: Apache-2.0
"""What a model answers on a data set, and what is made of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict

from mlipaudit.arrays import Array
from mlipaudit.benchmark import BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.measurement import Measurement
from mlipaudit.metric import Fraction, Metric
from mlipaudit.metrics import ENERGY, FORCES, STRESS
from mlipaudit.scoring import Interval
from mlipaudit.views import Axis, Bars, Distribution, Scatter, View


class DatasetModelOutput(ModelOutput):
    """Predictions, and states of the metrics that need more than these."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    names: list[str]
    """Of the frames that the model was asked."""
    energies: Array
    """eV, [frames]; NaN where the frame failed."""
    forces: Array
    """eV/Å, [atoms of all frames, 3]; NaN where there are none."""
    stress: Array
    """eV/Å³, [frames, 6]; NaN where there is none."""
    num_atoms: list[int]
    states: dict[str, dict[str, Any]] = {}
    """Metric -> frame -> its state after this one."""
    metric_failures: dict[str, dict[str, str]] = {}
    """Metric -> frame -> why it has no state."""
    absent: list[str] = []
    """Properties that the model does not give."""
    atomic_energies: dict[str, float] | None = None
    """eV, by element: what the model adds; None where it does not say, or was not asked."""


class LabelCount(Record):
    """Labels of one property: where they are, and how many take no part."""

    key: str
    unit: str
    """In the file."""
    converted_by: float
    """Factor from there to eV, eV/Å or eV/Å³."""
    per_atom: bool = False
    """Whether energies were multiplied with the number of atoms as well."""
    num_systems: int
    """Frames with such a label."""
    num_components: int
    systems_without: int
    """Frames that have none."""
    systems_not_finite: int
    """Frames of whose label some components, or all, are NaN or infinite."""
    components_not_finite: int


class FrameResult(SystemResult):
    """One frame."""

    name: str
    index: int
    """In the file, from 0."""
    num_atoms: int
    formula: str
    skipped: bool = False
    """Whether it has no label that a threshold is about, and so no part in the score."""
    score: Annotated[float | None, Metric(unit="", score=Fraction(), better="higher")] = None
    """Under the thresholds of the configuration: mean over these; None without any."""
    energy_error: Annotated[float | None, Metric(unit=ENERGY.unit, better="neither")] = None
    """Energy per atom, prediction minus label."""
    force_mae: Annotated[float | None, Metric(unit=FORCES.unit)] = None
    """Mean absolute error over the components of all forces."""
    force_rmse: Annotated[float | None, Metric(unit=FORCES.unit)] = None
    force_max: Annotated[float | None, Metric(unit=FORCES.unit)] = None
    """Largest absolute error of a component."""
    stress_mae: Annotated[float | None, Metric(unit=STRESS.unit)] = None
    labelled_energy: float | None = None
    """eV per atom, less reference energies."""
    predicted_energy: float | None = None
    """eV per atom."""
    labelled_forces: list[float] = []
    """eV/Å: some components, the one with the largest error among them."""
    predicted_forces: list[float] = []
    """The same components."""


class DatasetResult(BenchmarkResult):
    """Errors against the labels of a file."""

    frames: list[FrameResult]
    energy_mae: Annotated[float | None, Metric(unit=ENERGY.unit)] = None
    """Mean absolute error of the energy per atom."""
    energy_rmse: Annotated[float | None, Metric(unit=ENERGY.unit)] = None
    forces_mae: Annotated[float | None, Metric(unit=FORCES.unit)] = None
    """Mean absolute error over all force components."""
    forces_rmse: Annotated[float | None, Metric(unit=FORCES.unit)] = None
    stress_mae: Annotated[float | None, Metric(unit=STRESS.unit)] = None
    stress_rmse: Annotated[float | None, Metric(unit=STRESS.unit)] = None
    intervals: dict[str, Interval] = {}
    """95 % intervals of these: bootstrap over frames."""
    metrics: dict[str, dict[str, Measurement]] = {}
    """Quantity -> metric -> its value; `system` for metrics that are not of one quantity."""
    groups: dict[str, dict[str, dict[str, dict[str, Measurement]]]] = {}
    """`element`, `size` or a key in `info` -> group -> the same. By element are the forces on its atoms, and the
    energies and stresses of frames that contain it."""
    force_mae_by_element: dict[str, float] = {}
    """eV/Å"""
    force_mae_by_size: dict[str, float] = {}
    """eV/Å, by number of atoms."""
    energy_mae_by_size: dict[str, float] = {}
    """eV/atom, by number of atoms."""
    worst: dict[str, dict[str, float]] = {}
    """Quantity -> the ten frames with the largest errors, worst first: energy per atom, or root mean square of the
    components."""
    worst_systems: list[str] = []
    """Ten frames: with the lowest scores where there are thresholds, else those with the worst forces, or energies."""
    labels: dict[str, LabelCount] = {}
    """Property -> its labels."""
    num_in_file: int = 0
    """Frames."""
    num_unlabelled: int = 0
    """Frames without any label, which the model was not asked."""
    reference_energies: dict[str, float] = {}
    """eV, by element, as they were subtracted."""
    reference_energies_from: str = ""
    """Where they come from, and from what they were subtracted."""


VIEWS: tuple[View, ...] = (
    Scatter(
        "Energies per atom",
        x=Axis("labelled_energy", "label", ENERGY.unit),
        y=Axis("predicted_energy", "prediction", ENERGY.unit),
        diagonal=True,
        caption="Less reference energies of elements, where there are any.",
    ),
    Scatter(
        "Force components",
        x=Axis("labelled_forces", "label", FORCES.unit),
        y=Axis("predicted_forces", "prediction", FORCES.unit),
        diagonal=True,
        caption="Some components of each frame, the one with the largest error among them.",
    ),
    Distribution("Errors of the energy", Axis("energy_error", "prediction minus label", ENERGY.unit)),
    Distribution("Errors of the forces", Axis("force_rmse", "root mean square error of a frame", FORCES.unit)),
    Scatter(
        "Errors of the forces by size",
        x=Axis("num_atoms", "number of atoms"),
        y=Axis("force_rmse", "root mean square error of a frame", FORCES.unit),
    ),
    Bars("Error of the forces by element", Axis("force_mae_by_element", "mean absolute error", FORCES.unit)),
    Bars("Error of the forces by size", Axis("force_mae_by_size", "mean absolute error", FORCES.unit)),
    Bars("Error of the energy by size", Axis("energy_mae_by_size", "mean absolute error", ENERGY.unit)),
)
