# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of an mlip force field on jax_md.

mlip's own `JaxMDSimulationEngine` is not used, for five of the promises of DESIGN section 6: a neighbour list that
keeps overflowing makes it run one episode for ever; it stores every step of an episode rather than the sampled ones;
it looks for explosions between episodes only; it rebuilds an all-pairs neighbour list twice per step; and it compiles
anew for every run. Here jax_md integrates, and the neighbour list is kept in two layers: pairs within cutoff plus
skin are found on the host every few dozen steps, and every step sifts those within the cutoff, so that the model sees
no pair too many. A step that the list does not cover is thrown away and repeated with a new list; the trajectory does
not depend on when that happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ase import units
from jax_md import simulate
from mlip.graph import Graph
from mlip.models import ForceField

from mlipaudit.backends.contract import SystemRun, Trajectory
from mlipaudit.backends.dynamics import append_frame, initial_velocities, temperature_of, unphysical
from mlipaudit.backends.graph_calculator import grown
from mlipaudit.backends.jax_batching import Edges, Shape, Structure, find_edges, pack, pack_edges
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.protocol import Ensemble

if TYPE_CHECKING:
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

SKIN = 1.0
"""Å added to the cutoff for the outer list; an atom may move half of it before the list is rebuilt."""


class Outer(NamedTuple):
    """Candidate pairs on the device; the last one, and all padding, joins the spare atom to itself."""

    senders: jax.Array
    receivers: jax.Array
    shifts: jax.Array


class Outers(NamedTuple):
    """Pairs within cutoff plus skin, and the positions they were found at."""

    built_at: jax.Array
    short: Outer
    long: Outer | None


class Settings(NamedTuple):
    """Numbers of the protocol in ASE units: arguments of the program, so that they do not compile anew."""

    timestep: float
    thermal_energy: float
    friction: float
    max_kinetic_energy: float
    max_move: float
    """How far an atom may be from where the outer list was built: half the skin."""


class Status(NamedTuple):
    """Why a chunk of steps ended early."""

    stale: jax.Array
    """An atom would have moved too far for the outer list; the step was not taken."""
    overflow: jax.Array
    """More pairs within the cutoff than the program has room for; the step was not taken."""
    finite: jax.Array
    exploded: jax.Array


class State(NamedTuple):
    """Everything that changes from step to step."""

    md: simulate.NVTLangevinState
    energy: jax.Array
    kinetic_energy: jax.Array
    step: jax.Array
    pairs: tuple[jax.Array, jax.Array]
    """Pairs within the cutoffs at the last attempted step: short range, long range."""
    status: Status


class Forces(NamedTuple):
    """What the model says about one set of positions."""

    forces: jax.Array
    energy: jax.Array
    pairs: tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Program:
    """What a compiled chunk of steps is made of; the static part of its cache key."""

    force_field: ForceField
    ensemble: Ensemble
    capacity: Shape


def simulate_with_jax_md(backend: ForceFieldBackend, run: SystemRun) -> None:
    """Advance a system by the run's protocol.

    Raises:
        NeighbourOverflowError: a neighbour list kept growing.
    """
    simulation, protocol, trajectory = Simulation(backend, run), run.protocol, run.trajectory
    simulation.start()
    for stop in [0, *run.stops()]:
        trajectory.failure = simulation.advance_to(stop, frame=len(trajectory.steps))
        if trajectory.failure:
            return
        if stop % protocol.snapshot_interval == 0:
            simulation.sample(trajectory)
        due = stop % protocol.log_interval == 0 or stop == protocol.num_steps
        if due and run.report(stop, compiled=simulation.take_compiled()):
            return


