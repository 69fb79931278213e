# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of an mlip force field: the program that the device runs.

mlip's own `JaxMDSimulationEngine` is not used, for promises of DESIGN section 6 that it does not keep: a neighbour
list that keeps overflowing makes it run one episode for ever; one exploded system ends a batch; it stores every step
of an episode rather than the sampled ones; it looks for explosions between episodes only; it rebuilds an all-pairs
neighbour list twice per step; and it compiles anew for every run. Here jax_md integrates, many systems as one graph,
and the neighbour list is kept in two layers: pairs within cutoff plus skin are found on the host every few dozen steps
(`jax_batch`), and every step sifts those within the cutoff, so that the model sees no pair too many.

A step is taken by all systems or by none: one that the list does not cover is thrown away and repeated with a new
list, so that trajectories do not depend on when that happens. A system that leaves the physical range stays where it
was, feels and exerts nothing any more, and the others go on. Random numbers depend on a system's own key, the step and
the atom's number within its system only, so that company changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_max, segment_sum
from mlip.graph import Graph
from mlip.models import ForceField

from mlipaudit.backends.deferred import deferring
from mlipaudit.backends.jax_batching import Shape

with deferring("jax_md.rigid_body"):  # which computes shapes that nobody needs here, for ten seconds
    from jax_md import simulate


class Outer(NamedTuple):
    """Candidate pairs; the last one, and all padding, joins the spare atom to itself."""

    senders: jax.Array
    receivers: jax.Array
    shifts: jax.Array


class Outers(NamedTuple):
    """Pairs within cutoff plus skin, and the positions they were found at."""

    built_at: jax.Array
    short: Outer
    long: Outer | None


class Topology(NamedTuple):
    """Which atom is whose. The last system is a spare one, of the padding atoms."""

    system: jax.Array
    """[atoms]"""
    local: jax.Array
    """[atoms]: number of the atom within its system."""


class Settings(NamedTuple):
    """Numbers of the protocols in ASE units, one per system: arguments of the program, so they do not compile anew."""

    timestep: jax.Array
    thermal_energy: jax.Array
    friction: jax.Array
    max_kinetic_energy: jax.Array
    key: jax.Array


class Status(NamedTuple):
    """Why a chunk of steps ended early."""

    stale: jax.Array
    """[systems]: an atom would have moved too far for the outer list; the step was not taken."""
    overflow: jax.Array
    """More pairs within the cutoff than the program has room for; the step was not taken."""


class State(NamedTuple):
    """Everything that changes from step to step."""

    md: simulate.NVEState
    energies: jax.Array
    """eV, [atoms]: parts of the potential energy; the host adds them up in double precision."""
    kinetic_energy: jax.Array
    """eV, [systems]"""
    step: jax.Array
    alive: jax.Array
    """[systems]"""
    failed_at: jax.Array
    """[systems]: step at which a system left the physical range, or -1."""
    finite: jax.Array
    """[systems]: whether it was finite then."""
    pairs: tuple[jax.Array, jax.Array]
    """[systems]: pairs within the cutoffs at the last attempted step: short range, long range."""
    status: Status


class Forces(NamedTuple):
    """What the model says about one set of positions."""

    forces: jax.Array
    energies: jax.Array
    pairs: tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Program:
    """What a compiled chunk of steps is made of; the static part of its cache key."""

    force_field: ForceField
    capacity: Shape
    max_move: float
    """Å that an atom may be from where the outer list was built."""


class Inputs(NamedTuple):
    """What does not change during a chunk."""

    params: Any
    graph: Graph
    topology: Topology
    outers: Outers
    settings: Settings


def _advance(program: Program, inputs: Inputs, state: State, until: int) -> State:
    """Steps until `until`, or until one cannot be taken, or no system is left."""

    def running(state: State) -> jax.Array:
        refused = state.status.stale.any() | state.status.overflow
        return (state.step < until) & ~refused & state.alive.any()

    return jax.lax.while_loop(running, partial(_step, program, inputs), state)


advance = jax.jit(_advance, static_argnums=0)
ONE_CORE = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_enable_concurrency_optimized_scheduler": False}
"""Options of XLA for programs that run side by side, one per core: a fifth faster than all on all cores (measured)."""


