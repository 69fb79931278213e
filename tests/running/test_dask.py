# SPDX-License-Identifier: Apache-2.0
"""A Dask cluster gives what one process gives, also when its workers die."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from mlipaudit.cli import main
from mlipaudit.failures import FailureKind
from mlipaudit.models import parse_models
from mlipaudit.run_mode import RunMode
from mlipaudit.running.backlog import Backlog, Portion
from mlipaudit.running.dask_executor import DaskCluster
from mlipaudit.running.executor import Settings, execute
from mlipaudit.running.plan import make_plan
from mlipaudit.running.schedulers import Cluster
from mlipaudit.store import ResultStore

pytest.importorskip("distributed", reason="needs the extra `dask`")
pytestmark = pytest.mark.usefixtures("plugin")

NAMES = ("small_chunks", "asked_once", "not_asked")


def command(model, output, *extra, benchmarks=NAMES):
    options = ["-b", *benchmarks, "-rm", "fast", "--data", "embedded", "-o", str(output)]
    return ["run", "-m", model, *options, *extra]


def begin(*arguments):
    return subprocess.Popen([sys.executable, "-m", "mlipaudit", *arguments], stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def slow(write_model):
    """A model that takes a moment for each structure, and the processes that asked it to."""
    return write_model("slow", fault="time.sleep(0.05)")


@pytest.fixture(scope="module")
def one(tmp_path_factory, slow, plugin):
    """Everything by one process."""
    output = tmp_path_factory.mktemp("one") / "results"
    assert main(command(slow[0], output, "--workers", "0")) == 0
    return output


def test_a_killed_worker_costs_nothing(tmp_path, slow, one, content):
    model, log = slow
    log.write_text("")
    run = begin(*command(model, tmp_path, "--dask", "local:2"))
    try:
        deadline = time.monotonic() + 100
        while not list(tmp_path.glob("*/small_chunks/parts/000002.json")):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.02)
        victim = int(log.read_text().split()[-1])
        os.kill(victim, signal.SIGKILL)
        _, said = run.communicate(timeout=100)
    finally:
        run.kill()
    assert run.returncode == 0, said
    assert content(tmp_path) == content(one)
    assert len(set(log.read_text().split())) > 1


def test_a_cluster_of_somebody_else_does_a_shard_and_is_left_as_it_was(tmp_path, one, slow, content):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None) as cluster:
        for number in (1, 2):
            output = tmp_path / f"part{number}"
            arguments = command(
                slow[0], output, "--scheduler", cluster.scheduler_address, "--shard", f"{number}/2"
            )
            assert main(arguments) == 0
        assert len(cluster.scheduler_info["workers"]) == 1
    assert main(["merge", str(tmp_path / "part2"), str(tmp_path / "part1"), "-o", str(tmp_path / "all")]) == 0
    assert content(tmp_path / "all") == content(one)


def test_a_model_that_kills_its_process_is_tried_again_a_few_times(tmp_path, write_model, monkeypatch):
    monkeypatch.setattr("mlipaudit.running.dask_executor.TRIES", 2)
    model, log = write_model(fault="os.kill(os.getpid(), 9)")
    plan = make_plan(parse_models([model]), ["asked_once"], run_mode=RunMode.FAST, data="embedded", seed=0)
    (record,) = execute(
        plan, ResultStore(tmp_path), lambda event: None, Settings(limit=60.0, cluster=Cluster("dask", "local:1"))
    )
    assert record.result.failure.kind is FailureKind.CRASHED
    assert "SIGKILL" in record.result.failure.message
    assert len(log.read_text().splitlines()) == 2


def test_a_model_that_hangs_is_stopped(tmp_path, write_model):
    model, _ = write_model(fault="time.sleep(600)")
    plan = make_plan(parse_models([model]), ["asked_once"], run_mode=RunMode.FAST, data="embedded", seed=0)
    (record,) = execute(
        plan, ResultStore(tmp_path), lambda event: None, Settings(limit=2.0, cluster=Cluster("dask", "local:1"))
    )
    failure = record.result.failure
    assert (failure.kind, failure.message) == (FailureKind.TIMEOUT, "not done after 2 s")


def test_a_scheduler_that_is_not_there_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mlipaudit.running.dask_executor.CONNECT_S", 0.5)
    assert main(command("toy", tmp_path, "--scheduler", "tcp://127.0.0.1:9")) == 2
    assert "--scheduler tcp://127.0.0.1:9: no Dask scheduler answers there" in capsys.readouterr().err


def test_what_needs_a_quiet_machine_gets_one(tmp_path, monkeypatch):
    tasks = make_plan(parse_models(["toy"]), NAMES, run_mode=RunMode.FAST, data="embedded", seed=0).tasks
    cluster = DaskCluster("", ResultStore(tmp_path), lambda event: None)
    cluster._client = SimpleNamespace(nthreads=lambda: {"tcp://a:1": 1, "tcp://a:2": 1, "tcp://b:1": 1})
    begun = []
    monkeypatch.setattr(cluster, "_begin", lambda job, address: begun.append(address))
    portions = [Portion(index, task) for index, task in enumerate([tasks[0]] * 3, start=1)]
    cluster._hand_out(Backlog(portions), one_per_host=True)
    assert begun == ["tcp://a:1", "tcp://b:1"]
    begun.clear()
    cluster._hand_out(Backlog(portions), one_per_host=False)
    assert begun == ["tcp://a:1", "tcp://a:2", "tcp://b:1"]


@pytest.mark.parametrize("text", ["local", "local:0", "local:x", "tcp://127.0.0.1:9"])
def test_what_is_no_local_cluster_is_a_usage_error(tmp_path, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(command("toy", tmp_path, "--dask", text))
    assert ended.value.code == 2
    assert "is not local:N, such as local:4" in capsys.readouterr().err


def test_workers_and_a_cluster_exclude_each_other(tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(command("toy", tmp_path, "--dask", "local:2", "--workers", "2"))
    assert ended.value.code == 2


def test_without_the_extra_it_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(command("toy", tmp_path, "--dask", "local:2")) == 2
    assert "pip install 'mlipaudit[dask]'" in capsys.readouterr().err
