# SPDX-License-Identifier: Apache-2.0
"""One part of a plan of many: every shard works out the same division, without talking to the others.

The plan is a line: model after model, benchmark after benchmark, chunk after chunk, each as long as it will presumably
take. The line is cut into equal lengths, so that a shard has few models to load and to compile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlipaudit import registry
from mlipaudit.errors import UsageError
from mlipaudit.running.backlog import Portion
from mlipaudit.running.plan import Task

CHUNK_COST = 100
"""Model evaluations that one chunk is taken for; dynamics and relaxations are known by their steps."""


@dataclass(frozen=True)
class Shard:
    """One shard of several, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def parse_shard(text: str, environ: Mapping[str, str] = os.environ) -> Shard:
    """The shard that `--shard TEXT` names.

    Raises:
        UsageError: it names none.
    """
    arrays = registry.names(registry.JOB_ARRAYS)
    if text in arrays:
        find: Any = registry.load(registry.JOB_ARRAYS, text)
        return find(environ)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None:
        raise UsageError(f"--shard {text}: not I/N, such as 1/4, nor {' or '.join(arrays)}")
    number, count = int(match[1]), int(match[2])
    if not 1 <= number <= count:
        raise UsageError(
            f"--shard {text}: shards are counted from 1 to {count}" if count else f"--shard {text}: no shards"
        )
    return Shard(number, count)


# Who does what


@dataclass(frozen=True)
class Stretch:
    """Pieces of equal cost that lie one after the other: the chunks of a task, or tasks that belong together."""

    tasks: tuple[tuple[int, Task], ...]
    """With their numbers in the plan."""
    pieces: int
    cost: int
    """Of one piece."""

    @property
    def length(self) -> int:
        """Cost of all of them."""
        return self.pieces * self.cost


def portions(
    tasks: Sequence[tuple[int, Task]], count: Callable[[Task], int | None], shard: Shard
) -> list[Portion]:
    """What a shard does: whole tasks, and chunks of tasks that are done by several shards.

    Args:
        tasks: of the whole plan, with their numbers.
        count: how many chunks a task has; None for one that is not split.
        shard: whose portions.
    """
    line = list(_stretches(tasks, count))
    total, start = sum(stretch.length for stretch in line), 0
    found = []
    for stretch in line:
        mine = _share(stretch, start, total, shard)
        start += stretch.length
        whole = len(mine) == stretch.pieces
        for index, task in stretch.tasks if mine else ():
            chunks = None if whole else range(mine.start + 1, mine.stop + 1)
            found.append(Portion(index, task, chunks, stretch.pieces))
    return sorted(found, key=lambda portion: portion.index)


def _share(stretch: Stretch, start: int, total: int, shard: Shard) -> range:
    """Pieces, counted from 0, whose middle lies in the shard's part of the line."""

    def first_behind(part: int) -> int:
        # Piece k has its middle at start + (k + 1/2) cost; whole numbers only, so that all shards agree.
        reach = 2 * total * part - shard.count * (2 * start + stretch.cost)
        behind = -(-reach // (2 * stretch.cost * shard.count))
        return min(max(behind, 0), stretch.pieces)

    return range(first_behind(shard.number - 1), first_behind(shard.number))


def _stretches(tasks: Sequence[tuple[int, Task]], count: Callable[[Task], int | None]) -> Iterator[Stretch]:
    """Model by model; benchmarks that ask a model the same stay together, for one answer serves them."""
    groups: dict[Any, list[tuple[int, Task]]] = {}
    models = {model: number for number, model in enumerate(dict.fromkeys(task.model.name for _, task in tasks))}
    for index, task in sorted(tasks, key=lambda numbered: models[numbered[1].model.name]):
        shared = task.benchmark_class.reusable_output_id
        groups.setdefault((task.model.name, shared or index), []).append((index, task))
    for group in groups.values():
        pieces = count(group[0][1]) if len(group) == 1 else None
        if pieces is None:
            yield Stretch(tuple(group), 1, cost(group[0][1]))
        else:
            yield Stretch(tuple(group), pieces, CHUNK_COST)


def cost(task: Task) -> int:
    """Model evaluations that a task which is not split presumably takes: steps of its protocol, times systems."""
    return max(_evaluations(task.identity.protocol), CHUNK_COST)


def _evaluations(protocol: Mapping[str, Any]) -> int:
    systems = protocol.get("max_systems")
    many = sum(systems) if isinstance(systems, list) else systems or 1
    steps = sum(protocol.get(name) or 0 for name in ("num_steps", "max_steps"))
    inner = sum(_evaluations(value) for value in protocol.values() if isinstance(value, dict))
    return many * (steps + inner)
