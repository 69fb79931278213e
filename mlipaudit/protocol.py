# SPDX-License-Identifier: Apache-2.0
"""How long and under which conditions a model is asked: frozen settings, one per run mode, written into the result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ensemble(StrEnum):
    """What the dynamics samples."""

    NVE = "nve"
    NVT_LANGEVIN = "nvt_langevin"
    NPT_LANGEVIN = "npt_langevin"
    """With a Monte-Carlo barostat that scales the positions of molecules."""


@dataclass(frozen=True)
class SinglePoints:
    """Energies of fixed geometries; `max_systems` takes the first so many, None takes all."""

    max_systems: int | None = None


class Optimizer(StrEnum):
    """How a geometry is led downhill."""

    BFGS = "bfgs"
    """Quasi-Newton; its matrix has the square of the number of coordinates."""
    FIRE = "fire"
    """Damped dynamics; no matrix, for large systems."""


@dataclass(frozen=True)
class Minimisation:
    """One relaxation of a geometry."""

    max_steps: int
    max_force: float = 0.01
    """eV/Å: converged when no atom feels more."""
    optimizer: Optimizer = Optimizer.BFGS
    max_step_length: float = 0.2
    """Å that an atom may move in one step."""


@dataclass(frozen=True)
class Push:
    """Random displacements of a relaxed geometry, each of them both ways."""

    length: float = 0.05
    """Å: standard deviation of every coordinate."""
    num_directions: int = 4


@dataclass(frozen=True)
class Relaxations:
    """Geometries relaxed one by one, then pushed to see that they are held."""

    minimisation: Minimisation
    push: Push = Push()
    max_systems: tuple[int, ...] | None = None
    """The first so many of each set; None takes all."""


@dataclass(frozen=True)
class ElasticBand:
    """Minimum-energy paths by the nudged elastic band: ends relaxed, then the band, then with a climbing image."""

    ends: Minimisation
    num_images: int
    spring_constant: float
    """eV/Å²"""
    band: Minimisation
    climbing: Minimisation | None = None
    """None leaves the highest image where the springs put it."""
    max_systems: int | None = None


@dataclass(frozen=True)
class MolecularDynamics:
    """One molecular-dynamics run.

    One friction serves every engine. 2/ps is what the jax_md engine of the reference uses (0.1 in its reduced
    units); its ASE engine runs at 9.8/ps, which is a different experiment.
    """

    num_steps: int
    snapshot_interval: int
    """Steps between stored frames; the starting frame is stored too."""
    log_interval: int
    """Steps between reports to an observer."""
    timestep_fs: float = 1.0
    temperature_kelvin: float = 300.0
    ensemble: Ensemble = Ensemble.NVT_LANGEVIN
    friction_per_ps: float = 2.0
    pressure_bar: float = 1.01325
    """For NPT."""
    barostat_interval: int = 25
    """Steps between attempts to change the volume, for NPT."""
    max_temperature_rise_kelvin: float = 10_000.0
    """Above the target temperature plus this, the dynamics has exploded (threshold of mlipaudit 0.1.8)."""

    @property
    def num_frames(self) -> int:
        """Frames after the starting one."""
        return self.num_steps // self.snapshot_interval


@dataclass(frozen=True)
class Trajectories:
    """Dynamics of several systems; `max_systems` takes the first so many, None takes all."""

    md: MolecularDynamics
    max_systems: int | None = None
    max_atoms: int | None = None
    """Larger systems are left out; None takes all."""
