# SPDX-License-Identifier: Apache-2.0
"""How fast is a model, and how does that grow with the number of atoms?

Two speeds per structure, each measured for itself so that one failing costs only itself: the forward pass (energy and
forces), which is scored, and the step of molecular dynamics on every engine the model can use. The score compares
with a fixed curve (a fast model on an H100) and so only on equal hardware; `normalised_score` divides by the speed of
the device, measured in the same run before and after.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.analysis.timing import interquartile_range, scaling_exponent, trend, trim_slowest, trimmed_mean
from mlipaudit.benchmark import Benchmark
from mlipaudit.benchmarks.inference_speed.schemas import (
    SPEED_RULE,
    CalibrationResult,
    InferenceSpeedModelOutput,
    InferenceSpeedResult,
    InferenceSpeedStructureResult,
    MDBackendResult,
)
from mlipaudit.benchmarks.inference_speed.stopwatch import SpeedProtocol, SpeedStructure, Stopwatch, read_structure
from mlipaudit.errors import DataCorruptError
from mlipaudit.protocol import MolecularDynamics
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import Interval, apply_rule, block_bootstrap, interval_of, score_systems

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend

REFERENCE_OVERHEAD_S, REFERENCE_PER_ATOM_S = 4.10e-3, 9.00e-6
"""The reference's cost curve: overhead and cost per atom of a fast model on an H100 (mlipaudit 0.1.8)."""
BUSY_DRIFT = 0.1
"""Relative change of the device's own speed during a run above which a reader is warned."""


