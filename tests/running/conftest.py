# SPDX-License-Identifier: Apache-2.0
"""A package with benchmarks in small chunks, installed for the tests in this folder that ask for it."""

import json
import os

import pytest

from mlipaudit import registry
from mlipaudit.selftest.check import TIMES

BENCHMARKS = '''
from mlipaudit.benchmarks.tautomers import TautomersBenchmark


class SmallChunks(TautomersBenchmark):
    """Tautomers, three pairs at a time."""

    name = "small_chunks"
    data_name = "tautomers"
    chunk_systems = 3


class Once(TautomersBenchmark):
    """Tautomers all at once."""

    name = "asked_once"
    data_name = "tautomers"
    reusable_output_id = ("asked_once", "not_asked")

    def ask(self, backend, reference):
        return self.ask_chunk(backend, reference, list(reference))


class Never(Once):
    """The same question once more."""

    name = "not_asked"
'''

MODEL = """
import os, pathlib, time
from mlipaudit.backends.toy import ToyCalculator

class Model(ToyCalculator):
    def calculate(self, *arguments, **keywords):
        with pathlib.Path({log!r}).open("a") as stream:
            stream.write(f"{{os.getppid()}}\\n")
        {fault}
        super().calculate(*arguments, **keywords)

mlipaudit_external_model = Model()
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A folder with an installed package: split benchmarks, and two that ask the same."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "small_chunks.py").write_text(BENCHMARKS)
    about = folder / "small_chunks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: small_chunks\nVersion: 1.0\n")
    points = {"small_chunks": "SmallChunks", "asked_once": "Once", "not_asked": "Never"}
    lines = [f"{name} = small_chunks:{cls}\n" for name, cls in points.items()]
    (about / "entry_points.txt").write_text("[mlipaudit.benchmarks]\n" + "".join(lines))
    return folder


@pytest.fixture(scope="module")
def plugin(site):
    """Installs that package in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        patch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")  # as the command sees to for every process
        registry.registered.cache_clear()
        yield
    registry.registered.cache_clear()


@pytest.fixture(scope="module")
def write_model(tmp_path_factory):
    """Writes a model file, which notes each call with the process that started its own; returns it and the notes."""

    def write(name="model", fault="pass"):
        folder = tmp_path_factory.mktemp("models")
        log = folder / "log"
        log.touch()
        (folder / f"{name}.py").write_text(MODEL.format(log=str(log), fault=fault))
        return str(folder / f"{name}.py"), log

    return write


@pytest.fixture(scope="session")
def content():
    """Everything in a results folder that must not depend on how the work was split, by file."""

    def read(output):
        found = {}
        for path in sorted(output.rglob("*.json")):
            text = path.read_text("utf-8")
            if path.name in ("result.json", "run.json"):
                fields = json.loads(text)
                for time in ("checksum", *TIMES):
                    fields.pop(time, None)
                    fields.get("provenance", {}).pop(time, None)
                text = json.dumps(fields, indent=1)
            found[str(path.relative_to(output))] = text
        return found

    return read
