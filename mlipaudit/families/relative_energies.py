# SPDX-License-Identifier: Apache-2.0
"""Single-point energies of related structures, compared as differences.

A family member says which structures make up a system and how their energies are judged. The family collects the
structures of all systems, predicts their energies in one go, hands them back system by system, and sums up errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np

from mlipaudit.benchmark import DEFAULT_SPIN, Benchmark, BenchmarkResult, ModelOutput, SystemResult
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import Interval, apply_rule, bootstrap_interval, score_systems, system_scores
from mlipaudit.units import KCAL_MOL_PER_EV

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, CountProgress, Prediction

NUM_WORST = 10
T = TypeVar("T")


class Labelled(NamedTuple):
    """A structure and its reference energy in eV, up to a constant per system."""

    atoms: Atoms
    energy: float


class EnergiesModelOutput(ModelOutput):
    """Energies of structures, grouped into systems by the subclass."""

    energy_rounding: float | None = None
    """eV: the largest error that the model's own precision leaves in one energy; None where it is not known."""


class EnergyErrorsResult(BenchmarkResult):
    """What every comparison of energies reports besides its errors."""

    intervals: dict[str, Interval] = {}
    """95 % intervals of the aggregates by field: bootstrap over systems."""
    medians: dict[str, float] = {}
    """Medians over systems, which a few bad ones do not move, by the field of the mean."""
    worst_systems: list[str] = []
    """Up to ten systems with the lowest scores, worst first."""
    energy_rounding: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Error that the model's own floating-point precision leaves in one energy: no error below it means anything."""


