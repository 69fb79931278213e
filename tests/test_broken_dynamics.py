# SPDX-License-Identifier: Apache-2.0
"""Models that explode, collapse or return NaN, through every benchmark that moves atoms: named, quick, exit code 1."""

import subprocess
import sys

import pytest

from mlipaudit.store import ResultStore

BENCHMARKS = (
    "bond_length_distribution",
    "ring_planarity",
    "stability",
    "nve_energy_conservation",
    "nudged_elastic_band",
    "reference_geometry_stability",
)
COLLAPSING = """
from mlipaudit.selftest.collapse import collapsing

mlipaudit_external_model = collapsing()
"""
NAMED = {"non_finite", "exploded", "neighbour_overflow", "exception"}
LIMIT_S = 600


@pytest.fixture(scope="module")
def audited(models, tmp_path_factory):
    """Results of three broken models: model -> benchmark -> record, and what the command said."""
    folder = tmp_path_factory.mktemp("broken")
    collapsing = folder / "collapsing.py"
    collapsing.write_text(COLLAPSING)
    files = [models / "nan_mace.zip", models / "boom_mace.zip", collapsing]
    words = [sys.executable, "-m", "mlipaudit", "run", "--models", *map(str, files), "--benchmarks", *BENCHMARKS]
    words += ["--run-mode", "dev", "--output", str(folder / "out"), "--timeout", str(LIMIT_S)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3 * LIMIT_S)
    found = {}
    for record in ResultStore(folder / "out").records():
        found.setdefault(record.provenance.model, {})[record.provenance.identity.benchmark] = record
    return found, done


def test_the_command_fails_in_words(audited):
    found, done = audited
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert {name: set(results) for name, results in found.items()} == {name: set(BENCHMARKS) for name in found}
    assert len(found) == 3


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_nan_weights_score_nothing(benchmark, audited):
    record = audited[0]["nan_mace"][benchmark]
    assert record.result.score == 0.0 and record.result.failed
    assert {failure.kind for failure in record.reasons.values()} == {"non_finite"}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_exploding_weights_score_nothing(benchmark, audited):
    record = audited[0]["boom_mace"][benchmark]
    assert record.result.score == 0.0
    kinds = {failure.kind for failure in record.reasons.values()}
    # One step of a band converges for nobody: no failure, and no score either.
    assert kinds <= NAMED and (kinds or benchmark == "nudged_elastic_band")


@pytest.mark.parametrize("benchmark", ("reference_geometry_stability", "nudged_elastic_band"))
def test_a_collapsing_model_scores_nothing_where_it_falls_downhill(benchmark, audited):
    assert audited[0]["collapsing"][benchmark].result.score == 0.0


def test_ten_steps_are_few_for_a_collapse_and_nothing_is_lost_by_it(audited):
    for benchmark in BENCHMARKS[:4]:
        record = audited[0]["collapsing"][benchmark]
        assert {failure.kind for failure in record.reasons.values()} <= NAMED


@pytest.mark.parametrize("name", ("bond_length_distribution", "ring_planarity", "stability"))
def test_a_collapsing_model_scores_next_to_nothing_within_a_picosecond(name):
    """The published score of a structure that explodes at frame f of F is f/2F: small, for it explodes early."""
    from dataclasses import replace

    from mlipaudit import registry
    from mlipaudit.run_mode import RunMode
    from mlipaudit.selftest.collapse import collapsing

    cls = registry.load(registry.BENCHMARKS, name)
    protocol = cls.protocols[RunMode.FAST]
    short = replace(protocol, md=replace(protocol.md, num_steps=1000, snapshot_interval=10), max_systems=2)
    benchmark = type(cls.__name__, (cls,), {"protocols": {**cls.protocols, RunMode.DEV: short}})
    run = benchmark(collapsing(depth=0.5), "/nonexistent", "dev")
    run.run_model()
    result = run.analyze()
    assert result.score <= 0.25
    assert {failure.kind for failure in result.failures.values()} <= NAMED
    assert len(result.failures) == 2