class Simulation:
    """One system: its state and neighbour lists, on host and device."""

    def __init__(self, backend: ForceFieldBackend, run: SystemRun) -> None:
        self.backend, self.run, self.atoms = backend, run, run.atoms
        self.num_atoms = len(run.atoms)
        self.energy_of_atoms = backend.energy_of_atoms(run.atoms.numbers)
        self.settings = _settings(run)
        self._growths = {"pairs": 0, "short": 0, "long": 0}
        self._room = {"short": 0, "long": 0}
        self._compiled = False

    def start(self) -> None:
        """Neighbour lists, velocities, and a state before step 0, whose forces are not known yet."""
        structure = self.backend.structure(self.atoms)
        self._make_room(len(structure.edges), _length(structure.long_range))
        self._rebuild()
        velocities = initial_velocities(self.atoms, self.run.protocol.temperature_kelvin, self.run.seed)
        mass = np.append(self.atoms.get_masses(), 1.0)[:, None].astype(np.float32)
        md = simulate.NVTLangevinState(
            position=_with_spare(self.atoms.positions),
            momentum=_with_spare(velocities) * mass,
            force=jnp.zeros((self.num_atoms + 1, 3)),
            mass=jnp.asarray(mass),
            rng=jax.random.key(np.random.SeedSequence((*self.run.seed, 1)).generate_state(1)[0]),
        )
        zero = jnp.zeros((), jnp.int32)
        self.state = State(md, jnp.zeros(()), jnp.zeros(()), zero - 1, (zero, zero), _RUNNING)

    def advance_to(self, step: int, *, frame: int) -> Failure | None:
        """Run up to a step, with new lists as often as needed.

        Raises:
            NeighbourOverflowError: a list kept growing.
        """
        rebuilt_at = None
        while True:
            # A step of no length evaluates the first forces and moves nothing: one program serves both.
            settings = self.settings if step else self.settings._replace(timestep=0.0)
            self.state = self._run_until(step, settings)
            status, now, pairs = jax.device_get((self.state.status, self.state.step, self.state.pairs))
            if not (status.stale or status.overflow):
                return self._failure(frame=frame)
            if status.stale and rebuilt_at == now:
                message = f"an atom moved more than {SKIN / 2} Å in step {now + 1}"
                return Failure(kind=FailureKind.EXPLODED, message=message, frame=frame)
            if status.overflow:
                self._make_room(*(int(count) for count in pairs))
            self.atoms.positions = np.asarray(self.state.md.position[:-1], np.float64)
            self._rebuild()
            rebuilt_at = now if status.stale else None

    def sample(self, trajectory: Trajectory) -> None:
        """Fetch the current frame."""
        state = jax.device_get(self.state._replace(md=self.state.md.set(rng=None)))
        append_frame(
            trajectory,
            step=int(state.step),
            positions=state.md.position[:-1],
            velocities=state.md.momentum[:-1] / state.md.mass[:-1],
            potential_energy=float(state.energy) + self.energy_of_atoms,
            kinetic_energy=state.kinetic_energy,
        )

    def take_compiled(self) -> bool:
        """Whether anything was compiled since the last call."""
        compiled, self._compiled = self._compiled, False
        return compiled

    def _run_until(self, step: int, settings: Settings) -> State:
        state = self.state._replace(status=_RUNNING)
        key = (self.program, tuple(self._room.values()))
        self._compiled |= key not in self.backend.md_programs
        self.backend.md_programs.add(key)
        state = _advance(self.program, self.backend.params, self.graph, state, self.outers, settings, step)
        return jax.block_until_ready(state)

    def _make_room(self, pairs: int, long_range_pairs: int | None) -> None:
        self._growths["pairs"] += 1
        growths = self._growths["pairs"]
        capacity = Shape(
            atoms=self.num_atoms + 1,
            edges=grown(pairs, growths=growths),
            graphs=2,
            long_range_edges=None if long_range_pairs is None else grown(long_range_pairs, growths=growths),
            periodic=bool(self.atoms.pbc.any()),
        )
        self.program = Program(self.backend.skeleton, self.run.protocol.ensemble, capacity)
        bare = Structure(self.atoms, _NO_EDGES, None if long_range_pairs is None else _NO_EDGES)
        self.graph = jax.device_put(pack([bare], capacity))

    def _rebuild(self) -> None:
        """Find the outer lists at the current positions."""
        short_cutoff, long_cutoff = self.backend.cutoff, self.backend.force_field.long_range_cutoff_distance
        self.outers = Outers(
            built_at=_with_spare(self.atoms.positions),
            short=self._outer("short", short_cutoff),
            long=None if long_cutoff is None else self._outer("long", long_cutoff),
        )

    def _outer(self, which: str, cutoff: float) -> Outer:
        edges = find_edges(self.atoms, cutoff + SKIN)
        needed = len(edges) + 1
        if needed > self._room[which]:
            self._growths[which] += 1
            self._room[which] = grown(needed, growths=self._growths[which])
        padded = pack_edges([edges], [0], self._room[which], self.num_atoms)
        return Outer(*jax.device_put((padded.senders, padded.receivers, padded.shifts)))

    def _failure(self, *, frame: int) -> Failure | None:
        status, kinetic, step = jax.device_get((self.state.status, self.state.kinetic_energy, self.state.step))
        return unphysical(
            finite=bool(status.finite),
            temperature=temperature_of(float(kinetic), self.num_atoms),
            step=int(step),
            frame=frame,
            protocol=self.run.protocol,
        )


_NO_EDGES = Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 3), np.float32))
_RUNNING = Status(*map(np.array, (False, False, True, False)))  # type: ignore[arg-type]


def _settings(run: SystemRun) -> Settings:
    protocol = run.protocol
    limit = protocol.temperature_kelvin + protocol.max_temperature_rise_kelvin
    return Settings(
        timestep=protocol.timestep_fs * units.fs,
        thermal_energy=units.kB * protocol.temperature_kelvin,
        friction=protocol.friction_per_ps / (1000.0 * units.fs),
        max_kinetic_energy=1.5 * len(run.atoms) * units.kB * limit,
        max_move=SKIN / 2,
    )


def _with_spare(array: np.ndarray) -> jax.Array:
    """Device array with one more row, of the spare atom."""
    return jnp.asarray(np.vstack([array, np.zeros(3)]), jnp.float32)


def _length(edges: Edges | None) -> int | None:
    return None if edges is None else len(edges)


