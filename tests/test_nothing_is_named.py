# SPDX-License-Identifier: Apache-2.0
"""What comes in through an entry point is named in its own module only, so that another's is no worse off."""

import ast
from pathlib import Path

import pytest

import mlipaudit
from mlipaudit import registry

ROOT = Path(mlipaudit.__file__).parent
DATA = "benchmarks_data/"
"""In a wheel the embedded data, and how it was made, lies inside the package."""
OWN = {
    registry.BENCHMARKS: "benchmarks/",
    registry.FILE_BENCHMARKS: "benchmarks/",
    registry.SCHEDULERS: "running/dask_executor.py",
    registry.JOB_ARRAYS: "running/slurm.py",
}
"""Where things of a group may be named."""
ALLOWED = {
    ("suites.py", "string"): "a suite is a list of benchmarks, and comes in through an entry point itself",
    ("__init__.py", "import"): "the names of the package",
    ("families/liquids.py", "string"): "whose trajectory is also whose",
    ("families/proteins.py", "string"): "the same",
    ("selftest/faults.py", "string"): "which fault is planted where",
    ("selftest/models.py", "import"): "the same",
    ("hub/client.py", "string"): "what Hugging Face calls the kind of a repository",
}


def mentions(path, names, modules):
    """Strings that are such a name, and imports of such modules."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and node.value in names:
            yield "string", node.value
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            yield "import", node.module
        if isinstance(node, ast.Import):
            yield from (("import", alias.name) for alias in node.names if alias.name in modules)


@pytest.mark.parametrize("group", OWN)
def test_it_is_named_in_its_own_module_only(group):
    points = registry.registered(group)
    ours = {name: point for name, point in points.items() if point.module.startswith("mlipaudit.")}
    assert ours
    names, modules = set(ours), {point.module for point in ours.values()}
    found = [
        (file, kind, what)
        for path in sorted(ROOT.rglob("*.py"))
        if not (file := path.relative_to(ROOT).as_posix()).startswith((OWN[group], DATA))
        for kind, what in mentions(path, names, modules)
        if (file, kind) not in ALLOWED
    ]
    assert found == []


def test_a_name_would_be_found(tmp_path):
    (tmp_path / "a.py").write_text("import x.y\nfrom x.z import w\nif name == 'tautomers': pass\n")
    found = set(mentions(tmp_path / "a.py", {"tautomers"}, {"x.y", "x.z"}))
    assert found == {("import", "x.y"), ("import", "x.z"), ("string", "tautomers")}
