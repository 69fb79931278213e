# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit show`: the leaderboard, the same numbers for programs, and nothing else on stdout."""

import csv
import io
import json
import math

import pytest
from made_records import around, failed, scored, task
from planted import command

from mlipaudit import __version__
from mlipaudit.benchmarks.tautomers import TautomersMoleculeResult, TautomersResult
from mlipaudit.metric import metrics_of
from mlipaudit.reporting import tables
from mlipaudit.reporting.contents import open_results
from mlipaudit.reporting.export import as_json, escaped
from mlipaudit.reporting.leaderboard import CategoryScore, Ranking, Standing, rankings
from mlipaudit.reporting.rows import Row
from mlipaudit.scoring import score_systems
from mlipaudit.store import ResultStore

HEADER = "run_mode,edition,model,benchmark,category,score,low,high,covered,asked,failures,seconds"


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def tautomers(model, deviations, **kwargs):
    """A result of a benchmark that is installed, whose MAE is not finite."""
    entries = [TautomersMoleculeResult(structure_id=f"t{i}", abs_deviation=d) for i, d in enumerate(deviations)]
    fields = TautomersResult.fields_of(score_systems(entries))
    return task(model, TautomersResult(molecules=entries, mae=math.inf, rmse=0.5, **fields), **kwargs)


@pytest.fixture
def results(tmp_path):
    """Three models on two benchmarks, of which one is not installed; one model failed one of them."""
    store = ResultStore(tmp_path / "results")
    for model, mean in (("good", 0.9), ("fair", 0.5), ("broken", 0.1)):
        store.write(scored(model, around(mean), "elsewhere"))
    store.write(tautomers("good", [0.0] * 8))
    store.write(tautomers("fair", [0.05] * 8))
    store.write(failed("broken"))
    return store.root


# Text


def test_the_leaderboard_comes_first(results):
    done = command("show", results)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "leaderboard · run mode fast · data hub"
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["rank", "model"])
    rows = [line.split() for line in lines[head + 2 : head + 5]]
    assert [row[1] for row in rows] == ["good", "fair", "broken"]
    assert [row[2] for row in rows] == ["0.950", "0.750", "0.050"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[6] for row in rows] == ["2/2", "2/2", "1/2"]
    tasks = lines.index("run mode fast · data hub")
    assert tasks > head + 5
    assert lines[tasks + 2].split()[:3] == ["model", "benchmark", "score"]
    assert "3 tasks had failures" not in done.out and "1 of 6 tasks had failures:" in done.out


def test_a_shared_rank_has_a_mark_and_the_mark_a_meaning(tmp_path):
    store = ResultStore(tmp_path)
    for model in ("a", "b"):
        store.write(tautomers(model, [0.0, 0.06, 0.2, 0.01]))
    text = command("show", tmp_path).out
    assert [line.split()[:2] for line in text.splitlines() if "1=" in line] == [["1=", "a"], ["1=", "b"]]
    assert tables.TIES in text


def test_no_leaderboard_of_one_result(tmp_path):
    ResultStore(tmp_path).write(scored("a", around(0.5), "elsewhere"))
    assert command("show", tmp_path).out.startswith("run mode fast · data hub\n")


def test_no_leaderboard_without_any_score(results):
    for path in results.glob("*/*/result.json"):
        path.write_text("{", "utf-8")
    done = command("show", results)
    assert done.code == 1
    assert "leaderboard" not in done.out
    assert len(done.err.splitlines()) == 6


def test_remarks_are_printed(results):
    (results / "fair" / "elsewhere" / "result.json").unlink()
    text = command("show", results).out
    assert "  note: not ranked: fair, without a score on elsewhere\n" in text


CATEGORIES = ("Biomolecules", "General", "Molecular Liquids", "Small Molecules", "Transition Metal Complexes")


def wide_ranking(names):
    """Five categories, and numbers as wide as they get."""
    row = Row("", None, 0.0001, (0.0001, 0.0004), 118, 118, (), 1.0, False, "hub", "fast")
    categories = tuple(CategoryScore(name, 0.0001, None, 1, 1) for name in CATEGORIES)
    standings = tuple(Standing(name, 1, True, row, categories, {"a": row, "b": row}) for name in names)
    remark = "not ranked: nobody, without " + "a very long explanation of what is missing " * 5
    return Ranking("fast", "hub", ("a", "b"), CATEGORIES, standings, (remark,))


