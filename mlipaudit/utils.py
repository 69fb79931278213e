# SPDX-License-Identifier: Apache-2.0
"""Helpers that benchmark subclasses written for mlipaudit 0.1.x import; new ones use a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Prediction

__all__ = ["run_inference", "skip_unallowed_elements"]


def run_inference(
    atoms_list: Sequence[Atoms],
    force_field: Any,
    batch_size: int = 16,
) -> list[Prediction | None]:
    """Energies and forces of many systems; None for one that failed, whatever the reason.

    Raises:
        ValueError: the force field is neither an mlip one nor an ASE calculator.
    """
    from mlipaudit.backends.contract import backend_for
    from mlipaudit.failures import Failure

    answers = backend_for(force_field).predict(atoms_list, forces=True)
    return [None if isinstance(answer, Failure) else answer for answer in answers]


def skip_unallowed_elements(force_field: Any, structure_tuples: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Names of the structures, given as (name, symbols), with elements that the force field says it does not cover."""
    from mlipaudit.benchmark import missing_elements

    return [name for name, symbols in structure_tuples if missing_elements(force_field, symbols)]
