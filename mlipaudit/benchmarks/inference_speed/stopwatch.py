# SPDX-License-Identifier: Apache-2.0
"""Timing one structure after the other. Each measurement fails for itself, and a slow model is not waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.benchmark import DEFAULT_CHARGE, DEFAULT_SPIN
from mlipaudit.benchmarks.inference_speed.schemas import (
    CalibrationResult,
    InferenceSpeedModelOutput,
    SpeedProtocol,
    SpeedStructure,
)
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import MolecularDynamics

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, StepReport


MAX_OVERHEAD_S = 1.0
"""No model spends more than this on a pass before it comes to the atoms."""
BUSY_DRIFT = 0.1
"""Relative change of the device's own speed during a run above which a reader is warned."""


def read_structure(structure: SpeedStructure) -> Atoms:
    from ase.io import read

    from mlipaudit.backends.contract import set_charge_and_spin

    atoms: Any = read(structure.path)
    return set_charge_and_spin(atoms, DEFAULT_CHARGE, DEFAULT_SPIN)


class Stopwatch:
    """Times one structure after the other and writes into the model output."""

    def __init__(
        self, backend: Backend, protocol: SpeedProtocol, seed: int, output: InferenceSpeedModelOutput
    ) -> None:
        self.backend, self.protocol, self.seed, self.output = backend, protocol, seed, output
        self.tell: Callable[[str], None] = lambda what: None
        """Told what is being measured."""
        self._last: tuple[int, float] | None = None

    def measure(self, structure: SpeedStructure) -> None:
        """Forward pass and every engine; each failure costs only itself."""
        atoms = read_structure(structure)
        times = self._attempt(structure.name, partial(self._time_forward, structure, atoms)) or []
        self.output.forward_times.append(times)
        typical = float(np.median(times)) if times else None
        if typical:
            self._last = (structure.num_atoms, typical)
        md: dict[str, list[float]] = {}
        for engine in self.backend.engines:
            timing = partial(self._time_md, structure, atoms, engine, typical)
            samples = self._attempt(f"{structure.name}/{engine}", timing)
            if samples:
                md[engine] = samples
        self.output.md_step_times.append(md)

    def _attempt(self, what: str, measurement: Callable[[], list[float] | Failure]) -> list[float] | None:
        self.tell(what)
        try:
            found = measurement()
        except (Exception, SystemExit) as error:  # around a system: it costs only itself
            found = Failure.from_exception(error)
        if isinstance(found, Failure):
            self.output.failures[what] = found
            return None
        return found

    def _time_forward(self, structure: SpeedStructure, atoms: Atoms) -> list[float] | Failure:
        from mlipaudit.backends.contract import require_valid

        compiling, neighbours = self.output.compile_seconds, self.output.neighbour_seconds
        compiling.append(None)
        neighbours.append(None)
        if failure := self._too_slow(self._at_least(structure.num_atoms), structure.num_atoms):
            return failure  # sure to pass the limit, so not begun
        forward = self.backend.forward_pass(atoms, spare_pairs=self.protocol.spare_pairs)
        compiling[-1], neighbours[-1] = forward.compile_seconds, forward.neighbour_seconds
        start = time.perf_counter()
        first = require_valid(forward.run(), structure.num_atoms)
        seconds = time.perf_counter() - start
        if isinstance(first, Failure):
            return first
        if self._too_slow(seconds, structure.num_atoms):
            self._note(f"{structure.name}: one pass only, without warm-up")
            return [seconds]
        _repeat(forward.wait, self.protocol.num_warmup - 1, self.protocol.max_seconds)
        times = _repeat(forward.wait, self.protocol.num_timed, self.protocol.max_seconds)
        last = require_valid(forward.run(), structure.num_atoms) if len(times) > 1 else first
        if len(times) < self.protocol.num_timed:
            self._note(f"{structure.name}: {len(times)} of {self.protocol.num_timed} passes")
        return last if isinstance(last, Failure) else times

    def _time_md(
        self, structure: SpeedStructure, atoms: Atoms, engine: str, pass_seconds: float | None
    ) -> list[float] | Failure:
        expected = pass_seconds or self._at_least(structure.num_atoms)
        if failure := self._too_slow(expected, structure.num_atoms):
            return failure
        md = _shorten(self.protocol.md, pass_seconds, self.protocol.max_seconds)
        if md.num_steps < self.protocol.md.num_steps:
            self._note(f"{structure.name}, {engine}: {md.num_steps} of {self.protocol.md.num_steps} steps")
        clock = _StepClock(self.protocol.max_seconds)
        found = self.backend.simulate([atoms], md, engine=engine, seed=self.seed, observer=clock)[0]
        failure = found if isinstance(found, Failure) else found.failure
        return failure or clock.step_times()

    def _at_least(self, num_atoms: int) -> float:
        """Lower bound of the time of a pass: beyond a fixed overhead it grows at least with the number of atoms."""
        if self._last is None:
            return 0.0
        smaller, seconds = self._last
        return max(seconds, (seconds - MAX_OVERHEAD_S) * num_atoms / smaller)

    def _too_slow(self, seconds: float, num_atoms: int) -> Failure | None:
        limit = self.protocol.max_seconds
        if limit is None or seconds <= limit:
            return None
        message = f"one pass over {num_atoms} atoms takes {seconds:.0f} s or more, the limit is {limit:.0f} s"
        return Failure(kind=FailureKind.TIMEOUT, message=message)

    def _note(self, what: str) -> None:
        self.output.notes.append(f"{what}: limit of {self.protocol.max_seconds:.0f} s in this run mode")


class _StepClock:
    """Observer of a simulation: seconds per step between reports."""

    def __init__(self, max_seconds: float | None) -> None:
        self.max_seconds = max_seconds
        self.marks: list[tuple[float, StepReport]] = []

    def __call__(self, report: StepReport) -> bool:
        now = time.perf_counter()
        self.marks.append((now, report))
        return self.max_seconds is not None and now - self.marks[0][0] > self.max_seconds

    def step_times(self) -> list[float]:
        """One value per interval in which nothing was compiled."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [(t1 - t0) / (r1.step - r0.step) for (t0, r0), (t1, r1) in pairs if not r1.compiled]


def _repeat(work: Callable[[], None], times: int, max_seconds: float | None) -> list[float]:
    """Durations of up to `times` repeats; none is begun after the limit, but one always is."""
    durations: list[float] = []
    while len(durations) < times:
        if durations and max_seconds is not None and sum(durations) > max_seconds:
            break
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return durations


def _shorten(md: MolecularDynamics, pass_seconds: float | None, max_seconds: float | None) -> MolecularDynamics:
    """Fewer steps between reports, and fewer steps, for a model that would not finish within the limit."""
    if not pass_seconds or max_seconds is None or md.num_steps * pass_seconds <= max_seconds:
        return md
    steps = min(md.num_steps, max(2, int(max_seconds / pass_seconds)))
    return replace(
        md, num_steps=steps, snapshot_interval=steps, log_interval=min(md.log_interval, max(1, steps // 10))
    )


def signs_of_a_busy_machine(calibration: CalibrationResult) -> list[str]:
    """Reasons to read the times with care."""
    notes = []
    if abs(calibration.drift) > BUSY_DRIFT:
        notes.append(f"the device's own speed changed by {calibration.drift:+.0%} during the run")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores + 1:
        notes.append(f"the machine was busy: load {load:.1f} on {cores} cores")
    return notes
