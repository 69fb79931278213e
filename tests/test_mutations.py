# SPDX-License-Identifier: Apache-2.0
"""Results and data are damaged in hundreds of ways: no traceback reaches the user, and no wrong number is shown.

Each damage is done to a fresh copy of a results folder and its data; then `show`, `verify`, and `analyze` or the same
`run` again must each say what is true, or say by name what they cannot.
"""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from mutations import KINDS, OF_BYTES, damage, snapshot
from planted import BENCHMARKS, Done, by_task, command, few_resamples, make_results, reseal, run_arguments

from mlipaudit.failures import FailureKind
from mlipaudit.reporting.tables import number
from mlipaudit.scoring import combine_intervals
from mlipaudit.store import EARLIER, ResultStore

NOTHING = ("–", "–", "–")
GAPS = {"missing", "unreadable"}
RESULT, SCORE, DATASET = "result.json", "score.json", "tautobase_2792.json"
ROUNDS, SINGLE_ROUNDS = 7, 5
"""Each does every kind of damage once; the last ones do a second in the same copy."""


class Row(NamedTuple):
    """One line of a printed table."""

    model: str
    benchmark: str
    score: str
    interval: str
    coverage: str
    failures: str = ""

    @property
    def task(self):
        return self.model, self.benchmark

    @property
    def numbers(self):
        return self.score, self.interval, self.coverage


@dataclass(frozen=True)
class Truth:
    """What an untouched folder says, and what made it."""

    root: Path
    models: list
    shown: str
    rows: dict
    """Task -> its line of the table."""
    records: dict
    files: dict


def tables_in(text) -> list[list[Row]]:
    """Lines of every table in an output: one for each run mode and edition."""
    return [rows_in(part) for part in re.split(r"^run mode .*$", text, flags=re.MULTILINE)[1:]]


def rows_in(text) -> list[Row]:
    """Lines of all tables in an output."""
    lines = [line for line in text.splitlines() if re.match(r"\S.*\s{2}\S", line)]
    cells = [re.split(r"\s{2,}", line) for line in lines if not line.startswith(("model ", "─"))]
    return [Row(*line[:6]) if len(line) > 6 else Row(*line[:5]) for line in cells if len(line) > 5]


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    with few_resamples():
        yield _truth(tmp_path_factory.mktemp("truth") / "case")


def _truth(root):
    models = make_results(root)
    shown = command("show", root / "results")
    rows = {row.task: row for row in rows_in(shown.out)}
    return Truth(root, models, said(shown, root), rows, by_task(ResultStore(root / "results")), snapshot(root))


def said(done, case):
    """What a command printed, wherever the folder is."""
    return f"{done.code}\n{done.out}{done.err}".replace(str(case), "CASE")


# What may be said


def problems_of_table(text, truth, *, complete=True, may_fail=False) -> Iterator[str]:
    """Lines of a table that are neither true nor without numbers.

    Args:
        text: with the table.
        truth: what is true.
        complete: whether every task must have a line.
        may_fail: whether a task may have failed that did not before.
    """
    tasks = [row.task for row in rows_in(text) if row.benchmark != "overall"]
    yield from (f"twice in the tables: {task}" for task in set(tasks) if tasks.count(task) > 1)
    if complete and (absent := set(truth.records) - set(tasks)):
        yield f"not in the tables: {sorted(absent)}"
    for table in tables_in(text):
        for model, lines in groupby(table, key=lambda row: row.model):
            yield from _problems_of_model(model, list(lines), truth, may_fail=may_fail)


def _problems_of_model(model, lines, truth, *, may_fail) -> Iterator[str]:
    tasks = [row for row in lines if row.benchmark != "overall"]
    yield from (f"wrong line: {row}" for row in tasks if not acceptable(row, truth, may_fail=may_fail))
    means = [row.numbers for row in lines if row.benchmark == "overall"]
    if means != ([overall(tasks, truth)] if len(tasks) > 1 else []):
        yield f"wrong overall lines of {model}: {means} over {tasks}"


def is_true(row, truth):
    return row.task in truth.rows and row.numbers == truth.rows[row.task].numbers


def acceptable(row, truth, *, may_fail):
    """Whether a task's line is true, or is none but says why."""
    if is_true(row, truth):
        return True
    if may_fail and row.numbers == ("0.000", "–", "–"):
        return row.failures in set(FailureKind)
    return row.numbers == NOTHING and row.failures in GAPS


