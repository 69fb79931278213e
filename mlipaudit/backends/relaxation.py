# SPDX-License-Identifier: Apache-2.0
"""Minimisation of many systems at once, on any backend.

An optimiser is a generator: it yields the structures whose energies and forces it needs, and is sent them. `advance`
holds one generator per system and answers all of them with one `predict` per round, so that a backend which batches
sees a full batch however different the systems are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from mlipaudit.backends.contract import Backend, Prediction, Relaxation
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import Minimisation, Optimizer

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import TellProgress

T = TypeVar("T")
Search = Generator[Sequence["Atoms"], Sequence[Prediction], T]
"""Yields structures, is sent a prediction with forces for each, and returns what it was looking for."""

INITIAL_CURVATURE = 70.0
"""eV/Å²: what BFGS believes of every coordinate before it has seen any; ASE's value."""
SAME_PLACE = 1e-7
"""Å: a move that is too small to learn a curvature from; ASE's value."""


def minimise(
    backend: Backend, systems: Sequence[Atoms], protocol: Minimisation, *, progress: TellProgress
) -> list[Relaxation | Failure]:
    """Relax many systems together; see `Backend.minimise`."""
    searches = [relax(atoms, protocol) for atoms in systems]
    return advance(backend, searches, max_rounds=protocol.max_steps + 1, what="relaxations", progress=progress)


def relax(atoms: Atoms, protocol: Minimisation) -> Search[Relaxation]:
    """The way of one system downhill; the last geometry is judged, however it was reached."""
    atoms = atoms.copy()
    optimiser = optimiser_for(protocol)
    num_steps = 0
    while True:
        (answer,) = yield [atoms]
        converged = bool(max_norm(answer.forces) < protocol.max_force)
        if converged or num_steps == protocol.max_steps:
            break
        atoms.positions += optimiser.step(atoms.positions, answer.forces)
        num_steps += 1
    return Relaxation(atoms.positions, answer.energy, max_norm(answer.forces), num_steps, converged)


def max_norm(vectors: Any) -> float:
    """Length of the longest of [atoms, 3] vectors; 0 where there are none."""
    return float(np.sqrt(np.sum(np.asarray(vectors, np.float64) ** 2, axis=-1).max(initial=0.0)))


# Many searches, one prediction per round


def advance(
    backend: Backend,
    searches: Sequence[Search[T]],
    *,
    max_rounds: int,
    what: str,
    progress: TellProgress,
) -> list[T | Failure]:
    """Results of all searches, or why there is none.

    Args:
        backend: answers the questions.
        searches: one per system.
        max_rounds: predictions that any search may ask for; one that asks for more is `incomplete`.
        what: is being done, for `progress`.
        progress: called after each round with how many searches have ended.
    """
    crowd = _Crowd(searches)
    for _ in range(max_rounds):
        if not crowd.asked:
            break
        crowd.answer(backend.predict(crowd.questions, forces=True))
        progress(what, len(searches) - len(crowd.asked), len(searches))
    for index in list(crowd.asked):
        crowd.end(index, Failure(kind=FailureKind.INCOMPLETE, message=f"not finished after {max_rounds} rounds"))
    return crowd.results


class _Crowd(Generic[T]):
    """Searches that run side by side, and what each of them waits for."""

    def __init__(self, searches: Sequence[Search[T]]) -> None:
        self._searches = list(searches)
        self.results: list[Any] = [None] * len(searches)
        self.asked: dict[int, Sequence[Atoms]] = {}
        for index in range(len(searches)):
            self._resume(index, None)

    @property
    def questions(self) -> list[Atoms]:
        """All structures that are waited for."""
        return [atoms for structures in self.asked.values() for atoms in structures]

    def answer(self, predictions: Sequence[Prediction | Failure]) -> None:
        """Hand out the predictions of `questions`, in their order."""
        remaining = iter(predictions)
        for index, structures in list(self.asked.items()):
            answers = [next(remaining) for _ in structures]
            failure = next((answer for answer in answers if isinstance(answer, Failure)), None)
            if failure is not None:
                self.end(index, failure)
            else:
                self._resume(index, answers)

    def end(self, index: int, result: T | Failure) -> None:
        """Close a search with a result."""
        self.results[index] = result
        self.asked.pop(index, None)
        self._searches[index].close()

    def _resume(self, index: int, answers: Any) -> None:
        try:
            self.asked[index] = self._searches[index].send(answers)
        except StopIteration as returned:
            self.end(index, returned.value)
        except Exception as error:  # around a system: it costs only itself
            self.end(index, Failure.from_exception(error))


