# SPDX-License-Identifier: Apache-2.0
"""Every shard works out the same division by itself, and does its own part of it."""

import json
import tracemalloc

import numpy as np
import pytest

from mlipaudit.benchmark import Benchmark
from mlipaudit.benchmarks.tautomers import TautomersBenchmark
from mlipaudit.cli import main
from mlipaudit.errors import UsageError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.models import ModelKind, ModelSpec, parse_models
from mlipaudit.run_mode import RunMode
from mlipaudit.running.backlog import Backlog
from mlipaudit.running.chunks import Chunk
from mlipaudit.running.inventory import Inventory, Pieces, ranges
from mlipaudit.running.plan import choose_benchmarks, make_plan
from mlipaudit.running.shards import CHUNK_COST, Shard, cost, parse_shard, portions
from mlipaudit.store import ResultStore

SLURM = {
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_ARRAY_TASK_MIN": "1",
    "SLURM_ARRAY_TASK_MAX": "4",
    "SLURM_ARRAY_TASK_COUNT": "4",
}


def models(number):
    return [ModelSpec(f"model{i:03d}", ModelKind.NAMED, "toy", f"{i:064x}") for i in range(number)]


def numbered(num_models, benchmarks, run_mode=RunMode.FAST):
    plan = make_plan(models(num_models), benchmarks, run_mode=run_mode, data="embedded", seed=0)
    return list(enumerate(plan.tasks, start=1))


def run(output, *extra, benchmarks=("small_chunks", "asked_once"), model="toy"):
    command = ["run", "-m", model, "-b", *benchmarks, "-rm", "fast", "--data", "embedded", "--workers", "0"]
    return main([*command, "-o", str(output), *extra])


# Which shard


@pytest.mark.parametrize("text, shard", [("1/1", (1, 1)), ("2/3", (2, 3)), ("100/100", (100, 100))])
def test_a_shard_has_a_number(text, shard):
    assert parse_shard(text, {}) == Shard(*shard)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "1", "a/b", "1/3/4", "-1/3", "1.0/3", "", "pbs"])
def test_what_is_no_shard_is_a_usage_error(text, tmp_path, capsys):
    with pytest.raises(UsageError, match="--shard"):
        parse_shard(text, {})
    assert main(["run", "-m", "toy", "-o", str(tmp_path), f"--shard={text}"]) == 2
    assert f"--shard {text}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, shard",
    [
        ({}, (3, 4)),
        ({"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "3"}, (4, 4)),
        ({"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MAX": "10", "SLURM_ARRAY_TASK_STEP": "3"}, (3, 4)),
    ],
)
def test_a_job_array_says_which_shard(changes, shard):
    assert parse_shard("slurm", {**SLURM, **changes}) == Shard(*shard)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"SLURM_ARRAY_TASK_ID": None}, "SLURM_ARRAY_TASK_ID is not set; submit a job array"),
        ({"SLURM_ARRAY_TASK_COUNT": None}, "SLURM_ARRAY_TASK_COUNT is not set"),
        ({"SLURM_ARRAY_TASK_MIN": "x"}, "SLURM_ARRAY_TASK_MIN is 'x', no number"),
        ({"SLURM_ARRAY_TASK_COUNT": "3"}, "have gaps"),
        ({"SLURM_ARRAY_TASK_STEP": "2"}, "have gaps"),
    ],
)
def test_what_a_job_array_does_not_say_is_named(changes, words):
    environ = {key: value for key, value in {**SLURM, **changes}.items() if value is not None}
    with pytest.raises(UsageError, match="--shard slurm") as caught:
        parse_shard("slurm", environ)
    assert words in str(caught.value)


# Who does what


