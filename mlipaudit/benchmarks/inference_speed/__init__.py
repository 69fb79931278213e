# SPDX-License-Identifier: Apache-2.0
"""How fast is a model, and how does that grow with the number of atoms?

Two speeds per structure, each measured for itself so that one failing costs only itself: the forward pass (energy and
forces), which is scored, and the step of molecular dynamics on every engine the model can use. The score compares
with a fixed curve (a fast model on an H100) and so only on equal hardware; `normalised_score` divides by the speed of
the device, measured in the same run before and after. Where dynamics end in nonsense the speed does not score.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlipaudit.analysis.timing import scaling_exponent
from mlipaudit.benchmark import Benchmark
from mlipaudit.benchmarks.inference_speed.judgement import (
    broken_dynamics,
    forward_fields,
    item,
    judge_md,
    normalised_score,
    reference_forward_time,
    score_interval,
)
from mlipaudit.benchmarks.inference_speed.schemas import (
    VIEWS,
    CalibrationResult,
    InferenceSpeedModelOutput,
    InferenceSpeedResult,
    InferenceSpeedStructureResult,
    MDBackendResult,
    SpeedProtocol,
    SpeedStructure,
)
from mlipaudit.benchmarks.inference_speed.stopwatch import Stopwatch, read_structure, signs_of_a_busy_machine
from mlipaudit.errors import DataCorruptError
from mlipaudit.protocol import MolecularDynamics
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import score_systems

if TYPE_CHECKING:
    from mlipaudit.backends.contract import Backend

__all__ = [
    "InferenceSpeedBenchmark",
    "InferenceSpeedModelOutput",
    "InferenceSpeedResult",
    "InferenceSpeedStructureResult",
    "MDBackendResult",
    "reference_forward_time",
]


class InferenceSpeedBenchmark(Benchmark):
    """How fast are a forward pass and a step of molecular dynamics, and how does that grow with size?"""

    name = "inference_speed"
    category = "General"
    result_class = InferenceSpeedResult
    model_output_class = InferenceSpeedModelOutput
    required_elements = {"N", "H", "O", "S", "C"}
    runs_alone = True
    views = VIEWS
    version = "2"
    protocols = {
        RunMode.DEV: SpeedProtocol(
            md=MolecularDynamics(num_steps=10, snapshot_interval=10, log_interval=1),
            num_chunks=10,
            num_timed=3,
            device_warmup_seconds=0.0,
            calibration_seconds=0.1,
            spare_pairs=True,
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
        calibrate = partial(backend.calibrate, self.protocol.calibration_seconds)
        before = calibrate()
        self._warm_up(backend, reference)
        output = InferenceSpeedModelOutput(
            structure_names=[s.name for s in reference],
            graph_cutoff_angstrom=backend.cutoff,
            notes=[note for s in reference if (note := _misnamed(s))],
        )
        stopwatch = Stopwatch(backend, self.protocol, self.seed, output)
        for done, structure in enumerate(reference):
            stopwatch.tell = partial(self.progress, done=done, total=len(reference))
            stopwatch.measure(structure)
        output.calibration = CalibrationResult.around(before, after := calibrate())
        output.reference_seconds = [
            0.5 * (before.seconds(s.num_atoms) + after.seconds(s.num_atoms)) for s in reference
        ]
        output.notes += signs_of_a_busy_machine(output.calibration)
        return output

    def _warm_up(self, backend: Backend, structures: Sequence[SpeedStructure]) -> None:
        """Bring the device to its steady clock with passes over the smallest structure; failures are for later."""
        seconds = self.protocol.device_warmup_seconds
        if not (seconds and structures):
            return
        try:
            forward = backend.forward_pass(read_structure(structures[0]))
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
        timed = [s for s in structures if s.average_forward_time and not s.failed]
        fields = InferenceSpeedResult.fields_of(score) | {
            "num_failed": len(structures) - len(timed),
            "score_interval": score_interval(score.value, output, structures) if timed else None,
        }
        return InferenceSpeedResult(
            structure_names=[s.name for s in reference],
            structures=structures,
            graph_cutoff_angstrom=output.graph_cutoff_angstrom,
            normalised_score=normalised_score(structures),
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
        times = item(output.forward_times, index) or []
        md = {
            engine: judge_md(samples, protocol.md.timestep_fs)
            for engine, samples in (item(output.md_step_times, index) or {}).items()
        }
        moved = any(engine.average_step_time is not None for engine in md.values())
        broken = broken_dynamics(structure.name, output.failures)
        failed = bool(broken) or not (times or moved)
        return InferenceSpeedStructureResult(
            structure_name=structure.name,
            num_atoms=structure.num_atoms,
            num_steps=protocol.md.num_steps,
            num_episodes=protocol.num_chunks,
            timestep_fs=protocol.md.timestep_fs,
            md=md,
            failed=failed,
            failure=broken or (output.failures.get(structure.name) if failed else None),
            compile_seconds=item(output.compile_seconds, index),
            neighbour_seconds=item(output.neighbour_seconds, index),
            **(forward_fields(times, structure.num_atoms, item(output.reference_seconds, index)) if times else {}),
        )


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
