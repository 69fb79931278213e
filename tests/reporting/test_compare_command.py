# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit compare` from arguments to exit code: every way through the gate, and every refusal."""

import json
import math
from xml.etree import ElementTree

import pytest
from made_records import around, failed, scored, task
from planted import command
from test_imports import HEAVY, MAX_NEW_MODULES, foreign, modules_of, packages
from test_imports import command as in_python

from mlipaudit.benchmarks.inference_speed.schemas import InferenceSpeedResult, InferenceSpeedStructureResult
from mlipaudit.benchmarks.tautomers import THRESHOLD, TautomersMoleculeResult, TautomersResult
from mlipaudit.reporting.tables import number
from mlipaudit.scoring import score_systems
from mlipaudit.store import ResultStore


def tautomers(model, scores, **kwargs):
    """A result of a benchmark that is installed, whose systems have these scores."""
    deviations = [THRESHOLD * (1 - math.log(score) / 3) for score in scores]
    entries = [TautomersMoleculeResult(structure_id=f"t{i}", abs_deviation=d) for i, d in enumerate(deviations)]
    return task(
        model, TautomersResult(molecules=entries, **TautomersResult.fields_of(score_systems(entries))), **kwargs
    )


def speed(model, times, *, device="cpu: cpu", **kwargs):
    """Timings relative to the reference curve."""
    entries = [
        InferenceSpeedStructureResult(
            structure_name=f"s{i}", num_atoms=9, num_steps=1, num_episodes=1, relative_forward_time=time
        )
        for i, time in enumerate(times)
    ]
    fields = InferenceSpeedResult.fields_of(score_systems(entries))
    result = InferenceSpeedResult(
        structure_names=[e.structure_name for e in entries], structures=entries, **fields
    )
    record = task(model, result, "inference_speed", **kwargs)
    record.provenance = record.provenance.model_copy(update={"device": device})
    return record


def write(root, *records):
    store = ResultStore(root)
    for record in records:
        store.write(record)
    return store.root


GOOD, WIDE = around(0.8), [0.99, 0.61] * 20
BASELINE = tautomers("base", GOOD), speed("base", [1.0, 1.1, 1.2])
EQUAL_SPEED = speed("other", [1.0, 1.1, 1.2])
CANDIDATES = {
    "equal": [tautomers("other", GOOD), EQUAL_SPEED],
    "better": [tautomers("other", around(0.9)), EQUAL_SPEED],
    "worse": [tautomers("other", around(0.7)), EQUAL_SPEED],
    "slightly worse": [tautomers("other", around(0.79)), EQUAL_SPEED],
    "unclear": [tautomers("other", WIDE), EQUAL_SPEED],
    "missing": [EQUAL_SPEED],
    "failed": [failed("other"), EQUAL_SPEED],
    "other device": [tautomers("other", GOOD), speed("other", [9.0, 9.0, 9.0], device="gpu: H200")],
    "other data": [tautomers("other", GOOD, data_sha256="e" * 64), EQUAL_SPEED],
    "other protocol": [tautomers("other", GOOD, protocol={"steps": 99}), EQUAL_SPEED],
    "other mode": [tautomers("other", GOOD, run_mode="dev"), EQUAL_SPEED],
    "other version": [tautomers("other", GOOD, benchmark_version="2"), EQUAL_SPEED],
    "other scoring": [tautomers("other", GOOD), EQUAL_SPEED],
    "only elsewhere": [speed("other", [9.0, 9.0, 9.0], device="gpu: H200")],
}
CANDIDATES["other scoring"][0].result = CANDIDATES["other scoring"][0].result.model_copy(
    update={"scoring_version": 99}
)


@pytest.fixture
def results(tmp_path, request):
    """The baseline and the candidate that the test asks for."""
    kind = getattr(request, "param", "equal")
    return write(tmp_path / "results", *BASELINE, *CANDIDATES[kind])


def compare(results, *arguments):
    return command("compare", results, "--baseline", "base", *arguments)


# The gate


