# SPDX-License-Identifier: Apache-2.0
"""The fault table: what is broken, in which benchmark it shows, how it is named, what it scores."""

from __future__ import annotations

from dataclasses import dataclass

from mlipaudit.failures import FailureKind
from mlipaudit.run_mode import RunMode

TAUTOMERS, SPEED = "tautomers", "inference_speed"


@dataclass(frozen=True)
class Fault:
    """One way of being broken."""

    name: str
    what: str
    benchmark: str
    kind: FailureKind | None
    """None: nothing fails, for the fault is in what it leaves behind."""
    score: float | None = 0.0
    """Of the broken model; None: whatever its times give."""
    limit_seconds: int = 120
    run_mode: RunMode = RunMode.FAST


SECONDS = RunMode.DEV
"""Ten steps of dynamics are enough for most."""

FAULTS = (
    Fault("nan", "returns NaN", TAUTOMERS, FailureKind.NON_FINITE),
    Fault("nan", "returns NaN, and fast", SPEED, FailureKind.NON_FINITE, run_mode=SECONDS),
    Fault("infinity", "returns infinity", TAUTOMERS, FailureKind.NON_FINITE),
    Fault(
        "nan_later", "returns NaN after some steps of dynamics", SPEED, FailureKind.NON_FINITE, run_mode=SECONDS
    ),
    Fault("two_energies", "returns two energies per structure", TAUTOMERS, FailureKind.EXCEPTION),
    Fault(
        "one_force_too_many", "returns forces of one atom too many", SPEED, FailureKind.EXCEPTION, run_mode=SECONDS
    ),
    Fault("one_force_for_all", "returns one force for all atoms", SPEED, FailureKind.EXCEPTION, run_mode=SECONDS),
    Fault("raises_on_third_call", "raises on the third call", TAUTOMERS, FailureKind.EXCEPTION, score=2 / 3),
    Fault("hangs", "hangs", TAUTOMERS, FailureKind.TIMEOUT, limit_seconds=8),
    Fault("segfaults", "kills its own process (SIGSEGV)", TAUTOMERS, FailureKind.CRASHED),
    Fault("vanishes", "ends its process (os._exit)", TAUTOMERS, FailureKind.CRASHED),
    Fault("exits", "calls sys.exit", TAUTOMERS, FailureKind.EXCEPTION),
    Fault(
        "out_of_memory", "needs too much memory above 10 atoms", TAUTOMERS, FailureKind.OUT_OF_MEMORY, score=2 / 3
    ),
    Fault("collapses", "collapses: neighbours overflow", SPEED, FailureKind.NEIGHBOUR_OVERFLOW),
    Fault("explodes", "explodes", SPEED, FailureKind.EXPLODED, run_mode=SECONDS),
    Fault("does_not_load", "does not load", TAUTOMERS, FailureKind.LOAD_ERROR),
    Fault("covers_nothing", "covers no element", TAUTOMERS, FailureKind.MISSING_ELEMENTS),
    Fault("spoils_the_process", "changes settings of its process", TAUTOMERS, None, score=1.0),
)
