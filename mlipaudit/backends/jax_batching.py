# SPDX-License-Identifier: Apache-2.0
"""Structures as padded graphs: few shapes, so that a whole run compiles a handful of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from ase import Atoms
from mlip.graph import Graph, GraphEdges, GraphGlobals, GraphNodes
from mlip.graph.edge_ordering import DEFAULT_EDGE_ORDERING
from mlip.graph.neighborhood import get_neighborhood

from mlipaudit.backends.neighbours import neighbours_of


@dataclass(frozen=True)
class Edges:
    """Directed neighbour pairs, sorted by sender as mlip's kernels want them."""

    senders: np.ndarray
    receivers: np.ndarray
    shifts: np.ndarray
    """Cells crossed, [edges, 3]; zero without periodicity."""

    def __len__(self) -> int:
        return len(self.senders)


@dataclass(frozen=True)
class Structure:
    """One system with its neighbour lists."""

    atoms: Atoms
    edges: Edges
    long_range: Edges | None

    @property
    def periodic(self) -> bool:
        """Whether any direction is periodic."""
        return bool(self.atoms.pbc.any())


@dataclass(frozen=True)
class Shape:
    """Capacity of a padded batch: one spare atom and one spare graph take the padding."""

    atoms: int
    edges: int
    graphs: int
    long_range_edges: int | None = None
    periodic: bool = False


def find_edges(atoms: Atoms, cutoff: float) -> Edges:
    """Neighbour pairs within `cutoff` Å."""
    if len(atoms) == 1 and not atoms.pbc.any():
        # matscipy cannot build a cell around one point.
        return Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 3), np.float32))
    periodic = bool(atoms.pbc.any())
    senders, receivers, shifts = get_neighborhood(
        positions=atoms.positions,
        cutoff=cutoff,
        pbc=tuple(bool(flag) for flag in atoms.pbc),
        cell=np.asarray(atoms.cell) if periodic else None,
        ordering=DEFAULT_EDGE_ORDERING,
    )
    if shifts is None:
        shifts = np.zeros((len(senders), 3), np.float32)
    return Edges(senders.astype(np.int32), receivers.astype(np.int32), shifts.astype(np.float32))


def build_structure(atoms: Atoms, cutoff: float, long_range_cutoff: float | None) -> Structure:
    """A system with the neighbour lists that a model needs."""
    long_range = None if long_range_cutoff is None else find_edges(atoms, long_range_cutoff)
    return Structure(atoms, find_edges(atoms, cutoff), long_range)


def build_structures(systems: Sequence[Atoms], cutoff: float, long_range_cutoff: float | None) -> list[Structure]:
    """The same of many systems, whose neighbour lists other models may have found already."""

    def lists(radius: float) -> list[Edges]:
        return neighbours_of(systems, radius, lambda: [find_edges(atoms, radius) for atoms in systems])

    long_range: Sequence[Edges | None] = [None] * len(systems)
    if long_range_cutoff is not None:
        long_range = lists(long_range_cutoff)
    return [Structure(*parts) for parts in zip(systems, lists(cutoff), long_range, strict=True)]


