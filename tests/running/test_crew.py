# SPDX-License-Identifier: Apache-2.0
"""Workers: one model per process, loaded once; whatever ends one costs its task only, and leaves a reason."""

import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from mlipaudit.errors import StoreError
from mlipaudit.failures import Failure, FailureKind, TaskTimeoutError
from mlipaudit.models import parse_models
from mlipaudit.run_mode import RunMode
from mlipaudit.running import devices
from mlipaudit.running.backlog import Backlog, Portion
from mlipaudit.running.crew import Crew
from mlipaudit.running.devices import Place, places, usable_gpus
from mlipaudit.running.events import TaskFinished, TaskProgress, TaskStarted
from mlipaudit.running.executor import Settings, execute
from mlipaudit.running.limits import terminable, time_limit
from mlipaudit.running.plan import make_plan
from mlipaudit.running.worker_process import innermost_frame
from mlipaudit.selftest.check import Bench
from mlipaudit.store import ResultStore

LOGGED = """
import os, pathlib
from mlipaudit.backends.toy import ToyCalculator

log = pathlib.Path({log!r})
with log.open("a") as stream:
    stream.write(f"loaded {{os.getpid()}} {{len(os.sched_getaffinity(0))}}\\n")

class Model(ToyCalculator):
    def calculate(self, *arguments, **keywords):
        super().calculate(*arguments, **keywords)
        {fault}

mlipaudit_external_model = Model()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Small tautomers and a small structure to time."""
    return Bench(tmp_path_factory.mktemp("bench")).data


@pytest.fixture
def make_model(tmp_path):
    """Writes a model file that logs when it is loaded, and does something when it is called."""

    def make(name="model", fault="pass"):
        (tmp_path / f"{name}.py").write_text(LOGGED.format(log=str(tmp_path / "log"), fault=fault), "utf-8")
        return str(tmp_path / f"{name}.py")

    return make


def plan_of(models, benchmarks=("tautomers",), data=None):
    return make_plan(
        parse_models(models), benchmarks, run_mode=RunMode.DEV, data=str(data) if data else None, seed=0
    )


def run(models, output, *, benchmarks=("tautomers",), data=None, **settings):
    """Records by model, and the events."""
    events = []
    settings = Settings(**{"workers": 1, "limit": 120.0, **settings})
    found = execute(plan_of(models, benchmarks, data), ResultStore(output), events.append, settings)
    return {(r.provenance.model, r.provenance.identity.benchmark): r for r in found}, events


def log(tmp_path):
    return [line.split() for line in (tmp_path / "log").read_text().splitlines()]


# What a worker keeps, and what it does not share


def test_a_model_is_loaded_once_for_all_its_benchmarks(make_model, tmp_path, data):
    found, _ = run([make_model()], tmp_path / "out", benchmarks=["tautomers", "inference_speed"], data=data)
    assert len(log(tmp_path)) == 1
    assert [r.result.failed for r in found.values()] == [False, False]


def test_every_model_has_a_process_of_its_own(make_model, tmp_path):
    run([make_model("one"), make_model("two")], tmp_path / "out")
    pids = [int(pid) for _, pid, _ in log(tmp_path)]
    assert len({*pids, os.getpid()}) == 3


def test_workers_give_what_this_process_gives(tmp_path):
    models = ["toy", "toy:depth=0.3"]
    apart, _ = run(models, tmp_path / "apart", workers=2)
    here, _ = run(models, tmp_path / "here", workers=0)
    assert {k: r.result for k, r in apart.items()} == {k: r.result for k, r in here.items()}
    assert all(r.provenance.versions and r.provenance.device.startswith("cpu") for r in apart.values())


def test_what_needs_a_quiet_machine_comes_last_and_alone(make_model, tmp_path, data):
    models = [make_model("one"), make_model("two")]
    _, events = run(models, tmp_path / "out", benchmarks=["inference_speed", "tautomers"], data=data, workers=2)
    running, together = set(), []
    for event in events:
        if isinstance(event, TaskStarted):
            running.add(event.index)
            together.append((event.task.benchmark, len(running)))
        elif isinstance(event, TaskFinished):
            running.discard(event.index)
    assert [name for name, _ in together] == ["tautomers", "tautomers", "inference_speed", "inference_speed"]
    assert [number for name, number in together if name == "inference_speed"] == [1, 1]
    shares = [int(cores) for _, _, cores in log(tmp_path)]
    everything = len(os.sched_getaffinity(0))
    assert shares[2:] == [everything, everything]
    if everything > 1:
        assert sum(shares[:2]) == everything


