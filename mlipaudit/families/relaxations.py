# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of relaxed geometries share: how geometries are kept, and what shows that a model holds them.

A model without any forces leaves every geometry where it is. So before a geometry that stayed counts for a model, the
model must hold it: pushed a little, its energy must rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ConfigDict

from mlipaudit.analysis.molecules import bond_lengths, find_bonds, isolated_atoms
from mlipaudit.arrays import Array
from mlipaudit.benchmark import DEFAULT_SPIN, Record
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import Push

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, CountProgress, Relaxation

BREAK_FACTOR = 1.5
"""A bond is broken when it is longer than this times its reference length."""


class RelaxedState(Record):
    """Where a minimisation ended; the last frame counts. States of 0.1.8 have more fields, which are not read."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    atomic_numbers: Array | None = None
    positions: Array | None = None
    """Å, [frames, atoms, 3]"""
    energy: float | None = None
    """eV"""
    max_force: float | None = None
    """eV/Å"""
    num_steps: int | None = None
    converged: bool | None = None
    energy_rise: float | None = None
    """eV per atom, when pushed."""


def relaxed_state(
    atoms: Atoms, relaxed: Relaxation | Failure, rise: float | Failure | None
) -> RelaxedState | Failure:
    """What is kept of a relaxation and of the push after it, or the failure of either."""
    if isinstance(relaxed, Failure):
        return relaxed
    if isinstance(rise, Failure):
        return rise
    return RelaxedState(
        atomic_numbers=atoms.numbers,
        positions=relaxed.positions[None],
        energy=relaxed.energy,
        max_force=relaxed.max_force,
        num_steps=relaxed.num_steps,
        converged=relaxed.converged,
        energy_rise=rise,
    )


def structure(symbols: Sequence[str], positions: Any, charge: float) -> Atoms:
    """A structure with its charge where models look for it."""
    from ase import Atoms

    from mlipaudit.backends.contract import set_charge_and_spin

    return set_charge_and_spin(Atoms(symbols, positions=positions), charge, DEFAULT_SPIN)


def bond_graph(symbols: Sequence[str], positions: Any) -> set[tuple[int, int]]:
    """Pairs of bonded atoms, the lower index first."""
    return {(int(i), int(j)) for i, j in find_bonds(_numbers(symbols), np.asarray(positions))}


def _numbers(symbols: Sequence[str]) -> np.ndarray:
    from ase.data import atomic_numbers

    return np.array([atomic_numbers[symbol] for symbol in symbols])


def why_apart(positions: np.ndarray, reference: np.ndarray, symbols: Sequence[str]) -> Failure | None:
    """Why a relaxed geometry is no longer that molecule: not finite, an atom gone, a bond broken."""
    if positions.shape != reference.shape:
        message = f"the geometry has shape {positions.shape}, not {reference.shape}"
        return Failure(kind=FailureKind.INCOMPLETE, message=message)
    if not np.isfinite(positions).all():
        return Failure(kind=FailureKind.NON_FINITE, message="positions are not finite")
    alone = isolated_atoms(positions)
    if alone.size:
        return _exploded(f"{_named(alone[0], symbols)} is far from every other atom")
    bonds = find_bonds(_numbers(symbols), reference)
    before, now = bond_lengths(np.stack([reference, positions]), bonds)
    broken = bonds[now > BREAK_FACTOR * before]
    if broken.size:
        return _exploded(f"the bond {_named(broken[0][0], symbols)}–{_named(broken[0][1], symbols)} is broken")
    return None


def why_not_held(rise: float | None, threshold: float) -> Failure | None:
    """Why a geometry that stayed does not count: nothing holds it there. Unknown rises say nothing.

    Args:
        rise: eV per atom.
        threshold: eV per atom.
    """
    if rise is None or rise >= threshold:
        return None
    if not np.isfinite(rise):
        return Failure(kind=FailureKind.NON_FINITE, message=f"the energy of a pushed geometry is {rise}")
    return _exploded(
        f"nothing holds the atoms: pushed, the energy rises by {1000 * rise:.2f} meV per atom, "
        f"not by {1000 * threshold:g} at least"
    )


def energy_rises(
    backend: Backend,
    systems: Sequence[Atoms],
    relaxed: Sequence[Relaxation | Failure],
    push: Push,
    *,
    seed: int,
    progress: CountProgress,
) -> list[float | Failure | None]:
    """By how many eV per atom the energy of each relaxed geometry rises when it is pushed; None where there is none.

    Each random push goes both ways, so that a force which is left does not count, only the curvature.
    """
    found: list[float | Failure | None] = [None] * len(systems)
    resting = [(i, rest) for i, rest in enumerate(relaxed) if not isinstance(rest, Failure)]
    pushed = [structure for i, rest in resting for structure in _pushed(systems[i], rest, push, (seed, i))]
    answers = iter(backend.predict(pushed, progress=progress))
    for i, rest in resting:
        own = [next(answers) for _ in range(2 * push.num_directions)]
        failure = next((answer for answer in own if isinstance(answer, Failure)), None)
        energies = [answer.energy for answer in own if not isinstance(answer, Failure)]
        found[i] = failure or (float(np.mean(energies)) - rest.energy) / len(systems[i])
    return found


def _pushed(atoms: Atoms, rest: Relaxation, push: Push, seed: Sequence[int]) -> list[Atoms]:
    directions = np.random.default_rng(seed).normal(0.0, push.length, (push.num_directions, len(atoms), 3))
    pushed = [atoms.copy() for _ in range(2 * push.num_directions)]
    for copy, direction in zip(pushed, np.concatenate([directions, -directions]), strict=True):
        copy.positions = rest.positions + direction
    return pushed


def _exploded(message: str) -> Failure:
    return Failure(kind=FailureKind.EXPLODED, message=message)


def _named(index: int, symbols: Sequence[str]) -> str:
    return f"{symbols[index]}{index}"