def overall(rows, truth):
    """The numbers that an overall line over these lines must have."""
    scores, intervals, covered = [], [], 0
    for row in rows:
        if row.numbers == NOTHING:
            continue
        result = truth.records[row.task].result if is_true(row, truth) else None
        failed = result is None or result.failed
        scores.append(0.0 if failed else result.score)
        intervals.append((0.0, 0.0) if failed else result.score_interval)
        covered += not failed
    if not scores:
        return "–", "–", f"0/{len(rows)}"
    interval = combine_intervals(intervals, scores)
    text = " … ".join(map(number, interval)) if interval else "–"
    return number(sum(scores) / len(scores)), text, f"{covered}/{len(rows)}"


def problems_of_lines(text, truth) -> Iterator[str]:
    """Scores in the lines of `verify` and `analyze` that are not the true ones."""
    for model, benchmark, said in re.findall(
        r"^(\S+) · (\w+): (?:agrees|unchanged|score)\b(.*)", text, re.MULTILINE
    ):
        row = truth.rows.get((model, benchmark))
        if row is None or set(re.findall(r"<?\d\.\d+", said)) != {row.score}:
            yield f"wrong score: {model} · {benchmark}: {said}"


def problems_of(what, done, *codes) -> Iterator[str]:
    """Whatever a user must never see of a command."""
    if done.code not in (codes or (0, 1, 2)):
        yield f"{what} ended with {done.code}: {done.err[-300:]}"
    if "Traceback" in done.out + done.err:
        yield f"{what} printed a traceback"
    if done.code == 2 and not re.search(r"^mlipaudit: error: .+", done.err, re.MULTILINE):
        yield f"{what} ended with 2 without a reason"


# What happened to the files


def content_of(name, value):
    """What a file says, however it is laid out; None where it says nothing."""
    if not isinstance(value, bytes) or Path(name).name not in (RESULT, SCORE):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def is_rested_on(name, truth):
    """Whether results rest on a file: a result, a model output, a score, data."""
    if truth.files.get(name, "folder") == "folder" or EARLIER in Path(name).parts:
        return False
    return Path(name).name in (RESULT, SCORE, DATASET) or name.endswith(".xyz") or "model_output." in name


def is_harmless(name, truth):
    """Whether a name is the lock, of an earlier result, or hidden or in the results folder without having been."""
    if name == "results/.lock" or EARLIER in Path(name).parts:
        return True
    hidden = any(part.startswith(".") for part in Path(name).parts)
    return name not in truth.files and (hidden or (name.startswith("results/") and RESULT not in Path(name).parts))


@dataclass(frozen=True)
class Case:
    """A damaged copy of a folder."""

    root: Path
    truth: Truth

    @cached_property
    def changed(self) -> set[str]:
        """Names of files and folders that say something else than before, are new, or are gone."""
        before, now = self.truth.files, snapshot(self.root)
        return {n for n in {*before, *now} if content_of(n, before.get(n)) != content_of(n, now.get(n))}

    @property
    def is_harmless(self):
        return all(is_harmless(name, self.truth) for name in self.changed)

    @property
    def of_data(self):
        return any(name.startswith("data") for name in self.changed)

    @property
    def has_other_data(self):
        """Whether the data is changed, and no manifest says so: it is data of the user's then, with other numbers."""
        folder = Path("data") / "tautomers"
        return not (self.root / folder / "manifest.toml").is_file() and str(folder / DATASET) in self.changed

    @property
    def whole_speeds(self):
        """Whether `run` need not measure any speed anew; they were planted."""
        planted = {task for task in self.truth.records if task[1] == "inference_speed"}
        return not any("inference_speed" in name for name in self.changed) and planted <= set(self.records)

    @property
    def records(self):
        results = self.root / "results"
        return by_task(ResultStore(results)) if results.is_dir() else {}

    def show(self):
        return command("show", self.root / "results")

    def verify(self):
        return command("verify", self.root / "results", "--data", self.root / "data")

    def analyze(self):
        return command("analyze", self.root / "results", "--data", self.root / "data")

    def run(self, models, benchmarks, *, seed=0):
        data, results = self.root / "data", self.root / "results"
        return command(*run_arguments(models, data, results, benchmarks=benchmarks, seed=seed))


# The checks


