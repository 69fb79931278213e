# SPDX-License-Identifier: Apache-2.0
"""What molecular dynamics has in common on every engine: where it starts, when it has failed."""

from __future__ import annotations

import numpy as np
from ase import Atoms, units

from mlipaudit.backends.contract import SystemRun
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import Ensemble, MolecularDynamics


def initial_velocities(atoms: Atoms, temperature_kelvin: float, seed: tuple[int, ...]) -> np.ndarray:
    """Maxwell-Boltzmann velocities in ASE units, shape [atoms, 3].

    The same for every engine. The centre of mass is at rest, except for a single atom, which could not move otherwise.
    """
    masses = atoms.get_masses()[:, None]
    normal = np.random.default_rng(seed).standard_normal((len(atoms), 3))
    momenta = normal * np.sqrt(masses * units.kB * temperature_kelvin)
    if len(atoms) > 1:
        momenta -= masses * momenta.sum(axis=0) / masses.sum()
    return momenta / masses


def temperature_of(kinetic_energy: float, num_atoms: int) -> float:
    """Instantaneous temperature in K of 3N degrees of freedom."""
    return 2.0 * kinetic_energy / (3.0 * num_atoms * units.kB)


def resume(run: SystemRun, engine: str) -> dict[str, np.ndarray] | None:
    """The state that an unfinished run was left in, its trajectory so far put back; None where it begins anew."""
    if run.checkpoints is None:
        return None
    state = run.checkpoints.read(run, engine)
    if state is None:
        if run.keep_positions:
            run.trajectory.positions = run.checkpoints.frames(run)
        return None
    if run.meter and not has_ended(run, int(state["step"])):
        run.meter.say(f"{run.name}: continuing from step {state['step']}")
    return state


def has_ended(run: SystemRun, step: int) -> bool:
    """Whether a run that has come to a step is over."""
    return step >= run.protocol.num_steps or run.trajectory.failure is not None


def append_frame(
    run: SystemRun, *, step: int, positions: np.ndarray, potential_energy: float, kinetic_energy: float
) -> None:
    """Store one sampled frame."""
    trajectory = run.trajectory
    trajectory.steps.append(step)
    if run.keep_positions:
        trajectory.positions.append(positions)
    if run.protocol.ensemble is Ensemble.NPT_LANGEVIN:
        trajectory.cells.append(run.atoms.cell.lengths())
    trajectory.potential_energy.append(float(potential_energy))
    trajectory.kinetic_energy.append(float(kinetic_energy))
    trajectory.temperature.append(temperature_of(float(kinetic_energy), len(run.atoms)))


def unphysical(
    *, finite: bool, temperature: float, step: int, frame: int, protocol: MolecularDynamics
) -> Failure | None:
    """The failure that a state of the dynamics stands for, if any."""
    if not finite:
        return Failure(kind=FailureKind.NON_FINITE, message=f"not finite after step {step}", frame=frame)
    limit = protocol.temperature_kelvin + protocol.max_temperature_rise_kelvin
    if temperature > limit:
        message = f"{temperature:.0f} K after step {step}, limit {limit:.0f} K"
        return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)
    return None
