# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that ask a model the same ask it once."""

from types import SimpleNamespace

import pytest

from mlipaudit import registry
from mlipaudit.benchmarks.tautomers import TautomersBenchmark
from mlipaudit.cli import main
from mlipaudit.running.backlog import Job, Portion
from mlipaudit.store import ResultStore

PAIR = ("tautomers", "second_look")


class SecondLook(TautomersBenchmark):
    """The same energies, judged once more."""

    name = "second_look"
    data_name = "tautomers"
    reusable_output_id = PAIR


class Point:
    """An entry point that is there already."""

    value = "tests"

    def __init__(self, cls):
        self.load = lambda: cls


@pytest.fixture
def asked(monkeypatch):
    """Names of the benchmarks that put their questions to a model."""
    monkeypatch.setattr(TautomersBenchmark, "reusable_output_id", PAIR)
    known = dict(registry.registered(registry.BENCHMARKS)) | {"second_look": Point(SecondLook)}
    registered = registry.registered
    monkeypatch.setattr(
        registry, "registered", lambda group: known if group == registry.BENCHMARKS else registered(group)
    )
    names, ask = [], TautomersBenchmark.ask

    def noted(self, backend, reference):
        names.append(self.name)
        return ask(self, backend, reference)

    monkeypatch.setattr(TautomersBenchmark, "ask", noted)
    return names


def audit(output, *benchmarks, extra=()):
    return main(["run", "-m", "toy", "-b", *benchmarks, "-rm", "dev", "-o", str(output), "--workers", "0", *extra])


def records(output):
    return {r.provenance.identity.benchmark: r for r in ResultStore(output).records()}


@pytest.mark.parametrize("order", (PAIR, PAIR[::-1]))
def test_one_question_for_both_in_either_order(order, asked, tmp_path, capsys):
    assert audit(tmp_path, *order) == 0
    assert asked == [order[0]]
    assert f"judging the model's answers to {order[0]}" in capsys.readouterr().err
    found = records(tmp_path)
    assert found["tautomers"].result.score == found["second_look"].result.score
    assert found[order[1]].provenance.output_from == order[0]
    assert found[order[0]].provenance.output_from is None
    assert len({r.provenance.output_sha256 for r in found.values()}) == 1


def test_a_later_run_uses_what_an_earlier_one_asked(asked, tmp_path):
    audit(tmp_path, "tautomers")
    audit(tmp_path, "second_look")
    assert asked == ["tautomers"]


def test_answers_with_another_seed_or_damaged_ones_are_not_used(asked, tmp_path):
    audit(tmp_path, "tautomers")
    audit(tmp_path, "second_look", extra=("--seed", "1"))
    assert asked == ["tautomers", "second_look"]
    (output,) = tmp_path.glob("toy/tautomers/model_output.*.json")
    output.write_text("{}")
    audit(tmp_path, "second_look")
    assert asked == ["tautomers", "second_look", "second_look"]


def test_workers_do_not_ask_the_same_at_the_same_time():
    def task(model, shared):
        benchmark = SimpleNamespace(reusable_output_id=shared, runs_alone=False)
        return SimpleNamespace(model=model, benchmark_class=benchmark)

    def ask_the_same(one, other):
        return Portion(1, one).asks_what(other and Job(2, other))

    assert ask_the_same(task("a", PAIR), task("a", PAIR))
    assert not ask_the_same(task("a", PAIR), task("b", PAIR))
    assert not ask_the_same(task("a", None), task("a", None))
    assert not ask_the_same(task("a", PAIR), None)
