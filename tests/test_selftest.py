# SPDX-License-Identifier: Apache-2.0
"""The fault table: every way of being broken ends by name, scores nothing, and costs a good model nothing."""

from dataclasses import replace

import pytest

from mlipaudit.failures import FailureKind
from mlipaudit.selftest.check import Bench
from mlipaudit.selftest.faults import FAULTS
from mlipaudit.selftest.models import BREAKS


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("selftest"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}-{fault.benchmark}")
def test_every_promise_is_kept(bench, fault):
    assert bench.check(fault).complaints == ()


def test_every_break_is_in_the_table():
    others = {"collapses", "does_not_load", "covers_nothing"}
    assert {fault.name for fault in FAULTS} == {*BREAKS, *others}


def test_the_model_is_perfect_before_it_is_broken(bench):
    (spoiler,) = (fault for fault in FAULTS if fault.kind is None)
    assert bench.good_alone(spoiler)["result"]["score"] == 1.0


# The check itself


def test_a_wrong_promise_is_noticed(tmp_path):
    (fault,) = (fault for fault in FAULTS if fault.name == "infinity")
    outcome = Bench(tmp_path).check(replace(fault, kind=FailureKind.EXPLODED, score=0.5))
    assert outcome.complaints == (
        "the last lines do not name the failure",
        "failures non_finite",
        "score 0.0, not 0.5",
    )


def test_a_good_model_that_suffers_is_noticed(tmp_path, monkeypatch):
    (fault,) = (fault for fault in FAULTS if fault.name == "does_not_load")
    monkeypatch.setattr(Bench, "good_alone", lambda self, fault: {"result": {"score": 0.99}})
    assert Bench(tmp_path).check(fault).complaints == (
        "the good model's result is not what it is without the broken one",
    )
