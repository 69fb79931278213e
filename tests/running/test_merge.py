# SPDX-License-Identifier: Apache-2.0
"""However the work is split, the results are the same; what does not belong together is refused in words."""

import itertools
import json
import shutil

import pytest

from mlipaudit.cli import main
from mlipaudit.store import CHECKSUM, ResultStore, checksum

pytestmark = pytest.mark.usefixtures("plugin")

NAMES = ("small_chunks", "asked_once", "not_asked")
SHARDS = 3


def run(model, output, *extra, benchmarks=NAMES):
    command = ["run", "-m", model, "toy:depth=0.3", "-b", *benchmarks, "-rm", "fast", "--data", "embedded"]
    return main([*command, "-o", str(output), *extra])


def merge(*folders, output, extra=()):
    return main(["merge", *map(str, folders), "-o", str(output), *extra])


def edit(path, change):
    """Change a stored file as if it had been written so."""
    content = json.loads(path.read_text("utf-8"))
    content.pop(CHECKSUM)
    change(content)
    path.write_text(json.dumps({**content, CHECKSUM: checksum(content)}), "utf-8")


@pytest.fixture(scope="module")
def model(write_model):
    return write_model()[0]


@pytest.fixture(scope="module")
def one(tmp_path_factory, model, plugin):
    """Everything by one process."""
    output = tmp_path_factory.mktemp("one") / "results"
    assert run(model, output, "--workers", "0") == 0
    return output


@pytest.fixture(scope="module")
def shards(tmp_path_factory, model, plugin):
    """The same by three shards."""
    folder = tmp_path_factory.mktemp("shards")
    outputs = [folder / f"part{number}" for number in range(1, SHARDS + 1)]
    for number, output in enumerate(outputs, start=1):
        assert run(model, output, "--shard", f"{number}/{SHARDS}", "--workers", "0") == 0
    return outputs


@pytest.fixture
def copies(tmp_path, shards, monkeypatch):
    """Folders of the shards to be changed, under short names."""
    for folder in shards:
        shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The same however it is split


def test_two_workers_give_what_one_process_gives(tmp_path, model, one, content):
    assert run(model, tmp_path / "two", "--workers", "2") == 0
    assert content(tmp_path / "two") == content(one)


def test_shards_share_tasks_between_them(shards):
    chunks = [len(list(folder.glob("model/small_chunks/parts/*.json"))) for folder in shards]
    assert sum(number > 0 for number in chunks) > 1
    assert sum(chunks) == 11


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0, 1)])
def test_shards_in_any_order_give_what_one_process_gives(tmp_path, shards, one, content, order):
    assert merge(*(shards[i] for i in order), output=tmp_path / "all") == 0
    assert content(tmp_path / "all") == content(one)
    stored = ResultStore(tmp_path / "all").find("model", "small_chunks")
    assert stored.provenance.wall_seconds == pytest.approx(
        sum(
            json.loads(path.read_text())["provenance"]["wall_seconds"]
            for folder in shards
            for path in folder.glob("model/small_chunks/parts/*.json")
        )
    )


def test_what_is_shown_is_the_same(tmp_path, shards, one, capsys):
    merge(*shards, output=tmp_path / "all")
    capsys.readouterr()
    shown = []
    for folder in (one, tmp_path / "all"):
        assert main(["show", str(folder), "--csv"]) == 0
        shown.append(capsys.readouterr().out.replace(str(folder), ""))
    columns = [[row.split(",")[:4] for row in text.splitlines()] for text in shown]
    assert columns[0] == columns[1]
    assert len(columns[0]) > 6


def test_a_model_that_cannot_be_loaded_fails_in_the_same_words(tmp_path, write_model, content):
    broken, _ = write_model("broken")
    with open(broken, "a") as stream:
        stream.write("\nraise RuntimeError('planted')\n")
    assert run(broken, tmp_path / "one", "--workers", "0") == 1
    for number in (1, 2):
        run(broken, tmp_path / f"part{number}", "--shard", f"{number}/2", "--workers", "0")
    assert merge(tmp_path / "part1", tmp_path / "part2", output=tmp_path / "all") == 0
    assert content(tmp_path / "all") == content(tmp_path / "one")
    failure = ResultStore(tmp_path / "all").find("broken", "small_chunks").result.failure
    assert "planted" in failure.message


# What is missing


