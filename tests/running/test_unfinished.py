# SPDX-License-Identifier: Apache-2.0
"""A run that is killed in the middle of a simulation goes on from where it was."""

import os
import signal
import subprocess
import sys
import time

import pytest

from mlipaudit.data import embedded_root
from mlipaudit.selftest.check import without_times
from mlipaudit.store import UNFINISHED, ResultStore

MODEL = '''
import time
import numpy as np
from ase.calculators.calculator import Calculator, all_changes


class Springs(Calculator):
    """Every atom on a spring at its place of the first call: stable, quick, and slow enough to be killed."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        time.sleep(0.0005)
        away = self.atoms.positions - HOME[len(self.atoms)]
        self.results = {"energy": float(5 * (away**2).sum()), "forces": -10.0 * away}


def home():
    from ase.io import read
    from mlipaudit.data import embedded_root

    files = sorted((embedded_root() / "stability").glob("*.xyz"))
    return {len(a): a.positions for a in (read(f, format="xyz") for f in files)}


HOME = home()


mlipaudit_external_model = Springs()
'''


@pytest.fixture
def command(tmp_path):
    model = tmp_path / "springs.py"
    model.write_text(MODEL)
    data = tmp_path / "data" / "stability"
    data.mkdir(parents=True)
    name = "small_molecule_S.xyz"
    (data / name).write_bytes((embedded_root() / "stability" / name).read_bytes())

    def make(output):
        words = ["run", "-m", str(model), "-b", "stability", "-rm", "fast", "--data", str(tmp_path / "data")]
        return [sys.executable, "-m", "mlipaudit", *words, "-o", str(output)]

    return make


ENVIRONMENT = {**os.environ, "MLIPAUDIT_CHECKPOINT_SECONDS": "0.3"}


def checkpoints(output):
    return list(output.glob(f"*/stability/{UNFINISHED}/*.npz"))


def killed_in_the_middle(command, output):
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 120
    while not checkpoints(output) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finished(command):
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)


def record(output):
    (found,) = ResultStore(output).records()
    return found


def test_kill_9_in_the_middle_of_a_fast_run(command, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert finished(command(whole)).returncode == 0
    killed_in_the_middle(command(cut), cut)
    assert not list(cut.glob("*/stability/result.json"))
    again = finished(command(cut))
    assert again.returncode == 0, again.stderr
    assert "Small_molecule_Sulfur: continuing from step " in again.stderr
    assert without_times(record(cut)) == without_times(record(whole))
    assert not checkpoints(cut), "what is finished needs no checkpoint"
    outputs = [next(folder.glob("*/stability/model_output.*.json")).name for folder in (whole, cut)]
    assert outputs[0] == outputs[1], "the trajectories differ"


def what_it_says_first(command):
    """Lines up to the first that tells of steps; then it is killed."""
    lines = []
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            lines.append(line)
            if ": steps " in line:
                break
        process.kill()
    return "".join(lines)


@pytest.mark.parametrize("change, refused", ((["--fresh"], False), (["--seed", "1"], True)))
def test_what_was_not_asked_for_is_not_continued(change, refused, command, tmp_path):
    killed_in_the_middle(command(tmp_path / "out"), tmp_path / "out")
    said = what_it_says_first([*command(tmp_path / "out"), *change])
    assert ": steps " in said
    assert "continuing" not in said
    assert ("checkpoint not used, it is of another model, protocol, seed or structure" in said) is refused