class RelativeEnergies(Benchmark, abstract=True):
    """Asks for the energies of all structures of many systems at once. Reference data is a mapping by system id."""

    chunk_systems = 128
    """A few batches of an accelerator and dozens of a CPU, so that a chunk that is not quite full costs nothing."""
    protocols = {
        RunMode.DEV: SinglePoints(max_systems=2),
        RunMode.FAST: SinglePoints(),
        RunMode.STANDARD: SinglePoints(),
    }

    @classmethod
    def structures(cls, reference: Any) -> dict[str, list[Labelled]]:
        """System id -> its structures, in the order in which `collect` gets their energies."""
        raise NotImplementedError

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> EnergiesModelOutput:
        """Model output from system id -> energies in eV; None where a structure failed."""
        raise NotImplementedError

    @classmethod
    def geometries(cls, reference: Any, system: str) -> list[Atoms]:
        """Every structure of the system."""
        return [entry.atoms for entry in cls.structures(reference).get(system, [])]

    @classmethod
    def system_names(cls, reference: Any) -> list[str]:
        """Ids in the order of the data."""
        return list(reference)

    def ask_chunk(self, backend: Backend, reference: Any, names: Sequence[str]) -> EnergiesModelOutput:
        """Predict every structure of these systems in one call."""
        systems = self.structures({name: reference[name] for name in names})
        flat = [entry.atoms for group in systems.values() for entry in group]
        answers = backend.predict(flat, progress=self._tell_systems(reference, names))
        remaining = iter(answers)
        energies: dict[str, list[float] | None] = {}
        failures: dict[str, Failure] = {}
        for name, group in systems.items():
            answered = [next(remaining) for _ in group]
            failure = _first_failure(answered)
            energies[name] = None if failure else [answer.energy for answer in answered]  # type: ignore[union-attr]
            if failure:
                failures[name] = failure
        output = self.collect(energies, failures)
        output.energy_rounding = _largest(_rounding(answer) for answer in answers)
        return output

    def _tell_systems(self, reference: Any, names: Sequence[str]) -> CountProgress:
        """Progress of a chunk, as that of all systems."""
        everything = self.system_names(reference)
        before = everything.index(names[0]) if names else 0

        def tell(done: int, total: int) -> None:
            self.progress("systems", before + len(names) * done // max(total, 1), len(everything))

        return tell

    @classmethod
    def join(cls, parts: Sequence[EnergiesModelOutput]) -> EnergiesModelOutput:
        """Field by field: lists one after the other, failures and other mappings united, counts added up."""
        first = parts[0]
        names = type(first).model_fields.keys() - {"energy_rounding"}
        fields = {name: _together([getattr(part, name) for part in parts]) for name in names}
        rounding = _largest(part.energy_rounding for part in parts)
        return first.model_copy(update={**fields, "energy_rounding": rounding})


def labelled(symbols: Sequence[str], positions: Any, charge: float, energy: float) -> Labelled:
    """A structure with its charge where models look for it; `energy` in eV."""
    from ase import Atoms

    from mlipaudit.backends.contract import set_charge_and_spin

    return Labelled(set_charge_and_spin(Atoms(symbols, positions=positions), charge, DEFAULT_SPIN), energy)


def labelled_profile(
    symbols: Sequence[str], coordinates: Sequence[Any], charge: float, energies_kcal: Sequence[float]
) -> list[Labelled]:
    """One molecule at several geometries, with energies in kcal/mol."""
    return [
        labelled(symbols, positions, charge, energy / KCAL_MOL_PER_EV)
        for positions, energy in zip(coordinates, energies_kcal, strict=True)
    ]


def first_systems(systems: dict[str, T], protocol: SinglePoints) -> dict[str, T]:
    """As many as the protocol asks for, in the order of the file."""
    return dict(list(systems.items())[: protocol.max_systems])


def _first_failure(answers: Sequence[Prediction | Failure]) -> Failure | None:
    for number, answer in enumerate(answers, start=1):
        if isinstance(answer, Failure):
            return answer.model_copy(update={"message": f"structure {number} of {len(answers)}: {answer.message}"})
    return None


def _rounding(answer: Prediction | Failure) -> float | None:
    return None if isinstance(answer, Failure) else answer.rounding


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _together(values: Sequence[Any]) -> Any:
    """The same field of all chunks as one: a list, a mapping or a count."""
    if isinstance(values[0], list):
        return [entry for value in values for entry in value]
    if isinstance(values[0], dict):
        return {key: entry for value in values for key, entry in value.items()}
    return sum(values)


NOT_FINITE = Failure(kind=FailureKind.NON_FINITE, message="an energy in the model output is not finite")


def unanswered(name: str, failures: Mapping[str, Failure]) -> Failure:
    """Why a system has no energies: the recorded reason, or that none was recorded."""
    unknown = Failure(kind=FailureKind.INCOMPLETE, message="the model output holds no energies for this system")
    return failures.get(name, unknown)


def why_unusable(
    name: str, energies: Iterable[float] | None, num_expected: int, failures: Mapping[str, Failure]
) -> Failure | None:
    """The failure of a system whose energies are missing, too few, or not finite; None when they can be judged."""
    found = None if energies is None else list(energies)
    if found is None:
        return unanswered(name, failures)
    if len(found) != num_expected:
        message = f"the model output holds {len(found)} energies for this system, not {num_expected}"
        return Failure(kind=FailureKind.INCOMPLETE, message=message)
    return None if np.isfinite(found).all() else NOT_FINITE


# Summing up


class Aggregate(NamedTuple):
    """A mean over systems and what belongs to it."""

    value: float
    interval: Interval | None
    median: float


def mean_of(errors: Iterable[float | None]) -> Aggregate | None:
    """Mean of the errors that there are; None where there are none."""
    found = _known(errors)
    return (
        Aggregate(float(found.mean()), bootstrap_interval(found), float(np.median(found))) if found.size else None
    )


def rms_of(errors: Iterable[float | None]) -> Aggregate | None:
    """Root mean square of the errors that there are; None where there are none."""
    found = _known(errors)
    if not found.size:
        return None
    squares = bootstrap_interval(found**2)
    interval = (squares[0] ** 0.5, squares[1] ** 0.5) if squares else None
    return Aggregate(float(np.sqrt(np.mean(found**2))), interval, float(np.median(np.abs(found))))


def _known(errors: Iterable[float | None]) -> np.ndarray:
    return np.array([error for error in errors if error is not None], dtype=float)


def summary(
    output: EnergiesModelOutput,
    entries: Mapping[str, SystemResult],
    aggregates: Mapping[str, Aggregate | None],
) -> dict[str, Any]:
    """Fields of a result: aggregates with intervals and medians, score, worst systems, failures.

    Args:
        output: what the model answered.
        entries: system id -> its result, of all systems that were asked for.
        aggregates: field -> mean over systems.
    """
    known = {field: aggregate for field, aggregate in aggregates.items() if aggregate}
    rounding = output.energy_rounding
    return {
        **{field: aggregate.value for field, aggregate in known.items()},
        "intervals": {field: a.interval for field, a in known.items() if a.interval},
        "medians": {field: a.median for field, a in known.items()},
        "worst_systems": _worst(entries),
        "energy_rounding": None if rounding is None else rounding * KCAL_MOL_PER_EV,
        "failures": {name: entry.failure for name, entry in entries.items() if entry.failure},
        **EnergyErrorsResult.fields_of(score_systems(list(entries.values()))),
    }


def _worst(entries: Mapping[str, SystemResult]) -> list[str]:
    names = list(entries)
    scores = system_scores(list(entries.values()))
    return [names[i] for i in np.argsort(scores, kind="stable")[:NUM_WORST]]


# Profiles


def relative_profile_error(predicted: np.ndarray, expected: np.ndarray) -> float | None:
    """RMS difference of two profiles over the RMS of the expected one; None where that is flat.

    1 for a flat prediction and 2 for an inverted one, however deep the profile is.
    """
    scale = float(np.sqrt(np.mean(expected**2)))
    return float(np.sqrt(np.mean((predicted - expected) ** 2))) / scale if scale else None


PROFILE_RULE = SoftThreshold(0.2)
"""A fifth of a profile's own size: what GFN2-xTB reaches, and no flat profile (1) or inverted one (2) does."""


def profile_score(relative_errors: Iterable[float | None]) -> Aggregate | None:
    """Mean score of the shapes of profiles; one that failed counts 0."""
    return mean_of(apply_rule(PROFILE_RULE, relative_errors).tolist())
