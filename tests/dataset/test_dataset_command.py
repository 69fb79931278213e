# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit run --dataset`: from a file to tables, as a user does it."""

import csv
import io
import json

import numpy as np
import pytest
from ase.io import write
from labelled import make_frames
from planted import command

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.dataset.schemas import VIEWS
from mlipaudit.reporting.blocks import Table
from mlipaudit.reporting.charts import charts_of
from mlipaudit.reporting.contents import open_results
from mlipaudit.reporting.pages.benchmark import benchmark_page
from mlipaudit.reporting.structures import Structures
from mlipaudit.store import ResultStore

NAME = "dataset:my"
CONFIG = """
metrics = ["mae", "rmse", "r2", "within:0.05"]
group_by = ["element", "family"]

[thresholds]
"forces/mae" = 0.1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The user's files."""
    home = tmp_path_factory.mktemp("home")
    write(home / "my.extxyz", make_frames(60))
    (home / "my.toml").write_text(CONFIG)
    return home


def run(folder, output, *more, models=("toy", "toy:depth=0.25"), config=True):
    options = ("--dataset-config", folder / "my.toml") if config else ()
    where = ("-o", output, "--workers", "0", "-rm", "fast", "--data", "embedded")
    return command(
        "run", "-m", *models, "-b", "dataset", "--dataset", folder / "my.extxyz", *options, *where, *more
    )


@pytest.fixture(scope="module")
def results(folder):
    """Of two models."""
    done = run(folder, folder / "results")
    assert done.code == 0, done.err
    return folder / "results"


def stored(results, model="toy"):
    return json.loads((results / model / NAME / "result.json").read_text())


def test_the_result_is_that_of_plain_numpy(folder, results):
    from ase.io import read

    errors, toy = [], ToyCalculator(depth=0.25)
    for frame in read(folder / "my.extxyz", ":"):
        if frame.calc is not None and "forces" in frame.calc.results:
            atoms = frame.copy()
            atoms.calc = toy
            errors.append((atoms.get_forces() - frame.get_forces()).ravel())
    e = np.concatenate(errors)
    found = stored(results, "toy-2")["metrics"]["forces"]
    np.testing.assert_allclose(found["mae"]["value"], np.nanmean(np.abs(e)), rtol=1e-12)
    np.testing.assert_allclose(found["rmse"]["value"], np.sqrt(np.nanmean(e**2)), rtol=1e-12)


def test_it_is_filed_under_what_it_depends_on(folder, results):
    import hashlib

    identity = stored(results)["provenance"]["identity"]
    assert identity["benchmark"] == NAME
    assert identity["data_sha256"] == hashlib.sha256((folder / "my.extxyz").read_bytes()).hexdigest()
    assert identity["protocol"]["metrics"] == ["mae", "rmse", "r2", "within:0.05"]
    assert identity["protocol"]["units"] == {"energy": "eV", "forces": "eV/Å", "stress": "eV/Å³"}
    assert stored(results)["provenance"]["data_name"] == "my.extxyz"
    assert str(folder) not in (results / "toy" / NAME / "result.json").read_text()


def test_the_same_command_goes_on_where_it_stopped(folder, results):
    again = run(folder, results)
    assert again.code == 0
    assert again.err.count("kept from an earlier run") == 2


def test_another_configuration_or_file_is_another_result(folder, results):
    import shutil

    own = folder / "copy"
    shutil.copytree(results, own)
    other = run(folder, own, config=False)
    assert "differs in protocol (group_by, metrics, thresholds)" in other.err
    assert len(list((own / "toy" / NAME / "earlier").iterdir())) == 1
    back = run(folder, own)
    assert back.err.count("kept from an earlier run") == 2
    (folder / "elsewhere").mkdir()
    write(folder / "elsewhere" / "my.extxyz", make_frames(59))
    (folder / "elsewhere" / "my.toml").write_text(CONFIG)
    assert "differs in input data" in run(folder / "elsewhere", own).err


def test_show_report_and_comparison_take_it(results, tmp_path):
    shown = command("show", results)
    assert shown.code == 0
    assert NAME in shown.out
    metrics = json.loads(command("show", results, "--json").out)["rankings"][0]["models"][0]["benchmarks"][NAME]
    assert metrics["metrics"]["forces_mae"]["unit"] == "eV/Å"
    assert command("report", results, "-o", tmp_path / "report.html").code == 0
    assert f"benchmark/{NAME}" in (tmp_path / "report.html").read_text()
    compared = command("compare", results, "--baseline", "toy-2")
    assert compared.code == 0
    assert "better" in compared.out


def test_every_picture_is_drawn(results):
    contents = open_results(results)
    drawn = json.dumps([chart.spec for chart in charts_of(NAME, contents.records, contents.models)])
    assert [view.title for view in VIEWS if view.title not in drawn] == [
        "Error of the forces by size",
        "Error of the energy by size",
    ]  # the configuration has no such groups


def test_the_page_begins_with_the_worst_frames(results):
    page = benchmark_page(open_results(results), NAME, Structures())
    (table,) = [block for block in page.blocks if isinstance(block, Table) and block.name == "worst-systems"]
    scores = [
        {f["name"]: f["score"] for f in stored(results, m)["frames"] if not f["skipped"]} for m in ("toy", "toy-2")
    ]
    mean = {name: np.mean([own[name] for own in scores]) for name in scores[0]}
    assert [row[0].text for row in table.rows] == sorted(mean, key=mean.get)[:10]


