# SPDX-License-Identifier: Apache-2.0
"""Clusters that carry out plans, through the entry points `mlipaudit.schedulers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from mlipaudit import registry
from mlipaudit.errors import UsageError
from mlipaudit.running.backlog import Backlog
from mlipaudit.running.crew import Done
from mlipaudit.running.events import Emit
from mlipaudit.store import ResultStore


class Workers(Protocol):
    """What an open cluster does."""

    def work_off(self, backlog: Backlog, *, one_per_host: bool = False) -> Iterator[Done]:
        """Each job and what came of it, as they finish."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that a run was pointed to."""

    scheduler: str
    """Its registered name; the object is called with address, store, emit, limit and verbose, and opens as a context.

    Its `schemes` are those of the addresses that it knows.
    """
    address: str
    """Of one that is there, or `local:N` for N workers on this machine."""

    @classmethod
    def at(cls, address: str) -> Cluster:
        """The cluster at an address.

        Raises:
            UsageError: no registered scheduler has such addresses.
        """
        scheme = urlsplit(address).scheme
        known: dict[str, str] = {}
        for name in registry.names(registry.SCHEDULERS):
            scheduler: Any = registry.load(registry.SCHEDULERS, name)
            known |= dict.fromkeys(scheduler.schemes, name)
        if scheme not in known:
            examples = ", ".join(f"{s}://…" for s in known)
            raise UsageError(f"--scheduler {address}: no address of a scheduler ({examples})")
        return cls(known[scheme], address)

    def open(
        self, store: ResultStore, emit: Emit, *, limit: float | None, verbose: bool
    ) -> AbstractContextManager[Workers]:
        """Its workers, once entered.

        Raises:
            UsageError: nobody answers, or something is not installed; on entering.
        """
        scheduler: Any = registry.load(registry.SCHEDULERS, self.scheduler)
        return scheduler(self.address, store, emit, limit=limit, verbose=verbose)
