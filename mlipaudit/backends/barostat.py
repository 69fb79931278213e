# SPDX-License-Identifier: Apache-2.0
"""Monte-Carlo barostat: now and then the volume changes at random, molecules move with it, and physics decides.

Molecules are moved whole, by their centres of mass, so that no bond is stretched; a change is accepted with the
probability of the isothermal-isobaric ensemble (Frenkel and Smit, Understanding Molecular Simulation, section 5.4.2;
molecular scaling as in Åqvist et al. 2004, 10.1016/j.cplett.2003.12.039). How far a change goes is adapted in the
first fifth of a run only, which no analysis uses: from then on detailed balance holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from ase import units

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import SystemRun

MOLECULE = "molecule"
"""Array of a structure: to which molecule each atom belongs."""
FIRST_CHANGE, LARGEST_CHANGE = 0.01, 0.3
"""Of the volume: the largest change at first, and ever."""
ADAPTED_EVERY, ADAPTED_UNTIL = 10, 0.2
"""Attempts, and the part of a run."""
TOO_FEW, TOO_MANY, STEP = 0.25, 0.75, 1.1
"""Accepted, of the attempts; and by how much the change is then made smaller or larger."""
_STREAM = 2


@dataclass
class Barostat:
    """Of one system: proposes volumes and decides on them."""

    run: SystemRun
    max_change: float = 0.0
    """Å³"""
    attempts: int = 0
    accepted: int = 0
    _molecule: np.ndarray = field(init=False)
    _factor: float = 1.0

    def __post_init__(self) -> None:
        atoms = self.run.atoms
        if MOLECULE not in atoms.arrays or not atoms.pbc.all():
            raise ValueError(
                f"constant pressure needs a periodic box and the array {MOLECULE!r}, of whole molecules"
            )
        _, self._molecule = np.unique(atoms.arrays[MOLECULE], return_inverse=True)
        self.max_change = self.max_change or FIRST_CHANGE * float(atoms.get_volume())

    @property
    def num_molecules(self) -> int:
        """Particles, as far as pressure is concerned."""
        return int(self._molecule.max()) + 1

    def is_due(self, step: int) -> bool:
        """Whether a change is tried at a step."""
        return step > 0 and step % self.run.protocol.barostat_interval == 0

    def propose(self, atoms: Atoms, *, step: int) -> None:
        """Give a structure another volume, its molecules moved accordingly."""
        volume = atoms.get_volume()
        change = self.max_change * (2 * self._random(step)[0] - 1)
        self._factor = float(np.cbrt(max(1 + change / volume, 1e-3)))
        masses = atoms.get_masses()
        weight = np.bincount(self._molecule, masses)
        centres = np.stack([np.bincount(self._molecule, masses * x) / weight for x in atoms.positions.T], axis=1)
        atoms.positions += (self._factor - 1) * centres[self._molecule]
        atoms.set_cell(atoms.cell[:] * self._factor)

    def decide(self, *, step: int, energy_change: float, volume_before: float) -> bool:
        """Whether the proposed volume is kept.

        Args:
            step: the one it was proposed at.
            energy_change: eV; what is not finite is not kept.
            volume_before: Å³.
        """
        protocol = self.run.protocol
        thermal = units.kB * protocol.temperature_kelvin
        ratio = self._factor**3
        work = protocol.pressure_bar * units.bar * volume_before * (ratio - 1)
        exponent = (energy_change + work) / thermal - self.num_molecules * np.log(ratio)
        kept = bool(np.isfinite(exponent) and np.log(self._random(step)[1]) < -exponent)
        self.attempts += 1
        self.accepted += kept
        if self.attempts >= ADAPTED_EVERY and step <= ADAPTED_UNTIL * protocol.num_steps:
            self._adapt(volume_before)
        return kept

    def _adapt(self, volume: float) -> None:
        share = self.accepted / self.attempts
        if share < TOO_FEW:
            self.max_change /= STEP
        elif share > TOO_MANY:
            self.max_change = min(self.max_change * STEP, LARGEST_CHANGE * volume)
        self.attempts = self.accepted = 0

    def _random(self, step: int) -> np.ndarray:
        """Two uniform numbers that depend on the system's seed and the step only: nothing to keep in a checkpoint."""
        return np.random.default_rng((*self.run.seed, _STREAM, step)).random(2)

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps, the box included."""
        return {"barostat": np.array([self.max_change, self.attempts, self.accepted])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.max_change, self.attempts, self.accepted = (
            float(state["barostat"][0]),
            int(state["barostat"][1]),
            int(state["barostat"][2]),
        )


def barostat_for(run: SystemRun) -> Barostat | None:
    """The barostat of a run at constant pressure; None for others.

    Raises:
        ValueError: the structure does not say what its molecules are.
    """
    from mlipaudit.protocol import Ensemble

    return Barostat(run) if run.protocol.ensemble is Ensemble.NPT_LANGEVIN else None
