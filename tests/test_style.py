# SPDX-License-Identifier: Apache-2.0
"""The budgets of the style guide: length of functions and modules, licence lines, broad excepts."""

import ast
import re
from pathlib import Path
from statistics import median

import pytest

import mlipaudit

PACKAGE = Path(mlipaudit.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
BENCHMARK_FILES = sorted((PACKAGE / "benchmarks").rglob("*.py"))
SPDX = "# SPDX-License-Identifier: Apache-2.0"
MAX_LINES, MEDIAN_LINES, LINES_OF_NINE_IN_TEN = 60, 10, 45
MAX_BENCHMARK_LINES = 200
SCHEMA_BASES = {"BaseModel", "Record", "SystemResult", "BenchmarkResult", "ModelOutput"}


def name_of(file):
    return str(file.relative_to(PACKAGE))


def lines_of_functions(source):
    """Function -> number of its lines, docstring included."""
    functions = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{f.name}:{f.lineno}": f.end_lineno - f.lineno + 1 for f in functions}


def lines_without_schemas(source):
    """Lines of a module less those of its pydantic classes."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    bases = {c.name: {ast.unparse(base).split("[")[0].rpartition(".")[2] for base in c.bases} for c in classes}
    schemas = set(SCHEMA_BASES)
    for _ in classes:
        schemas |= {name for name, parents in bases.items() if parents & schemas}
    return len(source.splitlines()) - sum(c.end_lineno - c.lineno + 1 for c in classes if c.name in schemas)


def catches_everything(handler):
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds)


def unexplained_broad_excepts(source):
    """Lines with a broad except that is not marked as around a task or a system."""
    lines = source.splitlines()
    handlers = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ExceptHandler))
    broad = sorted(h.lineno for h in handlers if catches_everything(h))
    return [number for number in broad if not re.search(r"# around a ", lines[number - 1])]


def all_lengths():
    return {f"{name_of(f)} {k}": v for f in FILES for k, v in lines_of_functions(f.read_text("utf-8")).items()}


# The checkers themselves


def test_checker_counts_lines_of_functions():
    assert lines_of_functions("@x\ndef f():\n    def g(): pass\n    return g\n") == {"f:2": 3, "g:3": 1}


def test_checker_leaves_out_schemas():
    source = "x = 1\nclass A(BaseModel):\n    a: int\n\nclass B(A):\n    b: int\nclass C:\n    pass\n"
    assert lines_without_schemas(source) == 8 - 4


@pytest.mark.parametrize("what", ["", " Exception", " (OSError, Exception)", " BaseException as error"])
def test_checker_finds_a_broad_except(what):
    assert unexplained_broad_excepts(f"try:\n    f()\nexcept{what}:\n    pass\n") == [3]


def test_checker_lets_a_marked_or_narrow_except_pass():
    marked = "try:\n    f()\nexcept Exception:  # around a task: it costs only itself\n    pass\n"
    assert unexplained_broad_excepts(marked) == []
    assert unexplained_broad_excepts("try:\n    f()\nexcept (OSError, KeyError):\n    pass\n") == []


# The package


def test_there_is_something_to_check():
    assert len(FILES) > 40
    assert len(all_lengths()) > 200


def test_no_function_is_longer_than_a_screen():
    assert {name: n for name, n in all_lengths().items() if n > MAX_LINES} == {}


def test_functions_are_short():
    lengths = sorted(all_lengths().values())
    assert median(lengths) <= MEDIAN_LINES
    assert lengths[int(0.9 * len(lengths))] < LINES_OF_NINE_IN_TEN


@pytest.mark.parametrize("file", BENCHMARK_FILES, ids=name_of)
def test_benchmark_modules_are_short(file):
    assert lines_without_schemas(file.read_text("utf-8")) <= MAX_BENCHMARK_LINES


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_first_line_is_the_licence(file):
    assert file.read_text("utf-8").splitlines()[0] == SPDX


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_broad_excepts_are_around_a_task_or_a_system(file):
    assert unexplained_broad_excepts(file.read_text("utf-8")) == []
