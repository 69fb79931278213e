# SPDX-License-Identifier: Apache-2.0
"""When the dynamics of one structure stopped to hold together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mlipaudit.analysis.molecules import (
    bond_lengths,
    departures,
    find_bonds,
    hydrogens_of,
    lasting_from,
    solvent_mask,
)
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import SimulationState, bond_name, box_of, not_enough, not_finite, too_hot
from mlipaudit.protocol import MolecularDynamics

if TYPE_CHECKING:
    from ase import Atoms

BROKEN = 1.7
"""A heavy-atom bond longer than this many times its starting length, to the end, is broken."""


def explosions(
    state: SimulationState, start: Atoms, md: MolecularDynamics, recorded: Failure | None
) -> Iterator[Failure]:
    """Every reason to call it exploded, each with its frame; of two in one frame the first counts."""
    if recorded:
        yield recorded.model_copy(update={"frame": state.num_frames - 1})
    unjudgeable = not_finite(state)
    if unjudgeable:
        yield unjudgeable
    if state.temperature is not None and (hot := too_hot(state.temperature[: _usable(state, unjudgeable)], md)):
        yield hot
    if state.positions is not None and (broken := _broken_bond(state.positions, start)):
        yield broken
    if short := not_enough(state.num_frames, md.num_frames):
        yield short


def _usable(state: SimulationState, unjudgeable: Failure | None) -> int:
    """Frames before the first that is not finite."""
    return state.num_frames if unjudgeable is None or unjudgeable.frame is None else unjudgeable.frame


def _solute_bonds(start: Atoms) -> np.ndarray:
    bonds = find_bonds(start.numbers, start.positions, box_of(start))
    return bonds[~solvent_mask(start.numbers, bonds)[bonds[:, 0]]]


def _broken_bond(positions: np.ndarray, start: Atoms) -> Failure | None:
    """The heavy-atom bond of the solute that broke first of those that stay broken. A bond to NaN is no bond."""
    bonds = _solute_bonds(start)
    bonds = bonds[(start.numbers[bonds] != 1).all(axis=1)]
    if not len(bonds):
        return None
    before = bond_lengths(start.positions[None], bonds, box_of(start))
    since = lasting_from(~(bond_lengths(positions, bonds, box_of(start)) <= BROKEN * before))
    frame = int(since.min())
    if frame == len(positions):
        return None
    broken = (since < len(positions)).sum()
    message = f"bond {bond_name(start, bonds[since.argmin()])} broken from frame {frame} on, {broken} bonds in all"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)


def lost_hydrogens(state: SimulationState, start: Atoms) -> tuple[int, list[int]]:
    """First frame from which a hydrogen of the solute is gone, and all that are gone at the end."""
    hydrogens = hydrogens_of(start.numbers, _solute_bonds(start))
    left = departures(np.asarray(state.positions), start.numbers, hydrogens, box_of(start))
    lost = hydrogens[left < state.num_frames]
    return (int(left.min()), lost.tolist()) if lost.size else (-1, [])