# Optimisers: forces in, displacement out


class Stepper(Protocol):
    """Proposes where to go from here. Knows the path so far, nothing of atoms."""

    def step(self, positions: np.ndarray, forces: Any) -> np.ndarray:
        """Displacement in Å, [atoms, 3]."""


def optimiser_for(protocol: Minimisation) -> Stepper:
    """A fresh optimiser."""
    return (Fire if protocol.optimizer is Optimizer.FIRE else Bfgs)(protocol.max_step_length)


class Bfgs:
    """Quasi-Newton steps, with the numbers of ASE's BFGS: same path, one Cholesky factorisation per step."""

    def __init__(self, max_step_length: float) -> None:
        self._max_step_length = max_step_length
        self._curvature = np.zeros((0, 0))
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def step(self, positions: np.ndarray, forces: Any) -> np.ndarray:
        """To the bottom of the parabola, or `max_step_length` of the farthest atom in that direction."""
        x, force = np.array(positions, np.float64).ravel(), np.array(forces, np.float64).ravel()
        self._learn(x, force)
        step = downhill(self._curvature, force).reshape(-1, 3)
        longest = max_norm(step)
        return step * (self._max_step_length / longest) if longest >= self._max_step_length else step

    def _learn(self, x: np.ndarray, force: np.ndarray) -> None:
        last, self._last = self._last, (x, force)
        if last is None:
            self._curvature = np.eye(len(x)) * INITIAL_CURVATURE
            return
        move, change = x - last[0], last[1] - force
        slope = move @ change
        # No curvature along the move, which no update can express: ASE divides by zero here.
        if np.abs(move).max() < SAME_PLACE or slope == 0.0:
            return
        expected = self._curvature @ move
        self._curvature += np.outer(change, change) / slope - np.outer(expected, expected) / (move @ expected)


def downhill(curvature: np.ndarray, force: np.ndarray) -> np.ndarray:
    """The Newton step, with the absolute values of negative curvatures.

    Raises:
        ValueError: the matrix is not finite.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

    try:
        # Without negative curvatures there is nothing to take the absolute value of: 20 times faster than eigenvalues.
        return cho_solve(cho_factor(curvature), force)
    except (LinAlgError, ValueError):
        values, vectors = eigh(curvature)
        return vectors @ ((force @ vectors) / np.abs(values))


class Fire:
    """Damped dynamics that speeds up downhill and stops uphill (10.1103/PhysRevLett.97.170201), ASE's constants."""

    MAX_TIMESTEP, PATIENCE = 1.0, 5
    FASTER, SLOWER = 1.1, 0.5
    MIXING, LESS_MIXING = 0.1, 0.99

    def __init__(self, max_step_length: float) -> None:
        self._max_step_length = max_step_length
        self._timestep, self._mixing, self._downhill_steps = 0.1, self.MIXING, 0
        self._velocity: np.ndarray | None = None

    def step(self, positions: np.ndarray, forces: Any) -> np.ndarray:
        """One time step; all coordinates together move `max_step_length` at most."""
        force = np.array(forces, np.float64)
        velocity = np.zeros_like(force) if self._velocity is None else self._steer(self._velocity, force)
        self._velocity = velocity + self._timestep * force
        step = self._timestep * self._velocity
        length = float(np.linalg.norm(step))
        return step * (self._max_step_length / length) if length > self._max_step_length else step

    def _steer(self, velocity: np.ndarray, force: np.ndarray) -> np.ndarray:
        if np.vdot(force, velocity) <= 0.0:
            self._timestep, self._mixing, self._downhill_steps = self._timestep * self.SLOWER, self.MIXING, 0
            return np.zeros_like(force)
        along = force * (np.linalg.norm(velocity) / np.linalg.norm(force))
        turned = (1.0 - self._mixing) * velocity + self._mixing * along
        if self._downhill_steps > self.PATIENCE:
            self._timestep = min(self._timestep * self.FASTER, self.MAX_TIMESTEP)
            self._mixing *= self.LESS_MIXING
        self._downhill_steps += 1
        return turned