@pytest.mark.parametrize("seed", range(20))
def test_every_piece_is_done_by_exactly_one_shard(seed):
    rng = np.random.default_rng(seed)
    tasks = numbered(int(rng.integers(1, 4)), choose_benchmarks(exclude=["inference_speed"]))
    counts = {task.benchmark: int(rng.choice([0, 1, 2, 7, 40])) or None for _, task in tasks}
    number = int(rng.choice([1, 2, 3, 8, 50]))
    done, loads = [], []
    for i in range(1, number + 1):
        found = portions(tasks, lambda task: counts[task.benchmark], Shard(i, number))
        pieces = [
            (p.index, chunk)
            for p in found
            for chunk in (p.chunks if p.chunks is not None else range(1, p.count + 1))
        ]
        done += pieces
        loads.append(sum(p.num_jobs * CHUNK_COST if p.chunks else _cost(p) for p in found))
    expected = [(i, chunk) for i, task in tasks for chunk in range(1, (_count(task, counts) or 1) + 1)]
    assert sorted(done) == sorted(expected)
    largest = max([CHUNK_COST, *(2 * cost(task) for _, task in tasks)])
    assert max(loads) <= sum(loads) / number + 2 * largest


def _count(task, counts):
    return None if task.benchmark_class.reusable_output_id else counts[task.benchmark]


def _cost(portion):
    return portion.count * CHUNK_COST if portion.count > 1 else cost(portion.task)


def test_a_task_that_one_shard_does_is_done_whole():
    tasks = numbered(1, ["tautomers", "dihedral_scan"])
    first, second = (portions(tasks, lambda task: 5, Shard(i, 2)) for i in (1, 2))
    assert [(p.task.benchmark, p.chunks) for p in [*first, *second]] == [
        ("tautomers", None),
        ("dihedral_scan", None),
    ]


def test_shards_have_few_models():
    tasks = numbered(10, ["tautomers", "dihedral_scan", "reactivity"])
    for i in range(1, 6):
        names = {p.task.model.name for p in portions(tasks, lambda task: 10, Shard(i, 5))}
        assert len(names) == 2


def test_what_asks_the_same_stays_together():
    tasks = numbered(2, ["water_radial_distribution", "tautomers", "water_density"])
    for i in range(1, 5):
        found = portions(tasks, lambda task: 6, Shard(i, 4))
        water = [p.task.benchmark for p in found if p.task.benchmark != "tautomers"]
        assert water in ([], ["water_radial_distribution", "water_density"])


def test_dynamics_weighs_more_than_single_points():
    (_, energies), (_, dynamics) = numbered(1, ["tautomers", "stability"], RunMode.STANDARD)
    assert cost(dynamics) > 100 * cost(energies)


@pytest.mark.timeout(120)
def test_a_hundred_models_in_a_million_chunks_are_planned_and_counted():
    names = choose_benchmarks()
    tasks = numbered(100, names)
    tracemalloc.start()
    try:
        shares = [portions(tasks, lambda task: 1000, Shard(i, 1000)) for i in (1, 2, 500, 1000)]
        backlog = Backlog(portions(tasks, lambda task: 1000, Shard(1, 1)))
        assert backlog.take().chunk is None  # a single shard does every task whole
        planning = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(tasks) == 1800
    assert planning < 20e6
    assert all(share for share in shares[:2])
    inventory = Inventory(())
    for _, task in tasks:
        entry = inventory.entry(task.model.name, task.benchmark)
        pieces = entry.pieces = Pieces(1000)
        for number in range(1, 1001):
            pieces.add(number, number % 7, started=1.0, failed=False)
    size = sum(len(p._state) + 12 * len(p._started) for p in (e.pieces for e in inventory.tasks.values()))
    assert size < 30e6
    assert not any(entry.pieces.missing for entry in inventory.tasks.values())
    assert len(list(inventory.expected())) == 1800


def test_chunks_are_handed_out_one_by_one_and_no_more_after_a_failure():
    tasks = numbered(1, ["tautomers", "dihedral_scan"])
    backlog = Backlog(portions(tasks, lambda task: 1000, Shard(1, 3)))
    (first,) = {backlog.take().chunk for _ in range(1)}
    assert (first, backlog.take().chunk) == (Chunk(1, 1000), Chunk(2, 1000))
    backlog.give_up(1)
    assert not backlog


