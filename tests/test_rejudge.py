# SPDX-License-Identifier: Apache-2.0
"""`analyze` and `verify`: whether results still follow from the models' answers, and how to make them."""

import hashlib
import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from planted import BENCHMARKS, by_task, command, few_resamples, make_results, plan_of, plant, reseal, speeds
from test_imports import NEVER_IN_THE_PARENT, modules_of, packages
from test_imports import command as in_python
from test_store import odd_result, record_of

from mlipaudit import __version__, data, registry
from mlipaudit.benchmark import Benchmark, BenchmarkResult, ModelOutput
from mlipaudit.benchmarks.inference_speed import InferenceSpeedBenchmark
from mlipaudit.benchmarks.tautomers import TautomersBenchmark, TautomersModelOutput
from mlipaudit.data import sha256_of
from mlipaudit.rejudge import differences, judge_again
from mlipaudit.run_mode import RunMode
from mlipaudit.store import ResultStore

PARTIAL, TOY = ("partial", "tautomers"), ("toy", "tautomers")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`results/` and `data/` of a run."""
    with few_resamples():
        make_results(root := tmp_path_factory.mktemp("made") / "case")
        yield root


class Copy(SimpleNamespace):
    """Results and data to be spoilt."""

    def verify(self, *extra):
        return command("verify", self.results, "--data", self.data, *extra)

    def analyze(self, *extra):
        return command("analyze", self.results, "--data", self.data, *extra)

    def file(self, model, benchmark, pattern="result.json"):
        (path,) = (self.results / model / benchmark).glob(pattern)
        return path

    def record(self, task):
        return by_task(ResultStore(self.results))[task]

    def contents(self):
        return {path: path.read_bytes() for path in self.results.rglob("*") if path.is_file()}


@pytest.fixture
def copy(made, tmp_path):
    root = Path(shutil.copytree(made, tmp_path / "case"))
    return Copy(results=root / "results", data=root / "data")


def line(done, model, benchmark):
    """What a command says of a task."""
    (found,) = re.findall(rf"^{re.escape(model)} · {benchmark}: (.*)$", done.out, re.MULTILINE)
    return found


def others_agree(done, *tasks):
    labels = {f"{model} · {benchmark}" for model, benchmark in tasks}
    lines = [text for text in done.out.splitlines() if text.partition(": ")[0] not in labels]
    return len(lines) == 8 - len(tasks) and all(
        re.search(": (agrees|unchanged|untouched|no model)", x) for x in lines
    )


# What is whole


def test_untouched_results_agree(copy):
    done = copy.verify()
    assert (done.code, done.err) == (0, "")
    assert line(done, *PARTIAL) == f"agrees, score {copy.record(PARTIAL).result.score:.3f}"
    assert others_agree(done)


def test_analyze_changes_nothing_where_nothing_changed(copy):
    before, done = copy.contents(), copy.analyze()
    assert (done.code, done.err) == (0, "")
    assert line(done, *PARTIAL) == f"unchanged, score {copy.record(PARTIAL).result.score:.3f}"
    assert others_agree(done)
    assert copy.contents() == before


def test_a_task_that_failed_as_a_whole_is_left_as_it_is(copy):
    before = copy.record(("broken", "tautomers"))
    assert line(copy.verify(), "broken", "tautomers") == "untouched; there is no model output to judge again"
    assert line(copy.analyze(), "broken", "tautomers") == "no model output to analyze, stays as it is"
    assert copy.record(("broken", "tautomers")) == before
    assert before.result.failure.kind == "load_error"


@pytest.mark.parametrize("name", ["verify", "analyze"])
def test_no_results(tmp_path, name):
    assert command(name, tmp_path)[:2] == (1, f"no results in {tmp_path}\n")
    assert command(name, tmp_path / "nowhere") == (
        1,
        "",
        f"mlipaudit: error: no results folder {tmp_path}/nowhere\n",
    )


# A result that does not follow


def forge(copy, **changes):
    """Change fields of a result, and seal it again as whoever wants to cheat would."""
    reseal(copy.file(*PARTIAL), lambda content: content.update(changes))


@pytest.mark.parametrize("field, value", [("mae", 0.0), ("num_failed", 0), ("score_interval", [0.8, 0.9])])
def test_a_forged_field_is_named_with_both_values(copy, field, value):
    true = json.loads(copy.record(PARTIAL).result.model_dump_json())[field]
    forge(copy, **{field: value})
    done = copy.verify()
    assert done.code == 1
    values = f"stored {value!r}, now {true!r}"
    assert line(done, *PARTIAL) == f"differs in {field} ({values}); mlipaudit analyze brings it up to date"
    assert others_agree(done, PARTIAL)


def test_a_forged_field_that_is_long_is_named(copy):
    forge(copy, molecules=[], mae=0.0)
    assert re.match(r"differs in mae \(stored 0\.0, now .*\), molecules;", line(copy.verify(), *PARTIAL))


def test_a_forged_score_is_mended(copy):
    true = copy.record(PARTIAL)
    forge(copy, score=0.875)
    verified = copy.verify()
    assert f"differs in score (stored 0.875, now {true.result.score!r})" in line(verified, *PARTIAL)
    assert "partial/score.json: does not agree with the results" in verified.out
    assert "0.875" in command("show", copy.results).out
    done = copy.analyze()
    assert done.code == 0
    assert line(done, *PARTIAL) == f"score {true.result.score:.3f}, was score 0.875"
    assert others_agree(done, PARTIAL)
    assert copy.verify().code == 0
    assert "0.875" not in command("show", copy.results).out


def test_a_mended_result_says_by_which_version(copy):
    true = copy.record(PARTIAL)
    forge(copy, score=0.875, molecules=[])
    copy.analyze()
    mended = copy.record(PARTIAL)
    assert mended.result == true.result
    assert mended.provenance == true.provenance.model_copy(update={"analyzed_by": f"mlipaudit {__version__}"})
    assert copy.record(TOY).provenance.analyzed_by is None


def test_a_mended_score_reaches_the_score_file(copy):
    file = copy.results / "partial" / "score.json"
    before = json.loads(file.read_text("utf-8"))
    forge(copy, score=0.875)
    file.write_text(json.dumps({**before, "tautomers": 0.875}), "utf-8")
    copy.analyze()
    assert json.loads(file.read_text("utf-8")) == before


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"overall_score": 0.5}', None])
def test_a_score_file_alone_is_named_and_mended(copy, content):
    file = copy.results / "toy" / "score.json"
    before = file.read_bytes()
    file.unlink() if content is None else file.write_text(content, "utf-8")
    done = copy.verify()
    assert done.code == 1
    assert "toy/score.json: does not agree with the results; mlipaudit analyze mends it\n" in done.out
    assert (copy.analyze().code, file.read_bytes(), copy.verify().code) == (0, before, 0)


def test_a_score_file_of_no_results_is_named(copy):
    for benchmark in BENCHMARKS:
        shutil.rmtree(copy.results / "toy" / benchmark)
    assert "toy/score.json: does not agree with the results; there are none, delete it\n" in copy.verify().out


def test_a_result_without_its_own_seal_is_named(copy):
    file = copy.file(*TOY)
    file.write_text(file.read_text("utf-8").replace('"score": ', '"score": 0.', 1), "utf-8")
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert line(done, *TOY).startswith("cannot be read: ")
    assert others_agree(copy.analyze(), TOY)


def test_a_result_that_is_gone_is_named(copy):
    shutil.rmtree(copy.results / "toy" / "tautomers")
    done = copy.verify()
    assert done.code == 1
    assert line(done, *TOY) == "no result, though the last run asked for it"


# Model outputs


def cannot_be_judged(copy, reason):
    """Both commands name the reason for one task, and leave its result as it is."""
    before = copy.file(*PARTIAL).read_bytes()
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert re.search(reason, line(done, *PARTIAL))
        assert others_agree(done, PARTIAL)
    assert copy.file(*PARTIAL).read_bytes() == before


def test_a_changed_model_output_is_named(copy):
    file = copy.file(*PARTIAL, "model_output.*")
    file.write_bytes(file.read_bytes().replace(b"7", b"8", 1))
    cannot_be_judged(copy, rf"{file.name}: changed after it was written")


def test_a_deleted_model_output_is_named(copy):
    file = copy.file(*PARTIAL, "model_output.*")
    file.unlink()
    cannot_be_judged(copy, rf"{file.name}: No such file")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"structure_ids": ["a"], "predictions": [[1, 2]]}',
        '{"structure_ids": [], "predictions": [[1, 2]]}',
        '{"structure_ids": ["a"], "predictions": [[1]]}',
    ],
)
def test_a_forged_model_output_cannot_be_judged(copy, text):
    copy.file(*PARTIAL, "model_output.*").unlink()
    sha256 = ResultStore(copy.results).write_output(*PARTIAL, text)
    reseal(copy.file(*PARTIAL), lambda content: content["provenance"].update(output_sha256=sha256))
    cannot_be_judged(copy, "the model output cannot be judged: .+")


# Data


def test_changed_data_is_named(copy):
    file = copy.data / "tautomers" / "tautobase_2792.json"
    file.write_bytes(file.read_bytes().replace(b"7", b"8", 1))
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert re.search(r"tautobase_2792\.json has sha256 .*, manifest\.toml says", line(done, *TOY))
    assert line(copy.verify(), "toy", "inference_speed").startswith("agrees")


def test_other_data_is_named_though_it_is_whole(copy):
    folder = copy.data / "tautomers"
    before = sha256_of(folder / "tautobase_2792.json")
    pairs = json.loads((folder / "tautobase_2792.json").read_text("utf-8"))
    (folder / "tautobase_2792.json").write_text(json.dumps(dict(list(pairs.items())[1:])), "utf-8")
    manifest, after = folder / "manifest.toml", sha256_of(folder / "tautobase_2792.json")
    manifest.write_text(manifest.read_text("utf-8").replace(before, after), "utf-8")
    stored = copy.contents()
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert line(done, *TOY).endswith("the input data is not what the result was made with")
    assert copy.contents() == stored


@pytest.mark.parametrize("name", ["verify", "analyze"])
def test_data_of_the_users_has_to_be_passed(copy, name):
    done = command(name, copy.results)
    assert done.code == 1
    assert line(done, *TOY).endswith("made on a folder of yours: pass it with --data PATH")


@pytest.mark.parametrize("name", ["verify", "analyze"])
def test_data_that_is_not_there_is_named(copy, name):
    done = command(name, copy.results, "--data", copy.data / "nowhere")
    assert done.code == 1
    assert "no such folder" in line(done, *TOY)
    shutil.rmtree(copy.data / "tautomers")
    assert "the data folder has no tautomers/" in line(command(name, copy.results, "--data", copy.data), *TOY)


@pytest.mark.parametrize("name", ["verify", "analyze"])
def test_data_that_cannot_be_read_is_named(copy, name, monkeypatch):
    def refused(file):
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(data, "sha256_of", refused)
    done = command(name, copy.results, "--data", copy.data)
    assert done.code == 1
    assert line(done, *TOY).endswith("the input data cannot be read: Permission denied")


# Another version of mlipaudit


def test_another_benchmark_version_is_named(copy, monkeypatch):
    monkeypatch.setattr(TautomersBenchmark, "version", "1000")
    before = copy.contents()
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        why = r"made with version \d+ of the benchmark, installed is 1000: run it again"
        assert re.search(why, line(done, *TOY))
        assert re.match("agrees|unchanged", line(done, "toy", "inference_speed"))
    assert copy.contents() == before


def test_another_protocol_is_named(copy, monkeypatch):
    protocols = {**TautomersBenchmark.protocols, RunMode.FAST: TautomersBenchmark.protocols[RunMode.DEV]}
    monkeypatch.setattr(TautomersBenchmark, "protocols", protocols)
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert line(done, *TOY).endswith("made under another protocol than the installed one: run it again")


def test_another_run_mode_is_named(copy):
    reseal(copy.file(*PARTIAL), lambda content: content["provenance"]["identity"].update(run_mode="thorough"))
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert line(done, *PARTIAL).endswith("made in run mode 'thorough', which this version does not have")


def test_a_benchmark_that_is_not_installed_is_named(copy):
    store = ResultStore(copy.results)
    record = record_of(BenchmarkResult(score=0.5), "of_another_package", model="toy")
    record.provenance.output_sha256 = store.write_output("toy", "of_another_package", "{}")
    store.write(record)
    for done in (copy.verify(), copy.analyze()):
        assert done.code == 1
        assert "unknown benchmark 'of_another_package'" in line(done, "toy", "of_another_package")


class OldBenchmark(Benchmark):
    """One written for mlipaudit 0.1.x: it keeps its answers to itself."""

    name = "tautomers"
    result_class = BenchmarkResult
    model_output_class = ModelOutput
    required_elements = {"H"}

    def run_model(self):
        self.model_output = ModelOutput()

    def analyze(self):
        return BenchmarkResult(score=0.25)


def test_a_benchmark_of_the_old_kind_is_left_alone(tmp_path, monkeypatch):
    load = registry.load
    monkeypatch.setattr(
        registry, "load", lambda group, name: OldBenchmark if name == "tautomers" else load(group, name)
    )
    output = tmp_path / "out"
    assert command("run", "-m", "toy", "-b", "tautomers", "-rm", "dev", "-o", output, "--workers", "0").code == 0
    assert list(output.rglob("model_output.*")) == []
    before = (output / "toy" / "tautomers" / "result.json").read_bytes()
    verified, analyzed = command("verify", output), command("analyze", output)
    assert (verified.code, analyzed.code) == (0, 0)
    assert line(verified, *TOY) == "untouched; there is no model output to judge again"
    assert line(analyzed, *TOY) == "no model output to analyze, stays as it is"
    assert (output / "toy" / "tautomers" / "result.json").read_bytes() == before


# No model


@pytest.mark.parametrize("name", ["verify", "analyze"])
def test_judging_again_imports_no_jax(copy, name):
    forge(copy, score=0.875)
    found = modules_of(in_python(name, str(copy.results), "--data", str(copy.data)))
    assert {"mlipaudit.benchmarks.tautomers", "mlipaudit.benchmarks.inference_speed"} <= found
    assert packages(found) & NEVER_IN_THE_PARENT == set()


# Bit for bit


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """A store with all the resamples: tautomers as a run leaves them, and planted speeds."""
    root = tmp_path_factory.mktemp("exact")
    assert command("run", "-m", "toy", "-b", "tautomers", "-rm", "dev", "-o", root, "--workers", "0").code == 0
    return ResultStore(root)


def bits(result):
    return hashlib.sha256(repr(result.model_dump()).encode()).hexdigest()


def test_what_a_run_leaves_judged_again_is_the_same(exact):
    record = by_task(exact)[TOY]
    again = judge_again(record, exact)
    assert (type(again), bits(again)) == (type(record.result), bits(record.result))
    assert again.score_interval is not None
    assert list(differences(record.result, again)) == []


def test_planted_speeds_judged_again_are_the_same(made, tmp_path):
    store = ResultStore(tmp_path)
    (task,) = plan_of(["toy"], BENCHMARKS[1:], made / "data").tasks
    assert task.benchmark_class is InferenceSpeedBenchmark
    planted = plant(store, task, speeds(1 / 3)).result
    record = by_task(store)["toy", "inference_speed"]
    again = judge_again(record, store, data=made / "data")
    assert bits(again) == bits(record.result) == bits(planted)
    assert 0 < again.score < 1 and again.structures[0].average_forward_time > 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.0, 5e-324, 1 / 3, 1e150])
def test_odd_answers_judged_again_are_the_same(made, tmp_path, value):
    store = ResultStore(tmp_path)
    (task,) = plan_of(["toy"], BENCHMARKS[:1], made / "data").tasks
    pairs = list(TautomersBenchmark.load(task.dataset.path, TautomersBenchmark.protocols[RunMode.FAST]))
    predictions = [(value, 1.0), *[(0.1 * i, 0.2) for i in range(len(pairs) - 2)], None]
    planted = plant(store, task, TautomersModelOutput(structure_ids=pairs, predictions=predictions)).result
    again = judge_again(by_task(store)[TOY], store, data=made / "data")
    assert bits(again) == bits(planted)
    assert again.num_failed == (1 if math.isfinite(value) else 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 1.5])
def test_what_equals_itself_is_no_difference(value):
    assert list(differences(odd_result(value), odd_result(value))) == []


def test_what_is_different_is_named():
    one, other = odd_result(1.5), odd_result(1.5)
    other.number = 2.5
    assert list(differences(one, other)) == ["number (stored 1.5, now 2.5)"]
    assert "number (stored 1.5, now 'NaN')" in list(differences(one, odd_result(math.nan)))
