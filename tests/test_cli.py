# SPDX-License-Identifier: Apache-2.0
"""The command line from arguments to exit code, with models that work and models that do not."""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from mlipaudit import registry
from mlipaudit.cli import main
from mlipaudit.errors import UserError
from mlipaudit.running.worker import Worker
from mlipaudit.store import ResultStore

CALCULATOR = """
from ase.calculators.calculator import Calculator, all_changes

class Planted(Calculator):
    implemented_properties = ["energy", "forces"]
    calls = 0

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.calls += 1
        self.results = {{"energy": -1.0 * self.calls, "forces": 0.0 * self.atoms.positions}}
        {fault}

mlipaudit_external_model = Planted()
"""
NEARLY_PERFECT = """
from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.benchmarks.tautomers import TautomersBenchmark
from mlipaudit.data import Embedded
from mlipaudit.run_mode import RunMode
from mlipaudit.units import KCAL_MOL_PER_EV

pairs = TautomersBenchmark.load(Embedded().fetch("tautomers").path, TautomersBenchmark.protocols[RunMode.DEV])
labelled = [entry for group in TautomersBenchmark.structures(pairs).values() for entry in group]
labelled[-1] = labelled[-1]._replace(energy=labelled[-1].energy + 0.1 / KCAL_MOL_PER_EV)
mlipaudit_external_model = OracleBackend(labelled)
"""
HERE = ("--workers", "0")
RAISES_ONCE = "if self.calls == 1: raise RuntimeError('planted')"
NAN_ONCE = "if self.calls == 1: self.results['energy'] = float('nan')"
EXITS_ONCE = "if self.calls == 1: raise SystemExit(3)"
ALWAYS_RAISES = "raise RuntimeError('planted')"
ALWAYS_NAN = "self.results['energy'] = float('nan')"
ALWAYS_INFINITE = "self.results['energy'] = float('inf')"


class Done(NamedTuple):
    """Outcome of a command."""

    code: int
    out: str
    err: str


def mlipaudit(*arguments):
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def audit(output, *models, benchmark="tautomers"):
    return mlipaudit(
        "run", "--models", *models, "--benchmarks", benchmark, "--run-mode", "dev", "--output", output, *HERE
    )


def write_model(folder, text, name="model.py"):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def planted(folder, fault, name="model.py"):
    return write_model(folder, CALCULATOR.format(fault=fault), name)


def stored(output):
    """(model, benchmark) -> record."""
    records = list(ResultStore(output).records())
    return {(r.provenance.model, r.provenance.identity.benchmark): r for r in records}


def row(table, model, benchmark="tautomers"):
    """The line of a task in a printed table."""
    (line,) = [line for line in table.splitlines() if line.split()[:2] == [model, benchmark]]
    return line


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("toy") / "results"


@pytest.fixture(scope="module")
def toy_run(output):
    """One good run that several tests look at."""
    return audit(output, "toy")


# A run that goes well


def test_good_run_exits_0(toy_run):
    assert toy_run.code == 0
    assert "failure" not in toy_run.err


def test_table_has_score_interval_and_coverage(tmp_path):
    done = audit(tmp_path / "out", write_model(tmp_path, NEARLY_PERFECT, "oracle.py"))
    low, high = math.exp(-3), 1.0  # right about one pair, and one threshold beyond the threshold about the other
    assert done.code == 0
    assert done.out.startswith("run mode dev · data embedded\n")
    cells = row(done.out, "oracle").split()
    assert cells[2:-2] == [f"{(low + high) / 2:.3f}", f"{low:.3f}", "…", f"{high:.3f}", "2/2"]
    result = stored(tmp_path / "out")["oracle", "tautomers"].result
    assert result.score == pytest.approx((low + high) / 2, abs=1e-6)
    assert result.score_interval == pytest.approx((low, high), abs=1e-6)


def test_small_score_is_not_shown_as_none(toy_run, output):
    assert 0 < stored(output)["toy", "tautomers"].result.score < 0.0005
    assert row(toy_run.out, "toy").split()[2] == "<0.001"


def test_interval_holds_a_very_small_score(toy_run, output):
    result = stored(output)["toy", "tautomers"].result
    assert result.score_interval[0] <= result.score <= result.score_interval[1]


