# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/ci.md, tried by running their commands: the model's file and the benchmarks are ours."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "ci.md"
QUICK = ["--benchmarks", "tautomers", "dihedral_scan", "--workers", "0"]
MODEL = "from mlipaudit.backends.toy import toy\nmlipaudit_external_model = toy(depth={depth})\n"


def recipes():
    """Title and commands of every recipe; none where the docs are not beside the tests."""
    if not PAGE.is_file():
        return []
    blocks = re.findall(r"## (\w[\w ]*)\n.*?```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    return [(title, re.findall(r"(mlipaudit (?!\S*:).*)", text)) for title, text in blocks]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkout with a candidate, and the results of the model in use in main/."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("model", "candidate"):
        (folder / f"{name}.py").write_text(MODEL.format(depth=0.2))
    carry_out(folder, "mlipaudit run --models model.py --run-mode fast --data embedded --output main")
    return folder


def carry_out(folder, command, expect=0):
    words = shlex.split(command.replace("candidate.zip", "candidate.py"))
    assert words[0] == "mlipaudit"
    quick = QUICK if words[1] == "run" else []
    done = subprocess.run(
        [sys.executable, "-m", *words, *quick], cwd=folder, capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == expect, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    ("title", "commands"), recipes(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_recipe_runs(place, title, commands):
    assert [command.split()[1] for command in commands] == ["run", "run", "report", "compare"]
    for command in commands:
        carry_out(place, command)
    cases = ElementTree.parse(place / "gate.xml").getroot().iter("testcase")
    assert {"tautomers", "dihedral_scan"} <= {case.get("name") for case in cases}
    assert "no difference shown" in (place / "gate.md").read_text("utf-8")
    assert (place / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize("title", [title for title, _ in recipes()][:1])
def test_a_worse_candidate_is_stopped(place, title):
    (place / "candidate.py").write_text(
        "from mlipaudit.backends.toy import toy\nmlipaudit_external_model = toy(depth=float('nan'))\n"
    )
    carry_out(
        place, "mlipaudit run --models candidate.zip --run-mode fast --data embedded --output worse", expect=1
    )
    gate = "mlipaudit compare worse --baseline-results main --baseline model --candidate candidate --gate"
    carry_out(place, gate, expect=1)