@pytest.mark.parametrize("names", [("a", "b"), ("mace_large_v1", "b"), ("a" * 30 + "1", "a" * 30 + "2")])
def test_a_leaderboard_fits_into_a_hundred_columns(names):
    lines = tables.leaderboards([wide_ranking(names)]).splitlines()
    assert max(map(len, lines)) <= 100
    table = [line for line in lines if "1=" in line]
    assert len({len(line) for line in table}) == 1
    shown = [line.split()[1] for line in table]
    assert all(short[:6] == name[:6] and short[-1] == name[-1] for short, name in zip(shown, names, strict=True))


def test_names_that_would_look_the_same_are_not_cut():
    names = ("a" * 30 + "1" + "same", "a" * 30 + "2" + "same")
    text = tables.leaderboards([wide_ranking(names)])
    assert all(name in text for name in names)


def test_a_category_has_its_whole_name_where_there_is_room(results):
    text = command("show", results).out
    assert "General" in text and "Molecules" in text


# JSON


def test_json_is_strict_and_says_what_the_store_holds(results):
    done = command("show", results, "--json")
    assert (done.code, done.err) == (0, "")
    content = json.loads(done.out, parse_constant=refuse)
    assert content == as_json(open_results(results))
    assert list(content) == ["mlipaudit", "results", "rankings", "unreadable", "missing"]
    assert (content["mlipaudit"], content["results"]) == (__version__, "results")
    assert (content["unreadable"], content["missing"]) == ([], [])
    (ranking,) = content["rankings"]
    assert (ranking["run_mode"], ranking["edition"], ranking["remarks"]) == ("fast", "hub", [])
    assert [(m["model"], m["rank"], m["tied"]) for m in ranking["models"]] == [
        ("good", 1, False), ("fair", 2, False), ("broken", 3, False)
    ]  # fmt: skip


def test_numbers_are_those_of_the_results(results):
    good, fair, broken = as_json(open_results(results))["rankings"][0]["models"]
    assert good["score"] == pytest.approx(0.95)
    assert (good["covered"], good["asked"]) == (2, 2)
    assert set(good["categories"]) == {"General", "Small Molecules"}
    assert good["categories"]["Small Molecules"] == {
        "score": 1.0,
        "interval": [1.0, 1.0],
        "covered": 1,
        "asked": 1,
    }
    stored = json.loads((results / "good" / "elsewhere" / "result.json").read_text("utf-8"))
    task = good["benchmarks"]["elsewhere"]
    assert (task["score"], task["interval"]) == (stored["score"], stored["score_interval"])
    assert (task["covered"], task["asked"], task["failed"], task["failures"]) == (40, 40, False, [])
    assert (task["seconds"], task["metrics"]) == (1.5, {})
    metrics = fair["benchmarks"]["tautomers"]["metrics"]
    assert list(metrics) == list(metrics_of(TautomersResult))
    assert metrics["mae"] == {"value": "Infinity", "unit": "kcal/mol", "better": "lower"}
    assert metrics["rmse"] == {"value": 0.5, "unit": "kcal/mol", "better": "lower"}
    assert broken["benchmarks"]["tautomers"] == {
        "score": 0.0, "interval": None, "covered": 0, "asked": 0, "failed": True, "failures": ["load_error"],
        "seconds": 1.5, "metrics": {},
    }  # fmt: skip


def test_a_metric_with_an_interval_has_it(tmp_path):
    record = tautomers("a", [0.1, 0.2])
    record.result.intervals = {"rmse": (0.1, 0.3)}
    ResultStore(tmp_path).write(record)
    (model,) = as_json(open_results(tmp_path))["rankings"][0]["models"]
    metrics = model["benchmarks"]["tautomers"]["metrics"]
    assert (metrics["rmse"]["value"], metrics["rmse"]["interval"]) == (0.5, [0.1, 0.3])
    assert "interval" not in metrics["mae"]