def problems_after(case, truth, *, then) -> Iterator[str]:
    """Everything wrong that the commands say about a damaged copy.

    Args:
        case: the copy.
        truth: what is true.
        then: the last command: `analyze`, `run`, or `other run`, one with another seed before the same one.
    """
    yield from problems_of_show(case, truth)
    verified = case.verify()
    yield from problems_of_verify(verified, case, truth)
    if then == "analyze":
        yield from problems_of_analyze(case, truth, mends=verified.code == 1)
        return
    if then == "other run":
        other = case.run(truth.models[:3:2], BENCHMARKS[:1], seed=1)
        yield from problems_of("run with another seed", other)
        yield from problems_of_table(other.out, truth, complete=False, may_fail=case.of_data)
    yield from problems_of_run(case, truth, mends=verified.code == 1)


def problems_of_show(case, truth) -> Iterator[str]:
    done = case.show()
    yield from problems_of("show", done)
    if "results" not in case.changed:
        yield from problems_of_table(done.out, truth, complete="results/run.json" not in case.changed)
    of_results = {n for n in case.changed if n.startswith("results") and not is_harmless(n, truth)}
    if not of_results and (now := said(done, case.root)) != truth.shown:
        yield f"show says something else, though no result was touched: {now}"


def problems_of_verify(done, case, truth) -> Iterator[str]:
    yield from problems_of("verify", done)
    yield from problems_of_lines(done.out, truth)
    overlooked = sorted(name for name in case.changed if is_rested_on(name, truth))
    if done.code == 0 and overlooked:
        yield f"verify overlooks {overlooked}"
    if done.code != 0 and case.is_harmless:
        yield f"verify complains of {sorted(case.changed)}: {done.out}"


def problems_of_analyze(case, truth, *, mends) -> Iterator[str]:
    done = case.analyze()
    yield from problems_of("analyze", done)
    yield from problems_of_lines(done.out, truth)
    yield from problems_of_table(case.show().out, truth, complete=False)
    if mends and done.code == 0:
        yield from (f"after analyze: {line}" for line in complaints(case) if "no result, though" not in line)


def problems_of_run(case, truth, *, mends) -> Iterator[str]:
    benchmarks = BENCHMARKS if case.whole_speeds else BENCHMARKS[:1]
    done = case.run(truth.models, benchmarks)
    yield from problems_of("run", done, 1, 2)
    if done.code == 2:
        return
    for table in (done, case.show()):
        yield from problems_of_table(table.out, truth, complete=False, may_fail=case.of_data)
    now = case.records
    for task in (task for task in truth.records if task[1] in benchmarks):
        yield from problems_of_result(task, now.get(task), truth, may_fail=case.of_data)
    if mends and benchmarks == BENCHMARKS and not case.of_data:
        yield from (f"after run: {line}" for line in complaints(case) if not lies_with_what_run_keeps(line, case))


def complaints(case):
    """What `verify` finds wrong."""
    return [line for line in case.verify().out.splitlines() if not re.search(r": (agrees|untouched)", line)]


def lies_with_what_run_keeps(line, case):
    """Whether a complaint is about files of no task, or about a damaged answer beside a whole result."""
    return "cannot be read" in line or (
        "model_output." in line and any("model_output." in n for n in case.changed)
    )


def problems_of_result(task, now, truth, *, may_fail) -> Iterator[str]:
    """What a task's result must be after `run`: the same as before, or a failure with a name."""
    before = truth.records[task]
    if now is None:
        yield f"no result of {task} after run"
    elif may_fail and now.result.failure:
        return
    elif now.result != before.result:
        yield f"another result of {task} after run: {now.result}"
    elif now.provenance.identity != before.provenance.identity and not may_fail:
        yield f"another identity of {task} after run: {now.provenance.identity}"


# The test


THEN = ["run", "analyze", "other run"]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_traceback_and_no_wrong_number(truth, tmp_path, number):
    found = []
    for index, kind in enumerate(KINDS):
        rng = random.Random(f"{number} {kind}")
        case = copy_of(truth, tmp_path)
        done = [damage(kind, rng, case.root)]
        if number >= SINGLE_ROUNDS:
            done.append(damage(rng.choice(OF_BYTES), rng, case.root))
        then = "run" if case.of_data else THEN[(number + index) % 3]
        if case.has_other_data:
            then = "analyze"
        found += [
            f"{' and '.join(map(str, done))} {problem}" for problem in problems_after(case, truth, then=then)
        ]
        shutil.rmtree(case.root)
    assert not found, "\n".join(found)


def test_there_is_enough_damage():
    assert ROUNDS * len(KINDS) >= 200


# Damage that has had its own way through