@pytest.mark.parametrize(
    ("results", "arguments", "code"),
    [
        ("equal", [], 0),
        ("equal", ["--strict"], 0),
        ("better", ["--strict"], 0),
        ("worse", [], 1),
        ("worse", ["--margin", "0.2"], 0),
        ("worse", ["--margin", "tautomers=0.2"], 0),
        ("worse", ["--margin", "0.2", "tautomers=0.05"], 1),
        ("worse", ["--margin", "tautomers=0.2", "overall=0"], 1),
        ("slightly worse", ["--strict"], 0),
        ("slightly worse", ["--margin", "0.001"], 1),
        ("unclear", [], 0),
        ("unclear", ["--strict"], 1),
        ("missing", [], 1),
        ("failed", [], 1),
        ("failed", ["--margin", "1"], 1),
        ("other device", ["--strict"], 0),
        ("other data", [], 2),
        ("other protocol", [], 2),
        ("other mode", [], 2),
        ("other version", [], 2),
        ("other scoring", [], 2),
        ("only elsewhere", [], 1),
        ("equal", ["--margin", "-0.1"], 2),
        ("equal", ["--margin", "1.5"], 2),
        ("equal", ["--margin", "nan"], 2),
        ("equal", ["--margin", "much"], 2),
        ("equal", ["--margin", "tautomers=much"], 2),
        ("equal", ["--margin", "tautomer=0.1"], 2),
        ("equal", ["--candidate", "othr"], 2),
        ("equal", ["--baseline-results", "nowhere"], 2),
    ],
    indirect=["results"],
)
def test_exit_codes_of_the_gate(results, arguments, code):
    done = compare(results, "--gate", *arguments)
    assert done.code == code, done
    assert bool(done.out) == (code != 2)
    assert ("mlipaudit: error: " in done.err) == (code == 2)


@pytest.mark.parametrize("results", ["worse", "failed", "missing", "unclear", "other data"], indirect=True)
def test_without_the_gate_it_only_says_so(results):
    done = compare(results)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ("other data", "tautomers: they differ in input data (dddddddd, eeeeeeee)"),
        ("other protocol", "tautomers: they differ in protocol (steps)"),
        ("other mode", "tautomers: they differ in run mode (fast, dev)"),
        ("other scoring", "tautomers: they differ in scoring version (1, 99)"),
    ],
    indirect=["results"],
)
def test_a_refusal_says_what_differs_and_what_to_do(results, words):
    done = compare(results, "--gate")
    assert words in done.err
    assert "--run-mode" in done.err and "mlipaudit analyze" in done.err
    assert words.partition(": ")[2] in compare(results).out


def test_nothing_that_can_be_compared_is_refused_without_the_gate_too(tmp_path):
    write(tmp_path, tautomers("base", GOOD), tautomers("other", GOOD, run_mode="dev"))
    assert compare(tmp_path).code == 2


def test_a_gate_of_nothing_but_another_device_is_refused(tmp_path):
    write(tmp_path, BASELINE[1], speed("other", [1.0, 1.0, 1.0], device="gpu: H200"))
    done = compare(tmp_path, "--gate")
    assert done.code == 2
    assert "same device (cpu: cpu, gpu: H200)" in done.err


def test_speed_on_another_device_is_noted(tmp_path):
    write(tmp_path, *BASELINE, *CANDIDATES["other device"])
    done = compare(tmp_path, "--gate")
    assert "note: inference_speed: speed is compared only on the same device (cpu: cpu, gpu: H200)" in done.out
    assert done.out.splitlines()[-1] == "Gate passed by other."


# Who is compared


def test_unknown_models_are_suggested(results):
    done = command("compare", results, "--baseline", "bse")
    assert done.code == 2
    assert "did you mean 'base'? Known: base, other" in done.err
    assert "did you mean 'other'?" in compare(results, "--candidate", "othr").err


def test_every_other_model_is_a_candidate(results):
    write(results, tautomers("third", around(0.5)))
    text = compare(results).out
    assert [line.split()[1] for line in text.splitlines() if line.startswith("candidate ")] == ["other", "third"]
    assert compare(results, "--gate", "--candidate", "other").code == 0
    assert compare(results, "--gate", "--candidate", "other", "third").code == 1


def test_a_model_against_itself(results):
    done = compare(results, "--candidate", "base", "--gate", "--strict")
    assert done.code == 0
    assert "base is not shown to differ from base on any of 2 benchmarks; overall no difference shown." in done.out


def test_no_other_model(tmp_path):
    write(tmp_path, *BASELINE)
    done = compare(tmp_path)
    assert done.code == 2
    assert "no other model than base" in done.err