def test_progress_names_its_task(tmp_path):
    _, events = run(["toy", "toy:depth=0.3"], tmp_path / "out")
    assert {event.index for event in events if isinstance(event, TaskProgress)} == {1, 2}


# How a worker ends


@pytest.mark.parametrize(
    "fault, kind, message, where",
    [
        ("os.kill(os.getpid(), 11)", "crashed", "SIGSEGV", "model.py:"),
        ("import sys; print('last words', file=sys.stderr, flush=True); os._exit(3)",
         "crashed", "exit code 3; its last words: last words", None),
        ("os.kill(os.getpid(), 9)", "crashed", "SIGKILL (the system does that when memory runs out)", None),
        ("import time; time.sleep(600)", "timeout", "not done after 3 s", "model.py:"),
        ("import ctypes; ctypes.CDLL(None).sleep(600)", "timeout", "not done after 3 s", "model.py:"),
        ("os.kill(os.getpid(), 19)", "timeout", "not done after 3 s", None),
    ],
)  # fmt: skip
def test_the_end_of_a_worker_has_a_name_and_a_place(make_model, tmp_path, fault, kind, message, where):
    found, _ = run([make_model(fault=fault), "toy"], tmp_path / "out", limit=3.0)
    failure = found["model", "tautomers"].result.failure
    assert failure.kind == kind
    assert message in failure.message
    assert (failure.where or "").startswith(where or "")
    assert failure.where is None or failure.where.endswith(" calculate")
    assert found["model", "tautomers"].provenance.device.startswith("cpu")
    assert not found["toy", "tautomers"].reasons


def test_what_a_worker_started_ends_with_it(make_model, tmp_path):
    fault = (
        f"import subprocess, time; child = subprocess.Popen(['sleep', '600']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    run([make_model(fault=fault)], tmp_path / "out", limit=3.0)
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while _alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_standard_output_is_left_to_the_table(make_model, tmp_path, capfd):
    run([make_model(fault="print('noise'); import sys; print('noise', file=sys.stderr)")], tmp_path / "out")
    assert "noise" not in "".join(capfd.readouterr())


def test_a_calculator_needs_no_device_of_jax(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_platform")
    found, _ = run(["toy"], tmp_path / "out")
    assert found["toy", "tautomers"].result.failure is None
    assert found["toy", "tautomers"].provenance.device.startswith("none: ")


def test_a_worker_that_never_begins_fails_its_task(tmp_path, monkeypatch):
    monkeypatch.setattr("mlipaudit.running.crew.START_LIMIT_S", 0.01)
    found, _ = run(["toy"], tmp_path / "out")
    failure = found["toy", "tautomers"].result.failure
    assert (failure.kind, failure.message) == (
        FailureKind.CRASHED,
        "the worker process did not begin within 0.01 s",
    )


def test_answers_that_cannot_be_stored_stop_the_run(tmp_path):
    (tmp_path / "out" / "toy").mkdir(parents=True)
    (tmp_path / "out" / "toy" / "tautomers").write_text("a file")
    with pytest.raises(StoreError, match="cannot write"):
        run(["toy"], tmp_path / "out")


def test_a_task_without_data_needs_no_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(Crew, "work_off", lambda self, jobs: pytest.fail("a worker") if jobs else iter(()))
    plan = plan_of(["toy"])
    failure = Failure(kind=FailureKind.DATA_UNAVAILABLE, message="planted")
    monkeypatch.setattr(
        "mlipaudit.running.plan.Plan.with_data",
        lambda self, progress: replace(plan, tasks=tuple(replace(t, data=failure) for t in plan.tasks)),
    )
    (record,) = execute(plan, ResultStore(tmp_path), lambda event: None)
    assert (record.result.failure, record.result.score) == (failure, 0.0)


def test_a_free_worker_prefers_the_model_it_has():
    one, two, three = plan_of(["toy", "toy:depth=0.3", "toy:depth=0.4"]).tasks

    def taken(*tasks):
        backlog = Backlog(Portion(index, task) for index, task in enumerate(tasks, start=1))
        return backlog.take(loaded=two.model, elsewhere={one.model}).task

    assert taken(one, two, three) is two
    assert taken(one, three) is three
    assert taken(one) is one


# Stacks as faulthandler writes them


def test_the_crashing_thread_is_read():
    stack = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 [python] (most recent call first):\n"
        '  File "/home/alice/model.py", line 7 in calculate\n  File "/usr/ase.py", line 1 in get\n'
    )
    assert innermost_frame(stack) == "model.py:7 calculate"


def test_of_all_threads_the_main_one_is_read():
    stack = (
        'Thread 0x02 (most recent call first):\n  File "threading.py", line 1 in wait\n\n'
        'Current thread 0x01 (most recent call first):\n  File "/home/alice/model.py", line 8 in <module>\n'
    )
    assert innermost_frame(stack) == "model.py:8 <module>"


def test_silence_has_no_frame():
    assert innermost_frame("") is None


# Places


def test_one_worker_on_a_cpu_has_all_cores(monkeypatch):
    monkeypatch.setattr(devices, "usable_gpus", list)
    assert places(None) == places(1) == [Place()]


@pytest.mark.parametrize(
    "cores, workers, shares",
    [(4, 2, [(0, 1), (2, 3)]), (5, 2, [(0, 1, 2), (3, 4)]), (2, 3, [(), (), ()]), (0, 2, [(), ()])],
)
def test_workers_share_the_cores(monkeypatch, cores, workers, shares):
    monkeypatch.setattr(devices, "usable_gpus", list)
    monkeypatch.setattr(devices, "_cores", lambda: list(range(cores)))
    assert [place.cores for place in places(workers)] == shares


def test_one_worker_per_gpu(monkeypatch):
    monkeypatch.setattr(devices, "usable_gpus", lambda: ["0", "3"])
    assert [place.environment() for place in places(None)] == [
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "3"},
    ]


