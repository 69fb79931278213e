# SPDX-License-Identifier: Apache-2.0
"""A command starts again with huge pages, once, and says so in its results."""

import os
import subprocess
import sys

import pytest

from mlipaudit.record import TaskRecord
from mlipaudit.running import environment
from mlipaudit.running.environment import uses_huge_pages, with_huge_pages
from mlipaudit.store import ResultStore


def test_other_tunables_are_kept():
    tuned = with_huge_pages({"A": "b", "GLIBC_TUNABLES": "glibc.malloc.check=1"})
    assert tuned == {"A": "b", "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}
    assert uses_huge_pages(tuned)
    assert not uses_huge_pages({"GLIBC_TUNABLES": "glibc.malloc.check=1"})


def test_a_process_that_has_them_is_not_started_again(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda *args: started.append(args))
    monkeypatch.setattr(environment, "gains_from_huge_pages", lambda: True)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    environment.restart_with_huge_pages()
    assert started == []
    monkeypatch.delenv("GLIBC_TUNABLES")
    environment.restart_with_huge_pages()
    ((program, arguments, environ),) = started
    assert (program, arguments) == (sys.executable, sys.orig_argv)
    assert uses_huge_pages(environ)


def test_a_kernel_that_gives_none_is_not_asked(monkeypatch, tmp_path):
    switch = tmp_path / "enabled"
    switch.write_text("always madvise [never]\n")
    monkeypatch.setattr(environment, "THP_SWITCH", switch)
    assert not environment.gains_from_huge_pages()
    monkeypatch.setattr(environment, "THP_SWITCH", tmp_path / "missing")
    assert not environment.gains_from_huge_pages()


@pytest.mark.parametrize("given", [None, "glibc.malloc.hugetlb=0"])
def test_the_record_says_whether_they_were_asked_for(given, tmp_path):
    environ = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    if given:
        environ["GLIBC_TUNABLES"] = given
    command = [sys.executable, "-m", "mlipaudit", "run", "--models", "toy", "-b", "tautomers", "--run-mode", "dev"]
    done = subprocess.run([*command, "-o", str(tmp_path)], env=environ, capture_output=True, text=True, check=True)
    assert "tautomers" in done.stdout
    (record,) = ResultStore(tmp_path).records()
    assert isinstance(record, TaskRecord)
    # Who has set the tunable, also to zero, is left alone.
    assert record.provenance.huge_pages == (environment.gains_from_huge_pages() if given is None else False)