# Bookkeeping of a merge


@pytest.mark.parametrize("numbers, words", [([], ""), ([3], "3"), ([1, 2, 3, 7, 9, 10], "1-3, 7, 9-10")])
def test_numbers_in_words(numbers, words):
    assert ranges(numbers) == words


def test_of_two_chunks_the_newest_that_is_done_counts():
    pieces = Pieces(2)
    pieces.add(1, 0, started=5.0, failed=False)
    pieces.add(1, 1, started=9.0, failed=True)
    assert (pieces.folder(1), pieces.twice) == (0, {(0, 1): [1]})
    pieces.add(1, 2, started=6.0, failed=False)
    pieces.add(1, 3, started=6.0, failed=False)
    assert (pieces.folder(1), pieces.twice[2, 0], pieces.twice[2, 3]) == (2, [1], [1])
    assert (pieces.missing, pieces.there) == ([2], [1])


def test_behind_a_failed_chunk_nothing_is_missing():
    pieces = Pieces(4)
    pieces.add(2, 0, started=1.0, failed=True)
    assert (pieces.last, pieces.missing) == (2, [1])
    pieces.add(1, 0, started=1.0, failed=False)
    assert (pieces.missing, pieces.failed) == ([], True)


# Doing it


@pytest.mark.usefixtures("plugin")
def test_a_shard_without_work_does_nothing(tmp_path, capsys):
    assert run(tmp_path / "out", "--shard", "1/50") == 0
    assert "this is shard 1/50" in capsys.readouterr().out
    assert not list((tmp_path / "out").glob("*/*/*"))


@pytest.mark.usefixtures("plugin")
def test_a_folder_holds_one_shard(tmp_path, capsys):
    assert run(tmp_path / "out", "--shard", "1/2") == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["shard"] == "1/2"
    capsys.readouterr()
    assert run(tmp_path / "out", "--shard", "2/2") == 2
    assert "holds shard 1/2, and not 2/2: give every shard an --output of its own" in capsys.readouterr().err


@pytest.mark.usefixtures("plugin")
def test_an_interrupted_shard_goes_on_where_it_stopped(tmp_path, write_model):
    model, log = write_model()
    parts = tmp_path / "out" / "model" / "small_chunks" / "parts"
    assert run(tmp_path / "out", "--shard", "1/2", model=model) == 0
    mine = sorted(path.name for path in parts.glob("*.json"))
    assert 2 < len(mine) < 11
    for name in mine[1:3]:
        (parts / name).unlink()
    log.write_text("")
    assert run(tmp_path / "out", "--shard", "1/2", model=model) == 0
    assert len(log.read_text().splitlines()) == 2 * 3 * 2
    assert sorted(path.name for path in parts.glob("*.json")) == mine
    log.write_text("")
    assert run(tmp_path / "out", "--shard", "1/2", "--fresh", model=model) == 0
    assert len(log.read_text().splitlines()) == len(mine) * 3 * 2


@pytest.mark.usefixtures("plugin")
def test_chunks_of_another_model_or_count_do_not_count(tmp_path, write_model):
    (model, log), (other, _) = write_model(), write_model(fault="time.sleep(0)")
    run(tmp_path / "out", "--shard", "1/2", model=other)
    assert run(tmp_path / "out", "--shard", "1/2", model=model) == 0
    parts = list((tmp_path / "out" / "model" / "small_chunks" / "parts").glob("*.json"))
    assert len(log.read_text().splitlines()) == len(parts) * 3 * 2


