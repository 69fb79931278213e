# SPDX-License-Identifier: Apache-2.0
"""What every backend promises, whatever kind of force field it runs.

`predict` and `simulate` take a list of systems and return a list of values or failures, in order. A system that
fails costs only itself. Energies are in eV, forces in eV/Å.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.backends.frames import Frames
from mlipaudit.errors import UsageError
from mlipaudit.failures import Failure, FailureKind

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.calibration import Calibration
    from mlipaudit.backends.checkpoints import Checkpoints
    from mlipaudit.backends.cost import Cost
    from mlipaudit.protocol import Minimisation, MolecularDynamics

CountProgress = Callable[[int, int], None]
"""Called with how many systems are done, of how many."""
TellProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, of how much; with a total of 0, what to tell once."""


@dataclass(frozen=True)
class Prediction:
    """Energy (eV) of one system and, where asked for, forces (eV/Å) of shape [atoms, 3]."""

    energy: float
    forces: np.ndarray | None = None
    rounding: float | None = None
    """eV: the error that the model's own floating-point precision leaves in the energy, where that is known."""
    stress: np.ndarray | None = None
    """eV/Å³, [6]: xx, yy, zz, yz, xz, xy, positive where the cell pulls inwards."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else was asked for, by name."""


@dataclass(frozen=True)
class Relaxation:
    """Where the minimisation of one system ended, converged or not."""

    positions: np.ndarray
    """Å, [atoms, 3]: the last geometry."""
    energy: float
    """eV"""
    max_force: float
    """eV/Å: the largest force on an atom there."""
    num_steps: int
    converged: bool


@dataclass
class Trajectory:
    """Sampled frames of one system; stops early with a `failure` when the dynamics left the physical range."""

    steps: list[int] = field(default_factory=list)
    positions: Frames = field(default_factory=Frames)
    """Å, unwrapped; one [atoms, 3] array per frame, the starting one included. None where not asked for."""
    potential_energy: list[float] = field(default_factory=list)
    """eV"""
    kinetic_energy: list[float] = field(default_factory=list)
    """eV"""
    temperature: list[float] = field(default_factory=list)
    """K, of 3N degrees of freedom."""
    cells: list[np.ndarray] = field(default_factory=list)
    """Å: lengths of the box per frame, [3]; of NPT only, as it does not change otherwise."""
    failure: Failure | None = None


@dataclass(frozen=True)
class StepReport:
    """Sent to an observer every `log_interval` steps, once the device has finished them."""

    system: int
    step: int
    compiled: bool
    """Whether a program was compiled since the last report, so that the time in between is no step time."""


Observer = Callable[[StepReport], bool | None]
"""Sees step reports; returning True ends that system's run early."""


@dataclass(frozen=True)
class ForwardPass:
    """One prepared evaluation of energy and forces, for timing."""

    run: Callable[[], Prediction]
    """Evaluates once and returns when the forces have arrived."""
    wait: Callable[[], None]
    """The same, but hands nothing over: what a stopwatch should hold."""
    compile_seconds: float | None = None
    neighbour_seconds: float | None = None
    """Time to build the neighbour list; None where it is part of `run`."""


