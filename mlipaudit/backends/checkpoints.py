# SPDX-License-Identifier: Apache-2.0
"""Unfinished simulations on disk: what is needed to continue them to the same trajectory.

    <folder>/<system>.npz        state of the dynamics, energies so far, and whose they are
    <folder>/<system>.frames     positions of the frames so far

A checkpoint says which model, protocol, seed and structure it belongs to; one of another is not continued from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.backends.frames import Frames
from mlipaudit.failures import Failure

if TYPE_CHECKING:
    from mlipaudit.backends.contract import SystemRun

INTERVAL_S = 30.0
"""Between two checkpoints: what a kill costs at most, and far more than writing one takes."""
INTERVAL_VARIABLE = "MLIPAUDIT_CHECKPOINT_SECONDS"
"""Environment variable for another interval."""


@dataclass
class Checkpoints:
    """A folder of checkpoints of one task."""

    folder: Path
    identity: str
    """Of the model and the task: what a checkpoint must share to be continued from."""
    interval_s: float = field(default_factory=lambda: float(os.environ.get(INTERVAL_VARIABLE, INTERVAL_S)))
    _last: dict[str, float] = field(default_factory=dict)

    def due(self, run: SystemRun) -> bool:
        """Whether it is time to write one."""
        now = time.monotonic()
        return now - self._last.setdefault(run.name, now) >= self.interval_s

    def frames(self, run: SystemRun, *, keep: int = 0) -> Frames:
        """The frames of a run on disk, those after the first `keep` forgotten."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Frames(self._path(run, "frames"), shape=(len(run.atoms), 3), keep=keep)

    def write(self, run: SystemRun, engine: str, state: dict[str, np.ndarray]) -> None:
        """Keep the state of a run; a kill in between leaves the last one whole."""
        trajectory = run.trajectory
        content = {
            **{f"state_{name}": array for name, array in state.items()},
            "owner": np.array(self._owner(run, engine)),
            "steps": np.array(trajectory.steps, np.int64),
            "potential_energy": np.array(trajectory.potential_energy),
            "kinetic_energy": np.array(trajectory.kinetic_energy),
            "temperature": np.array(trajectory.temperature),
            "cells": np.array(trajectory.cells),
            "failure": np.array(trajectory.failure.model_dump_json() if trajectory.failure else ""),
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_arrays(self._path(run, "npz"), content)
        except OSError as error:  # the run itself can go on
            if run.meter:
                run.meter.say(f"{run.name}: no checkpoint could be written: {error.strerror}")
        self._last[run.name] = time.monotonic()

    def read(self, run: SystemRun, engine: str) -> dict[str, np.ndarray] | None:
        """The state that a run was left in, its trajectory so far put back into it; None where there is none.

        What cannot be read, or is of another model, protocol, seed, structure or engine, is said and not used.
        """
        path = self._path(run, "npz")
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                content = dict(file)
            owner = str(content["owner"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            self._refuse(run, "it cannot be read")
            return None
        if owner != self._owner(run, engine):
            self._refuse(run, "it is of another model, protocol, seed or structure")
            return None
        return self._restore(run, content)

    def _restore(self, run: SystemRun, content: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        trajectory, steps = run.trajectory, content["steps"].tolist()
        if run.keep_positions:
            frames = self.frames(run, keep=len(steps))
            if len(frames) != len(steps):
                self._refuse(run, "frames are missing")
                return None
            trajectory.positions = frames
        trajectory.steps = steps
        failure = str(content["failure"])
        trajectory.failure = Failure.model_validate_json(failure) if failure else None
        for name in ("potential_energy", "kinetic_energy", "temperature"):
            setattr(trajectory, name, content[name].tolist())
        trajectory.cells = list(content["cells"])
        return {name.removeprefix("state_"): a for name, a in content.items() if name.startswith("state_")}

    def _refuse(self, run: SystemRun, why: str) -> None:
        if run.meter:
            run.meter.say(f"{run.name}: checkpoint not used, {why}")

    def _owner(self, run: SystemRun, engine: str) -> str:
        """Everything that decides a trajectory, as one hash."""
        atoms = run.atoms
        described: list[Any] = [self.identity, engine, asdict(run.protocol), run.seed, run.keep_positions]
        described += [atoms.info.get("charge"), atoms.pbc.tolist()]
        digest = hashlib.sha256(json.dumps(described, default=str).encode())
        for array in (atoms.numbers, np.asarray(run.start), run.start_cell):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _path(self, run: SystemRun, ending: str) -> Path:
        return self.folder / f"{run.index}-{re.sub(r'[^A-Za-z0-9_.-]', '_', run.name)[:80]}.{ending}"


def _write_arrays(path: Path, content: dict[str, np.ndarray]) -> None:
    temporary = path.with_suffix(".writing")
    with temporary.open("wb") as file:
        np.savez(file, **content)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
