# SPDX-License-Identifier: Apache-2.0
"""Systems that advance together through molecular dynamics: neighbour lists, samples and failures on the host."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ase import Atoms, units
from mlip.graph import Graph

from mlipaudit.backends.barostat import barostat_for
from mlipaudit.backends.contract import SystemRun
from mlipaudit.backends.dynamics import append_frame, initial_velocities, temperature_of, unphysical
from mlipaudit.backends.graph_calculator import grown
from mlipaudit.backends.jax_batching import Edges, Shape, Structure, find_edges, pack, pack_edges
from mlipaudit.backends.jax_dynamics import (
    Inputs,
    Outer,
    Outers,
    Program,
    Settings,
    State,
    Status,
    Topology,
    advance,
    advance_on_one_core,
    simulate,
)
from mlipaudit.failures import Failure, FailureKind, NeighbourOverflowError
from mlipaudit.protocol import Ensemble

if TYPE_CHECKING:
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

SKIN = 1.0
"""Å added to the cutoff for the outer list; an atom may move half of it before the list is rebuilt."""
CHUNK_SECONDS = 5.0
"""Longest time on the device without a look at the clock, at progress and at whether to stop."""
ALMOST_ALL = 0.85
"""Of all pairs of a small molecule: then there is room for all."""
ENGINE = "jax_md"


@dataclass(frozen=True)
class Room:
    """Capacity that batches of one class start with, so that they share one compiled program."""

    atoms: int
    pairs: int
    long_pairs: int
    outer: int
    outer_long: int

    @classmethod
    def around(cls, needs: Sequence[Room]) -> Room:
        """Room for the largest of several."""
        return cls(*(max(getattr(n, name) for n in needs) for name in cls.__dataclass_fields__))

    @classmethod
    def together(cls, needs: Sequence[Room]) -> Room:
        """Room for all of several at once."""
        return cls(*(sum(getattr(n, name) for n in needs) for name in cls.__dataclass_fields__))

    def holds(self, need: Room) -> bool:
        """Whether it is enough for a need."""
        return all(getattr(self, name) >= getattr(need, name) for name in self.__dataclass_fields__)

    def rounded_up(self) -> Room:
        """The next of few sizes, so that different systems can share a program."""
        pairs, long, outer, outer_long = (
            64 * 4 ** max(0, math.ceil(math.log(size / 64, 4)))
            for size in (self.pairs, self.long_pairs, self.outer, self.outer_long)
        )
        return Room(16 * 2 ** max(0, math.ceil(math.log2(self.atoms / 16))), pairs, long, outer, outer_long)

    @classmethod
    def needed_by(cls, backend: ForceFieldBackend, atoms: Atoms) -> Room:
        """What one system needs from its starting positions on, and some to spare where more is possible."""
        long = backend.force_field.long_range_cutoff_distance
        all_pairs = None if atoms.pbc.any() else len(atoms) * (len(atoms) - 1)

        def room(cutoff: float | None) -> int:
            if cutoff is None:
                return 1
            spared = grown(len(find_edges(atoms, cutoff)), growths=1)
            if all_pairs is not None and spared > ALMOST_ALL * all_pairs:
                return max(all_pairs, 1)  # a list that can never overflow
            return spared

        outer_long = None if long is None else long + SKIN
        short, outer = room(backend.cutoff), room(backend.cutoff + SKIN)
        return cls(
            len(atoms), short, room(long), outer + 1, room(outer_long) + 1
        )  # outer lists end in a spare pair


class Compiled(NamedTuple):
    """What a program is compiled for."""

    program: Program
    num_systems: int
    outer: int
    outer_long: int
    one_core: bool

    @property
    def room(self) -> Room:
        """Capacity of its batches."""
        capacity = self.program.capacity
        long = capacity.long_range_edges or 1
        return Room(capacity.atoms - 1, capacity.edges, long, self.outer, self.outer_long)


class Batch:
    """Systems in one program, their state and neighbour lists on host and device."""

    def __init__(
        self, backend: ForceFieldBackend, runs: Sequence[SystemRun], room: Room, *, one_core: bool = False
    ) -> None:
        self.backend, self.runs = backend, list(runs)
        self._one_core = one_core
        self.atoms = [run.atoms for run in runs]
        self._sizes = [len(atoms) for atoms in self.atoms]
        self._starts = np.cumsum([0, *self._sizes]).tolist()
        self._constants = [backend.energy_of_atoms(atoms.numbers) for atoms in self.atoms]
        self._open = [True] * len(self.runs)
        self._counted = [0] * len(self.runs)
        self._barostats = [barostat_for(run) for run in self.runs]
        self._growths = {"pairs": 0, "outer": 0, "outer_long": 0}
        self._room = replace(room, atoms=max(room.atoms, self._starts[-1]))
        self._compiled = False
        self.graph: Graph
        self.outers: Outers
        self.state: State
        self.seconds_per_step: float | None = None
        self.compile_seconds: float | None = None

    # Starting and ending

    def start(self, states: Sequence[dict[str, np.ndarray] | None]) -> None:
        """Neighbour lists, and the state to begin with: a checkpoint's, or one before step 0 without forces.

        Args:
            states: one per system, all at the same step.
        """
        for atoms, known in zip(self.atoms, states, strict=True):
            if known is not None:
                atoms.positions = known["position"]
                atoms.set_cell(known["cell"])
        for barostat, known in zip(self._barostats, states, strict=True):
            if barostat and known is not None:
                barostat.restore(known)
        if states[0] is not None:
            self._counted = [int(states[0]["step"])] * len(self.runs)
        self._use_room(self._room.pairs, self._room.long_pairs)
        self._rebuild()
        first = [
            self._first_state(run) if known is None else known
            for run, known in zip(self.runs, states, strict=True)
        ]
        self.state = self._as_state(first)

    def _first_state(self, run: SystemRun) -> dict[str, np.ndarray]:
        velocities = initial_velocities(run.atoms, run.protocol.temperature_kelvin, run.seed)
        zeros = np.zeros((len(run.atoms), 3))
        return {
            "position": run.atoms.positions,
            "momentum": velocities * run.atoms.get_masses()[:, None],
            "force": zeros,
            "energies": zeros[:, 0],
            "kinetic_energy": np.array(0.0),
            "step": np.array(-1),
        }

    def _as_state(self, parts: Sequence[dict[str, np.ndarray]]) -> State:
        def joined(name: str, width: tuple[int, ...] = (3,)) -> jax.Array:
            padded = np.zeros((self._room.atoms + 1, *width), np.float32)
            padded[: self._starts[-1]] = np.concatenate([part[name] for part in parts])
            return jnp.asarray(padded)

        mass = np.ones((self._room.atoms + 1, 1), np.float32)
        mass[: self._starts[-1], 0] = np.concatenate([atoms.get_masses() for atoms in self.atoms])
        slots = len(parts) + 1
        no_pairs = jnp.zeros(slots, jnp.int32)
        return State(
            md=simulate.NVEState(joined("position"), joined("momentum"), joined("force"), jnp.asarray(mass)),
            energies=joined("energies", ()),
            kinetic_energy=jnp.asarray([*(float(part["kinetic_energy"]) for part in parts), 0.0], jnp.float32),
            step=jnp.asarray(int(parts[0]["step"]), jnp.int32),
            alive=jnp.asarray([*self._open, False]),
            failed_at=no_pairs - 1,
            finite=no_pairs == 0,
            pairs=(no_pairs, no_pairs),
            status=self._running(),
        )

    def _running(self) -> Status:
        return Status(jnp.zeros(len(self.runs) + 1, bool), jnp.zeros((), bool))

    def states(self) -> list[dict[str, np.ndarray]]:
        """Where every system is now, as `start` takes it and a checkpoint keeps it."""
        state = jax.device_get(self.state)
        arrays = {
            "position": state.md.position,
            "momentum": state.md.momentum,
            "force": state.md.force,
            "energies": state.energies,
        }
        return [
            {name: np.array(array[start:end]) for name, array in arrays.items()}
            | {"kinetic_energy": np.array(kinetic), "step": np.array(state.step), "cell": np.array(atoms.cell)}
            | (barostat.state() if barostat else {})
            for start, end, kinetic, atoms, barostat in zip(
                self._starts[:-1],
                self._starts[1:],
                state.kinetic_energy[:-1],
                self.atoms,
                self._barostats,
                strict=True,
            )
        ]

    @property
    def open(self) -> list[bool]:
        """Which systems are not over."""
        return list(self._open)

    def close(self) -> None:
        """End all that are not over, without a word."""
        self._open = [False] * len(self.runs)

    # Running

    def run(self, *, until: int | None = None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Advance all systems to the ends of their protocols, or as far as `until`.

        Raises:
            RuntimeError: the device is out of memory, among others; systems and samples are as they were.
        """
        step = int(self.state.step)
        if step < 0:
            step = self._advance_and_look(0)
        while any(self._open) and (until is None or step < until) and not stopped():
            stop = self._next_stop(step)
            step = self._advance_and_look(stop)

    def _next_stop(self, step: int) -> int:
        """The next step at which a system wants a look, but not further than a few seconds away."""
        stops = (next_stop(run, step) for run, is_open in zip(self.runs, self._open, strict=True) if is_open)
        reachable = (
            step + max(1, int(CHUNK_SECONDS / self.seconds_per_step)) if self.seconds_per_step else step + 20
        )
        return min(*stops, reachable)

    def _advance_and_look(self, stop: int) -> int:
        self._advance_to(stop)
        self._note_failures(stop)
        self._change_volumes(stop)
        due = [i for i, is_open in enumerate(self._open) if is_open]
        self._sample([i for i in due if stop % self.runs[i].protocol.snapshot_interval == 0], stop)
        for i in due:
            self._count(i, stop)
            if self._report(i, stop):
                self._close(i)
        self._keep(due)
        return stop

    def _report(self, i: int, stop: int) -> bool:
        """Tell the observer if it is due; whether the system has come to its end."""
        run = self.runs[i]
        last = stop == run.protocol.num_steps
        if not last and stop % run.protocol.log_interval:
            return False
        compiled = self._compiled
        self._compiled &= i != len(self.runs) - 1  # the last to be told
        return run.report(stop, compiled=compiled) or last

    def _count(self, i: int, steps: int) -> None:
        """Progress, as far as it is not yet told."""
        if (meter := self.runs[i].meter) and steps > self._counted[i]:
            meter.add(steps - self._counted[i])
        self._counted[i] = max(steps, self._counted[i])

    def _advance_to(self, stop: int) -> None:
        """Run up to a step, with new lists as often as needed."""
        rebuilt_at = -2
        while True:
            self.state = self._run_until(stop)
            status, now, pairs = jax.device_get((self.state.status, self.state.step, self.state.pairs))
            if not (status.stale.any() or status.overflow):
                return
            if status.stale.any() and rebuilt_at == now:
                message = f"an atom moved more than {SKIN / 2} Å in step {now + 1}"
                for i in np.flatnonzero(status.stale[:-1]).tolist():
                    self._end(i, Failure(kind=FailureKind.EXPLODED, message=message))
            if status.overflow:
                self._grow(pairs)
            self._fetch_positions()
            self._rebuild()
            rebuilt_at = now if status.stale.any() else -2

    def _run_until(self, stop: int, *, state: State | None = None, settings: Settings | None = None) -> State:
        state = (state or self.state)._replace(status=self._running())
        inputs = Inputs(self.backend.params, self.graph, self.topology, self.outers, settings or self.settings)
        key = Compiled(self.program, len(self.runs), self._room.outer, self._room.outer_long, self._one_core)
        program = advance_on_one_core() if self._one_core else advance
        before = int(state.step)
        with first_time(self.backend, key) as compiles:
            clock = time.perf_counter()  # not while another thread compiles
            new = jax.block_until_ready(program(self.program, inputs, state, stop))
            seconds = time.perf_counter() - clock
            if compiles:
                self.backend.md.compiled[key] = seconds
                self._compiled = True
        if not compiles and int(new.step) > before:
            self.seconds_per_step = seconds / (int(new.step) - before)
            self.backend.md.seconds_per_pair = self.seconds_per_step / self.program.capacity.edges
        self.compile_seconds = self.backend.md.compiled[key]
        return new

    # Volumes

    def _change_volumes(self, step: int) -> None:
        """Try other volumes where it is time for it; those that are refused stay as they were."""
        due = [i for i, b in enumerate(self._barostats) if b and self._open[i] and b.is_due(step)]
        if not due:
            return
        before, lists, energies = self.state, self.outers, self._energies()
        self._fetch_positions()
        old = [(atoms.positions.copy(), atoms.cell.copy()) for atoms in self.atoms]
        for i in due:
            self._barostats[i].propose(self.atoms[i], step=step)  # type: ignore[union-attr]
        self._evaluate()
        changes = self._energies() - energies
        kept = [
            i
            for i in due
            if self._barostats[i].decide(  # type: ignore[union-attr]
                step=step, energy_change=changes[i], volume_before=old[i][1].volume
            )
        ]
        for i in set(due) - set(kept):
            self.atoms[i].positions = old[i][0]
            self.atoms[i].set_cell(old[i][1])
        self._use_cells()
        self.state = self._merged(before, self.state, kept)
        if not kept:
            self.outers = lists
        elif len(kept) < len(due):
            self._rebuild()

    def _energies(self) -> np.ndarray:
        """eV, of every system, without the fixed energies of its atoms."""
        parts = np.asarray(self.state.energies, np.float64)
        bounds = zip(self._starts[:-1], self._starts[1:], strict=True)
        return np.array([parts[start:end].sum() for start, end in bounds])

    def _evaluate(self) -> None:
        """Energies and forces of the systems where their structures are now: a step of no length."""
        self._use_cells()
        self._rebuild()
        still = self.settings._replace(
            timestep=jnp.zeros_like(self.settings.timestep), friction=jnp.zeros_like(self.settings.friction)
        )
        position = np.array(self.state.md.position)
        position[: self._starts[-1]] = np.concatenate([atoms.positions for atoms in self.atoms])
        state = self.state._replace(md=self.state.md.set(position=jnp.asarray(position)))
        while True:
            self.state = self._run_until(int(state.step) + 1, state=state, settings=still)
            if not bool(self.state.status.overflow):
                break
            self._grow(jax.device_get(self.state.pairs))
        lost = ~self.state.alive[self.topology.system] & state.alive[self.topology.system]
        self.state = self.state._replace(energies=jnp.where(lost, jnp.inf, self.state.energies))

    def _merged(self, before: State, after: State, kept: Sequence[int]) -> State:
        """The state before, with the systems that were kept as they are after."""
        mask = np.zeros(len(self.runs) + 1, bool)
        mask[list(kept)] = True
        own = jnp.asarray(mask)[self.topology.system]
        return before._replace(
            md=before.md.set(
                position=jnp.where(own[:, None], after.md.position, before.md.position),
                force=jnp.where(own[:, None], after.md.force, before.md.force),
            ),
            energies=jnp.where(own, after.energies, before.energies),
            alive=jnp.asarray([*self._open, False]),
        )

    def _use_cells(self) -> None:
        cell = np.zeros((len(self.runs) + 1, 3, 3), np.float32)
        cell[:-1] = [np.asarray(atoms.cell) for atoms in self.atoms]
        self.graph = self.graph.replace(globals=self.graph.globals.replace(cell=jnp.asarray(cell)))

    # Failures

    def _note_failures(self, stop: int) -> None:
        """Name what the device has found."""
        failed_at, finite, kinetic = jax.device_get(
            (self.state.failed_at, self.state.finite, self.state.kinetic_energy)
        )
        for i, run in enumerate(self.runs):
            if self._open[i] and failed_at[i] >= 0:
                failure = unphysical(
                    finite=bool(finite[i]),
                    temperature=temperature_of(float(kinetic[i]), self._sizes[i]),
                    step=int(failed_at[i]),
                    frame=len(run.trajectory.steps),
                    protocol=run.protocol,
                )
                self._end(i, failure or Failure(kind=FailureKind.EXPLODED, message=f"in step {failed_at[i]}"))

    def _end(self, i: int, failure: Failure) -> None:
        """A system that leaves with a failure."""
        self.runs[i].fail(failure)
        self._count(i, self.runs[i].protocol.num_steps)
        self._close(i)

    def _close(self, i: int) -> None:
        self._open[i] = False
        self.state = self.state._replace(alive=self.state.alive.at[i].set(False))
        self._checkpoint([i])

    def _grow(self, pairs: tuple[np.ndarray, np.ndarray]) -> None:
        """More room for pairs."""
        try:
            self._growths["pairs"] += 1
            self._use_room(*(grown(int(counts.sum()), growths=1 + self._growths["pairs"]) for counts in pairs))
        except NeighbourOverflowError as error:
            self._blame(pairs[0][:-1], self.backend.cutoff, error)
            self._growths["pairs"] = 0  # one system less: still bounded

    def _blame(self, pairs: np.ndarray, cutoff: float, error: NeighbourOverflowError) -> None:
        """At the limit of growth, the system leaves whose list has grown most since the start."""
        starts = [atoms.copy() for atoms in self.atoms]
        for atoms, run in zip(starts, self.runs, strict=True):
            atoms.positions = run.start
        before = np.array([len(find_edges(atoms, cutoff)) for atoms in starts])
        growth = np.where(self._open, pairs / np.maximum(before, 1), -1.0)
        self._end(int(growth.argmax()), Failure.from_exception(error))

    # Samples

    def _sample(self, due: Sequence[int], step: int) -> None:
        if not due:
            return
        position, energies, kinetic = jax.device_get(
            (self.state.md.position, self.state.energies, self.state.kinetic_energy)
        )
        for i in due:
            own = slice(self._starts[i], self._starts[i + 1])
            append_frame(
                self.runs[i],
                step=step,
                positions=position[own],
                potential_energy=float(energies[own].sum(dtype=np.float64)) + self._constants[i],
                kinetic_energy=kinetic[i],
            )

    def _keep(self, due: Sequence[int]) -> None:
        """Write checkpoints if it is time."""
        still = [i for i in due if self._open[i]]
        if still and (kept := self.runs[still[0]].checkpoints) and kept.due(self.runs[still[0]]):
            self._checkpoint(still)

    def _checkpoint(self, indices: Sequence[int]) -> None:
        if not any(self.runs[i].checkpoints for i in indices):
            return
        states = self.states()
        for i in indices:
            run = self.runs[i]
            if run.checkpoints:
                run.checkpoints.write(run, ENGINE, states[i])

    # Neighbours

    def _use_room(self, pairs: int, long_pairs: int) -> None:
        has_long = self.backend.force_field.long_range_cutoff_distance is not None
        capacity = Shape(
            atoms=self._room.atoms + 1,
            edges=pairs,
            graphs=len(self.runs) + 1,
            long_range_edges=long_pairs if has_long else None,
            periodic=any(bool(atoms.pbc.any()) for atoms in self.atoms),
        )
        self.program = Program(self.backend.skeleton, capacity, SKIN / 2)
        bare = [Structure(atoms, _NO_EDGES, _NO_EDGES if has_long else None) for atoms in self.atoms]
        self.graph = jax.device_put(pack(bare, capacity))
        self.topology, self.settings = self._topology(capacity), self._settings()

    def _topology(self, capacity: Shape) -> Topology:
        system = np.full(capacity.atoms, len(self.runs), np.int32)
        local = np.zeros(capacity.atoms, np.int32)
        for i, (start, size) in enumerate(zip(self._starts[:-1], self._sizes, strict=True)):
            system[start : start + size] = i
            local[start : start + size] = np.arange(size)
        return Topology(*jax.device_put((system, local)))

    def _settings(self) -> Settings:
        rows = [_numbers(run) for run in self.runs]
        columns = [jnp.asarray([*column, column[0]], jnp.float32) for column in zip(*rows, strict=True)]
        seeds = [np.random.SeedSequence((*run.seed, 1)).generate_state(1)[0] for run in self.runs]
        keys = jax.vmap(jax.random.key)(jnp.asarray([*seeds, 0], jnp.uint32))
        timestep, thermal_energy, friction, limit = columns
        return Settings(timestep, thermal_energy, friction, limit, keys)

    def _fetch_positions(self) -> None:
        position = np.asarray(self.state.md.position, np.float64)
        for atoms, start, end in zip(self.atoms, self._starts[:-1], self._starts[1:], strict=True):
            atoms.positions = position[start:end]

    def _rebuild(self) -> None:
        """Find the outer lists at the current positions."""
        short, long = self.backend.cutoff, self.backend.force_field.long_range_cutoff_distance
        built_at = np.zeros((self._room.atoms + 1, 3), np.float32)
        built_at[: self._starts[-1]] = np.concatenate([atoms.positions for atoms in self.atoms])
        self.outers = Outers(
            built_at=jnp.asarray(built_at),
            short=self._outer("outer", short),
            long=None if long is None else self._outer("outer_long", long),
        )

    def _outer(self, which: str, cutoff: float) -> Outer:
        lists = [
            find_edges(atoms, cutoff + SKIN) if is_open else _NO_EDGES
            for atoms, is_open in zip(self.atoms, self._open, strict=True)
        ]
        needed = sum(map(len, lists)) + 1
        if needed > getattr(self._room, which):
            self._growths[which] += 1
            try:
                more = {which: grown(needed, growths=1 + self._growths[which])}
                self._room = replace(self._room, **more)
            except NeighbourOverflowError as error:
                self._blame(np.array([len(edges) for edges in lists]), cutoff + SKIN, error)
                self._growths[which] = 0
                return self._outer(which, cutoff)
        padded = pack_edges(lists, self._starts[:-1], getattr(self._room, which), self._room.atoms)
        return Outer(*jax.device_put((padded.senders, padded.receivers, padded.shifts)))


