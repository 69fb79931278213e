# SPDX-License-Identifier: Apache-2.0
"""The same command again does what is missing, and nothing else."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlipaudit.cli import main
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.record import TaskRecord
from mlipaudit.running.resume import reason_to_repeat
from mlipaudit.running.worker import Worker
from mlipaudit.selftest.check import without_times
from mlipaudit.store import ResultStore, Unreadable, checksum, unsealed

MODELS = ("toy", "toy:depth=0.3", "toy:depth=0.4")


def arguments(output, *extra, models=MODELS):
    return ["run", "-m", *models, "-b", "tautomers", "-rm", "dev", "-o", str(output), *extra]


def audit(output, *extra, models=MODELS):
    return main(arguments(output, "--workers", "0", *extra, models=models))


def command(output, *extra, models=MODELS):
    return [sys.executable, "-m", "mlipaudit", *arguments(output, *extra, models=models)]


def records(output):
    """model -> record."""
    return {record.provenance.model: record for record in ResultStore(output).records()}


def comparable(output):
    """Everything in a store that two runs must agree in."""
    content = {str(p.relative_to(output)): p.read_text("utf-8") for p in output.rglob("*.json")}
    results = {name: without_times(record) for name, record in records(output).items()}
    return results, {k: v for k, v in content.items() if not k.endswith(("result.json", "run.json"))}


@pytest.fixture
def begun(monkeypatch):
    """Names of the models whose tasks were really run."""
    names, run = [], Worker.run

    def noted(self, task, progress, **limit):
        names.append(task.model.name)
        return run(self, task, progress, **limit)

    monkeypatch.setattr(Worker, "run", noted)
    return names


def rewrite(file, **changes):
    content = {**unsealed(json.loads(file.read_text("utf-8"))), **changes}
    file.write_text(json.dumps({**content, "checksum": checksum(content)}), "utf-8")


# Which tasks are run


def test_nothing_is_run_twice(tmp_path, begun, capsys):
    assert audit(tmp_path) == 0
    first = capsys.readouterr().out
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in tmp_path.rglob("*.json") if p.name != "run.json"}
    assert audit(tmp_path) == 0
    again = capsys.readouterr()
    assert begun == ["toy", "toy-2", "toy-3"]
    assert before == {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in before}
    assert again.out == first
    assert again.err.count("kept from an earlier run") == 3


def test_only_what_is_missing_is_run(tmp_path, begun):
    audit(tmp_path, models=MODELS[:1])
    audit(tmp_path)
    assert begun == ["toy", "toy-2", "toy-3"]


def test_fresh_starts_over(tmp_path, begun):
    audit(tmp_path, models=MODELS[:1])
    audit(tmp_path, "--fresh", models=MODELS[:1])
    assert begun == ["toy", "toy"]


@pytest.mark.parametrize(
    "other, why",
    [
        (["--seed", "1"], "differs in seed (was 0, is 1)"),
        (["-rm", "fast", "--data", "embedded"], "differs in protocol (max_systems), run mode (was dev, is fast)"),
    ],
)
def test_another_identity_is_run_again_and_the_difference_named(tmp_path, begun, capsys, other, why):
    audit(tmp_path, models=MODELS[:1])
    audit(tmp_path, *other, models=MODELS[:1])
    assert begun == ["toy", "toy"]
    assert why in capsys.readouterr().err


def test_another_model_under_the_same_name_is_run_again(tmp_path, begun, capsys):
    audit(tmp_path, models=["toy:depth=0.3"])
    audit(tmp_path, models=["toy:depth=0.4"])
    assert begun == ["toy", "toy"]
    assert "differs in model weights (were " in capsys.readouterr().err


def test_other_data_is_run_again(tmp_path, begun, capsys):
    import shutil

    from mlipaudit.data import embedded_root

    shutil.copytree(embedded_root() / "tautomers", tmp_path / "data" / "tautomers")
    audit(tmp_path / "out", "--data", str(tmp_path / "data"), models=MODELS[:1])
    (file,) = (tmp_path / "data" / "tautomers").glob("*.json")
    file.write_text(file.read_text("utf-8") + "\n", "utf-8")
    (file.parent / "manifest.toml").unlink()
    audit(tmp_path / "out", "--data", str(tmp_path / "data"), models=MODELS[:1])
    assert begun == ["toy", "toy"]
    assert "differs in input data (were " in capsys.readouterr().err


def test_a_replaced_result_comes_back_without_a_run(tmp_path, begun, capsys):
    audit(tmp_path, models=MODELS[:1])
    first = comparable(tmp_path)
    audit(tmp_path, "--seed", "1", models=MODELS[:1])
    assert begun == ["toy", "toy"]
    assert main(["verify", str(tmp_path)]) == 0
    audit(tmp_path, models=MODELS[:1])
    assert begun == ["toy", "toy"]
    assert comparable(tmp_path)[0] == first[0]
    assert main(["verify", str(tmp_path)]) == 0
    audit(tmp_path, "--seed", "1", models=MODELS[:1])
    assert begun == ["toy", "toy"]
    capsys.readouterr()
    audit(tmp_path, "--fresh", models=MODELS[:1])
    assert begun == ["toy", "toy", "toy"]


def test_data_that_is_gone_costs_no_result(tmp_path, begun, capsys):
    import shutil

    from mlipaudit.data import embedded_root

    shutil.copytree(embedded_root() / "tautomers", tmp_path / "data" / "tautomers")
    with_data = ("--data", str(tmp_path / "data"))
    assert audit(tmp_path / "out", *with_data, models=MODELS[:1]) == 0
    true = comparable(tmp_path / "out")
    (file,) = (tmp_path / "data" / "tautomers").glob("*.json")
    file.write_text("{}", "utf-8")
    assert audit(tmp_path / "out", *with_data, models=MODELS[:1]) == 0
    assert "kept from an earlier run, score <0.001, " in (error := capsys.readouterr().err)
    assert "; today: data_corrupt: tautomers/" in error
    assert (comparable(tmp_path / "out"), begun) == (true, ["toy"])


def test_a_changed_result_is_run_again_and_kept_aside(tmp_path, begun, capsys):
    audit(tmp_path, models=MODELS[:1])
    true = comparable(tmp_path)
    file = tmp_path / "toy" / "tautomers" / "result.json"
    forged = file.read_text("utf-8").replace('"num_failed": 0', '"num_failed": 1')
    file.write_text(forged, "utf-8")
    audit(tmp_path, models=MODELS[:1])
    assert begun == ["toy", "toy"]
    assert "run again: the stored result cannot be used: changed after it was written" in capsys.readouterr().err
    assert comparable(tmp_path) == true
    assert file.with_name("result.json.unreadable").read_text("utf-8") == forged


def test_a_failure_that_lies_with_the_model_is_kept_and_still_exits_1(tmp_path, begun):
    model = tmp_path / "bad.py"
    model.write_text("from mlipaudit.selftest.models import broken\nmlipaudit_external_model = broken('nan')\n")
    assert [audit(tmp_path / "out", models=[str(model)]) for _ in range(2)] == [1, 1]
    assert begun == ["bad"]


@pytest.fixture(scope="module")
def failed_task(tmp_path_factory):
    """A task and its record, to be given other failures."""
    from mlipaudit.models import parse_models
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.plan import make_plan

    output = tmp_path_factory.mktemp("failed")
    audit(output, models=MODELS[:1])
    plan = make_plan(parse_models(MODELS[:1]), ["tautomers"], run_mode=RunMode.DEV, data=None, seed=0)
    (task,) = plan.with_data(lambda *_: None).tasks
    return records(output)["toy"], task


@pytest.mark.parametrize("kind", FailureKind)
def test_which_failures_are_tried_again(failed_task, kind):
    record, task = failed_task
    record = record.model_copy(deep=True)
    assert reason_to_repeat(record, task, limit=60.0) is None
    record.result.failure = Failure(kind=kind, message="planted")
    outside = {"load_error", "data_unavailable", "data_corrupt", "out_of_memory", "crashed"}
    assert (reason_to_repeat(record, task, limit=60.0) is not None) == (kind in outside)


@pytest.mark.parametrize("limit, repeated", [(30.0, False), (60.0, False), (61.0, True), (None, True)])
def test_what_ran_out_of_time_is_tried_again_with_more(failed_task, limit, repeated):
    record, task = failed_task
    record = record.model_copy(deep=True)
    record.result.failure = Failure(kind=FailureKind.TIMEOUT, message="planted")
    record.provenance.time_limit_seconds = 60.0
    assert (reason_to_repeat(record, task, limit=limit) is not None) == repeated


def test_another_scoring_version_is_run_again(failed_task):
    record, task = failed_task
    record = record.model_copy(deep=True)
    record.result.scoring_version = 0
    assert "scoring version (was 0, is 1)" in reason_to_repeat(record, task, limit=None)


def test_an_unreadable_result_is_run_again(failed_task):
    _, task = failed_task
    assert reason_to_repeat(Unreadable(Path("m/b/result.json"), "cut short"), task, limit=None).endswith(
        "cut short"
    )


# Whatever stops it


def survivors(output):
    """Worker processes that still run for a store."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if b"mlipaudit.running.serve" in words and str(output).encode() in words and state != "Z":
            found.append(int(directory.name))
    return found


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