class Backend(ABC):
    """Executes one force field."""

    engines: tuple[str, ...] = ()
    """Molecular-dynamics engines it can use, the preferred one first."""

    @property
    @abstractmethod
    def allowed_atomic_numbers(self) -> frozenset[int] | None:
        """Elements the model covers; None where nobody says."""

    @property
    def precision(self) -> str:
        """Floating-point type of the weights, where known."""
        return "unknown"

    @property
    def cutoff(self) -> float | None:
        """Neighbour cutoff in Å, where known."""
        return None

    @property
    def offers(self) -> frozenset[str]:
        """What it can predict besides energies and forces: `stress`, and others by name."""
        return frozenset()

    @property
    def atomic_energies(self) -> np.ndarray | None:
        """Energy that the model adds for each element (eV, by atomic number, NaN where none); None where not known."""
        return None

    def on_device(self, device: str | None) -> AbstractContextManager[Any]:
        """Evaluate on a device (`cpu`, `gpu`, `gpu:1`) while this is open; None: where it is.

        Raises:
            UsageError: there is no such device, or the model chooses by itself.
        """
        if device is None:
            return nullcontext()
        raise UsageError(f"device {device!r}: this model chooses its device by itself")

    def predict(
        self,
        systems: Sequence[Atoms],
        *,
        forces: bool = False,
        also: Sequence[str] = (),
        progress: CountProgress | None = None,
    ) -> list[Prediction | Failure]:
        """Energies, and forces if asked for, of many systems.

        A system with an element the model does not cover is not tried; one with a non-finite answer is a failure.

        Args:
            systems: structures; they are not changed.
            forces: whether they are needed.
            also: of what the backend offers, what is needed too.
            progress: called with how many are done.
        """
        answers: list[Prediction | Failure] = [self._reject(atoms) for atoms in systems]  # type: ignore[misc]
        open_ = [i for i, refusal in enumerate(answers) if refusal is None]
        more: dict[str, Any] = (
            {"also": tuple(also)} if also else {}
        )  # a backend that offers nothing need not know it
        predicted = self._predict([systems[i] for i in open_], forces=forces, progress=progress or _silent, **more)
        for i, prediction in zip(open_, predicted, strict=True):
            answers[i] = require_valid(prediction, len(systems[i]))
        return answers

    def minimise(
        self, systems: Sequence[Atoms], protocol: Minimisation, *, progress: TellProgress | None = None
    ) -> list[Relaxation | Failure]:
        """Relax the geometries of many systems, all at once: each step asks for the forces of those still moving.

        Args:
            systems: starting structures; they are not changed.
            protocol: settings.
            progress: called with how many have come to rest.

        Returns:
            Per system the last geometry, converged or not, or a failure.
        """
        from mlipaudit.backends.relaxation import minimise

        return minimise(self, systems, protocol, progress=progress or _quiet)

    def simulate(
        self,
        systems: Sequence[Atoms],
        protocol: MolecularDynamics | Sequence[MolecularDynamics],
        *,
        engine: str | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
        observer: Observer | None = None,
        progress: TellProgress | None = None,
        checkpoints: Checkpoints | None = None,
        keep_positions: bool = True,
    ) -> list[Trajectory | Failure]:
        """Molecular dynamics of many systems, together where the backend can.

        Args:
            systems: starting structures; they are not changed.
            protocol: settings, the same for all systems or one per system.
            engine: one of `engines`, the first of them by default.
            seed: system i starts from and is driven by random numbers of `[seed, i]`.
            names: of the systems, for messages and checkpoints; their numbers by default.
            observer: see `Observer`.
            progress: called with the steps done, of all systems together.
            checkpoints: where unfinished runs are kept, and continued from.
            keep_positions: whether trajectories hold positions, or energies only.

        Returns:
            A trajectory per system, which may have ended early with a failure, or a failure where none began.

        Raises:
            ValueError: the engine is not one of `engines`.
        """
        engine = engine or next(iter(self.engines), "none")
        if engine not in self.engines:
            raise ValueError(f"engine {engine!r} is not one of {self.engines}")
        protocols = [protocol] * len(systems) if not isinstance(protocol, Sequence) else protocol
        names = names or [str(index) for index in range(len(systems))]
        meter = StepMeter(progress or _quiet, sum(p.num_steps for p in protocols))
        results: list[Any] = [self._reject(atoms) for atoms in systems]
        runs = [
            SystemRun(i, atoms.copy(), own, (seed, i), name, observer, meter, checkpoints, keep_positions)
            for i, (atoms, own, name) in enumerate(zip(systems, protocols, names, strict=True))
            if results[i] is None
        ]
        self._simulate_all(runs, engine)
        for run in runs:
            results[run.index] = run.outcome
        return results

    def _simulate_all(self, runs: Sequence[SystemRun], engine: str) -> None:
        """One system after the other, unless a backend knows better."""
        for run in runs:
            self._try_to_simulate(run, engine)

    def _try_to_simulate(self, run: SystemRun, engine: str) -> None:
        try:
            self._simulate(run, engine)
        except (Exception, SystemExit) as error:  # around a system: it costs only itself
            run.fail(Failure.from_exception(error))

    def calibrate(self, seconds: float = 0.5) -> Calibration:
        """Speed of the device itself: the default device of jax, whatever the model runs on."""
        from mlipaudit.backends.calibration import calibrate

        return calibrate(seconds)

    def cost(self, systems: Sequence[Atoms], *, compiled: bool = True) -> Cost:
        """What the model costs, counted and not timed: weights, operations, memory.

        Args:
            systems: at least one, whose sizes the answer holds; the smallest may be run.
            compiled: whether compiling anew is worth what only a compiled program can tell.
        """
        from mlipaudit.backends.cost import QUANTITIES, Cost

        why = f"{type(self).__name__} does not say what it computes"
        return Cost(cutoff=self.cutoff, not_applicable=dict.fromkeys(QUANTITIES, why))

    @abstractmethod
    def forward_pass(self, atoms: Atoms, *, spare_pairs: bool = False) -> ForwardPass:
        """A prepared, compiled evaluation of energy and forces of one system.

        Args:
            atoms: the system.
            spare_pairs: whether to evaluate the padded graph of dynamics through ASE rather than that of exactly this
                structure, so that one program is compiled for both.
        """

    @abstractmethod
    def _predict(
        self, systems: Sequence[Atoms], *, forces: bool, progress: CountProgress
    ) -> list[Prediction | Failure]: ...

    @abstractmethod
    def _simulate(self, run: SystemRun, engine: str) -> None:
        """Fill the run's trajectory; frames stay when it raises."""

    def _reject(self, atoms: Atoms) -> Failure | None:
        """Why a system cannot be put to this model, if so."""
        if not np.isfinite(atoms.positions).all():
            return Failure(kind=FailureKind.NON_FINITE, message="positions are not finite")
        covered = self.allowed_atomic_numbers
        missing = set(atoms.numbers.tolist()) - covered if covered is not None else set()
        if not missing:
            return None
        from ase.data import chemical_symbols

        symbols = ", ".join(chemical_symbols[number] for number in sorted(missing))
        return Failure(kind=FailureKind.MISSING_ELEMENTS, message=f"the model does not cover {symbols}")


