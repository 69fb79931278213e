# SPDX-License-Identifier: Apache-2.0
"""A model that would be perfect, and what becomes of it when one thing is broken.

It answers the self-test's tautomers with the reference energies and everything else with the toy potential, so that
a broken model that scores does not do so because its energies were poor anyway.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.tautomers import TautomersBenchmark
from mlipaudit.data import Embedded
from mlipaudit.protocol import SinglePoints

LARGE = 10
"""Atoms above which the model without memory fails."""
Break = Callable[["Perfect"], None]


class Perfect(ToyCalculator):
    """Knows the answers; then something happens to them."""

    def __init__(self, happens: Break | None = None) -> None:
        super().__init__()
        self._happens = happens
        self._energies = _reference_energies()
        self.calls = 0
        self.start: np.ndarray | None = None
        """Positions of the structure when it was first seen."""

    def calculate(self, atoms: Atoms | None = None, properties: Any = None, system_changes: Any = ()) -> None:
        """Energy (eV) and forces (eV/Å) of one structure."""
        super().calculate(atoms, properties, system_changes)
        self.calls += 1
        if self.start is None or len(self.start) != len(self.atoms):
            self.start = self.atoms.positions.copy()
        self.results["energy"] = self._energies.get(_key(self.atoms), self.results["energy"])
        if self._happens:
            self._happens(self)

    @property
    def displacement(self) -> float:
        """How far the farthest atom has moved, Å."""
        return float(np.abs(self.atoms.positions - self.start).max())


def _reference_energies() -> dict[bytes, float]:
    path = Embedded().fetch(TautomersBenchmark.data_folder_name()).path
    pairs = TautomersBenchmark.load(path, SinglePoints())
    labelled = [entry for group in TautomersBenchmark.structures(pairs).values() for entry in group]
    return {_key(entry.atoms): entry.energy for entry in labelled}


def _key(atoms: Atoms) -> bytes:
    return np.round(atoms.positions, 5).tobytes()


def _nan(model: Perfect) -> None:
    model.results = {"energy": np.nan, "forces": np.full((len(model.atoms), 3), np.nan)}


def _infinity(model: Perfect) -> None:
    model.results["energy"] = np.inf


def _nan_later(model: Perfect) -> None:
    if model.displacement > 0.1:
        _nan(model)


def _two_energies(model: Perfect) -> None:
    model.results["energy"] = np.zeros(2)


def _one_force_too_many(model: Perfect) -> None:
    model.results["forces"] = np.zeros((len(model.atoms) + 1, 3))


def _one_force_for_all(model: Perfect) -> None:
    model.results["forces"] = np.zeros(3)


def _raises_on_third_call(model: Perfect) -> None:
    if model.calls == 3:
        raise RuntimeError("planted")


def _hangs(model: Perfect) -> None:
    while True:
        time.sleep(1.0)


def _segfaults(model: Perfect) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _exits(model: Perfect) -> None:
    raise SystemExit(0)


def _vanishes(model: Perfect) -> None:
    os._exit(0)


def _runs_out_of_memory(model: Perfect) -> None:
    if len(model.atoms) > LARGE:
        raise MemoryError


def _explodes(model: Perfect) -> None:
    positions = model.atoms.positions - model.atoms.positions.mean(axis=0)
    model.results = {"energy": -25.0 * float((positions**2).sum()), "forces": 50.0 * positions}


def _spoils_the_process(model: Perfect) -> None:
    """Right itself, but what shares the process with it would not be."""
    os.chdir("/")
    os.environ.clear()
    np.random.seed(0)
    np.seterr(all="raise")
    import jax

    jax.config.update("jax_enable_x64", True)


BREAKS: dict[str, Break] = {
    "nan": _nan,
    "infinity": _infinity,
    "nan_later": _nan_later,
    "two_energies": _two_energies,
    "one_force_too_many": _one_force_too_many,
    "one_force_for_all": _one_force_for_all,
    "raises_on_third_call": _raises_on_third_call,
    "hangs": _hangs,
    "segfaults": _segfaults,
    "exits": _exits,
    "vanishes": _vanishes,
    "out_of_memory": _runs_out_of_memory,
    "explodes": _explodes,
    "spoils_the_process": _spoils_the_process,
}


def perfect() -> Perfect:
    """The model before anything is broken."""
    return Perfect()


def broken(how: str) -> Any:
    """The model with one thing broken; `how` names it."""
    if how == "collapses":
        from mlipaudit.selftest.collapse import collapsing

        return collapsing()
    model = Perfect(BREAKS.get(how))
    if how == "covers_nothing":
        model.allowed_atomic_numbers = frozenset()
    return model


def write_model(folder: Path, how: str | None) -> Path:
    """A file for `--models` with the model broken in one way, or whole."""
    path = folder / f"{how or 'good'}.py"
    if how == "does_not_load":
        path = path.with_suffix(".zip")
        path.write_bytes(b"no archive")
        return path
    call = f"broken({how!r})" if how else "perfect()"
    path.write_text(
        f"from mlipaudit.selftest.models import broken, perfect\n\nmlipaudit_external_model = {call}\n",
        encoding="utf-8",
    )
    return path
