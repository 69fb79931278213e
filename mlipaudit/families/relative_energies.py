# SPDX-License-Identifier: Apache-2.0
"""Single-point energies of related structures, compared as differences.

A family member says which structures make up a system and how their energies are judged. The family collects the
structures of all systems, predicts their energies in one go, and hands them back system by system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mlipaudit.benchmark import Benchmark, ModelOutput
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import SinglePoints
from mlipaudit.run_mode import RunMode

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, Prediction


class Labelled(NamedTuple):
    """A structure and its reference energy in eV, up to a constant per system."""

    atoms: Atoms
    energy: float


class RelativeEnergies(Benchmark, abstract=True):
    """Asks for the energies of all structures of all systems at once."""

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
    def collect(cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]) -> ModelOutput:
        """Model output from system id -> energies in eV; None where a structure failed."""
        raise NotImplementedError

    def ask(self, backend: Backend, reference: Any) -> ModelOutput:
        """Predict every structure of the benchmark in one call."""
        systems = self.structures(reference)
        flat = [entry.atoms for group in systems.values() for entry in group]
        answers = iter(
            backend.predict(flat, progress=lambda done, total: self.progress("structures", done, total))
        )
        energies: dict[str, list[float] | None] = {}
        failures: dict[str, Failure] = {}
        for name, group in systems.items():
            answered = [next(answers) for _ in group]
            failure = _first_failure(answered)
            energies[name] = None if failure else [answer.energy for answer in answered]  # type: ignore[union-attr]
            if failure:
                failures[name] = failure
        return self.collect(energies, failures)


def _first_failure(answers: Sequence[Prediction | Failure]) -> Failure | None:
    for number, answer in enumerate(answers, start=1):
        if isinstance(answer, Failure):
            return answer.model_copy(update={"message": f"structure {number} of {len(answers)}: {answer.message}"})
    return None


NOT_FINITE = Failure(kind=FailureKind.NON_FINITE, message="an energy in the model output is not finite")


def unanswered(name: str, failures: Mapping[str, Failure]) -> Failure:
    """Why a system has no energies: the recorded reason, or that none was recorded."""
    unknown = Failure(kind=FailureKind.INCOMPLETE, message="the model output holds no energies for this system")
    return failures.get(name, unknown)