class StepMeter:
    """Adds up the steps of all systems, from whatever thread, for the one progress of a call."""

    def __init__(self, tell: TellProgress, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0
        self._lock = threading.Lock()

    def add(self, steps: int) -> None:
        """Count steps that were done, or that will not be."""
        with self._lock:
            self._done += steps
            self._tell("steps", self._done, self._total)

    def say(self, what: str) -> None:
        """Tell something else in between."""
        with self._lock:
            self._tell(what, 0, 0)


@dataclass
class SystemRun:
    """One system on its way through molecular dynamics."""

    index: int
    atoms: Atoms
    protocol: MolecularDynamics
    seed: tuple[int, ...]
    name: str = ""
    observer: Observer | None = None
    meter: StepMeter | None = None
    checkpoints: Checkpoints | None = None
    keep_positions: bool = True
    trajectory: Trajectory = field(default_factory=Trajectory)
    start: np.ndarray = field(init=False)
    """Å: positions before the first step."""
    start_cell: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.atoms.positions.copy()
        self.start_cell = np.array(self.atoms.cell)

    @property
    def outcome(self) -> Trajectory | Failure:
        """The trajectory, or why there is none."""
        trajectory = self.trajectory
        return trajectory if trajectory.steps or not trajectory.failure else trajectory.failure

    def fail(self, failure: Failure) -> None:
        """End with a failure; frames stay."""
        frame = len(self.trajectory.steps)
        located = failure.model_copy(update={"frame": frame}) if frame and failure.frame is None else failure
        self.trajectory.failure = located

    def report(self, step: int, *, compiled: bool = False) -> bool:
        """Tell the observer; True when it wants to stop."""
        return bool(self.observer and self.observer(StepReport(self.index, step, compiled)))

    def stops(self) -> list[int]:
        """Steps at which the run halts for a frame or a report, ascending, the last step included."""
        p = self.protocol
        marks = {*range(0, p.num_steps + 1, p.snapshot_interval), *range(0, p.num_steps + 1, p.log_interval)}
        return sorted((marks | {p.num_steps}) - {0})


def backend_for(force_field: Any) -> Backend:
    """The backend that runs a force field.

    Raises:
        ValueError: it is neither an `mlip.models.ForceField`, nor an ASE calculator, nor a backend.
    """
    if isinstance(force_field, Backend):
        return force_field
    from ase.calculators.calculator import BaseCalculator

    if isinstance(force_field, BaseCalculator):
        from mlipaudit.backends.ase_calculator import CalculatorBackend

        return CalculatorBackend(force_field)
    import sys

    # A ForceField can only exist once mlip was imported; do not import it to find out that there is none.
    if "mlip.models" in sys.modules and isinstance(force_field, sys.modules["mlip.models"].ForceField):
        from mlipaudit.backends.mlip_force_field import ForceFieldBackend

        return ForceFieldBackend(force_field)
    raise ValueError(
        "Provided force field must be either an mlip.models.ForceField or an ASE calculator, "
        f"not {type(force_field).__name__}."
    )


def set_charge_and_spin(atoms: Atoms, charge: float, spin: int = 1) -> Atoms:
    """Write total charge and spin multiplicity where models look for them; returns `atoms`.

    mlip reads `charge` and `spin_multiplicity`, other calculators `charge` and `spin`.
    """
    atoms.info.update(charge=charge, spin=spin, spin_multiplicity=spin)
    return atoms


def require_valid(prediction: Prediction | Failure, num_atoms: int) -> Prediction | Failure:
    """The prediction itself, or a failure that names what in it has a wrong shape or is not finite."""
    if isinstance(prediction, Failure):
        return prediction
    if prediction.forces is not None and np.shape(prediction.forces) != (num_atoms, 3):
        message = f"forces have shape {np.shape(prediction.forces)}, not ({num_atoms}, 3)"
        return Failure(kind=FailureKind.EXCEPTION, message=message)
    if not np.isfinite(prediction.energy):
        return Failure(kind=FailureKind.NON_FINITE, message=f"energy is {prediction.energy}")
    if prediction.forces is not None and not np.isfinite(prediction.forces).all():
        bad = int((~np.isfinite(prediction.forces).all(axis=-1)).sum())
        return Failure(kind=FailureKind.NON_FINITE, message=f"forces on {bad} atoms are not finite")
    if prediction.stress is not None and not np.isfinite(prediction.stress).all():
        return Failure(kind=FailureKind.NON_FINITE, message="the stress is not finite")
    return prediction


def _silent(done: int, total: int) -> None:
    pass


def _quiet(what: str, done: int, total: int) -> None:
    pass