def test_a_missing_shard_is_named_and_the_rest_assembled(tmp_path, shards, one, content, capsys):
    assert merge(shards[0], shards[2], output=tmp_path / "all") == 1
    said = capsys.readouterr().err.splitlines()
    there = {int(path.stem) for i in (0, 2) for path in shards[i].glob("model/small_chunks/parts/*.json")}
    absent = sorted(set(range(1, 12)) - there)
    assert absent
    assert f"missing: model · small_chunks: chunks {absent[0]}-{absent[-1]} of 11" in said
    assert merge(shards[1], output=tmp_path / "all") == 0
    assert content(tmp_path / "all") == content(one)


def test_a_single_missing_chunk_is_named(copies, capsys):
    next((copies / "part1" / "model" / "small_chunks" / "parts").glob("000002.json")).unlink()
    assert merge("part1", "part2", "part3", output="all") == 1
    assert capsys.readouterr().err == "missing: model · small_chunks: chunk 2 of 11\n"
    assert ResultStore("all").find("toy", "small_chunks").result.failure is None
    assert ResultStore("all").find("model", "small_chunks") is None


def test_a_run_in_the_merged_folder_does_what_is_missing_and_no_more(copies, write_model, one, content):
    model, log = write_model()
    assert run(model, copies / "own", "--shard", f"1/{SHARDS}", "--workers", "0") == 0
    (copies / "own" / "model" / "small_chunks" / "parts" / "000002.json").unlink()
    others = [copies / f"own{number}" for number in range(2, SHARDS + 1)]
    for number, output in enumerate(others, start=2):
        assert run(model, output, "--shard", f"{number}/{SHARDS}", "--workers", "0") == 0
    assert merge("own", *others, output="all") == 1
    log.write_text("")
    assert run(model, "all", "--workers", "0") == 0
    assert len(log.read_text().splitlines()) == 6
    results = {name: text for name, text in content(copies / "all").items() if "model_output" in name}
    assert results == {name: text for name, text in content(one).items() if "model_output" in name}


def test_a_chunk_that_was_changed_is_named(copies, capsys):
    path = copies / "part1" / "model" / "small_chunks" / "parts" / "000001.json"
    path.write_text(path.read_text().replace("e", "f", 1))
    assert merge("part1", "part2", "part3", output="all") == 1
    said = capsys.readouterr().err
    assert "cannot be used: part1/model/small_chunks/parts/000001.json: " in said
    assert "missing: model · small_chunks: chunk 1 of 11\n" in said


def test_a_result_whose_output_was_changed_is_named(copies, capsys):
    (path,) = itertools.chain(*(copies.glob(f"part{i}/model/asked_once/model_output.*.json") for i in (1, 2, 3)))
    path.write_text("{}")
    assert merge("part1", "part2", "part3", output="all") == 1
    assert "cannot be used: model · asked_once: " in capsys.readouterr().err


# Twice


def test_the_newest_wins_and_is_reported(copies, capsys):
    shutil.copytree("part1", "again")
    path = copies / "again" / "model" / "small_chunks" / "parts" / "000001.json"
    edit(path, lambda part: part["provenance"].update(started_at="2100-01-01T00:00:00+00:00", wall_seconds=1e6))
    for number in range(2, 10):
        (path.parent / f"{number:06d}.json").unlink(missing_ok=True)
    assert merge("part3", "part1", "again", "part2", output="all") == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "model · small_chunks: chunk 1 is in again and in part1; taken from again, the newest that is whole"
    )
    assert ResultStore("all").find("model", "small_chunks").provenance.wall_seconds > 1e6


def test_a_whole_result_beside_the_chunks_is_reported(copies, one, capsys):
    assert merge("part1", "part2", "part3", one, output="all") == 0
    said = capsys.readouterr().out
    assert f"model · small_chunks is in {one} and, in chunks, in part1, part2; taken from its chunks" in said
    assert f"model · asked_once is in part2 and in {one}; taken from part2, the newest that is whole" in said


def test_what_failed_counts_less_than_an_older_one_that_did_not(copies, capsys):
    shutil.copytree("part1", "again")
    failure = {"kind": "crashed", "message": "planted"}
    for path in (copies / "again").glob("model/small_chunks/parts/*.json"):
        edit(path, lambda part: part.update(output=None, failure=failure))
        edit(path, lambda part: part["provenance"].update(started_at="2100-01-01T00:00:00+00:00"))
    assert merge("part3", "part1", "again", "part2", output="all") == 0
    assert "taken from part1" in capsys.readouterr().out
    assert ResultStore("all").find("model", "small_chunks").result.failure is None


