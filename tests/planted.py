# SPDX-License-Identifier: Apache-2.0
"""Results folders for tests: four models on two benchmarks within seconds, and commands as a terminal sees them."""

import contextlib
import io
import json
import shutil
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest

from mlipaudit import scoring
from mlipaudit.benchmarks.inference_speed.schemas import InferenceSpeedModelOutput
from mlipaudit.cli import main
from mlipaudit.data import embedded_root
from mlipaudit.models import parse_models
from mlipaudit.record import TaskRecord
from mlipaudit.run_mode import RunMode
from mlipaudit.running.plan import Task, make_plan
from mlipaudit.running.provenance import Surroundings, provenance_of
from mlipaudit.store import ResultStore, checksum, unsealed

BENCHMARKS = ("tautomers", "inference_speed")
NEARLY_RIGHT = """
import random

from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.benchmarks.tautomers import TautomersBenchmark
from mlipaudit.data import Embedded
from mlipaudit.run_mode import RunMode
from mlipaudit.units import KCAL_MOL_PER_EV

rng = random.Random(7)
pairs = TautomersBenchmark.load(Embedded().fetch("tautomers").path, TautomersBenchmark.protocols[RunMode.FAST])
known = [entry for group in TautomersBenchmark.structures(pairs).values() for entry in group]
known = [(atoms, energy + rng.gauss(0, {error}) / KCAL_MOL_PER_EV) for atoms, energy in known]
mlipaudit_external_model = OracleBackend([entry for entry in known if "{unknown}" not in entry[0].symbols])
"""
WATER = "3\n\nO 0.0 0.0 0.1\nH 0.0 0.8 -0.5\nH 0.0 -0.8 -0.5\n"
METHANE = "5\n\nC 0 0 0\nH 0.6 0.6 0.6\nH -0.6 -0.6 0.6\nH -0.6 0.6 -0.6\nH 0.6 -0.6 -0.6\n"


class Done(NamedTuple):
    """Outcome of a command."""

    code: int | str
    """What it raised, where it raised anything but a usage error."""
    out: str
    err: str


def command(*arguments):
    """Run a command in this process, with streams that refuse what a terminal would refuse."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        except Exception as error:
            code = f"raised {type(error).__name__}: {error}, {traceback.format_exc().splitlines()[-3].strip()}"
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def make_models(folder):
    """One without chemistry, another like it, one that is nearly right and lacks an element, one that is none."""
    folder.mkdir()
    (folder / "partial.py").write_text(NEARLY_RIGHT.format(error=0.04, unknown="S"), "utf-8")
    (folder / "broken.zip").write_text("no archive", "utf-8")
    return ["toy", "toy:depth=0.3", str(folder / "partial.py"), str(folder / "broken.zip")]


def make_data(folder):
    """A folder of the user's: tautomers with a manifest, and two molecules to be timed without one."""
    shutil.copytree(embedded_root() / "tautomers", folder / "tautomers")
    (folder / "inference_speed").mkdir()
    (folder / "inference_speed" / "3_water.xyz").write_text(WATER, "utf-8")
    (folder / "inference_speed" / "5_methane.xyz").write_text(METHANE, "utf-8")
    return folder


def run_arguments(models, data, output, *, benchmarks=BENCHMARKS, seed=0):
    """A run of these models in this process."""
    where = ("--data", data, "-o", output, "--seed", seed, "--workers", "0")
    return ("run", "-m", *models, "-b", *benchmarks, "-rm", "fast", *where)


def plan_of(models, benchmarks, data):
    """The plan of such a run, with its data."""
    plan = make_plan(parse_models(models), benchmarks, run_mode=RunMode.FAST, data=str(data), seed=0)
    return plan.with_data(lambda *_: None)


def speeds(factor):
    """Timings of both molecules, with some scatter."""
    times = [[factor * size * (1 + 0.01 * (i % 7)) for i in range(25)] for size in (0.0041, 0.0052)]
    return InferenceSpeedModelOutput(
        structure_names=["3_water", "5_methane"],
        forward_times=times,
        md_step_times=[{"ase": [1.5 * t for t in series[:5]]} for series in times],
        compile_seconds=[0.5, None],
        reference_seconds=[0.003, 0.004],
        notes=["planted, not timed"],
    )


def plant(store: ResultStore, task: Task, output) -> TaskRecord:
    """Store an answer to a task as if a model had given it, judged."""
    cls, protocol = task.benchmark_class, task.benchmark_class.protocols[task.run_mode]
    result = cls.judge(output, cls.load(task.dataset.path, protocol), protocol)
    sha256 = store.write_output(task.model.name, task.benchmark, output.model_dump_json())
    provenance = provenance_of(
        task, Surroundings(device="planted"), output_sha256=sha256, precision="float64", **TIMES
    )
    record = TaskRecord.model_construct(result=result, provenance=provenance)
    store.write(record)
    return record


@contextlib.contextmanager
def few_resamples(number=50):
    """Intervals from fewer draws, in a run as in all that judge it again: for tests of anything but the intervals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "NUM_RESAMPLES", number)
        yield


TIMES = {
    "started_at": "2026-01-01T00:00:00+00:00",
    "wall_seconds": 1.5,
    "compile_seconds": 0.25,
    "num_compilations": 2,
    "peak_memory_bytes": 1 << 20,
}


def stop_the_clock(store):
    """Give every record the same times, so that a fixed seed damages the same bytes in every session."""
    for record in store.records():
        record.provenance = record.provenance.model_copy(update={**TIMES, "command": "mlipaudit run"})
        store.write(record)
    store.write_run({**store.read_run(), "command": "mlipaudit run"})


def make_results(folder):
    """`results/` and `data/` in a folder: a run, and what it replaced of one with another seed.

    Gives the models, whose files lie beside the folder.
    """
    models, data = make_models(folder.with_name("models")), make_data(folder / "data")
    store = ResultStore(folder / "results")
    command(*run_arguments(models[:3:2], data, store.root, benchmarks=BENCHMARKS[:1], seed=1))
    stop_the_clock(store)
    for number, task in enumerate(plan_of(models[:-1], ["inference_speed"], data).tasks, start=1):
        plant(store, task, speeds(0.4 * number))
    done = command(*run_arguments(models, data, store.root))
    assert done.code == 1, done
    stop_the_clock(store)
    return models


def by_task(store):
    """(model, benchmark) -> record, of those that can be read."""
    records = [record for record in store.records() if isinstance(record, TaskRecord)]
    return {(r.provenance.model, r.provenance.identity.benchmark): r for r in records}


def reseal(file: Path, change):
    """Change the content of a sealed file in place, under a checksum of its own."""
    content = unsealed(json.loads(file.read_text("utf-8")))
    change(content)
    file.write_text(json.dumps({**content, "checksum": checksum(content)}), "utf-8")