def test_the_baseline_of_another_folder(tmp_path):
    main = write(tmp_path / "main", tautomers("model", GOOD))
    branch = write(tmp_path / "branch", tautomers("model", around(0.6)), tautomers("base", around(0.1)))
    arguments = ("compare", branch, "--baseline-results", main, "--baseline", "model", "--gate")
    done = command(*arguments, "--candidate", "model")
    assert done.code == 1
    assert f"model ({branch}) is worse than model ({main}) on 1 of 1 benchmark; overall worse." in done.out
    heads = [line.split(" against ")[0] for line in command(*arguments).out.splitlines() if " against " in line]
    assert heads == ["candidate base", f"candidate model ({branch})"]
    assert command("compare", branch, "--baseline-results", main, "--baseline", "base").code == 2


def test_a_model_without_results_lacks_everything(results):
    run = {"models": {"base": {}, "gone": {}}, "benchmarks": ["tautomers"], "run_mode": "fast", "data": "hub"}
    ResultStore(results).write_run(run)
    done = compare(results, "--candidate", "gone", "--gate")
    assert done.code == 1
    assert "Gate failed by gone: inference_speed, tautomers." in done.out
    assert command("compare", results, "--baseline", "gone").code == 2


def damage(results, model):
    (results / model / "tautomers" / "result.json").write_text("{", "utf-8")


def test_a_damaged_baseline_does_not_open_the_gate(results):
    damage(results, "base")
    done = compare(results, "--gate")
    assert done.code == 2
    assert "the baseline's results are not whole: cannot read" in done.err
    done = compare(results)
    assert done.code == 0
    assert "cannot read" in done.err and "tautomers: the baseline has no result" in done.out


def test_a_damaged_candidate_fails(results):
    damage(results, "other")
    done = compare(results, "--gate")
    assert done.code == 1
    assert "cannot read" in done.err


def test_no_results_folder(tmp_path):
    done = compare(tmp_path / "nowhere")
    assert done.code == 2
    assert "no results folder" in done.err


# What is written


@pytest.mark.parametrize("results", ["worse"], indirect=True)
def test_files_for_ci(results, tmp_path):
    done = compare(results, "--gate", "--markdown", tmp_path / "a" / "gate.md", "--junit", tmp_path / "gate.xml")
    assert done.code == 1
    markdown = (tmp_path / "a" / "gate.md").read_text("utf-8")
    assert "**Gate failed by other: tautomers, overall.**" in markdown
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert [case.get("name") for case in root.iter("testcase")] == ["inference_speed", "tautomers", "overall"]
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == [
        "tautomers", "overall"
    ]  # fmt: skip


@pytest.mark.parametrize("option", ["--markdown", "--junit"])
def test_a_file_that_cannot_be_written(results, tmp_path, option):
    (tmp_path / "file").touch()
    done = compare(results, "--gate", option, tmp_path / "file" / "gate")
    assert done.code == 2
    assert "cannot write" in done.err


@pytest.mark.parametrize("results", ["worse"], indirect=True)
def test_json_has_the_numbers_of_the_table(results):
    (content,) = json.loads(compare(results, "--json").out)
    (line,) = [line.split() for line in compare(results).out.splitlines() if line.startswith("tautomers")]
    found = content["benchmarks"]["tautomers"]
    assert line[1:3] == [number(found["baseline_score"]), number(found["candidate_score"])]
    low, high = found["interval"]
    assert line[3:7] == [f"{found['difference']:+.3f}", f"{low:+.3f}", "…", f"{high:+.3f}"]
    assert (found["verdict"], found["gate"]["outcome"]) == ("worse", "fails")


def test_plug_ins_that_are_not_installed_are_compared_by_their_intervals(tmp_path):
    write(tmp_path, scored("base", around(0.8), "elsewhere"), scored("other", around(0.7), "elsewhere"))
    done = compare(tmp_path, "--gate")
    assert done.code == 1
    assert "not paired" in done.out


def test_compare_imports_nothing_heavy(results):
    found = modules_of(in_python("compare", str(results), "--baseline", "base", "--gate", "--json"))
    assert "mlipaudit.reporting.comparison" in found
    assert packages(found) & HEAVY == set()
    helping = modules_of(in_python("compare", "--help"))
    assert foreign(helping) == set()
    assert len(helping) <= MAX_NEW_MODULES
