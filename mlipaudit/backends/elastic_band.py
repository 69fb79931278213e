# SPDX-License-Identifier: Apache-2.0
"""Minimum-energy paths of many reactions at once: the nudged elastic band on any backend.

Forces along the band are ASE's, on images that carry predicted energies and forces. The images of all bands that are
still moving are predicted together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.backends.contract import Backend, Prediction, Relaxation
from mlipaudit.backends.relaxation import Search, advance, max_norm, optimiser_for
from mlipaudit.failures import Failure
from mlipaudit.protocol import ElasticBand, Minimisation

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import TellProgress

METHOD = "improvedtangent"
"""Tangents as in 10.1063/1.1323224: what ASE takes by default since 3.27.1, and mlipaudit 0.1.8 with it."""


@dataclass(frozen=True)
class Endpoints:
    """What a path joins; the atoms have the same order everywhere."""

    reactants: Atoms
    products: Atoms
    transition_state: Atoms | None = None
    """A guess that the first band goes through."""


@dataclass(frozen=True)
class Path:
    """Where a band came to rest, or was left after the last step."""

    positions: np.ndarray
    """Å, [images, atoms, 3], both ends included."""
    energies: np.ndarray
    """eV, [images]"""
    forces: np.ndarray
    """eV/Å, [inner images, atoms, 3]: of the band, so without what pulls along it."""
    max_force: float
    """eV/Å: the largest of them."""
    num_band_steps: int
    num_climbing_steps: int
    converged: bool
    """Whether the last stage ended because its forces were small enough."""
    ends_converged: bool


def find_paths(
    backend: Backend, reactions: Sequence[Endpoints], protocol: ElasticBand, *, progress: TellProgress
) -> list[Path | Failure]:
    """Relax the ends of every reaction, then a band between them, then, if asked for, its climbing image.

    Args:
        backend: predicts energies and forces.
        reactions: structures, which are not changed.
        protocol: settings.
        progress: called with what is being done, how many are done, of how many.
    """
    ends = [end for reaction in reactions for end in (reaction.reactants, reaction.products)]
    relaxed = iter(backend.minimise(ends, protocol.ends, progress=progress))
    pairs = [(next(relaxed), next(relaxed)) for _ in reactions]
    results: list[Any] = [_first_failure(pair) for pair in pairs]
    open_ = [i for i, failure in enumerate(results) if failure is None]
    searches = [find_path(reactions[i], pairs[i], protocol) for i in open_]  # type: ignore[arg-type]
    climbing = protocol.climbing.max_steps if protocol.climbing else 0
    rounds = 1 + protocol.band.max_steps + climbing
    found = advance(backend, searches, max_rounds=rounds, what="bands", progress=progress)
    for i, path in zip(open_, found, strict=True):
        results[i] = path
    return results


def find_path(reaction: Endpoints, ends: tuple[Relaxation, Relaxation], protocol: ElasticBand) -> Search[Path]:
    """The way of one band to rest, its ends held where they were relaxed to."""
    from ase.mep import NEB

    images = first_band(reaction, ends, protocol.num_images)
    for image, end in zip((images[0], images[-1]), ends, strict=True):
        _label(image, Prediction(end.energy, np.zeros((len(image), 3))))  # forces on the ends are not looked at
    yield from _ask(images[1:-1])
    band = NEB(images, k=protocol.spring_constant, climb=False, method=METHOD)
    num_steps = yield from settle(band, protocol.band)
    num_climbing_steps, last = 0, protocol.band
    if protocol.climbing:
        band.climb, last = True, protocol.climbing
        num_climbing_steps = yield from settle(band, protocol.climbing)
    forces = band.get_forces()
    return Path(
        positions=np.array([image.positions for image in images]),
        energies=np.array([image.get_potential_energy() for image in images]),
        forces=forces.reshape(len(images) - 2, -1, 3),
        max_force=max_norm(forces),
        num_band_steps=num_steps,
        num_climbing_steps=num_climbing_steps,
        converged=max_norm(forces) < last.max_force,
        ends_converged=ends[0].converged and ends[1].converged,
    )


def settle(band: Any, protocol: Minimisation) -> Generator[list[Atoms], Sequence[Prediction], int]:
    """Move the inner images of an `ase.mep.NEB`, all together, until its forces are small; returns the steps taken.

    The images carry their energies and forces before and after.
    """
    optimiser = optimiser_for(protocol)
    for num_steps in range(protocol.max_steps):
        forces = band.get_forces()
        if max_norm(forces) < protocol.max_force:
            return num_steps
        positions = band.get_positions()
        band.set_positions(positions + optimiser.step(positions, forces))
        yield from _ask(band.images[1:-1])
    return protocol.max_steps


def _ask(images: list[Atoms]) -> Generator[list[Atoms], Sequence[Prediction], None]:
    answers = yield images
    for image, answer in zip(images, answers, strict=True):
        _label(image, answer)


def _label(image: Atoms, answer: Prediction) -> None:
    """Attach a prediction. Every image has a calculator of its own: shared ones mix up their results."""
    from ase.calculators.singlepoint import SinglePointCalculator

    image.calc = SinglePointCalculator(image, energy=answer.energy, forces=np.asarray(answer.forces, np.float64))


def _first_failure(ends: Sequence[Relaxation | Failure]) -> Failure | None:
    for name, end in zip(("reactants", "products"), ends, strict=True):
        if isinstance(end, Failure):
            return end.model_copy(update={"message": f"{name}: {end.message}"})
    return None


# The first band


def first_band(reaction: Endpoints, ends: tuple[Relaxation, Relaxation], num_images: int) -> list[Atoms]:
    """Images between relaxed ends: interpolated by an image-dependent pair potential (10.1063/1.4878664).

    With a transition state, it is an image, and either side of it is interpolated by itself.
    """
    reactants, products = _moved(reaction.reactants, ends[0]), _moved(reaction.products, ends[1])
    if reaction.transition_state is None:
        return interpolated(reactants, products, max(num_images, 3))
    num_images = max(num_images, 3)
    before = num_images // 2 + 1  # the transition state included
    first = interpolated(reactants, reaction.transition_state, before)
    second = interpolated(reaction.transition_state, products, num_images - before + 1)
    return first + second[1:]


def interpolated(start: Atoms, end: Atoms, num_images: int) -> list[Atoms]:
    """Copies of both ends with images in between.

    Raises:
        ValueError: the ends have other atoms, or in another order.
    """
    from ase.mep import NEB

    images = [start.copy() for _ in range(num_images - 1)] + [end.copy()]
    if num_images > 2:
        NEB(images, method=METHOD).interpolate(method="idpp")
    for image in images:
        image.calc = None
    return images


def _moved(atoms: Atoms, end: Relaxation) -> Atoms:
    moved = atoms.copy()
    moved.positions = end.positions
    return moved
