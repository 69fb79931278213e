# SPDX-License-Identifier: Apache-2.0
"""Imports stay lazy; each case is counted in a fresh interpreter, and the count is shown to be able to fail."""

import json
import subprocess
import sys

import pytest

from mlipaudit import registry
from mlipaudit.store import checksum

MAX_NEW_MODULES = 60
HEAVY = {
    "jax",
    "jaxlib",
    "mlip",
    "jax_md",
    "ase",
    "torch",
    "scipy",
    "pandas",
    "sklearn",
    "streamlit",
    "matplotlib",
}
NEVER_IN_THE_PARENT = {"jax", "jaxlib", "mlip", "jax_md", "torch", "streamlit"}

COUNT = """
import sys
before = set(sys.modules)
try:
    exec(sys.argv[1])
except SystemExit:
    pass
new = sorted(set(sys.modules) - before)
import json
print("\\n" + json.dumps(new))
"""


def modules_of(statements):
    """Modules that `statements` import in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", COUNT, statements], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules):
    return {module.partition(".")[0] for module in modules}


def foreign(modules):
    """Packages outside the standard library and ours."""
    return packages(modules) - set(sys.stdlib_module_names) - {"mlipaudit"}


def command(*arguments):
    return f"from mlipaudit.cli import main; main({list(arguments)!r})"


# The checker itself


def test_checker_sees_jax():
    found = modules_of("import mlipaudit.backends.calibration")
    assert "jax" in packages(found) & HEAVY & NEVER_IN_THE_PARENT
    assert "jax" in foreign(found)
    assert len(found) > MAX_NEW_MODULES


def test_checker_sees_a_single_module():
    assert modules_of("import colorsys") == {"colorsys"}


# Light


@pytest.mark.parametrize(
    "statements",
    [
        "import mlipaudit",
        command("--help"),
        command("run", "--help"),
        command("benchmark", "--help"),
        command("list", "--help"),
        command("show", "--help"),
        command("gui", "--help"),
        command("data", "--help"),
        command("analyze", "--help"),
        command("verify", "--help"),
        command("selftest", "--help"),
    ],
)
def test_help_imports_little(statements):
    found = modules_of(statements)
    assert foreign(found) == set()
    assert len(found) <= MAX_NEW_MODULES


def test_import_of_the_package_imports_nothing():
    assert modules_of("import mlipaudit") == {"mlipaudit"}


@pytest.fixture(scope="module")
def numpy_and_pydantic():
    """Packages that numpy and pydantic bring along."""
    return foreign(modules_of("import numpy.typing, pydantic.type_adapter, annotated_types"))


@pytest.mark.parametrize("name", registry.names(registry.BENCHMARKS))
def test_benchmark_modules_import_numpy_and_pydantic_only(name, numpy_and_pydantic):
    module = registry.registered(registry.BENCHMARKS)[name].module
    found = modules_of(f"import {module}")
    assert module in found
    assert packages(found) & HEAVY == set()
    assert foreign(found) <= numpy_and_pydantic


@pytest.mark.parametrize("module", ["mlipaudit.scoring", "mlipaudit.metric", "mlipaudit.analysis.timing"])
def test_numbers_know_nothing_of_what_uses_them(module):
    ours = {m for m in modules_of(f"import {module}") if m.startswith("mlipaudit")}
    assert ours <= {"mlipaudit", "mlipaudit.metric", "mlipaudit.scoring", "mlipaudit.analysis", module}


# Never jax


@pytest.mark.parametrize(
    "module",
    ["mlipaudit.cli.run", "mlipaudit.cli.display", "mlipaudit.running.plan", "mlipaudit.running.executor",
     "mlipaudit.models", "mlipaudit.store", "mlipaudit.reporting.tables", "mlipaudit.backends.contract",
     "mlipaudit.backends.mlip_zip"],
)  # fmt: skip
def test_the_parent_of_a_run_imports_no_jax(module):
    assert packages(modules_of(f"import {module}")) & HEAVY == set()


def test_planning_a_run_imports_no_jax():
    planning = (
        "from mlipaudit.models import parse_models\n"
        "from mlipaudit.running.plan import choose_benchmarks, make_plan\n"
        "from mlipaudit.run_mode import RunMode\n"
        "make_plan(parse_models(['toy']), choose_benchmarks(), run_mode=RunMode.DEV, data=None, seed=0).as_dict()\n"
    )
    found = modules_of(planning)
    assert "mlipaudit.benchmarks.inference_speed" in found
    assert packages(found) & HEAVY == set()


def test_list_imports_no_jax():
    found = modules_of(command("list"))
    assert "mlipaudit.registry" in found
    assert packages(found) & NEVER_IN_THE_PARENT == set()
    assert not {module for module in found if module.startswith("ase.md")}


def test_show_imports_nothing_heavy(tmp_path):
    result = {"score": 0.5, "molecules": [], "provenance": PROVENANCE}
    result["checksum"] = checksum(result)
    file = tmp_path / "m" / "tautomers" / "result.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(result), encoding="utf-8")
    found = modules_of(command("show", str(tmp_path)))
    assert "mlipaudit.benchmarks.tautomers" in found
    assert packages(found) & HEAVY == set()


PROVENANCE = {
    "task_id": "0", "model": "m", "model_source": "m.zip", "versions": {}, "device": "cpu", "started_at": "",
    "wall_seconds": 1, "compile_seconds": 0, "num_compilations": 0, "peak_memory_bytes": 1, "command": "",
    "identity": {"model_sha256": "0", "benchmark": "tautomers", "benchmark_version": "1", "run_mode": "dev", "seed": 0},
}  # fmt: skip