@partial(jax.jit, static_argnums=0)
def _advance(
    program: Program, params: Any, graph: Graph, state: State, outers: Outers, settings: Settings, until: int
) -> State:
    """Steps until `until`, or until one cannot be taken or shows a failure."""
    force = partial(_forces, program, params, graph, outers)

    def running(state: State) -> jax.Array:
        status = state.status
        return (state.step < until) & ~status.stale & ~status.overflow & status.finite & ~status.exploded

    def step(state: State) -> State:
        md, new = _integrate(state.md, settings, program.ensemble, force)
        kinetic = 0.5 * jnp.sum(jnp.square(md.momentum) / md.mass)
        status = _judge(program.capacity, md, new, kinetic, outers, settings)
        taken = State(md, new.energy, kinetic, state.step + 1, new.pairs, status)
        refused = state._replace(pairs=new.pairs, status=status)
        return jax.tree.map(partial(jnp.where, status.stale | status.overflow), refused, taken)

    return jax.lax.while_loop(running, step, state)


def _integrate(
    md: simulate.NVTLangevinState,
    settings: Settings,
    ensemble: Ensemble,
    force: Callable[[jax.Array], Forces],
) -> tuple[simulate.NVTLangevinState, Forces]:
    """One step: BAOAB for Langevin (10.1063/1.4916312), velocity Verlet for NVE."""
    half = settings.timestep / 2
    md = simulate.momentum_step(md, half)
    md = simulate.position_step(md, _shift, half)
    if ensemble is Ensemble.NVT_LANGEVIN:
        md = simulate.stochastic_step(md, settings.timestep, settings.thermal_energy, settings.friction)
    md = simulate.position_step(md, _shift, half)
    new = force(md.position)
    md = simulate.momentum_step(md.set(force=new.forces), half)
    # The spare atom rests, so that it heats nothing.
    return md.set(momentum=md.momentum.at[-1].set(0.0)), new


def _shift(position: jax.Array, displacement: jax.Array, **_: Any) -> jax.Array:
    """Positions stay unwrapped: the cells that a pair crosses are counted in its shift."""
    return position + displacement


def _judge(
    capacity: Shape,
    md: simulate.NVTLangevinState,
    new: Forces,
    kinetic: jax.Array,
    outers: Outers,
    settings: Settings,
) -> Status:
    moved = jnp.max(jnp.sum(jnp.square(md.position - outers.built_at)[:-1], axis=-1))
    finite = jnp.isfinite(new.forces).all() & jnp.isfinite(new.energy) & jnp.isfinite(kinetic)
    exploded = finite & (kinetic > settings.max_kinetic_energy)
    short, long = new.pairs
    overflow = (short > capacity.edges) | (long > (capacity.long_range_edges or 0))
    sane = finite & ~exploded
    return Status(sane & (moved > settings.max_move**2), sane & overflow, finite, exploded)


def _forces(program: Program, params: Any, graph: Graph, outers: Outers, position: jax.Array) -> Forces:
    """Energy (eV) and forces (eV/Å) at given positions, from the pairs that are within the cutoff there."""
    from mlipaudit.backends.mlip_force_field import evaluate

    field, capacity = program.force_field, program.capacity
    cell = graph.globals.cell[0]
    short, num_short = _sift(outers.short, position, cell, field.cutoff_distance, capacity.edges)
    changes: dict[str, Any] = {
        "nodes": graph.nodes.replace(positions=position),
        "senders": short.senders,
        "receivers": short.receivers,
        "n_edge": jnp.stack([num_short, capacity.edges - num_short]),
        "edges": graph.edges.replace(shifts=short.shifts if capacity.periodic else None),
    }
    num_long = jnp.zeros_like(num_short)
    if outers.long is not None:
        room = capacity.long_range_edges or 0
        long, num_long = _sift(outers.long, position, cell, field.long_range_cutoff_distance, room)
        changes |= {
            "senders_long_range": long.senders,
            "receivers_long_range": long.receivers,
            "n_edge_long_range": jnp.stack([num_long, room - num_long]),
            "edges_long_range": graph.edges_long_range.replace(shifts=long.shifts if capacity.periodic else None),
        }
    answers = evaluate(field, params, graph.replace(**changes), forces=True)
    energy = jnp.sum(answers["node_energy"][:-1]) if "node_energy" in answers else answers["energy"].reshape(-1)[0]
    return Forces(answers["forces"].at[-1].set(0.0), energy, (num_short, num_long))


def _sift(outer: Outer, position: jax.Array, cell: jax.Array, cutoff: float, room: int) -> tuple[Outer, jax.Array]:
    """The candidate pairs within `cutoff`, in order, padded to `room`; and how many there are."""
    vectors = position[outer.receivers] - position[outer.senders] + outer.shifts @ cell
    spare = position.shape[0] - 1
    inside = (jnp.sum(jnp.square(vectors), axis=-1) <= cutoff**2) & (outer.senders != spare)
    (chosen,) = jnp.nonzero(inside, size=room, fill_value=outer.senders.shape[0] - 1)
    return Outer(*(array[chosen] for array in outer)), jnp.sum(inside, dtype=jnp.int32)
