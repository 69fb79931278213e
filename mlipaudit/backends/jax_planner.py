# SPDX-License-Identifier: Apache-2.0
"""Which systems advance together, decided by measuring.

On an accelerator a batch costs hardly more than its largest member, so systems go together as far as memory allows. On
a CPU a batch is slower than its members one by one (0.7 of their speed, measured with a MACE) and leaves cores idle:
there every core takes systems singly, all in one compiled program with room for the largest. That is where a run
begins; when it will take much longer than compiling does, the other way is tried for a few steps, and the faster of
the two goes on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from mlipaudit.backends.barostat import barostat_for
from mlipaudit.backends.contract import SystemRun, Trajectory
from mlipaudit.backends.dynamics import has_ended, resume
from mlipaudit.backends.jax_batch import ENGINE, Batch, Compiled, Room
from mlipaudit.backends.jax_batching import device_edges_target
from mlipaudit.failures import Failure, FailureKind

if TYPE_CHECKING:
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

TRIAL_STEPS = 20
WORTH_A_TRIAL = 20.0
"""Times as long as compiling that a run must take before the other way is tried."""
CLEARLY_FASTER = 0.9
HOPE = 0.1
"""How likely it is that another benchmark will use a program with more room than was needed."""
COMPILE_SECONDS = 10.0
"""Of a program that has not been compiled yet: a small MACE on a CPU."""


@dataclass
class Member:
    """A system on its way: its run, where it is, and what room it takes."""

    run: SystemRun
    state: dict[str, np.ndarray] | None
    room: Room

    @property
    def step(self) -> int:
        """The step it is at; -1 before the first forces."""
        return -1 if self.state is None else int(self.state["step"])

    @property
    def steps_left(self) -> int:
        """Steps to the end of its protocol."""
        return self.run.protocol.num_steps - max(self.step, 0)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What members of one batch must share."""
        return bool(self.run.atoms.pbc.any()), self.step


def simulate_together(backend: ForceFieldBackend, runs: Sequence[SystemRun]) -> None:
    """Advance every run to the end of its protocol or to its failure."""
    members = [member for run in runs if (member := _prepare(backend, run))]
    by_kind = sorted(members, key=lambda member: member.kind)
    for _, group in groupby(by_kind, key=lambda member: member.kind):
        _simulate_group(backend, sorted(group, key=lambda member: -member.room.pairs))


def _prepare(backend: ForceFieldBackend, run: SystemRun) -> Member | None:
    """The run, continued from its checkpoint; None where it is over, or cannot begin."""
    try:
        state = resume(run, ENGINE)
        if state is not None:
            ended = has_ended(run, int(state["step"]))
            if run.meter:
                run.meter.add(run.protocol.num_steps if ended else int(state["step"]))
            if ended:
                return None
        barostat_for(run)  # which says what it needs
        return Member(run, state, Room.needed_by(backend, run.atoms))
    except Exception as error:  # around a system: it costs only itself
        run.fail(Failure.from_exception(error))
        return None


def _simulate_group(backend: ForceFieldBackend, members: Sequence[Member]) -> None:
    """Advance members of one kind, largest first."""
    together = backend.md.batches_pay
    if together is None:
        together = jax.default_backend() != "cpu"
    if len(members) == 1 or not together:
        _one_by_one(backend, members)
    else:
        _in_batches(backend, members)


# Together


def _in_batches(backend: ForceFieldBackend, members: Sequence[Member]) -> None:
    for group in _filled(members, device_edges_target()):
        _run_batch(backend, group)


def _filled(members: Sequence[Member], max_pairs: int) -> list[list[Member]]:
    """Groups that fill the device; one that is too large by itself stays alone."""
    groups: list[list[Member]] = []
    for member in members:
        if groups and sum(m.room.pairs for m in groups[-1]) + member.room.pairs <= max_pairs:
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def _run_batch(backend: ForceFieldBackend, members: Sequence[Member]) -> None:
    """One batch to its end; halved when it does not fit in memory, taken apart when single systems are faster."""
    batch = Batch(backend, [m.run for m in members], Room.together([m.room for m in members]))
    try:
        batch.start([m.state for m in members])
        batch.run(until=max(members[0].step, 0) + 2 * TRIAL_STEPS)
        if len(members) > 1 and backend.md.batches_pay is None:
            left = _moved(batch, members)
            if _worth_a_trial(batch, sum(m.steps_left for m in left) / max(len(left), 1)):
                alone = sum(filter(None, (_seconds_per_step(backend, [m]) for m in left[:1]))) * len(left)
                backend.md.batches_pay = (batch.seconds_per_step or 0.0) * CLEARLY_FASTER <= alone
                if not backend.md.batches_pay:
                    return _one_by_one(backend, left)
        batch.run()
    except Exception as error:  # around a system, once the batch is one
        _after_failure(backend, batch, members, Failure.from_exception(error))


