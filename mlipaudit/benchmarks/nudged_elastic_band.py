# SPDX-License-Identifier: Apache-2.0
"""Does the model find minimum-energy paths of reactions?

Both ends are relaxed, a band is stretched between them through the reference's transition state, and relaxed. As
published, a reaction counts when the forces on the band fall below a limit. On a model without forces they do so at
once; so here the path must also be one: it joins the reactants with the products, over a barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from mlipaudit.arrays import Array
from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.benchmarks.reactivity import Reaction, Reactions
from mlipaudit.data import read_json
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.relaxations import bond_graph, structure
from mlipaudit.metric import Limit, Metric
from mlipaudit.protocol import ElasticBand, Minimisation
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import score_systems
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Scatter

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend
    from mlipaudit.backends.elastic_band import Path as ReactionPath

DATASET = "grambow_dataset_neb.json"
SOURCE = "mlipaudit 0.1.8 (arXiv:2511.20487)"
MAX_FORCE = 0.05
"""eV/Å"""
MIN_BARRIER = 1.0
"""kcal/mol that the top of a path is above both ends; half the reference's barrier, but 0.1, where that is less."""
_REACTIONS = TypeAdapter(Reactions)


class BandState(Record):
    """Where a band ended; states of 0.1.8 have more fields, which are not read."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    atomic_numbers: Array | None = None
    positions: Array | None = None
    """Å, [images, atoms, 3]: both ends included."""
    potential_energy: Array | None = None
    """eV, [images]"""
    forces: Array | None = None
    """eV/Å, [inner images × atoms, 3]: of the band."""
    num_band_steps: int | None = None
    num_climbing_steps: int | None = None
    ends_converged: bool | None = None


class NEBModelOutput(ModelOutput):
    """Bands, in the order of the data; None for a reaction that failed."""

    simulation_states: list[BandState | None]


class NEBReactionResult(SystemResult):
    """One reaction; energies in kcal/mol. What the model output does not tell is null, and then not asked for."""

    reaction_id: str
    converged: bool | None = None
    """Whether the largest force on the band is below 0.05 eV/Å, whatever the path: the published criterion."""
    max_force: Annotated[float | None, Metric(unit="eV/Å")] = None
    """Largest force on the band."""
    joins_ends: bool | None = None
    """Whether the relaxed ends have the bonds of the reactants and of the products."""
    has_barrier: bool | None = None
    """Whether the highest image is between the ends and above both."""
    path_max_force: Annotated[
        float | None, Metric(unit="eV/Å", score=Limit(MAX_FORCE), source=f"threshold of {SOURCE}")
    ] = None
    """`max_force` of a band that joins its ends over a barrier; null for any other, which scores 0."""
    barrier: float | None = None
    """Highest image above the first."""
    barrier_ref: float | None = None
    barrier_abs_error: Annotated[float | None, Metric(unit="kcal/mol")] = None
    reverse_barrier: float | None = None
    """Highest image above the last."""
    reverse_barrier_ref: float | None = None
    num_band_steps: int | None = None
    num_climbing_steps: int | None = None
    ends_converged: bool | None = None


class NEBResult(BenchmarkResult):
    """All reactions, those that failed included."""

    reaction_results: list[NEBReactionResult]
    convergence_rate: Annotated[float | None, Metric(unit="", better="higher")] = None
    """Fraction of all reactions whose band converged, whatever its path: the score of mlipaudit 0.1.8."""
    num_wrong_paths: int = 0
    """Bands that do not join their ends or have no barrier."""
    mae_barrier: Annotated[float | None, Metric(unit="kcal/mol")] = None
    """Over the reactions that score."""


def _protocol(end_steps: int, band_steps: int, max_systems: int | None) -> ElasticBand:
    return ElasticBand(
        ends=Minimisation(end_steps),
        num_images=10,
        spring_constant=0.1,
        band=Minimisation(band_steps, max_force=0.5, max_step_length=0.03),
        climbing=Minimisation(band_steps, max_force=MAX_FORCE, max_step_length=0.03),
        max_systems=max_systems,
    )


def _against(title: str, way: str) -> Scatter:
    reference = Axis(f"{way}barrier_ref", "reference barrier", "kcal/mol")
    return Scatter(title, reference, Axis(f"{way}barrier", "barrier of the path", "kcal/mol"), diagonal=True)


class NudgedElasticBandBenchmark(Benchmark):
    """Does the model find minimum-energy paths of reactions?

    `fast` takes the first ten reactions, with the steps and thresholds of `standard`.
    """

    name = "nudged_elastic_band"
    category = "Small Molecules"
    result_class = NEBResult
    model_output_class = NEBModelOutput
    required_elements = {"H", "C", "N", "O"}
    views = (_against("Barriers", ""), _against("Barriers of the reverse reactions", "reverse_"))

    protocols = {
        RunMode.DEV: _protocol(1, 1, 2),
        RunMode.FAST: _protocol(50, 500, 10),
        RunMode.STANDARD: _protocol(50, 500, None),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: ElasticBand) -> Reactions:
        """The reactions that the protocol asks for, by id."""
        return dict(list(read_json(data_dir, DATASET, _REACTIONS).items())[: protocol.max_systems])

    @classmethod
    def geometries(cls, reference: Reactions, system: str) -> list[Atoms]:
        """Both ends, and the reference transition state between them."""
        r = reference.get(system)
        return [structure(s.atom_symbols, s.coordinates, r.charge) for s in r.states] if r else []

    def ask(self, backend: Backend, reference: Reactions) -> NEBModelOutput:
        """Find the paths of all reactions together."""
        from mlipaudit.backends.elastic_band import Endpoints, find_paths

        reactions = [
            Endpoints(*(structure(state.atom_symbols, state.coordinates, r.charge) for state in r.states))
            for r in reference.values()
        ]
        paths = find_paths(backend, reactions, self.protocol, progress=self.progress)
        failures = {name: path for name, path in zip(reference, paths, strict=True) if isinstance(path, Failure)}
        states = [
            None if isinstance(path, Failure) else _state(reaction.reactants.numbers, path)
            for reaction, path in zip(reactions, paths, strict=True)
        ]
        return NEBModelOutput(simulation_states=states, failures=failures)

    @classmethod
    def judge(cls, output: NEBModelOutput, reference: Reactions, protocol: ElasticBand) -> NEBResult:
        """Force, ends and barrier of every path, and the fraction that are right in all three."""
        missing = len(reference) - len(output.simulation_states)
        states = zip(reference.items(), output.simulation_states + [None] * missing, strict=True)
        entries = [_judge(name, state, reaction, output.failures.get(name)) for (name, reaction), state in states]
        right = [e for e in entries if e.path_max_force is not None and e.path_max_force < MAX_FORCE]
        known = [e.barrier_abs_error for e in right if e.barrier_abs_error is not None]
        return NEBResult(
            reaction_results=entries,
            convergence_rate=float(np.mean([e.converged is True for e in entries])) if entries else None,
            num_wrong_paths=sum(e.path_max_force is None and not e.failed for e in entries),
            mae_barrier=float(np.mean(known)) if known else None,
            failures={e.reaction_id: e.failure for e in entries if e.failure},
            **BenchmarkResult.fields_of(score_systems(entries)),
        )


def _state(numbers: np.ndarray, path: ReactionPath) -> BandState:
    return BandState(
        atomic_numbers=numbers,
        positions=path.positions,
        potential_energy=path.energies,
        forces=path.forces.reshape(-1, 3),
        num_band_steps=path.num_band_steps,
        num_climbing_steps=path.num_climbing_steps,
        ends_converged=path.ends_converged,
    )


def _judge(name: str, state: BandState | None, reaction: Reaction, failure: Failure | None) -> NEBReactionResult:
    if state is None or (failure := _why_unusable(state)):
        unknown = Failure(kind=FailureKind.INCOMPLETE, message="the model output holds no band of this reaction")
        return NEBReactionResult(reaction_id=name, failed=True, failure=failure or unknown)
    max_force = float(np.sqrt((np.asarray(state.forces, np.float64) ** 2).sum(axis=-1).max()))
    reactants, products, top = (s.energy for s in reaction.states)
    result = NEBReactionResult(
        reaction_id=name,
        converged=max_force < MAX_FORCE,
        max_force=max_force,
        joins_ends=None if state.positions is None else _joins_ends(state.positions, reaction),
        barrier_ref=top - reactants,
        reverse_barrier_ref=top - products,
        num_band_steps=state.num_band_steps,
        num_climbing_steps=state.num_climbing_steps,
        ends_converged=state.ends_converged,
    )
    if state.potential_energy is not None:
        _measure_barrier(result, np.asarray(state.potential_energy, np.float64) * KCAL_MOL_PER_EV)
    wrong = result.joins_ends is False or result.has_barrier is False
    result.path_max_force = None if wrong else max_force
    return result


def _why_unusable(state: BandState) -> Failure | None:
    if state.forces is None or not state.forces.size:
        return Failure(kind=FailureKind.INCOMPLETE, message="the model output holds no forces of this band")
    arrays: Iterable[np.ndarray | None] = (state.forces, state.positions, state.potential_energy)
    if all(array is None or np.isfinite(array).all() for array in arrays):
        return None
    return Failure(kind=FailureKind.NON_FINITE, message="the band in the model output is not finite")


def _joins_ends(positions: np.ndarray, reaction: Reaction) -> bool:
    pairs = ((positions[0], reaction.reactants), (positions[-1], reaction.products))
    return all(
        bond_graph(end.atom_symbols, image) == bond_graph(end.atom_symbols, end.coordinates)
        for image, end in pairs
    )


def _measure_barrier(result: NEBReactionResult, energies: np.ndarray) -> None:
    """Fill in the barriers of a path, in kcal/mol."""
    top = float(energies.max())
    result.barrier, result.reverse_barrier = top - float(energies[0]), top - float(energies[-1])
    if result.barrier_ref is None or result.reverse_barrier_ref is None:
        return
    result.barrier_abs_error = abs(result.barrier - result.barrier_ref)
    needed = np.clip(0.5 * min(result.barrier_ref, result.reverse_barrier_ref), 0.1, MIN_BARRIER)
    result.has_barrier = bool(min(result.barrier, result.reverse_barrier) >= needed)