class InferenceSpeedBenchmark(Benchmark):
    """How fast are a forward pass and a step of molecular dynamics, and how does that grow with size?"""

    name = "inference_speed"
    category = "General"
    result_class = InferenceSpeedResult
    model_output_class = InferenceSpeedModelOutput
    required_elements = {"N", "H", "O", "S", "C"}
    runs_alone = True
    protocols = {
        RunMode.DEV: SpeedProtocol(
            md=MolecularDynamics(num_steps=10, snapshot_interval=10, log_interval=1),
            num_chunks=10,
            num_timed=3,
            device_warmup_seconds=0.0,
            max_structures=2,
            max_seconds=20.0,
        ),
        RunMode.FAST: SpeedProtocol(
            md=MolecularDynamics(num_steps=1000, snapshot_interval=1000, log_interval=100),
            num_chunks=5,
            num_timed=25,
            max_seconds=60.0,
        ),
        RunMode.STANDARD: SpeedProtocol(
            md=MolecularDynamics(num_steps=1000, snapshot_interval=1000, log_interval=100),
            num_chunks=5,
            num_timed=25,
        ),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: SpeedProtocol) -> list[SpeedStructure]:
        """The structures, smallest first. Hidden files do not count."""
        files = [file for file in data_dir.glob("*.xyz") if not file.name.startswith(".")]
        structures = [SpeedStructure(file.stem, file, _count_atoms(file)) for file in files]
        return sorted(structures, key=lambda s: (s.num_atoms, s.name))[: protocol.max_structures]

    def ask(self, backend: Backend, reference: list[SpeedStructure]) -> InferenceSpeedModelOutput:
        """Time every structure, between two calibrations of the device."""
        before = backend.calibrate()
        self._warm_up(backend, reference)
        output = InferenceSpeedModelOutput(
            structure_names=[s.name for s in reference],
            graph_cutoff_angstrom=backend.cutoff,
            notes=[note for s in reference if (note := _misnamed(s))],
        )
        for done, structure in enumerate(reference):
            self.progress(structure.name, done, len(reference))
            Stopwatch(backend, self.protocol, self.seed, output).measure(structure)
        after = backend.calibrate()
        output.calibration = _around(before, after)
        output.reference_seconds = [
            0.5 * (before.seconds(s.num_atoms) + after.seconds(s.num_atoms)) for s in reference
        ]
        output.notes += _signs_of_a_busy_machine(output.calibration)
        return output

    def _warm_up(self, backend: Backend, structures: Sequence[SpeedStructure]) -> None:
        """Bring the device to its steady clock with passes over the middle structure; failures are for later."""
        seconds = self.protocol.device_warmup_seconds
        if not (seconds and structures):
            return
        try:
            forward = backend.forward_pass(read_structure(structures[len(structures) // 2]))
            forward.wait()
            start = time.perf_counter()
            while time.perf_counter() - start < seconds:
                forward.wait()
        except Exception as error:  # around a system: measured, and named, later
            self.progress(f"warm-up failed ({error})", 0, len(structures))

    @classmethod
    def judge(
        cls, output: InferenceSpeedModelOutput, reference: list[SpeedStructure], protocol: SpeedProtocol
    ) -> InferenceSpeedResult:
        """Averages, spreads, and the score of the forward pass at every size."""
        structures = [cls._judge_structure(i, s, output, protocol) for i, s in enumerate(reference)]
        score = score_systems(structures)
        timed = [s for s in structures if s.average_forward_time]
        failed = all(s.failed for s in structures)
        fields = InferenceSpeedResult.fields_of(score) | {
            "failed": failed,
            "score_interval": _score_interval(output, reference) if timed else None,
        }
        return InferenceSpeedResult(
            structure_names=[s.name for s in reference],
            structures=structures,
            graph_cutoff_angstrom=output.graph_cutoff_angstrom,
            normalised_score=_normalised_score(structures),
            scaling_exponent=scaling_exponent(
                [s.num_atoms for s in timed], [s.average_forward_time or 0.0 for s in timed]
            ),
            calibration=output.calibration,
            failures=output.failures,
            warnings=output.notes,
            **fields,
        )

    @classmethod
    def _judge_structure(
        cls, index: int, structure: SpeedStructure, output: InferenceSpeedModelOutput, protocol: SpeedProtocol
    ) -> InferenceSpeedStructureResult:
        times = _item(output.forward_times, index) or []
        md = {
            engine: _judge_md(samples, protocol.md.timestep_fs)
            for engine, samples in (_item(output.md_step_times, index) or {}).items()
        }
        moved = any(engine.average_step_time is not None for engine in md.values())
        failed = not times and not moved
        return InferenceSpeedStructureResult(
            structure_name=structure.name,
            num_atoms=structure.num_atoms,
            num_steps=protocol.md.num_steps,
            num_episodes=protocol.num_chunks,
            timestep_fs=protocol.md.timestep_fs,
            md=md,
            failed=failed,
            failure=output.failures.get(structure.name) if failed else None,
            compile_seconds=_item(output.compile_seconds, index),
            neighbour_seconds=_item(output.neighbour_seconds, index),
            **(
                _forward_fields(times, structure.num_atoms, _item(output.reference_seconds, index))
                if times
                else {}
            ),
        )


def reference_forward_time(num_atoms: int) -> float:
    """Forward time of the reference curve, s."""
    return REFERENCE_OVERHEAD_S + REFERENCE_PER_ATOM_S * num_atoms


def _forward_fields(times: list[float], num_atoms: int, reference_seconds: float | None) -> dict[str, Any]:
    average = trimmed_mean(times)
    return {
        "average_forward_time": average,
        "forward_times": trim_slowest(times),
        "relative_forward_time": average / reference_forward_time(num_atoms),
        "normalised_forward_time": average / reference_seconds if reference_seconds else None,
        "median_forward_time": float(np.median(times)),
        "forward_time_interval": interval_of(block_bootstrap(np.array(times), trimmed_mean)),
        "forward_time_iqr": interquartile_range(times),
        "forward_time_trend": trend(times),
        "atoms_per_second": num_atoms / average if average else None,
    }


def _judge_md(samples: list[float], timestep_fs: float) -> MDBackendResult:
    average = sum(samples) / len(samples) if samples else None
    ns_per_day = 86400.0 / average * timestep_fs * 1e-6 if average else None
    return MDBackendResult(average_step_time=average, step_time_samples=samples, ns_per_day=ns_per_day)


def _score_interval(output: InferenceSpeedModelOutput, reference: Sequence[SpeedStructure]) -> Interval:
    """Interval of the score from the scatter of the passes; the structures are fixed and are not resampled."""
    per_structure = []
    for index, structure in enumerate(reference):
        times = _item(output.forward_times, index)
        averages = block_bootstrap(np.array(times), trimmed_mean, seed=index) if times else np.array([np.nan])
        per_structure.append(apply_rule(SPEED_RULE, averages / reference_forward_time(structure.num_atoms)))
    return interval_of(np.mean(np.broadcast_arrays(*per_structure), axis=0))


def _normalised_score(structures: Sequence[InferenceSpeedStructureResult]) -> float | None:
    ratios = [s.normalised_forward_time for s in structures]
    if all(ratio is None for ratio in ratios):
        return None
    return float(apply_rule(SPEED_RULE, ratios).mean())


def _around(before: Any, after: Any) -> CalibrationResult:
    largest = max(before.workload_seconds)
    return CalibrationResult(
        device=before.device,
        workload_seconds=[before.workload_seconds, after.workload_seconds],
        matrix_flops_per_second=[before.matrix_flops_per_second, after.matrix_flops_per_second],
        memory_bytes_per_second=[before.memory_bytes_per_second, after.memory_bytes_per_second],
        drift=after.workload_seconds[largest] / before.workload_seconds[largest] - 1.0,
    )


def _signs_of_a_busy_machine(calibration: CalibrationResult) -> list[str]:
    notes = []
    if abs(calibration.drift) > BUSY_DRIFT:
        notes.append(f"the device's own speed changed by {calibration.drift:+.0%} during the run")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores + 1:
        notes.append(f"the machine was busy: load {load:.1f} on {cores} cores")
    return notes


def _count_atoms(file: Path) -> int:
    with file.open(encoding="utf-8") as stream:
        first = stream.readline().strip()
    if not first.isdigit():
        raise DataCorruptError(f"{file} is no xyz file: its first line is {first[:40]!r}, not the number of atoms")
    return int(first)


def _misnamed(structure: SpeedStructure) -> str | None:
    prefix = structure.name.split("_", maxsplit=1)[0]
    if prefix.isdigit() and int(prefix) != structure.num_atoms:
        return f"{structure.name} has {structure.num_atoms} atoms, not the {prefix} in its name"
    return None


def _item(values: Sequence[Any] | Mapping[Any, Any], index: int) -> Any:
    """The value at an index; None beyond the end, as in outputs of mlipaudit 0.1.x."""
    return values[index] if index < len(values) else None
