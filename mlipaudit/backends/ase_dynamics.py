# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of one system through ASE."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from ase import units
from ase.md.langevin import Langevin
from ase.md.verlet import VelocityVerlet

from mlipaudit.backends.barostat import Barostat, barostat_for
from mlipaudit.backends.contract import SystemRun
from mlipaudit.backends.dynamics import (
    append_frame,
    has_ended,
    initial_velocities,
    resume,
    temperature_of,
    unphysical,
)
from mlipaudit.failures import Failure
from mlipaudit.protocol import Ensemble

ENGINE = "ase"


def simulate_with_ase(run: SystemRun) -> None:
    """Advance `run.atoms`, whose calculator is attached, by the run's protocol."""
    rng = np.random.default_rng((*run.seed, 1))  # its own stream: the seed itself makes the starting velocities
    barostat = barostat_for(run)
    first = _start(run, rng, barostat)
    dynamics = _integrator(run, rng)
    for step in range(first, run.protocol.num_steps + 1):
        if step:
            dynamics.step()
        if barostat and barostat.is_due(step):
            _change_volume(run, barostat, step=step)
        if _look(run, step=step):
            break
        if run.checkpoints and run.checkpoints.due(run):
            run.checkpoints.write(run, ENGINE, _state(run, rng, barostat, step=step))
    else:
        step = run.protocol.num_steps
    if run.checkpoints:
        run.checkpoints.write(run, ENGINE, _state(run, rng, barostat, step=step))


def _change_volume(run: SystemRun, barostat: Barostat, *, step: int) -> None:
    """Try another volume, and go back to the old one where physics says so."""
    atoms = run.atoms
    before, positions, cell = atoms.get_potential_energy(), atoms.positions.copy(), atoms.cell.copy()
    barostat.propose(atoms, step=step)
    change = atoms.get_potential_energy() - before
    if not barostat.decide(step=step, energy_change=change, volume_before=cell.volume):
        atoms.positions = positions
        atoms.set_cell(cell)


def _start(run: SystemRun, rng: np.random.Generator, barostat: Barostat | None) -> int:
    """Put the run where it was left, or at its beginning; the first step to take, 0 for none but the look at it."""
    protocol = run.protocol
    known = resume(run, ENGINE)
    if known is None:
        run.atoms.set_velocities(initial_velocities(run.atoms, protocol.temperature_kelvin, run.seed))
        return 0
    step = int(known["step"])
    run.atoms.positions = known["position"]
    run.atoms.set_momenta(known["momentum"])
    rng.bit_generator.state = json.loads(str(known["random"]))
    if barostat:
        run.atoms.set_cell(known["cell"])
        barostat.restore(known)
    ended = has_ended(run, step)
    if run.meter:
        run.meter.add(protocol.num_steps if ended else step)
    return protocol.num_steps + 1 if ended else step + 1


def _look(run: SystemRun, *, step: int) -> bool:
    """Check the state, sample it and report it where due; whether the run is over."""
    protocol, trajectory = run.protocol, run.trajectory
    trajectory.failure = _check(run, step=step, frame=len(trajectory.steps))
    if trajectory.failure:
        if run.meter:
            run.meter.add(protocol.num_steps - max(step - 1, 0))
        return True
    if step % protocol.snapshot_interval == 0:
        _sample(run, step=step)
    if run.meter and step:
        run.meter.add(1)
    due = step % protocol.log_interval == 0 or step == protocol.num_steps
    return due and run.report(step)


def _state(
    run: SystemRun, rng: np.random.Generator, barostat: Barostat | None, *, step: int
) -> dict[str, np.ndarray]:
    return {
        **(barostat.state() if barostat else {}),
        "cell": np.array(run.atoms.cell),
        "position": run.atoms.positions,
        "momentum": run.atoms.get_momenta(),
        "random": np.array(json.dumps(rng.bit_generator.state)),
        "step": np.array(step),
    }


def _integrator(run: SystemRun, rng: np.random.Generator) -> Any:
    timestep = run.protocol.timestep_fs * units.fs
    if run.protocol.ensemble is Ensemble.NVE:
        return VelocityVerlet(run.atoms, timestep)
    return Langevin(
        run.atoms,
        timestep,
        temperature_K=run.protocol.temperature_kelvin,
        friction=run.protocol.friction_per_ps / (1000.0 * units.fs),
        rng=rng,
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
        run,
        step=step,
        positions=run.atoms.positions,
        potential_energy=run.atoms.get_potential_energy(),
        kinetic_energy=run.atoms.get_kinetic_energy(),
    )