def test_result_says_how_it_was_made(toy_run, output):
    provenance = stored(output)["toy", "tautomers"].provenance
    assert (provenance.data_edition, provenance.data_name, provenance.model_source) == (
        "embedded",
        "tautomers",
        "toy",
    )
    assert (provenance.identity.run_mode, provenance.identity.seed) == ("dev", 0)
    assert provenance.identity.protocol == {"max_systems": 2}
    assert len(provenance.identity.data_sha256) == len(provenance.identity.model_sha256) == 64
    assert provenance.identity.task_id == provenance.task_id
    assert {"python", "mlipaudit", "jax", "ase"} <= set(provenance.versions)


def test_run_file_says_what_was_asked(toy_run, output):
    run = json.loads((output / "run.json").read_text(encoding="utf-8"))
    assert (run["run_mode"], run["seed"], run["benchmarks"]) == ("dev", 0, ["tautomers"])
    assert run["models"]["toy"]["kind"] == "named"


def test_score_file_agrees_with_the_result(toy_run, output):
    score = stored(output)["toy", "tautomers"].result.score
    content = json.loads((output / "toy" / "score.json").read_text(encoding="utf-8"))
    assert content == {"tautomers": score, "overall_score": score}


def test_show_prints_what_run_printed(toy_run, output):
    shown = mlipaudit("show", output)
    assert (shown.code, shown.out, shown.err) == (0, toy_run.out, "")


def test_same_run_gives_the_same_result(toy_run, output, tmp_path):
    audit(tmp_path, "toy")
    one, other = (stored(folder)["toy", "tautomers"] for folder in (output, tmp_path))
    assert one.result == other.result
    assert one.provenance.task_id == other.provenance.task_id


def test_old_command_gives_the_same_result(toy_run, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = mlipaudit("benchmark", "-m", "toy", "-o", "out", "-b", "tautomers", "-rm", "dev", "-lt")
    assert done.code == 0
    assert stored("out")["toy", "tautomers"].result == stored(output)["toy", "tautomers"].result


def test_two_models_of_one_stem_are_kept_apart(tmp_path):
    models = [planted(tmp_path / folder, "pass", "m.py") for folder in ("a", "b")]
    done = audit(tmp_path / "out", *models)
    assert done.code == 0
    assert list(stored(tmp_path / "out")) == [("m", "tautomers"), ("m-2", "tautomers")]
    assert row(done.out, "m") and row(done.out, "m-2")


def test_records_carry_nothing_personal(tmp_path, monkeypatch):
    home = tmp_path / "alice-of-lab-7"
    model = planted(home / "models", "pass")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "alice-of-lab-7")
    assert audit(home / "out", model).code == 0
    texts = [file.read_text(encoding="utf-8") for file in (home / "out").rglob("*.json")]
    assert len(texts) == 4
    assert not [
        text for text in texts for secret in (home.name, str(tmp_path), os.uname().nodename) if secret in text
    ]


def test_reasons_carry_nothing_personal(tmp_path):
    data = tmp_path / "alice-of-lab-7"
    write_model(data / "tautomers", "no TOML", "manifest.toml")
    done = mlipaudit(
        "run", "-m", "toy", "-b", "tautomers", "-rm", "dev", "--data", data, "-o", tmp_path / "out", *HERE
    )
    assert done.code == 1
    text = (tmp_path / "out" / "toy" / "tautomers" / "result.json").read_text(encoding="utf-8")
    assert "data_corrupt" in text
    assert data.name not in text


# list and help


