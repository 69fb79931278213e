# SPDX-License-Identifier: Apache-2.0
"""Backend for ASE calculators: one structure at a time, each on its own Atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import BaseCalculator, all_changes

from mlipaudit.backends.ase_dynamics import simulate_with_ase
from mlipaudit.backends.contract import Backend, CountProgress, ForwardPass, Prediction, SystemRun
from mlipaudit.failures import Failure

if TYPE_CHECKING:
    from mlipaudit.backends.cost import Cost

_CUTOFF_NAMES = ("cutoff_distance", "cutoff", "r_max")


class CalculatorBackend(Backend):
    """Runs any ASE calculator."""

    engines = ("ase",)

    def __init__(self, calculator: BaseCalculator) -> None:
        self.calculator = calculator

    @property
    def allowed_atomic_numbers(self) -> frozenset[int] | None:
        """What the calculator's attribute of that name says; ASE itself has no such notion."""
        numbers = getattr(self.calculator, "allowed_atomic_numbers", None)
        return None if numbers is None else frozenset(int(number) for number in numbers)

    @property
    def cutoff(self) -> float | None:
        """The first numeric attribute among the usual names."""
        values = (getattr(self.calculator, name, None) for name in _CUTOFF_NAMES)
        return next((float(value) for value in values if isinstance(value, int | float)), None)

    def cost(self, systems: Sequence[Atoms], *, compiled: bool = True) -> Cost:
        """Of the torch modules that the calculator holds, if it does."""
        from mlipaudit.backends.torch_cost import cost_of_calculator

        return cost_of_calculator(self.calculator, systems, cutoff=self.cutoff)

    def forward_pass(self, atoms: Atoms, *, spare_pairs: bool = False) -> ForwardPass:
        """A forced recomputation; its neighbour list is part of it and cannot be told apart."""
        atoms = atoms.copy()

        def run() -> Prediction:
            self.calculator.calculate(atoms, ["energy", "forces"], all_changes)
            results = self.calculator.results
            # Reading the forces waits for a device that has not finished.
            return Prediction(float(results["energy"]), np.asarray(results["forces"]))

        return ForwardPass(run=run, wait=lambda: _discard(run()))

    @property
    def offers(self) -> frozenset[str]:
        """What the calculator implements, and what it had to say the last time."""
        implemented = {*getattr(self.calculator, "implemented_properties", ()), *self._results}
        return frozenset(implemented - {"energy", "forces", "free_energy"})

    @property
    def _results(self) -> dict[str, Any]:
        return getattr(self.calculator, "results", None) or {}

    def _predict(
        self, systems: Sequence[Atoms], *, forces: bool, progress: CountProgress, also: Sequence[str] = ()
    ) -> list[Prediction | Failure]:
        answers = []
        for done, atoms in enumerate(systems, start=1):
            answers.append(self._predict_one(atoms, forces=forces, also=also))
            progress(done, len(systems))
        return answers

    def _predict_one(self, atoms: Atoms, *, forces: bool, also: Sequence[str]) -> Prediction | Failure:
        try:
            own = self._attach(atoms)
            energy, found = float(own.get_potential_energy()), own.get_forces() if forces else None
            stress = np.array(own.get_stress(voigt=True)) if "stress" in also else None
            others = {name: np.array(self._property(name, own)) for name in also if name != "stress"}
            return Prediction(energy, found, stress=stress, others=others)
        except (Exception, SystemExit) as error:  # around a system: it costs only itself
            return Failure.from_exception(error)

    def _property(self, name: str, atoms: Atoms) -> Any:
        known = self._results.get(name)
        return self.calculator.get_property(name, atoms) if known is None else known

    def _attach(self, atoms: Atoms) -> Atoms:
        # A calculator that overlooks a change of charge must not answer with the last structure's energy.
        reset = getattr(self.calculator, "reset", None)
        if reset is not None:
            reset()
        own = atoms.copy()
        own.calc = self.calculator
        return own

    def _simulate(self, run: SystemRun, engine: str) -> None:
        run.atoms = self._attach(run.atoms)
        simulate_with_ase(run)


def _discard(prediction: Prediction) -> None:
    """Forces that came back are forces that have arrived."""