def test_a_failed_chunk_fails_its_task(copies):
    failure = {"kind": "crashed", "message": "planted"}
    for number in (1, 4):
        for folder in ("part1", "part2"):
            path = copies / folder / "model" / "small_chunks" / "parts" / f"{number:06d}.json"
            if path.exists():
                edit(
                    path,
                    lambda part, n=number: part.update(output=None, failure={**failure, "message": f"no {n}"}),
                )
    assert merge("part1", "part2", "part3", output="all") == 0
    assert ResultStore("all").find("model", "small_chunks").result.failure.message == "no 1"


# What does not belong together


def of_identity(**fields):
    return lambda content: content["provenance"]["identity"].update(fields)


CHUNK = "part1/model/small_chunks/parts/000001.json"


@pytest.mark.parametrize(
    "change, words",
    [
        (of_identity(model_sha256="f" * 64), "have different models called model ("),
        (of_identity(data_sha256="f" * 64), "differ in input data (were "),
        (of_identity(protocol={"max_systems": 7}), "differ in protocol (max_systems) of small_chunks"),
        (of_identity(benchmark_version="0"), "differ in benchmark version (was 0, is 1) of small_chunks"),
        (of_identity(run_mode="standard"), "differ in run mode (fast and standard)"),
        (of_identity(seed=7), "differ in seed (0 and 7)"),
        (lambda c: c["provenance"].update(data_edition="hub"), "differ in data edition of small_chunks ("),
        (lambda c: c.update(count=12), "have model · small_chunks in 12 and in 11 chunks"),
    ],
)
def test_a_chunk_of_another_run_is_refused(copies, capsys, change, words):
    edit(copies / CHUNK, change)
    assert merge("part2", "part1", "part3", output="all") == 2
    said = capsys.readouterr().err
    assert said.startswith("mlipaudit: error: cannot merge: ")
    assert words in said
    assert not (copies / "all").exists()


@pytest.mark.parametrize(
    "file, change, words",
    [
        ("run.json", lambda c: c.update(run_mode="dev"), "part1 and part2 differ in run mode (dev and fast)"),
        ("run.json", lambda c: c.update(data="hub"), "part1 and part2 differ in data edition (hub and embedded)"),
        ("run.json", lambda c: c.update(seed=5), "part1 and part2 differ in seed (5 and 0)"),
        ("run.json", lambda c: c["models"]["model"].update(sha256="f" * 64), "different models called model (ffffffff"),
        ("result.json", lambda c: c.update(scoring_version=0), "scoring version"),
        ("result.json", of_identity(data_sha256="f" * 64), "differ in input data"),
    ],
)  # fmt: skip
def test_a_result_of_another_run_is_refused(copies, capsys, file, change, words):
    path = copies / "part1" / file
    if file == "result.json":
        path = next(p for i in (2, 3) for p in copies.glob(f"part{i}/*/*/result.json"))
    edit(path, change)
    assert merge("part3", "part2", "part1", output="all") == 2
    assert words in capsys.readouterr().err
    assert not (copies / "all").exists()


def test_results_that_are_there_take_part(copies, capsys):
    shutil.copytree("part1", "all")
    edit(copies / "all" / "run.json", lambda c: c.update(seed=5))
    assert merge("part1", "part2", "part3", output="all") == 2
    assert "all and part1 differ in seed (5 and 0)" in capsys.readouterr().err


def test_chunks_for_an_older_version_of_the_benchmark_are_not_judged(copies, capsys):
    for folder in ("part1", "part2", "part3"):
        for path in copies.glob(f"{folder}/*/small_chunks/parts/*.json"):
            edit(path, of_identity(benchmark_version="0"))
    assert merge("part1", "part2", "part3", output="all") == 1
    assert "made with version 0 of the benchmark, installed is 1" in capsys.readouterr().err
    assert list((copies / "all" / "model" / "small_chunks" / "parts").glob("*.json"))


@pytest.mark.parametrize("folder, words", [("nowhere", "no results folder nowhere"), ("empty", "empty holds no")])
def test_folders_without_results_are_refused(copies, capsys, folder, words):
    (copies / "empty").mkdir()
    assert merge("part1", folder, output="all") == 2
    assert words in capsys.readouterr().err
