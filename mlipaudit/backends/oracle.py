# SPDX-License-Identifier: Apache-2.0
"""A backend that answers with the reference: what a perfect model would score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from ase import Atoms

from mlipaudit.backends.contract import Backend, CountProgress, ForwardPass, Prediction, SystemRun
from mlipaudit.failures import Failure, FailureKind


class OracleBackend(Backend):
    """Looks structures up among labelled ones; `offset` (eV) is added to every energy and must change no score."""

    def __init__(self, labelled: Iterable[tuple[Atoms, float]], *, offset: float = 0.0) -> None:
        self._energies = {_fingerprint(atoms): energy + offset for atoms, energy in labelled}

    @property
    def allowed_atomic_numbers(self) -> None:
        """Unknown: it covers what it has labels for."""
        return None

    def forward_pass(self, atoms: Atoms, *, spare_pairs: bool = False) -> ForwardPass:
        """An oracle knows energies, not forces."""
        raise NotImplementedError("the oracle has no forces")

    def _predict(
        self, systems: Sequence[Atoms], *, forces: bool, progress: CountProgress
    ) -> list[Prediction | Failure]:
        progress(len(systems), len(systems))
        return [self._answer(atoms) for atoms in systems]

    def _answer(self, atoms: Atoms) -> Prediction | Failure:
        energy = self._energies.get(_fingerprint(atoms))
        if energy is None:
            return Failure(kind=FailureKind.EXCEPTION, message=f"no label for {atoms.get_chemical_formula()}")
        return Prediction(energy)

    def _simulate(self, run: SystemRun, engine: str) -> None:
        raise NotImplementedError("the oracle has no forces")


def _fingerprint(atoms: Atoms) -> tuple:
    positions = np.round(atoms.positions, 6) + 0.0  # no minus zero
    return atoms.numbers.tobytes(), positions.tobytes(), atoms.info.get("charge", 0)
