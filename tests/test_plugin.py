# SPDX-License-Identifier: Apache-2.0
"""A benchmark of another package: installed, it is everywhere, and nothing of ours is edited. It is the tutorial's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_tutorial_shows_this_very_package():
    tutorial = ROOT / "docs" / "new_benchmark.md"
    if not tutorial.is_file():
        pytest.skip("the docs are not beside the tests here")
    blocks = set(re.findall(r"```\w*\n(.*?)```", tutorial.read_text("utf-8"), re.S))
    files = [path for path in PLUGIN.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) >= 5
    assert [path.name for path in files if path.read_text("utf-8") not in blocks] == []
