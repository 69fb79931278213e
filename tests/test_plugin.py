# SPDX-License-Identifier: Apache-2.0
"""A benchmark of another package: installed, it is everywhere, and nothing of ours is edited. It is the tutorial's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write

from mlipaudit.backends.toy import ToyCalculator

PLUGIN = Path(__file__).parent / "plugin"
ROOT = Path(__file__).parents[1]
NAME = "diatomic_bonds"
VISIT = """
import sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
import mlipaudit.gui
script = Path(mlipaudit.gui.__file__).with_name("app.py")
sys.argv, page = [str(script), sys.argv[1]], sys.argv[2]
app = AppTest.from_file(str(script), default_timeout=60)
app.query_params["page"] = page
app.run()
print([title.value for title in app.title], [text.value for text in app.markdown], [e.value for e in app.error])
print([button.label for button in app.sidebar.button])
"""
"""Opens a page of the browser pages without a browser, and says what is on it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the package is installed."""
    target = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*build, "--no-build-isolation", "--target", str(target), str(PLUGIN)], check=True)
    return target


@pytest.fixture(scope="module")
def mlipaudit(site):
    """The command, in an environment that has the package as well."""

    def run(*arguments, expect=0):
        done = subprocess.run(
            [sys.executable, "-m", "mlipaudit", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(site)},
        )
        assert done.returncode == expect, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def results(mlipaudit, tmp_path_factory):
    """Of the toy on the package's benchmark."""
    output = tmp_path_factory.mktemp("plugin") / "results"
    data = PLUGIN / "data"
    mlipaudit("run", "--models", "toy", "-rm", "dev", "-b", NAME, "--data", data, "-o", output, "--workers", "0")
    return output


def test_it_is_listed_and_not_without_being_installed(mlipaudit):
    assert NAME in mlipaudit("list", "benchmarks")
    from mlipaudit import registry

    assert NAME not in registry.names(registry.BENCHMARKS)


def test_its_results_are_shown(mlipaudit, results):
    assert NAME in mlipaudit("show", results)
    (ranking,) = json.loads(mlipaudit("show", results, "--json"))["rankings"]
    (model,) = ranking["models"]
    assert model["benchmarks"][NAME]["metrics"]["mae"]["unit"] == "Å"
    stored = json.loads((results / "toy" / NAME / "result.json").read_text())
    assert model["benchmarks"][NAME]["score"] == stored["score"]


def test_it_has_a_page_in_the_report(mlipaudit, results, tmp_path):
    mlipaudit("report", results, "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "How good are the bond lengths of diatomic molecules?" in text
    assert f"benchmark/{NAME}" in text


def test_it_has_a_page_in_the_gui(site, results):
    pytest.importorskip("streamlit", reason="needs the extra `gui`")
    command = [sys.executable, "-c", VISIT, str(results), f"benchmark/{NAME}"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(site)}
    )
    page, navigation = done.stdout.splitlines()
    assert NAME in page.replace("\\", "")
    assert "How good are the bond lengths of diatomic molecules?" in page
    assert page.endswith("[]")  # no error
    assert NAME in navigation.replace("\\", "")


def test_it_has_a_page_in_the_docs(site, tmp_path):
    if not (ROOT / "docs" / "generate.py").is_file():
        pytest.skip("the docs are not beside the tests here")
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--output", str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True)
    assert "along a stretch from 0.7 to 1.5" in (tmp_path / "benchmarks" / f"{NAME}.md").read_text()


# Its metric and its transform


METRIC, TRANSFORM = "torque_error", "centred"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """450 triatomics, three chunks of them, with forces of the toy and errors; and the options to score them with."""
    rng = np.random.default_rng(0)
    folder, frames, errors = tmp_path_factory.mktemp("labelled"), [], []
    for _ in range(450):
        atoms = Atoms(
            "OH2", positions=np.array([[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]]) + rng.normal(size=3)
        )
        atoms.rattle(0.1, rng=rng)
        atoms.calc = ToyCalculator()
        error = rng.normal(size=(3, 3))
        errors.append(np.linalg.norm(np.cross(atoms.positions - atoms.get_center_of_mass(), error).sum(axis=0)))
        results = {"energy": atoms.get_potential_energy(), "forces": atoms.get_forces() + error}
        atoms.calc = SinglePointCalculator(atoms, **results)
        frames.append(atoms)
    write(folder / "my.extxyz", frames)
    (folder / "my.toml").write_text(f'metrics = ["mae", "{METRIC}"]\npreprocessors = ["{TRANSFORM}"]\n')
    return folder, float(np.mean(errors))


def dataset_run(labelled, output, *more):
    folder, _ = labelled
    files = ("--dataset", folder / "my.extxyz", "--dataset-config", folder / "my.toml")
    return ("run", "-m", "toy", "-b", "dataset", *files, "-rm", "fast", "-o", output, "--workers", "0", *more)


def test_metric_and_transform_are_listed(mlipaudit):
    listed = mlipaudit("list", "metrics", "transforms")
    assert f"{METRIC} " in listed
    assert "Mean length of the difference between predicted and labelled torque." in listed
    assert f"{TRANSFORM} " in listed


def test_they_work_in_the_command_and_survive_sharding(mlipaudit, labelled, tmp_path):
    mlipaudit(*dataset_run(labelled, tmp_path / "whole"))
    for shard in (3, 1, 2):
        mlipaudit(*dataset_run(labelled, tmp_path / f"part{shard}", "--shard", f"{shard}/3"))
    parts = [tmp_path / f"part{shard}" for shard in (2, 3, 1)]
    mlipaudit("merge", *parts, "-o", tmp_path / "merged", "--data", labelled[0])
    whole, merged = (
        json.loads((tmp_path / name / "toy" / "dataset:my" / "result.json").read_text())
        for name in ("whole", "merged")
    )
    assert merged["metrics"] == whole["metrics"]
    assert merged["frames"] == whole["frames"]
    found = whole["metrics"]["system"][METRIC]
    assert found["value"] == pytest.approx(labelled[1], rel=1e-6)
    assert found["unit"] == "eV"
    made_by = whole["provenance"]["identity"]["protocol"]["made_by"]
    assert made_by == {METRIC: "diatomics 1.0", TRANSFORM: "diatomics 1.0"}


def test_they_work_from_python(site, labelled):
    program = (
        "from mlipaudit import DatasetBenchmark\n"
        "from mlipaudit.backends.toy import ToyCalculator\n"
        f"data = DatasetBenchmark(ToyCalculator(), {str(labelled[0] / 'my.extxyz')!r}, preprocessors=[{TRANSFORM!r}])\n"
        f"print(data.run(quiet=True, metrics=[{METRIC!r}])['metrics']['system'][{METRIC!r}]['value'])"
    )
    environ = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, check=True)
    assert float(done.stdout) == pytest.approx(labelled[1], rel=1e-6)


def test_the_tutorial_shows_this_very_package():
    tutorial = ROOT / "docs" / "new_benchmark.md"
    if not tutorial.is_file():
        pytest.skip("the docs are not beside the tests here")
    blocks = set(re.findall(r"```\w*\n(.*?)```", tutorial.read_text("utf-8"), re.S))
    files = [path for path in PLUGIN.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) >= 5
    assert [path.name for path in files if path.read_text("utf-8") not in blocks] == []