def test_workers_on_one_gpu_share_its_memory(monkeypatch):
    monkeypatch.setattr(devices, "usable_gpus", lambda: ["0", "3"])
    assert [place.environment() for place in places(3)] == [
        {"CUDA_VISIBLE_DEVICES": name, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.38"} for name in ("0", "3", "0")
    ]


@pytest.mark.parametrize(
    "environ, gpus",
    [
        ({}, ["0", "1"]),
        ({"JAX_PLATFORMS": "cuda,cpu"}, ["0", "1"]),
        ({"JAX_PLATFORMS": "cpu"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "2,GPU-5"}, ["2", "GPU-5"]),
    ],
)
def test_gpus_are_found_without_jax(monkeypatch, tmp_path, environ, gpus):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: H200 (UUID: GPU-1)'\necho 'GPU 1: H200 (UUID: GPU-2)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(devices, "_has_cuda_plugin", lambda: True)
    assert usable_gpus(environ) == gpus


def test_a_gpu_that_jax_cannot_use_does_not_count(monkeypatch):
    monkeypatch.setattr(devices, "_has_cuda_plugin", lambda: False)
    assert usable_gpus({"CUDA_VISIBLE_DEVICES": "0"}) == []


# Limits in this process


def test_what_takes_too_long_is_stopped():
    with pytest.raises(TaskTimeoutError, match=r"not done after 0\.1 s"), time_limit(0.1):
        try:
            time.sleep(10)
        except Exception:
            pytest.fail("a model must not be able to swallow it")


def test_a_limit_leaves_nothing_behind():
    with time_limit(0.05):
        pass
    time.sleep(0.1)


def test_no_limit_in_other_threads():
    seen = []

    def work():
        with time_limit(0.01):
            time.sleep(0.05)
            seen.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["done"]


def test_a_task_in_this_process_has_the_same_limit(make_model, tmp_path):
    found, _ = run([make_model(fault="import time; time.sleep(600)")], tmp_path / "out", workers=0, limit=1.0)
    failure = found["model", "tautomers"].result.failure
    assert (failure.kind, failure.message) == (FailureKind.TIMEOUT, "not done after 1 s")
    assert failure.where.startswith("model.py:")


def test_termination_ends_a_block_as_an_interrupt():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) is before
