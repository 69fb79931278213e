# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of one system through ASE."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import units
from ase.md.langevin import Langevin
from ase.md.verlet import VelocityVerlet

from mlipaudit.backends.contract import SystemRun
from mlipaudit.backends.dynamics import append_frame, initial_velocities, temperature_of, unphysical
from mlipaudit.failures import Failure
from mlipaudit.protocol import Ensemble


def simulate_with_ase(run: SystemRun) -> None:
    """Advance `run.atoms`, whose calculator is attached, by the run's protocol."""
    protocol, trajectory = run.protocol, run.trajectory
    run.atoms.set_velocities(initial_velocities(run.atoms, protocol.temperature_kelvin, run.seed))
    dynamics = _integrator(run)
    for step in range(protocol.num_steps + 1):
        if step:
            dynamics.step()
        trajectory.failure = _check(run, step=step, frame=len(trajectory.steps))
        if trajectory.failure:
            return
        if step % protocol.snapshot_interval == 0:
            _sample(run, step=step)
        due = step % protocol.log_interval == 0 or step == protocol.num_steps
        if due and run.report(step):
            return


def _integrator(run: SystemRun) -> Any:
    timestep = run.protocol.timestep_fs * units.fs
    if run.protocol.ensemble is Ensemble.NVE:
        return VelocityVerlet(run.atoms, timestep)
    return Langevin(
        run.atoms,
        timestep,
        temperature_K=run.protocol.temperature_kelvin,
        friction=run.protocol.friction_per_ps / (1000.0 * units.fs),
        # Its own stream: the seed itself made the starting velocities.
        rng=np.random.default_rng((*run.seed, 1)),
        fixcm=False,
    )


def _check(run: SystemRun, *, step: int, frame: int) -> Failure | None:
    forces, kinetic = run.atoms.get_forces(), run.atoms.get_kinetic_energy()
    if np.shape(forces) != run.atoms.positions.shape:  # numpy would stretch some of them to fit
        raise ValueError(f"forces have shape {np.shape(forces)}, not {run.atoms.positions.shape}")
    finite = bool(np.isfinite(forces).all() and np.isfinite(run.atoms.positions).all())
    return unphysical(
        finite=finite and bool(np.isfinite(run.atoms.get_potential_energy())),
        temperature=temperature_of(kinetic, len(run.atoms)),
        step=step,
        frame=frame,
        protocol=run.protocol,
    )


def _sample(run: SystemRun, *, step: int) -> None:
    append_frame(
        run.trajectory,
        step=step,
        positions=run.atoms.positions,
        velocities=run.atoms.get_velocities(),
        potential_energy=run.atoms.get_potential_energy(),
        kinetic_energy=run.atoms.get_kinetic_energy(),
    )