@pytest.mark.usefixtures("plugin")
def test_a_chunk_that_crashes_fails_its_task_as_if_it_were_whole(tmp_path, write_model, content):
    (deadly,) = {len(pair.atom_symbols[0]) for pair in list(_pairs().values())[12:13]}
    assert deadly not in {len(symbols) for pair in list(_pairs().values())[:12] for symbols in pair.atom_symbols}
    model, _ = write_model(fault=f"if len(arguments[0]) == {deadly}: os._exit(3)")
    command = ["run", "-m", model, "-b", "small_chunks", "-rm", "fast", "--data", "embedded"]
    for workers in "12":
        assert main([*command, "-o", str(tmp_path / workers), "--workers", workers]) == 1
    found = [ResultStore(tmp_path / workers).find("model", "small_chunks") for workers in "12"]
    assert found[0].result == found[1].result
    assert found[1].result.failure.kind is FailureKind.CRASHED
    kept = {int(path.stem) for path in (tmp_path / "2" / "model" / "small_chunks" / "parts").glob("*.json")}
    assert {1, 2, 3, 4} <= kept
    assert len(kept) < 8


def _pairs():
    (task,) = make_plan(parse_models(["toy"]), ["tautomers"], run_mode=RunMode.FAST, data="embedded", seed=0).tasks
    return TautomersBenchmark(task.model.load(), run_mode=RunMode.FAST, data="embedded").reference


@pytest.mark.usefixtures("plugin")
def test_shards_that_see_different_data_are_refused(tmp_path, monkeypatch, capsys):
    failure = Failure(kind=FailureKind.DATA_UNAVAILABLE, message="planted")
    monkeypatch.setattr("mlipaudit.running.plan.Plan._fetch", lambda self, cls, *, progress: failure)
    assert run(tmp_path, "--shard", "1/2") == 2
    assert "the data of small_chunks is not to be had here (planted)" in capsys.readouterr().err


# The contract of a split benchmark


@pytest.mark.parametrize(
    "name", ["tautomers", "dihedral_scan", "reactivity", "noncovalent_interactions", "conformer_selection"]
)
def test_chunks_joined_are_what_is_asked_at_once(name, monkeypatch):
    (task,) = make_plan(parse_models(["toy"]), [name], run_mode=RunMode.FAST, data="embedded", seed=0).tasks
    cls = task.benchmark_class
    benchmark = cls(task.model.load(), run_mode=RunMode.FAST, data="embedded")
    whole = benchmark.ask(benchmark.backend, benchmark.reference)
    assert len(cls.chunks(benchmark.reference)) == 1
    monkeypatch.setattr(cls, "chunk_systems", 4)
    chunks = cls.chunks(benchmark.reference)
    assert len(chunks) > 1
    assert [name for chunk in chunks for name in chunk] == cls.system_names(benchmark.reference)
    assert benchmark.ask(benchmark.backend, benchmark.reference).model_dump_json() == whole.model_dump_json()


def test_a_split_benchmark_without_systems_has_one_empty_chunk():
    assert TautomersBenchmark.chunks({}) == [[]]


def test_a_benchmark_that_asks_in_its_own_way_is_not_split():
    assert TautomersBenchmark.is_split()
    own = type("Own", (TautomersBenchmark,), {"ask": lambda self, backend, reference: None})
    old = type("Old", (TautomersBenchmark,), {"run_model": lambda self: None})
    assert not own.is_split()
    assert not old.is_split()
    assert not Benchmark.is_split()


def test_a_chunk_does_not_depend_on_what_was_asked_before(force_fields):
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

    answers = []
    for order in ((0, 1, 2), (2, 0, 1)):
        backend = ForceFieldBackend(force_fields("tiny_mace"))
        benchmark = TautomersBenchmark(backend, run_mode=RunMode.FAST, data="embedded")
        names = benchmark.system_names(benchmark.reference)
        chunks = [names[i : i + 6] for i in (0, 6, 12)]
        found = {i: benchmark.ask_chunk(backend, benchmark.reference, chunks[i]) for i in order}
        answers.append([found[i].model_dump_json() for i in range(3)])
    assert answers[0] == answers[1]
    assert '"predictions":[[' in answers[0][0]
