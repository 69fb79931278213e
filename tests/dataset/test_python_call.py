# SPDX-License-Identifier: Apache-2.0
"""`DatasetBenchmark(...).run(...)`: a dictionary, overrides for one call, and what is printed."""

import re

import jax
import pytest
from labelled import make_frames

from mlipaudit import DatasetBenchmark, UserError
from mlipaudit.backends.toy import ToyCalculator


@pytest.fixture
def benchmark():
    return DatasetBenchmark(ToyCalculator(depth=0.25), make_frames(30), metrics=["mae", "rmse"])


def test_it_returns_a_dictionary_and_prints_a_summary(benchmark, capsys):
    result = benchmark.run()
    mae = result["metrics"]["forces"]["mae"]["value"]
    assert result["forces_mae"] == mae > 0
    assert result["metrics"].keys() == {"energy_per_atom", "forces"}
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "29 of 29 frames"
    assert f"forces mae: {mae:.6g} eV/Å" in printed


def test_quiet_prints_nothing(benchmark, capsys):
    benchmark.run(quiet=True, verbose=True)
    assert capsys.readouterr() == ("", "")


def test_verbose_shows_each_batch(benchmark, capsys, monkeypatch):
    monkeypatch.setattr(DatasetBenchmark, "chunk_systems", 12)
    whole = benchmark.run(verbose=True)
    printed = capsys.readouterr().out
    assert re.findall(r"batch \d of \d, \d+ frames", printed) == [
        "batch 1 of 3, 12 frames",
        "batch 2 of 3, 12 frames",
        "batch 3 of 3, 5 frames",
    ]
    values = [float(v) for v in re.findall(r"forces mae: (\S+) eV/Å", printed)]
    assert len(values) == 4
    assert min(values) < whole["forces_mae"] < max(values)
    first = benchmark.run(quiet=True, dataset=make_frames(30)[:13])
    assert values[0] == pytest.approx(first["forces_mae"], rel=1e-5)


def test_overrides_hold_for_one_call(benchmark):
    before = benchmark.run(quiet=True)
    other = benchmark.run(
        quiet=True, metrics=["max"], dataset=make_frames(8), postprocessors=["without_net_force"]
    )
    assert other["metrics"]["forces"].keys() == {"max"}
    assert other["num_systems"] == 7
    assert benchmark.run(quiet=True) == before
    assert benchmark.protocol.metrics == ("mae", "rmse")


def test_it_runs_as_any_benchmark(benchmark):
    benchmark.run_model()
    assert benchmark.analyze().model_dump() == benchmark.run(quiet=True)


def test_a_device_can_be_chosen_where_a_model_can_be_told(benchmark, backends):
    with pytest.raises(UserError, match="this model chooses its device by itself"):
        benchmark.run(device="cpu")
    network = DatasetBenchmark(backends("tiny_mace"), make_frames(4, holes=False), metrics=["mae"])
    assert network.run(quiet=True, device="cpu:0") == network.run(quiet=True)
    with pytest.raises(UserError, match="device 'tpu:7': jax has none such here"):
        network.run(device="tpu:7")
    assert jax.config.jax_default_device is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": ["mae"]}, "unknown option of run() 'metric'; did you mean 'metrics'?"),
        ({"metrics": ["rsme"]}, "did you mean 'rmse'?"),
        ({"dataset": "nowhere.extxyz"}, "nowhere.extxyz: No such file or directory"),
        ({"config": "nowhere.toml"}, "nowhere.toml: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(benchmark, arguments, message):
    with pytest.raises(UserError) as error:
        benchmark.run(**arguments)
    assert message in str(error.value)