def round_up(n: int) -> int:
    """The next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, …: few values, at most a quarter too large."""
    if n <= 8:
        return max(n, 1)
    step = 1 << ((n - 1).bit_length() - 3)
    return -(-n // step) * step


def plan_batches(structures: Sequence[Structure], target_edges: int) -> list[tuple[list[int], Shape]]:
    """Which structures go together, and how far each batch is padded.

    Structures are sorted by size and packed until a batch is full. What a batch has room for does not depend on the
    structures but on `target_edges` only, so that all benchmarks of a run share two or three compiled programs; a
    structure that is larger than that gets a batch for itself.
    """
    by_size = sorted(range(len(structures)), key=lambda i: (structures[i].periodic, -len(structures[i].edges), i))
    batches: list[list[int]] = []
    for periodic in (False, True):
        own = [i for i in by_size if structures[i].periodic is periodic]
        batches += _filled(own, structures, _room_for(own, structures, target_edges))
    return _with_shapes(batches, structures, target_edges)


def _room_for(indices: Sequence[int], structures: Sequence[Structure], target_edges: int) -> Shape:
    """The largest room, unless two batches of the middle one are enough: less padding, and often a shape less."""
    largest, middle, _ = _rooms(indices, structures, target_edges)
    alone = all(_fits([structures[i]], middle) for i in indices)
    return middle if alone and len(_filled(indices, structures, middle)) == 2 else largest


def _rooms(indices: Sequence[int], structures: Sequence[Structure], target_edges: int) -> list[Shape]:
    """Capacities to choose from, largest first: the target, an eighth and a 64th of it."""
    edges = sum(len(structures[i].edges) for i in indices)
    atoms = sum(len(structures[i].atoms) for i in indices)
    # How many neighbours atoms have depends on the cutoff; in powers of two, or every benchmark had its own shape.
    neighbours = next((n for n in (32, 16) if atoms and edges / atoms >= n), 8)
    sizes = [max(target_edges // part, 1) for part in (1, 8, 64)]
    periodic = any(structures[i].periodic for i in indices)
    return [Shape(size // neighbours + 2, size, size // 32 + 2, None, periodic) for size in sizes]


def _filled(indices: Sequence[int], structures: Sequence[Structure], room: Shape) -> list[list[int]]:
    """Batches that fit into a room; one that is too large by itself stays alone."""
    batches: list[list[int]] = []
    for i in indices:
        if batches and _fits([structures[k] for k in (*batches[-1], i)], room):
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _fits(batch: Sequence[Structure], room: Shape) -> bool:
    """Whether there is room, and a spare atom and a spare graph left."""
    atoms, edges = sum(len(s.atoms) for s in batch), sum(len(s.edges) for s in batch)
    return atoms < room.atoms and edges <= room.edges and len(batch) < room.graphs


def _with_shapes(
    batches: Sequence[list[int]], structures: Sequence[Structure], target_edges: int
) -> list[tuple[list[int], Shape]]:
    """Each batch with the smallest room that it fits into; those with a long range share that capacity too."""
    planned = []
    for periodic in (False, True):
        own = [batch for batch in batches if structures[batch[0]].periodic is periodic]
        rooms = _rooms([i for batch in own for i in batch], structures, target_edges)
        planned += [(batch, _smallest([structures[i] for i in batch], rooms)) for batch in own]
    most: dict[Shape, int] = {}
    for batch, shape in planned:
        most[shape] = max(most.get(shape, 0), sum(_long_range(structures[i]) for i in batch))
    if structures and structures[0].long_range is None:
        return planned
    return [(batch, replace(shape, long_range_edges=round_up(most[shape]))) for batch, shape in planned]


def _smallest(batch: Sequence[Structure], rooms: Sequence[Shape]) -> Shape:
    fitting = [room for room in rooms if _fits(batch, room)]
    if fitting:
        return fitting[-1]
    atoms, edges = sum(len(s.atoms) for s in batch), sum(len(s.edges) for s in batch)
    return Shape(round_up(atoms + 1), round_up(edges), round_up(len(batch) + 1), None, batch[0].periodic)


def _long_range(structure: Structure) -> int:
    return 0 if structure.long_range is None else len(structure.long_range)


def exact_shape(structure: Structure) -> Shape:
    """The shape of one structure without padding, for timing."""
    long_range = None if structure.long_range is None else len(structure.long_range)
    return Shape(len(structure.atoms), len(structure.edges), 1, long_range, structure.periodic)


def pack(structures: Sequence[Structure], shape: Shape) -> Graph:
    """One padded graph of several structures, as numpy arrays.

    Padding atoms form graphs of their own behind the real ones; padding edges join the first padding atom to itself.
    """
    atoms = [s.atoms for s in structures]
    sizes = [len(a) for a in atoms]
    first_spare = sum(sizes)
    offsets: list[int] = np.cumsum([0, *sizes[:-1]]).tolist()
    edges = pack_edges([s.edges for s in structures], offsets, shape.edges, first_spare)
    spare_graphs = shape.graphs - len(structures)
    long_range = None
    if shape.long_range_edges is not None:
        lists = [s.long_range for s in structures if s.long_range is not None]
        long_range = pack_edges(lists, offsets, shape.long_range_edges, first_spare)
    return Graph(
        nodes=GraphNodes(
            positions=_padded(np.concatenate([a.positions for a in atoms]), shape.atoms, np.float32),
            atomic_numbers=_padded(np.concatenate([a.numbers for a in atoms]), shape.atoms, np.int32),
        ),
        edges=GraphEdges(shifts=edges.shifts if shape.periodic else None),
        globals=_globals(atoms, shape.graphs),
        n_node=_counts(sizes, shape.atoms, spare_graphs),
        n_edge=_counts([len(s.edges) for s in structures], shape.edges, spare_graphs),
        senders=edges.senders,
        receivers=edges.receivers,
        ordering=DEFAULT_EDGE_ORDERING,
        **_long_range_fields(structures, long_range, shape, spare_graphs),
    )


def _long_range_fields(
    structures: Sequence[Structure], edges: Edges | None, shape: Shape, spare_graphs: int
) -> dict[str, Any]:
    if edges is None or shape.long_range_edges is None:
        return {}
    counts = [len(s.long_range) for s in structures if s.long_range is not None]
    return {
        "n_edge_long_range": _counts(counts, shape.long_range_edges, spare_graphs),
        "senders_long_range": edges.senders,
        "receivers_long_range": edges.receivers,
        "edges_long_range": GraphEdges(shifts=edges.shifts if shape.periodic else None),
    }


def _globals(atoms: Sequence[Atoms], num_graphs: int) -> GraphGlobals:
    cells = np.stack([np.asarray(a.cell) if a.pbc.any() else np.zeros((3, 3)) for a in atoms])
    charge = [a.info.get("charge", 0) for a in atoms]
    spin = [a.info.get("spin_multiplicity", 1) for a in atoms]
    return GraphGlobals(
        cell=_padded(cells, num_graphs, np.float32),
        weight=_padded(np.ones(len(atoms)), num_graphs, np.float32),
        charge=_padded(np.array(charge), num_graphs, np.int32),
        spin_multiplicity=_padded(np.array(spin), num_graphs, np.int32),
    )


def _counts(counts: Sequence[int], capacity: int, spare_graphs: int) -> np.ndarray:
    padding = [] if spare_graphs == 0 else [capacity - sum(counts), *[0] * (spare_graphs - 1)]
    return np.array([*counts, *padding], np.int32)


def _padded(array: np.ndarray, length: int, dtype: type) -> np.ndarray:
    out = np.zeros((length, *array.shape[1:]), dtype)
    out[: len(array)] = array
    return out


def pack_edges(lists: Sequence[Edges], offsets: Sequence[int], capacity: int, spare: int) -> Edges:
    """Edge lists of several structures as one, padded with edges from atom `spare` to itself."""
    senders = np.full(capacity, spare, np.int32)
    receivers = np.full(capacity, spare, np.int32)
    shifts = np.zeros((capacity, 3), np.float32)
    start = 0
    for edges, offset in zip(lists, offsets, strict=True):
        end = start + len(edges)
        senders[start:end] = edges.senders + offset
        receivers[start:end] = edges.receivers + offset
        shifts[start:end] = edges.shifts
        start = end
    return Edges(senders, receivers, shifts)


CPU_EDGES, MAX_EDGES = 8192, 262_144
BYTES_PER_EDGE = 65_536
"""Memory that a large equivariant model needs per edge while it runs; a batch that does not fit is halved."""


def device_edges_target() -> int:
    """Edges per batch that keep the default device busy: caches are small on a CPU, memory is the limit elsewhere."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return CPU_EDGES
    memory = (device.memory_stats() or {}).get("bytes_limit", 0)
    return max(CPU_EDGES, min(MAX_EDGES, memory // BYTES_PER_EDGE))