@cache
def advance_on_one_core() -> Any:
    """`advance` for one of several threads; the same where this XLA does not know the options."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=ONE_CORE).lower(0.0).compile()
    except Exception:  # around a compiler of another platform or version
        return advance
    return jax.jit(_advance, static_argnums=0, compiler_options=ONE_CORE)


def _step(program: Program, inputs: Inputs, state: State) -> State:
    """One step of all systems, or none."""
    md, new = _integrate(program, inputs, state)
    system, num_systems = inputs.topology.system, state.alive.shape[0]
    kinetic = 0.5 * segment_sum(jnp.sum(jnp.square(md.momentum) / md.mass, axis=-1), system, num_systems)
    broken = ~(jnp.isfinite(new.forces).all(axis=-1) & jnp.isfinite(new.energies))
    finite = (segment_max(broken.astype(jnp.int32), system, num_systems) <= 0) & jnp.isfinite(kinetic)
    sane = finite & (kinetic <= inputs.settings.max_kinetic_energy)
    moved = segment_max(jnp.sum(jnp.square(md.position - inputs.outers.built_at), axis=-1), system, num_systems)
    short, long = (jnp.sum(pairs) for pairs in new.pairs)
    capacity = program.capacity
    overflow = (short > capacity.edges) | (long > (capacity.long_range_edges or 0))
    stale = state.alive & sane & (moved > program.max_move**2)
    accepted = (state.alive & sane)[system]
    taken = State(
        md=jax.tree.map(lambda new, old: jnp.where(accepted[:, None], new, old), md, state.md),
        energies=jnp.where(accepted, new.energies, state.energies),
        kinetic_energy=jnp.where(state.alive, kinetic, state.kinetic_energy),
        step=state.step + 1,
        alive=state.alive & sane,
        failed_at=jnp.where(state.alive & ~sane, state.step + 1, state.failed_at),
        finite=jnp.where(state.alive, finite, state.finite),
        pairs=new.pairs,
        status=Status(jnp.zeros_like(stale), jnp.zeros_like(overflow)),
    )
    refused = state._replace(pairs=new.pairs, status=Status(stale, overflow))
    return jax.tree.map(partial(jnp.where, stale.any() | overflow), refused, taken)


def _integrate(program: Program, inputs: Inputs, state: State) -> tuple[simulate.NVEState, Forces]:
    """BAOAB for Langevin (10.1063/1.4916312), which is velocity Verlet where the friction is zero.

    Before step 0 the time step is zero: that evaluates the first forces and moves nothing.
    """
    settings, system = inputs.settings, inputs.topology.system
    timestep = jnp.where(state.alive & (state.step >= 0), settings.timestep, 0.0)
    half = timestep[system][:, None] / 2
    md = simulate.momentum_step(state.md, half)
    md = simulate.position_step(md, _shift, half)
    md = md.set(momentum=_thermostat(md, timestep, inputs, state.step))
    md = simulate.position_step(md, _shift, half)
    new = _forces(program, inputs, md.position, state.alive)
    return simulate.momentum_step(md.set(force=new.forces), half), new


def _thermostat(md: simulate.NVEState, timestep: jax.Array, inputs: Inputs, step: jax.Array) -> jax.Array:
    """Momenta after the exact Ornstein-Uhlenbeck step of the Langevin equation."""
    settings, (system, local) = inputs.settings, inputs.topology
    kept = jnp.exp(-settings.friction * timestep)
    width = jnp.sqrt(settings.thermal_energy * (1 - jnp.square(kept)))
    keys = jax.vmap(jax.random.fold_in, (0, None))(settings.key, step)
    own = jax.vmap(jax.random.fold_in)(keys[system], local)
    noise = jax.vmap(lambda key: jax.random.normal(key, (3,)))(own)
    return kept[system][:, None] * md.momentum + width[system][:, None] * jnp.sqrt(md.mass) * noise


def _shift(position: jax.Array, displacement: jax.Array, **_: Any) -> jax.Array:
    """Positions stay unwrapped: the cells that a pair crosses are counted in its shift."""
    return position + displacement


def _forces(program: Program, inputs: Inputs, position: jax.Array, alive: jax.Array) -> Forces:
    """Energies (eV) and forces (eV/Å) at given positions, from the pairs that are within the cutoff there."""
    from mlipaudit.backends.mlip_force_field import evaluate

    field, capacity, graph = program.force_field, program.capacity, inputs.graph
    sift = partial(_sift, position=position, alive=alive, inputs=inputs, periodic=capacity.periodic)
    short, counts = sift(inputs.outers.short, cutoff=field.cutoff_distance, room=capacity.edges)
    changes: dict[str, Any] = {
        "nodes": graph.nodes.replace(positions=position),
        "senders": short.senders,
        "receivers": short.receivers,
        "n_edge": counts.at[-1].add(capacity.edges - jnp.sum(counts)),
        "edges": graph.edges.replace(shifts=short.shifts if capacity.periodic else None),
    }
    long_counts = jnp.zeros_like(counts)
    if inputs.outers.long is not None:
        room = capacity.long_range_edges or 0
        long, long_counts = sift(inputs.outers.long, cutoff=field.long_range_cutoff_distance, room=room)
        changes |= {
            "senders_long_range": long.senders,
            "receivers_long_range": long.receivers,
            "n_edge_long_range": long_counts.at[-1].add(room - jnp.sum(long_counts)),
            "edges_long_range": graph.edges_long_range.replace(shifts=long.shifts if capacity.periodic else None),
        }
    answers = evaluate(field, inputs.params, graph.replace(**changes), forces=True)
    spare = inputs.topology.system == alive.shape[0] - 1
    forces = jnp.where(spare[:, None], 0.0, answers["forces"])  # the spare atoms rest, so that they heat nothing
    return Forces(forces, jnp.where(spare, 0.0, _by_atom(answers, graph, inputs.topology)), (counts, long_counts))


def _by_atom(answers: dict[str, jax.Array], graph: Graph, topology: Topology) -> jax.Array:
    """Parts of the energies that add up to each system's; where the model gives totals only, equal ones."""
    if "node_energy" in answers:
        return answers["node_energy"].reshape(-1)
    share = answers["energy"].reshape(-1) / jnp.maximum(graph.n_node, 1)
    return share[topology.system]


def _sift(
    outer: Outer,
    *,
    position: jax.Array,
    alive: jax.Array,
    inputs: Inputs,
    periodic: bool,
    cutoff: float,
    room: int,
) -> tuple[Outer, jax.Array]:
    """The candidate pairs of living systems within `cutoff`, in order, padded to `room`; and their number by system."""
    system = inputs.topology.system[outer.senders]
    vectors = position[outer.receivers] - position[outer.senders]
    if periodic:
        vectors += jnp.einsum("ei,eij->ej", outer.shifts, inputs.graph.globals.cell[system])
    inside = (jnp.sum(jnp.square(vectors), axis=-1) <= cutoff**2) & alive[system]
    (chosen,) = jnp.nonzero(inside, size=room, fill_value=outer.senders.shape[0] - 1)
    counts = segment_sum(inside.astype(jnp.int32), system, alive.shape[0], indices_are_sorted=True)
    return Outer(*(array[chosen] for array in outer)), counts