def folder_for_lock(root):
    (root / "results" / ".lock").unlink()
    (root / "results" / ".lock" / "inner").mkdir(parents=True)


def loop_for_lock(root):
    (root / "results" / ".lock").unlink()
    (root / "results" / ".lock").symlink_to(".lock")


def folder_like_an_output(root):
    (root / "results" / "toy" / "tautomers" / "model_output.0123.json").mkdir()


def folder_like_an_unfinished_file(root):
    (root / "results" / "toy" / ".writing-1-score.json").mkdir()


def output_that_is_no_text(root):
    for output in (root / "results").glob("*/tautomers/model_output.*"):
        output.write_bytes(b"\xff" + output.read_bytes())


def name_that_is_no_text(root):
    shutil.copytree(root / "results" / "toy", root / "results" / os.fsdecode(b"\xff\xfe"))


def data_name_that_is_no_text(root):
    (root / "data" / "tautomers" / os.fsdecode(b"\xff\xfe")).touch()


def own_data_name_that_is_no_text(root):
    (root / "data" / "inference_speed" / os.fsdecode(b"\xff\xfe.xyz")).touch()


def hidden_model(root):
    (root / "results" / "toy").rename(root / "results" / ".toy")


def model_without_results(root):
    """Of which nothing is known: no mean over nothing."""
    shutil.rmtree(root / "results" / "partial")


def in_manifest(pattern, text):
    def change(root):
        file = root / "data" / "tautomers" / "manifest.toml"
        before = file.read_text("utf-8")
        file.write_text(re.sub(pattern, text, before, count=1), "utf-8")

    return change