_NO_EDGES = Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 3), np.float32))


def next_stop(run: SystemRun, step: int) -> int:
    """The first step after `step` at which a run halts for a frame or a report, or ends."""
    protocol = run.protocol
    intervals = [protocol.snapshot_interval, protocol.log_interval]
    if protocol.ensemble is Ensemble.NPT_LANGEVIN:
        intervals.append(protocol.barostat_interval)
    return min(*((step // every + 1) * every for every in intervals), protocol.num_steps)


def _numbers(run: SystemRun) -> tuple[float, float, float, float]:
    """Time step, thermal energy, friction and the limit of the kinetic energy, in ASE units."""
    protocol = run.protocol
    limit = protocol.temperature_kelvin + protocol.max_temperature_rise_kelvin
    friction = 0.0 if protocol.ensemble is Ensemble.NVE else protocol.friction_per_ps
    return (
        protocol.timestep_fs * units.fs,
        units.kB * protocol.temperature_kelvin,
        friction / (1000.0 * units.fs),
        1.5 * len(run.atoms) * units.kB * limit,
    )


@contextmanager
def first_time(backend: ForceFieldBackend, key: Any) -> Iterator[bool]:
    """Whether a program is used for the first time, and so compiles; others that need it wait until it has."""
    shared = backend.md
    with shared.lock:
        lock = shared.waiting.setdefault(key, threading.Lock())
    if key in shared.compiled:
        yield False
        return
    with lock:
        compiles = key not in shared.compiled
        yield compiles