def test_what_cannot_be_read_or_is_missing_is_named(results):
    (results / "good" / "tautomers" / "result.json").write_text("{", "utf-8")
    (results / "fair" / "tautomers" / "result.json").unlink()
    run = {"models": {"fair": {}}, "benchmarks": ["tautomers"], "run_mode": "fast", "data": "hub"}
    ResultStore(results).write_run(run)
    done = command("show", results, "--json")
    assert done.code == 1
    assert done.err.startswith("mlipaudit: cannot read")
    content = json.loads(done.out, parse_constant=refuse)
    (unreadable,) = content["unreadable"]
    assert (unreadable["model"], unreadable["benchmark"]) == ("good", "tautomers")
    assert "cut short" in unreadable["reason"]
    assert content["missing"] == [{"model": "fair", "benchmark": "tautomers"}]
    assert str(results) not in done.out


def test_a_folder_named_by_a_dot_has_its_name(results, monkeypatch):
    monkeypatch.chdir(results)
    assert json.loads(command("show", ".", "--json").out)["results"] == "results"


# CSV


def test_csv_has_a_line_per_task_and_model(results):
    done = command("show", results, "--csv")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == HEADER
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert len(lines) == 3 * (2 + 1)
    good = {line["benchmark"]: line for line in lines if line["model"] == "good"}
    (standing,) = (s for s in rankings(open_results(results))[0].standings if s.model == "good")
    for name, row in {**standing.tasks, "overall": standing.overall}.items():
        numbers = [float(good[name][column]) for column in ("score", "low", "high", "seconds")]
        assert numbers == [row.score, *row.interval, row.seconds]
    assert (good["tautomers"]["category"], good["overall"]["category"]) == ("Small Molecules", "")
    broken = next(line for line in lines if (line["model"], line["benchmark"]) == ("broken", "tautomers"))
    assert (broken["low"], broken["failures"], broken["covered"]) == ("", "load_error", "0")


# Markdown


def test_markdown_has_a_leaderboard_and_a_table_of_benchmarks(results):
    done = command("show", results, "--markdown")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "| rank | model | score | 95 % interval | benchmarks | General | Small Molecules |" in lines
    assert "| benchmark | good | fair | broken |" in lines
    (leader,) = [line for line in lines if line.startswith("| 1 | good |")]
    assert leader.split(" | ")[2:] == ["0.950", "0.947 … 0.953", "2/2", "0.900", "1.000 |"]
    (line,) = [line for line in lines if line.startswith("| tautomers |")]
    assert line == "| tautomers | 1.000 ± 0.000 | 1.000 ± 0.000 | 0.000 |"
    widths = {line.count("|") for line in lines if line.startswith("| ")}
    assert widths == {8, 5}


def test_markdown_takes_names_as_they_are():
    assert escaped("a|b") == "a\\|b"
    assert escaped("bond_length") == "bond_length"
    assert escaped("_x_ <0.001 *y*") == "\\_x\\_ \\<0.001 \\*y\\*"


# All forms


def test_one_form_at_a_time(results):
    done = command("show", results, "--json", "--csv")
    assert (done.code, done.out) == (2, "")
    assert "not allowed with" in done.err


EMPTY = {"--json": "", "--csv": HEADER + "\n", "--markdown": "No results.\n"}


@pytest.mark.parametrize("form", EMPTY)
def test_an_empty_folder(tmp_path, form):
    done = command("show", tmp_path, form)
    assert (done.code, done.err) == (1, "")
    if form == "--json":
        assert json.loads(done.out)["rankings"] == []
    else:
        assert done.out == EMPTY[form]


@pytest.mark.parametrize("form", [(), *((form,) for form in EMPTY)])
def test_no_folder(tmp_path, form):
    done = command("show", tmp_path / "nowhere", *form)
    assert (done.code, done.out) == (1, "")
    assert "no results folder" in done.err


@pytest.mark.parametrize("form", [(), *((form,) for form in EMPTY)])
def test_results_of_the_published_version_are_shown(tmp_path, golden, form):
    for case in ("exact", "one_failed"):
        folder = tmp_path / case / "tautomers"
        folder.mkdir(parents=True)
        (folder / "result.json").write_bytes((golden / "tautomers" / case / "result.json").read_bytes())
    done = command("show", tmp_path, *form)
    assert (done.code, done.err) == (0, "")
    assert "unknown (mlipaudit 0.1.x)" in done.out
    assert "nan" not in done.out.lower()