def _after_failure(backend: ForceFieldBackend, batch: Batch, members: Sequence[Member], failure: Failure) -> None:
    left = _moved(batch, members)
    if failure.kind is not FailureKind.OUT_OF_MEMORY or len(left) < 2:
        for member in left:
            member.run.fail(failure)
        return
    middle = len(left) // 2
    for half in (left[:middle], left[middle:]):
        _run_batch(backend, half)


def _moved(batch: Batch, members: Sequence[Member]) -> list[Member]:
    """The members that are not over, where the batch has brought them."""
    states: list[Any] = batch.states() if hasattr(batch, "state") and int(batch.state.step) >= 0 else []
    now = [replace(m, state=s) for m, s in zip(members, states, strict=True)] if states else list(members)
    return [m for m, is_open in zip(now, batch.open, strict=True) if is_open]


# One by one


def _one_by_one(backend: ForceFieldBackend, members: Sequence[Member]) -> None:
    """Every core takes one system at a time; the first, largest one shows how to group the others."""
    stop = threading.Event()
    if len(members) == 1:
        room = _room_for(backend, members)
        one_core = _would_wait_for_cores(backend, members[0], room)
        return _lane(backend, members[0], room, None, stop, one_core=one_core)()
    new = not backend.md.compiled
    first = _try_lane(backend, members[0], _room_for(backend, members), one_core=True)
    lanes: list[Callable[[], Any]] = []
    if first is not None:
        _try(first, members[0].run, lambda: first.run(until=max(members[0].step, 0) + 2 * TRIAL_STEPS))
        if _batch_is_faster(backend, first, members):
            return _in_batches_of_one_step(backend, [*_moved(first, members[:1]), *members[1:]])
    groups = split(
        [m.room.pairs for m in members],
        [m.steps_left for m in members],
        seconds_per_step=first.seconds_per_step if first else None,
        # The first program of a model is traced for the first time as well, which is half of it.
        compile_seconds=first.compile_seconds * (0.5 if new else 1.0) if first and first.compile_seconds else None,
        threads=_cores(),
    )
    for start, end in groups:
        room = _room_for(backend, members[start:end])
        for number in range(start, end):
            lane = first if number == 0 else None
            lanes.append(_lane(backend, members[number], room, lane, stop, one_core=True))
    _in_threads(lanes, stop)


def _room_for(backend: ForceFieldBackend, members: Sequence[Member]) -> Room:
    """Room for the largest, or more than that where the time it costs is less than a program compiled for it."""
    needed = Room.around([m.room for m in members])
    if any(m.run.observer for m in members):
        return needed  # somebody holds a stopwatch

    def costs(room: Room) -> float:
        steps = sum(m.steps_left for m in members) / min(_cores(), len(members))
        return steps * backend.md.seconds_per_pair * (room.pairs - needed.pairs)

    known = _compiled_for_one(backend, members[0])
    worth = [key.room for key, seconds in known if key.room.holds(needed) and costs(key.room) < seconds]
    if worth:
        return min(worth, key=lambda room: room.pairs)
    shared = needed.rounded_up()
    return shared if costs(shared) < HOPE * COMPILE_SECONDS else needed


def _would_wait_for_cores(backend: ForceFieldBackend, member: Member, room: Room) -> bool:
    """Whether a program for one core that is there is sooner done than one for all cores is compiled."""
    if member.run.observer:
        return False  # somebody holds a stopwatch
    there = {key.one_core: seconds for key, seconds in _compiled_for_one(backend, member) if key.room == room}
    seconds = member.steps_left * backend.md.seconds_per_pair * room.pairs
    return there.keys() == {True} and seconds < there[True]


def _compiled_for_one(backend: ForceFieldBackend, member: Member) -> list[tuple[Compiled, float]]:
    """Programs that advance a single system of this kind, and what they took to compile, s."""
    periodic = bool(member.run.atoms.pbc.any())
    return [
        (key, seconds)
        for key, seconds in list(backend.md.compiled.items())
        if key.num_systems == 1 and key.program.capacity.periodic is periodic
    ]


