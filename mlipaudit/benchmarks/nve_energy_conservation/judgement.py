# SPDX-License-Identifier: Apache-2.0
"""From the energies of one run to its drift, or to the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mlipaudit.analysis.drift import linear_drift
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import not_enough, too_hot
from mlipaudit.protocol import MolecularDynamics
from mlipaudit.units import KELVIN_PER_EV

LARGEST_DEVIATION = 20.0
"""Standard deviations of the kinetic energy that the total energy may be off at any time."""
STILL = 1e-4
"""A kinetic energy that varies by less than this fraction of itself is that of atoms without forces."""


class Energies(NamedTuple):
    """Energies of one run in eV, [frames] each."""

    times: np.ndarray
    """ps"""
    total: np.ndarray
    kinetic: np.ndarray

    @classmethod
    def of(cls, times: Iterable[float], potential: Iterable[float], kinetic: Iterable[float]) -> Energies:
        """As many frames as all three have."""
        rows = np.array(list(zip(times, potential, kinetic, strict=False)), float).reshape(-1, 3)
        return cls(rows[:, 0], rows[:, 1] + rows[:, 2], rows[:, 2])

    @property
    def spread(self) -> float:
        """Standard deviation of the kinetic energy."""
        return float(np.std(self.kinetic))

    @property
    def deviations(self) -> np.ndarray:
        """Total energy less that of the first frame."""
        return self.total - self.total[0]

    @property
    def can_be_fitted(self) -> bool:
        """Whether there is a line and a scale for it."""
        finite = np.isfinite(self.total).all() and np.isfinite(self.kinetic).all()
        return len(self.total) >= 2 and bool(finite) and self.spread > 0.0

    @property
    def largest_deviation_ratio(self) -> float:
        """Over the spread of the whole run or of its first half, whichever is less and not zero."""
        half = float(np.std(self.kinetic[: -(-len(self.kinetic) // 2)]))
        return float(np.abs(self.deviations).max()) / (min(half, self.spread) or self.spread)


def numbers_of(energies: Energies, num_atoms: int) -> dict[str, Any]:
    """Fields of the result, as far as they can be computed."""
    if not energies.can_be_fitted:
        return {}
    drift = linear_drift(energies.times, energies.deviations)
    return {
        "num_frames": len(energies.total),
        "times_ps": energies.times.tolist(),
        "energy_drift_ev": energies.deviations.tolist(),
        "drift_slope_ev_per_ps": drift.slope,
        "slope_error_ev_per_ps": drift.slope_error,
        "slope_interval_ev_per_ps": drift.interval,
        "drift_distinguishable": drift.distinguishable,
        "drift_mev_per_atom_per_ps": 1000.0 * drift.slope / num_atoms if num_atoms else None,
        "total_drift_ev": drift.total,
        "kinetic_energy_std_ev": energies.spread,
        "energy_drift_ratio": drift.total / energies.spread,
        "largest_deviation_ratio": energies.largest_deviation_ratio,
        "intercept_ev": drift.intercept,
    }


def why_broken(energies: Energies, num_atoms: int, md: MolecularDynamics) -> Failure | None:
    """The first reason not to score a run; None if there is none."""
    return (
        _not_finite(energies)
        or not_enough(len(energies.total), max(md.num_frames + 1, 2))
        or _without_forces(energies)
        or _too_hot(energies, num_atoms, md)
        or _far_off(energies)
    )


def _not_finite(energies: Energies) -> Failure | None:
    finite = np.isfinite(energies.total) & np.isfinite(energies.kinetic)
    if finite.all():
        return None
    frame = int(np.argmin(finite))
    return Failure(kind=FailureKind.NON_FINITE, message=f"the energy is not finite in frame {frame}", frame=frame)


def _without_forces(energies: Energies) -> Failure | None:
    if energies.spread > STILL * float(np.mean(energies.kinetic)):
        return None
    message = "the kinetic energy never changes: the atoms fly apart without forces"
    return Failure(kind=FailureKind.EXPLODED, message=message)


def _too_hot(energies: Energies, num_atoms: int, md: MolecularDynamics) -> Failure | None:
    # Without a thermostat a small molecule comes to rest now and then: a jump from there means nothing.
    temperatures = 2.0 * energies.kinetic / (3.0 * max(num_atoms, 1)) * KELVIN_PER_EV
    return too_hot(temperatures, md, jump=None)


def _far_off(energies: Energies) -> Failure | None:
    ratio = energies.largest_deviation_ratio
    if ratio <= LARGEST_DEVIATION:
        return None
    frame = int(np.argmax(np.abs(energies.deviations)))
    message = (
        f"in frame {frame} the total energy is off by {ratio:.3g} standard deviations of the kinetic energy; "
    )
    message += f"limit {LARGEST_DEVIATION:.0f}"
    return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)