def test_list_names_everything():
    done = mlipaudit("list")
    assert done.code == 0
    names = [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")]
    assert {"tautomers", "inference_speed", "toy", "gfn1-xtb", "gfn2-xtb", "core"} <= set(names)
    assert [line for line in done.out.splitlines() if line and not line.startswith(" ")] == [
        "benchmarks", "models", "suites", "metrics", "transforms"
    ]  # fmt: skip


def test_list_of_one_kind():
    done = mlipaudit("list", "suites")
    assert done.out.startswith("suites\n")
    assert "gfn2-xtb" not in done.out


def test_list_of_something_else():
    done = mlipaudit("list", "benchmark")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'benchmarks'?" in done.err


def test_list_with_a_broken_plugin(monkeypatch):
    load = registry.load

    def broken(group, name):
        if name == "tautomers":
            raise UserError("benchmark 'tautomers' cannot be imported: no module named torch")
        return load(group, name)

    monkeypatch.setattr(registry, "load", broken)
    done = mlipaudit("list", "benchmarks")
    assert done.code == 0
    assert "inference_speed" in done.out
    assert "no module named torch" in done.out


def test_help_in_a_fresh_process():
    done = subprocess.run(
        [sys.executable, "-m", "mlipaudit", "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("run", "list", "show", "examples:"))


def test_version():
    with pytest.raises(SystemExit) as stop, contextlib.redirect_stdout(io.StringIO()) as out:
        main(["--version"])
    assert (stop.value.code, out.getvalue().split()[0]) == (0, "mlipaudit")


# Usage errors: exit 2, before anything is written


def refused(done, match, output=None):
    assert done.code == 2
    assert done.err.startswith("mlipaudit: error: ")
    assert match in done.err
    assert "Traceback" not in done.err
    assert output is None or not output.exists()


def test_unknown_benchmark(tmp_path):
    refused(audit(tmp_path / "out", "toy", benchmark="tautomer"), "did you mean 'tautomers'?", tmp_path / "out")


def test_unknown_model(tmp_path):
    refused(audit(tmp_path / "out", "gfn2xtb"), "did you mean 'gfn2-xtb'?", tmp_path / "out")


def test_missing_model_file(tmp_path):
    refused(audit(tmp_path / "out", tmp_path / "no.zip"), "no.zip: no such file", tmp_path / "out")


def test_unknown_suite(tmp_path):
    done = mlipaudit("run", "-m", "toy", "--suite", "cor", "-rm", "dev", "-o", tmp_path / "out")
    refused(done, "did you mean 'core'?", tmp_path / "out")


@pytest.mark.parametrize("run_mode", ["fast", "standard"])
def test_no_data_for_this_run_mode(tmp_path, run_mode, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("MLIPAUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    done = mlipaudit("run", "-m", "toy", "-b", "tautomers", "-rm", run_mode, "-o", tmp_path / "out")
    last_lines(done, "data_unavailable: ")
    assert "--data embedded" in done.err


def test_missing_data_folder(tmp_path):
    done = mlipaudit("run", "-m", "toy", "-rm", "dev", "--data", tmp_path / "no", "-o", tmp_path / "out")
    refused(done, "no such folder", tmp_path / "out")


def test_everything_excluded(tmp_path):
    done = mlipaudit(
        "run", "-m", "toy", "-rm", "dev", "-o", tmp_path / "out", "-e", *registry.names(registry.BENCHMARKS)
    )
    refused(done, "no benchmark is left to run", tmp_path / "out")


def test_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    refused(audit(tmp_path / "file" / "out", "toy"), "choose another --output")
    old = mlipaudit("benchmark", "-m", "toy", "-o", tmp_path / "file" / "out", "-rm", "dev", *HERE)
    refused(old, "choose another --output")


@pytest.mark.parametrize("arguments", [["run"], ["run", "-m", "toy", "-rm", "slow"], [], ["nonsense"]])
def test_argparse_refuses_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_show_without_results(tmp_path):
    assert mlipaudit("show", tmp_path)[:2] == (1, f"no results in {tmp_path}\n")
    assert mlipaudit("show", tmp_path / "nowhere").code == 1


def test_show_with_an_unreadable_result(toy_run, output, tmp_path):
    write_model(tmp_path / "bad" / "tautomers", "{", "result.json")
    (tmp_path / "toy").symlink_to(output / "toy")
    shown = mlipaudit("show", tmp_path)
    assert shown.code == 1
    assert shown.out.startswith(toy_run.out)
    assert "unreadable" in row(shown.out, "bad")
    assert shown.err.startswith("mlipaudit: cannot read") and "not JSON, or cut short" in shown.err


# Broken models: exit 1, named in the last lines, and nothing else is lost


def last_lines(done, *expected):
    assert done.code == 1
    tail = done.err.splitlines()[-2 - len(expected) :]
    assert "tasks had failures:" in tail[0]
    assert all(text in line for text, line in zip(expected, tail[1:-1], strict=True)), tail
    assert tail[-1].startswith("Full records: ")


@pytest.mark.parametrize("bad_first", [True, False])
def test_model_that_cannot_be_loaded(tmp_path, bad_first):
    bad = write_model(tmp_path, "not a zip", "bad.zip")
    done = audit(tmp_path / "out", *([bad, "toy"] if bad_first else ["toy", bad]))
    records = stored(tmp_path / "out")
    assert records["toy", "tautomers"].result.num_failed == 0
    broken = records["bad", "tautomers"].result
    assert (broken.failed, broken.score, broken.failure.kind) == (True, 0.0, "load_error")
    last_lines(done, "bad · tautomers: load_error: bad.zip is not a zip archive")


def test_python_file_that_exits(tmp_path):
    bad = write_model(tmp_path, "import sys; sys.exit(0)", "bad.py")
    done = audit(tmp_path / "out", bad, "toy")
    assert set(stored(tmp_path / "out")) == {("bad", "tautomers"), ("toy", "tautomers")}
    last_lines(done, "bad · tautomers: load_error: bad.py cannot be run: SystemExit")


@pytest.mark.parametrize(
    "fault, kind, message",
    [
        (RAISES_ONCE, "exception", "structure 1 of 2: RuntimeError: planted"),
        (NAN_ONCE, "non_finite", "structure 1 of 2: energy is nan"),
    ],
)
def test_only_the_failing_system_fails(tmp_path, fault, kind, message):
    done = audit(tmp_path / "out", planted(tmp_path, fault))
    result = stored(tmp_path / "out")["model", "tautomers"].result
    bad, good = result.molecules
    assert (bad.failed, bad.failure.kind, bad.failure.message) == (True, kind, message)
    assert (good.failed, good.failure) == (False, None)
    assert math.isfinite(good.abs_deviation)
    assert (result.failed, result.num_systems, result.num_failed) == (False, 2, 1)
    assert result.score <= 0.5
    assert " 1/2 " in row(done.out, "model")
    last_lines(done, f"model · tautomers {bad.structure_id}: {kind}: {message}")


def test_reason_names_the_innermost_frame(tmp_path):
    audit(tmp_path / "out", planted(tmp_path, RAISES_ONCE))
    (failure,) = stored(tmp_path / "out")["model", "tautomers"].result.failures.values()
    assert failure.where.startswith("model.py:") and failure.where.endswith(" calculate")


@pytest.mark.parametrize(
    "fault, kind", [(ALWAYS_RAISES, "exception"), (ALWAYS_NAN, "non_finite"), (ALWAYS_INFINITE, "non_finite")]
)
def test_model_that_always_fails_scores_zero(tmp_path, fault, kind):
    done = audit(tmp_path / "out", planted(tmp_path, fault))
    result = stored(tmp_path / "out")["model", "tautomers"].result
    assert (done.code, result.failed, result.score, result.score_interval) == (1, True, 0.0, None)
    assert {str(failure.kind) for failure in result.failures.values()} == {kind}
    assert row(done.out, "model").split()[2:6] == ["0.000", "–", "0/2", kind]


def test_failures_are_shown_again(tmp_path):
    done = audit(tmp_path / "out", planted(tmp_path, RAISES_ONCE))
    shown = mlipaudit("show", tmp_path / "out")
    assert shown.code == 0
    assert done.err.splitlines()[-3:] == shown.out.splitlines()[-3:]


def test_model_without_the_elements(tmp_path):
    model = planted(tmp_path, "pass")
    model.write_text(model.read_text("utf-8") + "mlipaudit_external_model.allowed_atomic_numbers = {1}\n", "utf-8")
    done = audit(tmp_path / "out", model, "toy")
    result = stored(tmp_path / "out")["model", "tautomers"].result
    assert (result.failed, result.score, result.failure.kind) == (True, 0.0, "missing_elements")
    assert "does not cover " in result.failure.message and " C, " in result.failure.message
    last_lines(done, "model · tautomers: missing_elements: ")


def test_calculator_that_exits_costs_only_itself(tmp_path):
    audit(tmp_path / "out", planted(tmp_path, EXITS_ONCE), "toy")
    assert set(stored(tmp_path / "out")) == {("model", "tautomers"), ("toy", "tautomers")}


def test_interrupt_keeps_what_is_finished(tmp_path, monkeypatch):
    run_task, begun = Worker.run, []

    def interrupted(self, task, progress, **limit):
        begun.append(task.model.name)
        if len(begun) > 1:
            raise KeyboardInterrupt
        return run_task(self, task, progress, **limit)

    monkeypatch.setattr(Worker, "run", interrupted)
    done = audit(tmp_path / "out", "toy", "toy:depth=0.3")
    assert (done.code, begun) == (130, ["toy", "toy-2"])
    assert (
        done.err.splitlines()[-1]
        == "mlipaudit: interrupted; finished results are kept, and the same command goes on"
    )
    assert list(stored(tmp_path / "out")) == [("toy", "tautomers")]