OF_RESULTS = [
    folder_for_lock,
    loop_for_lock,
    folder_like_an_output,
    folder_like_an_unfinished_file,
    output_that_is_no_text,
    name_that_is_no_text,
    hidden_model,
    model_without_results,
]
OF_DATA = {
    "name_that_is_no_text": data_name_that_is_no_text,
    "name_that_is_no_text_without_manifest": own_data_name_that_is_no_text,
    "hash_that_is_no_text": in_manifest(r"sha256 = .*", "sha256 = 5"),
    "nested_manifest": in_manifest(r"title", "x = " + "[" * 100_000 + "\ntitle"),
    "integer_beyond_reading": in_manifest(r'version = "1"', "version = " + "1" * 5000),
    "endless_file_name": in_manifest(r"tautobase_2792\.json", "a" * 300),
    "elements_that_are_none": in_manifest(r"elements = .*", 'elements = [1, "C"]'),
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("change", OF_RESULTS, ids=lambda change: change.__name__)
def test_special_damage_to_results(truth, tmp_path, change, then):
    case = copy_of(truth, tmp_path)
    change(case.root)
    assert case.changed
    assert list(problems_after(case, truth, then=then)) == []


@pytest.mark.parametrize("name", OF_DATA)
def test_special_damage_to_data(truth, tmp_path, name):
    case = copy_of(truth, tmp_path)
    OF_DATA[name](case.root)
    assert case.of_data
    assert list(problems_after(case, truth, then="run")) == []


# The checkers themselves


def copy_of(truth, folder):
    return Case(Path(shutil.copytree(truth.root, folder / "case")), truth)


def test_the_truth_is_worth_checking(truth):
    done = command("show", truth.root / "results")
    tasks = [row for row in rows_in(done.out) if row.benchmark != "overall"]
    assert (done.code, len(tasks), len(rows_in(done.out))) == (0, 8, 12)
    assert len({row.score for row in tasks}) == 7  # each its own, but for what could not be loaded
    assert truth.rows["partial", "tautomers"].coverage.startswith("2")
    assert [name for name in truth.files if EARLIER in name and name.endswith(RESULT)]


@pytest.mark.parametrize("then", THEN)
def test_checker_is_content_with_what_is_whole(truth, tmp_path, then):
    assert list(problems_after(copy_of(truth, tmp_path), truth, then=then)) == []


def lines_of(text, *words):
    return [line for line in text.splitlines() if line.split()[: len(words)] == list(words)]


def changed_line(change, *words):
    """A table with a change in the line that begins with these words."""

    def edit(table):
        (line,) = lines_of(table, *words)
        return table.replace(line, change(line))

    return edit


@pytest.mark.parametrize(
    "edit, complaint",
    [
        (changed_line(lambda line: re.sub(r"0\.\d", "0.9", line, count=1), "partial", "tautomers"), "wrong line"),
        (changed_line(lambda line: re.sub(r"… 0\.\d", "… 0.9", line), "partial", "tautomers"), "wrong line"),
        (changed_line(lambda line: line.replace("/32", "/33"), "partial", "tautomers"), "wrong line"),
        (changed_line(lambda line: line.replace("toy ", "toy-2 "), "toy", "inference_speed"), "wrong line"),
        (changed_line(lambda line: re.sub(r"0\.\d", "0.9", line, count=1), "toy", "overall"), "wrong overall"),
        (changed_line(lambda line: line.replace("2/2", "1/2"), "partial", "overall"), "wrong overall"),
        (changed_line(lambda line: "", "partial", "overall"), "wrong overall"),
        (changed_line(lambda line: "", "partial", "tautomers"), "not in the tables"),
        (changed_line(lambda line: "toy  tautomers  –  –  –  missing  1 s", "toy", "tautomers"), "wrong overall"),
        (changed_line(lambda line: "toy  tautomers  –  –  –    1 s", "toy", "tautomers"), "wrong line"),
        (changed_line(lambda line: "toy  tautomers  0.000  –  –  crashed  1 s", "toy", "tautomers"), "wrong line"),
        (changed_line(lambda line: f"{line}\n{line}", "toy", "tautomers"), "twice in the tables"),
    ],
)  # fmt: skip
def test_checker_sees_a_wrong_table(truth, edit, complaint):
    assert list(problems_of_table(truth.shown, truth)) == []
    assert complaint in "\n".join(problems_of_table(edit(truth.shown), truth))


def test_checker_sees_a_wrong_score_in_a_line(truth):
    score = truth.rows["partial", "tautomers"].score
    assert list(problems_of_lines(f"partial · tautomers: agrees, score {score}", truth)) == []
    for said in ("agrees, score 0.111", f"unchanged, score {score}, was 0.111", "score 0.111"):
        assert list(problems_of_lines(f"partial · tautomers: {said}", truth))


@pytest.mark.parametrize(
    "done",
    [
        Done("raised KeyError: 1", "", ""),
        Done(1, "Traceback (most recent call last):", ""),
        Done(2, "", ""),
        Done(3, "", ""),
    ],
)
def test_checker_sees_what_no_user_may(done):
    assert list(problems_of("show", done))
    assert not list(problems_of("show", Done(2, "", "mlipaudit: error: why")))


def test_commands_let_no_exception_through(monkeypatch):
    monkeypatch.setattr("planted.main", lambda arguments: {}["planted"])
    assert str(command("show").code).startswith("raised KeyError: 'planted'")
    monkeypatch.setattr("planted.main", lambda arguments: print("\udcff"))
    assert str(command("show").code).startswith("raised UnicodeEncodeError")


def test_checker_sees_a_forged_result(truth, tmp_path):
    case = copy_of(truth, tmp_path)
    reseal(case.root / "results" / "toy" / "tautomers" / RESULT, lambda content: content.update(score=0.9))
    found = "\n".join(problems_after(case, truth, then="run"))
    assert "wrong line: Row(model='toy', benchmark='tautomers', score='0.900'" in found
    assert "another result of ('toy', 'tautomers') after run" in found


@pytest.mark.parametrize(
    "pattern", ["toy/tautomers/result.json", "toy/tautomers/model_output.*", "toy/score.json"]
)
def test_checker_sees_a_verify_that_overlooks_things(truth, tmp_path, pattern):
    case = copy_of(truth, tmp_path)
    (file,) = (case.root / "results").glob(pattern)
    file.write_bytes(file.read_bytes().replace(b"1", b"2"))
    content = list(problems_of_verify(Done(0, "", ""), case, truth))
    assert content == [f"verify overlooks ['{file.relative_to(case.root)}']"]


def test_checker_sees_a_verify_that_complains_of_nothing(truth, tmp_path):
    case = copy_of(truth, tmp_path)
    (case.root / "results" / "toy" / ".DS_Store").touch()
    assert list(problems_of_verify(Done(1, "", ""), case, truth))


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_done_and_is_the_same_every_time(truth, tmp_path, kind):
    done, after = [], []
    for _ in range(2):
        case = copy_of(truth, tmp_path)
        done.append(damage(kind, random.Random(3), case.root))
        after.append(snapshot(case.root))
        shutil.rmtree(case.root)
    assert done[0] == done[1]
    assert after[0] == after[1] != truth.files