def test_stored_answers_are_judged_again(folder, results):
    without = command("verify", results)
    assert without.code == 1
    assert "made on a file of yours, my.extxyz: pass it, or its folder, with --data PATH" in without.out
    for path in (folder, folder / "my.extxyz"):
        assert command("verify", results, "--data", path).code == 0
        assert command("analyze", results, "--data", path).out.count("unchanged") == 2
    other = command("verify", results, "--data", folder / "my.toml")
    assert "the input data is not what the result was made with" in other.out


# Tables


def test_tables_of_numbers_with_units_in_the_header(results):
    table = list(csv.DictReader(io.StringIO(command("tables", results, "-f", "csv").out)))
    assert [(row["model"], row["average"]) for row in table] == [
        ("toy", "pooled"), ("toy", "mean over systems"), ("toy-2", "pooled"), ("toy-2", "mean over systems"),
    ]  # fmt: skip
    metrics = stored(results)["metrics"]
    assert float(table[0]["forces mae (eV/Å)"]) == metrics["forces"]["mae"]["value"]
    assert float(table[1]["forces mae (eV/Å)"]) == metrics["forces"]["mae"]["mean_over_systems"]
    assert table[1]["energy per atom r2"] == ""
    rows = json.loads(command("tables", results, "-b", NAME, "-f", "json").out)
    found = {(m["quantity"], m["metric"]): m for m in rows[1]["metrics"]}
    assert found["energy_per_atom", "r2"]["value"] is None
    assert found["energy_per_atom", "r2"]["reason"] == "not defined for single systems"
    assert found["forces", "mae"]["unit"] == "eV/Å"


def test_tables_for_a_page_and_a_paper(results):
    markdown = command("tables", results, "--groups").out
    assert "| forces mae (eV/Å) |" in markdown
    assert "| toy | family = odd | pooled |" in markdown
    latex = command("tables", results, "-f", "latex").out
    value = f"{stored(results)['metrics']['forces']['mae']['value']:.4g}"
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert r"forces mae (eV/\AA{})" in latex
    assert f"toy & pooled & {value}" in latex


def test_a_benchmark_without_chosen_metrics_has_a_table_too(tmp_path):
    where = ("-o", tmp_path / "out", "--workers", "0", "-rm", "dev")
    assert command("run", "-m", "toy", "-b", "tautomers", *where).code == 0
    assert "| mae (kcal/mol) |" in command("tables", tmp_path / "out").out


# What is wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "{home}/no.extxyz"), "no.extxyz: No such file or directory"),
        (("--dataset", "{home}/empty.extxyz"), "empty.extxyz"),
        (("--dataset", "{home}/text.extxyz"), "text.extxyz cannot be read by ase"),
        (("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/label.toml"), "did you mean 'family'?"),
        (("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/metric.toml"), "did you mean 'rmse'?"),
        (
            ("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/unit.toml"),
            "unknown unit of energy 'kcal/mole'",
        ),
        (("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/option.toml"), "did you mean 'metrics'?"),
        (("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/no.toml"), "no.toml: No such file"),
        (("--dataset", "{home}/my.extxyz", "--dataset-config", "{home}/text.extxyz"), "is not TOML"),
        (("--dataset-config", "{home}/metric.toml"), "--dataset-config is of no use without --dataset FILE"),
        (("-b", "dataset"), "benchmark 'dataset' works on a file of yours: pass --dataset FILE"),
        (("-b", "dataset:my"), "pass --dataset FILE"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_runs(folder, tmp_path, options, message):
    (folder / "empty.extxyz").write_text("")
    (folder / "text.extxyz").write_text("hello\nworld\n")
    (folder / "label.toml").write_text('[labels]\nenergy = "famly"\n')
    (folder / "metric.toml").write_text('metrics = ["rsme"]\n')
    (folder / "unit.toml").write_text('[units]\nenergy = "kcal/mole"\n')
    (folder / "option.toml").write_text('metrix = ["mae"]\n')
    given = [option.format(home=folder) for option in options]
    done = command("run", "-m", "toy", "-rm", "dev", "-o", tmp_path / "out", *given)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


# Beside other benchmarks


def test_it_comes_on_top_of_what_else_is_asked_for(folder, tmp_path):
    where = ("-o", tmp_path / "out", "--workers", "0", "-rm", "dev")
    file = folder / "my.extxyz"
    done = command("run", "-m", "toy", "-b", "tautomers", "--dataset", file, file, *where)
    assert done.code == 0, done.err
    store = ResultStore(tmp_path / "out")
    assert {r.provenance.identity.benchmark for r in store.records()} == {"tautomers", NAME, "dataset:my-2"}
    scores = store.read_scores("toy")
    assert scores.keys() == {"tautomers", "overall_score"}
    assert command("verify", tmp_path / "out", "--data", folder).code == 0
    left = command("run", "-m", "toy", "-b", "tautomers", "-e", "dataset", "--dataset", file, *where)
    assert left.err.count("[1/1]") == 1


def test_metrics_and_transforms_are_listed():
    listed = command("list")
    assert listed.code == 0
    for word in ("metrics", "transforms", "force_cosine", "without_net_force", "--dataset FILE"):
        assert word in listed.out
