# SPDX-License-Identifier: Apache-2.0
"""Runs a broken model beside a good one, as a user would, and compares with what the fault table promises."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlipaudit.data import Embedded
from mlipaudit.record import TaskRecord
from mlipaudit.selftest.faults import SPEED, TAUTOMERS, Fault
from mlipaudit.selftest.models import write_model
from mlipaudit.store import ResultStore, Unreadable

PAIRS = ("acetaldehyde_enol", "hydrogen_cyanide_isocyanide", "methylimidazole_4_5")
"""Of the embedded tautomers: two below `models.LARGE` atoms, one above."""
GAS_SIDE, GAS_SPACING = 5, 4.0
"""Hydrogen atoms per side of a cube, Å between them: outside the toy's reach, inside the collapsing model's."""
TIMES = ("started_at", "wall_seconds", "compile_seconds", "num_compilations", "peak_memory_bytes", "command")
"""Fields of a provenance that differ from run to run."""
GOOD = "good"


@dataclass(frozen=True)
class Outcome:
    """What became of one fault."""

    fault: Fault
    found: str
    complaints: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.complaints


class Bench:
    """A folder with small data, and the results of the good model by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        _write_data(self.data)
        self._alone: dict[tuple[str, str], dict[str, Any]] = {}

    def check(self, fault: Fault) -> Outcome:
        """Run the broken model first and the good one after it."""
        output = self.folder / f"{fault.name}-{fault.benchmark}"
        models = [write_model(self.folder, name) for name in (fault.name, None)]
        done = self._run(models, fault, output)
        stored = {r.model if isinstance(r, Unreadable) else r.provenance.model: r for r in _records(output)}
        record = stored.get(fault.name)
        complaints = [*_exit(done, fault), *_broken(record, fault), *self._good(stored.get(GOOD), fault)]
        return Outcome(fault, _in_words(record), tuple(complaints))

    def good_alone(self, fault: Fault) -> dict[str, Any]:
        """Result of the good model without company, in the benchmark and mode of a fault."""
        key = fault.benchmark, fault.run_mode
        if key not in self._alone:
            output = self.folder / f"alone-{fault.benchmark}-{fault.run_mode}"
            self._run([write_model(self.folder, None)], fault, output)
            record = ResultStore(output).find(GOOD, fault.benchmark)
            self._alone[key] = without_times(record) if isinstance(record, TaskRecord) else {}
        return self._alone[key]

    def _run(self, models: list[Path], fault: Fault, output: Path) -> subprocess.CompletedProcess:
        command = [sys.executable, "-P", "-m", "mlipaudit", "run", "--models", *map(str, models)]
        command += ["--benchmarks", fault.benchmark, "--run-mode", fault.run_mode, "--data", str(self.data)]
        command += ["--output", str(output), "--timeout", str(fault.limit_seconds), "--workers", "1"]
        return subprocess.run(command, capture_output=True, text=True)

    def _good(self, record: TaskRecord | Unreadable | None, fault: Fault) -> Iterator[str]:
        if not isinstance(record, TaskRecord):
            yield "the good model has no result"
        elif without_times(record) != self.good_alone(fault):
            yield "the good model's result is not what it is without the broken one"


def without_times(record: TaskRecord) -> dict[str, Any]:
    """A result with its provenance, less what differs from run to run. Of a benchmark of speed: what failed."""
    result = record.result.model_dump(mode="json")
    if record.provenance.identity.benchmark == SPEED:
        result = {key: result[key] for key in ("failed", "failures", "num_systems", "num_failed")}
    provenance = record.provenance.model_dump(
        mode="json", exclude=set(TIMES) | {"output_sha256", "time_limit_seconds"}
    )
    return {"result": result, "provenance": provenance}


def _records(output: Path) -> list[TaskRecord | Unreadable]:
    return list(ResultStore(output).records()) if output.is_dir() else []


def _exit(done: subprocess.CompletedProcess, fault: Fault) -> Iterator[str]:
    expected = 0 if fault.kind is None else 1
    if done.returncode != expected:
        yield f"exit code {done.returncode}, not {expected}"
    if "Traceback" in done.stderr:
        yield "a traceback reached the user"
    if fault.kind is not None and not any(
        fault.name in line and fault.kind in line for line in done.stderr.splitlines()[-12:]
    ):
        yield "the last lines do not name the failure"


def _broken(record: TaskRecord | Unreadable | None, fault: Fault) -> Iterator[str]:
    if not isinstance(record, TaskRecord):
        yield "the broken model has no result that can be read"
        return
    kinds = {failure.kind for failure in record.reasons.values()}
    if kinds != ({fault.kind} if fault.kind else set()):
        yield f"failures {', '.join(sorted(kinds)) or 'none'}"
    if fault.score is not None and abs((record.result.score or 0.0) - fault.score) > 1e-9:
        yield f"score {record.result.score}, not {fault.score:.3g}"


def _in_words(record: TaskRecord | Unreadable | None) -> str:
    if not isinstance(record, TaskRecord):
        return "no result"
    reasons = list(record.reasons.values())
    return str(reasons[0]) if reasons else "no failure"


def _write_data(folder: Path) -> None:
    """Three pairs of tautomers, and a dilute cube of hydrogen atoms to move."""
    (folder / TAUTOMERS).mkdir(parents=True)
    (folder / SPEED).mkdir()
    (source,) = Embedded().fetch(TAUTOMERS).path.glob("*.json")
    pairs = json.loads(source.read_text(encoding="utf-8"))
    chosen = {name: pairs[name] for name in PAIRS}
    (folder / TAUTOMERS / source.name).write_text(json.dumps(chosen), encoding="utf-8")
    sites = [(x, y, z) for x in range(GAS_SIDE) for y in range(GAS_SIDE) for z in range(GAS_SIDE)]
    lines = [f"H {GAS_SPACING * x} {GAS_SPACING * y} {GAS_SPACING * z}" for x, y, z in sites]
    text = "\n".join([str(len(sites)), "hydrogen atoms", *lines, ""])
    (folder / SPEED / f"{len(sites)}_hydrogen.xyz").write_text(text, encoding="utf-8")