MANY = tuple(f"toy:depth=0.{i}" for i in range(1, 7))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_killed_ten_times_it_ends_as_if_nothing_had_been(tmp_path):
    model = tmp_path / "bad.py"
    model.write_text("from mlipaudit.selftest.models import broken\nmlipaudit_external_model = broken('nan')\n")
    models = [*MANY, str(model)]
    whole, output = tmp_path / "whole", tmp_path / "killed"
    assert subprocess.run(command(whole, models=models), capture_output=True).returncode == 1
    moments, finished = random.Random(3), {}
    for _ in range(10):
        process = subprocess.Popen(
            command(output, models=models), stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(moments.uniform(0.2, 3.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not survivors(output), 10.0)
        now = {file: file.stat().st_ino for file in output.glob("*/*/result.json")}
        assert finished.items() <= now.items(), "a finished task was run again"
        finished = now
    assert subprocess.run(command(output, models=models), capture_output=True).returncode == 1
    assert finished.items() <= {file: file.stat().st_ino for file in output.glob("*/*/result.json")}.items()
    assert comparable(output) == comparable(whole)
    assert not list(output.rglob(".writing-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    "number, code, word", [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_it_in_order(tmp_path, number, code, word, workers):
    model, output = tmp_path / "hangs.py", tmp_path / "out"
    model.write_text("from mlipaudit.selftest.models import broken\nmlipaudit_external_model = broken('hangs')\n")
    process = subprocess.Popen(
        command(output, "--workers", workers, models=["toy", str(model)]), stderr=subprocess.PIPE, text=True
    )
    lines = iter(process.stderr.readline, "")
    next(line for line in lines if "hangs · tautomers: loading" in line)
    time.sleep(2.0)
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait() == code
    assert rest.splitlines()[-1] == f"mlipaudit: {word}; finished results are kept, and the same command goes on"
    assert "Traceback" not in rest
    assert list(records(output)) == ["toy"]
    assert survivors(output) == []


def test_two_runs_do_not_share_a_store(tmp_path, capsys):
    with ResultStore(tmp_path).locked():
        assert audit(tmp_path) == 2
    assert f"another run is writing to {tmp_path}" in capsys.readouterr().err
    assert audit(tmp_path) == 0


def test_two_runs_at_once_in_two_processes(tmp_path):
    both = [subprocess.Popen(command(tmp_path), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    refused = next(text for text, process in zip(errors, both, strict=True) if process.returncode == 2)
    assert refused.splitlines()[-1].startswith(f"mlipaudit: error: another run is writing to {tmp_path}")
    assert all(isinstance(record, TaskRecord) for record in records(tmp_path).values())
    assert len(records(tmp_path)) == 3


# Disks


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user cannot mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_full_disk_keeps_what_was_stored(tiny_disk, capsys, workers):
    output = tiny_disk / "out"
    assert audit(output, models=MODELS[:1]) == 0
    (tiny_disk / "ballast").write_bytes(bytes(64 * 1024 - 4096 * 7))
    assert audit(output, "--workers", workers) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("mlipaudit: error: cannot write") and "No space left on device" in error
    stored = records(output)
    assert "toy" in stored and len(stored) < 3
    assert all(isinstance(record, TaskRecord) for record in stored.values())
    (tiny_disk / "ballast").unlink()
    assert audit(output) == 0
    assert len(records(output)) == 3


def test_a_disk_that_is_full_from_the_start(tiny_disk, capsys):
    (tiny_disk / "ballast").write_bytes(bytes(64 * 1024))
    assert audit(tiny_disk / "out") == 2
    assert "No space left on device; choose another --output" in capsys.readouterr().err


def test_a_read_only_disk_is_found_before_anything_is_computed(tiny_disk, begun, capsys):
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert audit(tiny_disk / "out") == 2
    assert begun == []
    assert capsys.readouterr().err == (
        f"mlipaudit: error: cannot write to {tiny_disk / 'out'}: Read-only file system; choose another --output\n"
    )


def test_stray_files_harm_nothing(tmp_path, begun):
    audit(tmp_path, models=MODELS[:1])
    for folder in (tmp_path, tmp_path / "toy", tmp_path / "toy" / "tautomers"):
        (folder / ".DS_Store").write_bytes(b"\0\1")
        (folder / ".Trashes").mkdir()
    (tmp_path / ".AppleDouble" / "tautomers").mkdir(parents=True)
    (tmp_path / ".AppleDouble" / "tautomers" / "result.json").write_bytes(b"\0")
    assert audit(tmp_path, models=MODELS[:1]) == 0
    assert begun == ["toy"]
    assert list(records(tmp_path)) == ["toy"]