def _in_batches_of_one_step(backend: ForceFieldBackend, members: Sequence[Member]) -> None:
    """Batches of members that are at the same step."""
    by_step = sorted(members, key=lambda member: member.step)
    for _, group in groupby(by_step, key=lambda member: member.step):
        _in_batches(backend, list(group))


def _batch_is_faster(backend: ForceFieldBackend, first: Batch, members: Sequence[Member]) -> bool:
    """Whether all members in one batch advance faster than one by one; asked only where it can be worth the answer."""
    if len(members) < 2 or backend.md.batches_pay is not None or not first.seconds_per_step:
        return False
    threads = min(_cores(), len(members))
    if not _worth_a_trial(first, sum(m.steps_left for m in members) / threads):
        return False
    together = _seconds_per_step(backend, [replace(m, state=None) for m in members])
    alone = first.seconds_per_step * len(members) / threads
    backend.md.batches_pay = together is not None and together < CLEARLY_FASTER * alone
    return backend.md.batches_pay


def _worth_a_trial(batch: Batch, steps: float) -> bool:
    seconds, compiling = batch.seconds_per_step, batch.compile_seconds
    return bool(seconds and compiling and seconds * steps > WORTH_A_TRIAL * compiling)


def _seconds_per_step(backend: ForceFieldBackend, members: Sequence[Member]) -> float | None:
    """Measured on copies, that leave no trace."""
    runs = [
        replace(
            m.run, atoms=m.run.atoms.copy(), trajectory=Trajectory(), observer=None, meter=None, checkpoints=None
        )
        for m in members
    ]
    try:
        batch = Batch(backend, runs, Room.together([m.room for m in members]))
        batch.start([m.state for m in members])
        batch.run(until=max(members[0].step, 0) + 3 * TRIAL_STEPS)
        return batch.seconds_per_step
    except Exception:  # around a trial: the other way goes on
        return None


def _try_lane(backend: ForceFieldBackend, member: Member, room: Room, *, one_core: bool = False) -> Batch | None:
    lane = Batch(backend, [member.run], room, one_core=one_core and _cores() > 1)
    return lane if _try(lane, member.run, lambda: lane.start([member.state])) else None


def _lane(
    backend: ForceFieldBackend,
    member: Member,
    room: Room,
    lane: Batch | None,
    stop: threading.Event,
    *,
    one_core: bool = False,
) -> Callable[[], None]:
    def run() -> None:
        own = lane or _try_lane(backend, member, room, one_core=one_core)
        if own is not None:
            _try(own, member.run, lambda: own.run(stopped=stop.is_set))

    return run


def _try(lane: Batch, run: SystemRun, action: Callable[[], None]) -> bool:
    try:
        action()
    except Exception as error:  # around a system: it costs only itself
        run.fail(Failure.from_exception(error))
        lane.close()
    return run.trajectory.failure is None


def _in_threads(lanes: Sequence[Callable[[], None]], stop: threading.Event) -> None:
    """Run them on all cores; the device's work holds no lock of Python's."""
    threads = min(_cores(), len(lanes))
    if threads < 2:
        for lane in lanes:
            lane()
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(lane) for lane in lanes]
        try:
            wait(futures)
        finally:  # also when this thread's time is up: the others end at their next look around
            stop.set()
    for future in futures:
        future.result()


def _cores() -> int:
    """Systems to run at a time: one per core of this process, one per accelerator."""
    return len(os.sched_getaffinity(0)) if jax.default_backend() == "cpu" else 1


def split(
    pairs: Sequence[int],
    steps: Sequence[int],
    *,
    seconds_per_step: float | None,
    compile_seconds: float | None,
    threads: int,
) -> list[tuple[int, int]]:
    """Groups of systems, as ranges, each of which shares one compiled program with room for its largest.

    Room that a system does not fill costs time in every step; a program more costs its compilation, once.

    Args:
        pairs: neighbour pairs of each system, descending.
        steps: that each has to take.
        seconds_per_step: of a program with room for the first one; unknown means one group.
        compile_seconds: of that program.
        threads: that share the work.
    """
    if not (seconds_per_step and compile_seconds):
        return [(0, len(pairs))]
    price = seconds_per_step / max(pairs[0], 1) / threads

    def ranges(start: int, end: int) -> list[tuple[int, int]]:
        saved = {i: sum(steps[i:end]) * price * (pairs[start] - pairs[i]) for i in range(start + 1, end)}
        cut = max(saved, key=lambda i: saved[i], default=end)
        if cut == end or saved[cut] <= compile_seconds:
            return [(start, end)]
        return ranges(start, cut) + ranges(cut, end)

    return ranges(0, len(pairs))
