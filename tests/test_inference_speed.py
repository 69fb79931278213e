# SPDX-License-Identifier: Apache-2.0
"""What is timed is what a user waits for, and only finite answers are timed."""

import time

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.io import write

from mlipaudit.backends.calibration import Calibration
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import InferenceSpeedBenchmark
from mlipaudit.benchmarks.inference_speed.schemas import SpeedProtocol
from mlipaudit.benchmarks.inference_speed.stopwatch import signs_of_a_busy_machine
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import FailureKind
from mlipaudit.protocol import MolecularDynamics
from mlipaudit.run_mode import RunMode

DELAY_S = 0.02


class Slow(ToyCalculator):
    """Takes its time before it answers."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        time.sleep(DELAY_S)
        super().calculate(atoms, properties, system_changes)


class LateForces(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on a device that has not finished: reading it waits."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        time.sleep(DELAY_S)
        return np.asarray(self.value, dtype)


class Asynchronous(ToyCalculator):
    """Returns at once; its forces arrive late."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results["forces"] = LateForces(self.results["forces"])


class NotANumber(ToyCalculator):
    """The fastest of all models: its answer is not a number."""

    def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": 0.0, "forces": np.full((len(atoms), 3), np.nan)}


@pytest.fixture
def quick_calibration(monkeypatch):
    """A planted one; the real one is tested below."""
    fixed = Calibration(
        device="test",
        workload_seconds={256: 0.01, 1024: 0.04},
        matrix_flops_per_second=1e9,
        memory_bytes_per_second=1e9,
    )
    monkeypatch.setattr("mlipaudit.backends.calibration.calibrate", lambda seconds: fixed)


@pytest.fixture
def data(tmp_path, quick_calibration):
    """Three small molecules, one of them misnamed, and what does not belong there."""
    folder = tmp_path / "inference_speed"
    folder.mkdir()
    for name, formula in {"3_water": "H2O", "9_ethanol": "CH3CH2OH", "99_methane": "CH4"}.items():
        write(folder / f"{name}.xyz", molecule(formula))
    (folder / ".DS_Store").write_bytes(b"\x00\x01")
    (folder / "._3_water.xyz").write_bytes(b"\x00\x01")
    return tmp_path


def run(force_field, data, **changes):
    """A short run; `changes` go into the protocol."""
    md = MolecularDynamics(num_steps=4, snapshot_interval=4, log_interval=1)
    settings = {"md": md, "num_chunks": 5, "num_timed": 5, "device_warmup_seconds": 0.0} | changes
    cls = type("Short", (InferenceSpeedBenchmark,), {"protocols": {RunMode.DEV: SpeedProtocol(**settings)}})
    benchmark = cls(force_field, data, "dev")
    benchmark.run_model()
    return benchmark.analyze()


def test_atoms_are_counted_and_a_wrong_name_is_noted(data):
    result = run(ToyCalculator(), data)
    assert result.structure_names == ["3_water", "99_methane", "9_ethanol"]
    assert [s.num_atoms for s in result.structures] == [3, 5, 9]
    assert any("99_methane has 5 atoms" in warning for warning in result.warnings)


def test_times_are_those_that_a_caller_waits(data):
    result = run(Slow(), data)
    for structure in result.structures:
        assert structure.average_forward_time >= DELAY_S
        assert structure.md["ase"].average_step_time >= DELAY_S
        assert structure.atoms_per_second <= structure.num_atoms / DELAY_S
        expected = 86400 / structure.md["ase"].average_step_time * 1e-6
        assert structure.md["ase"].ns_per_day == pytest.approx(expected)


def test_forces_that_arrive_late_are_waited_for(data):
    result = run(Asynchronous(), data)
    assert all(structure.average_forward_time >= DELAY_S for structure in result.structures)


def test_a_jax_model_whose_result_arrives_late_is_waited_for(force_fields, data):
    import jax
    from mlip.models import ForceField

    class Late(ForceField):
        def predict(self, graph):
            prediction = super().predict(graph)

            def wait(forces):
                time.sleep(DELAY_S)
                return forces

            shape = jax.ShapeDtypeStruct(prediction.forces.shape, prediction.forces.dtype)
            return prediction.replace(forces=jax.pure_callback(wait, shape, prediction.forces))

    tiny = force_fields("tiny_mace")
    late = Late(tiny.predictor, tiny.params)
    forward = InferenceSpeedBenchmark(late, data, "dev").backend.forward_pass(molecule("H2O"))
    forward.run()
    start = time.perf_counter()
    forward.wait()
    assert time.perf_counter() - start >= DELAY_S


def test_a_model_of_nans_is_not_timed(data):
    result = run(NotANumber(), data)
    assert result.failed
    assert result.score == 0.0
    assert {failure.kind for failure in result.failures.values()} == {FailureKind.NON_FINITE}
    assert set(result.failures) == {f"{name}{what}" for name in result.structure_names for what in ("", "/ase")}


def test_one_failing_measurement_costs_only_itself(data):
    class NoMethane(ToyCalculator):
        def calculate(self, atoms=None, properties=None, system_changes=("positions",)):
            if len(atoms) == 5:
                raise RuntimeError("no methane")
            super().calculate(atoms, properties, system_changes)

    result = run(NoMethane(), data)
    assert [s.failed for s in result.structures] == [False, True, False]
    assert (result.num_systems, result.num_failed) == (3, 1)
    others = [s.relative_forward_time for s in result.structures if not s.failed]
    assert result.score == pytest.approx(sum(1 / (1 + t**1.5) for t in others) / 3)


def test_a_slow_model_gets_fewer_repeats_and_the_result_says_so(data):
    result = run(Slow(), data, num_timed=50, max_seconds=3 * DELAY_S)
    assert all(1 <= len(s.forward_times) < 50 for s in result.structures)
    assert any("of 50 passes" in warning for warning in result.warnings)


def test_what_is_sure_to_pass_the_limit_is_not_begun(tmp_path, quick_calibration, monkeypatch):
    monkeypatch.setattr("mlipaudit.benchmarks.inference_speed.stopwatch.MAX_OVERHEAD_S", 0.0)
    folder = tmp_path / "inference_speed"
    folder.mkdir()
    for num_atoms in (2, 2000):
        write(
            folder / f"{num_atoms}_gas.xyz", Atoms(f"H{num_atoms}", 3.0 * np.arange(3 * num_atoms).reshape(-1, 3))
        )
    result = run(Slow(), tmp_path, max_seconds=2 * DELAY_S)
    assert [s.failed for s in result.structures] == [False, True]
    assert result.failures["2000_gas"].kind is FailureKind.TIMEOUT


def test_statistics_of_the_series(data):
    result = run(Slow(), data)
    for s in result.structures:
        low, high = s.forward_time_interval
        assert DELAY_S <= low <= s.average_forward_time * (1 + 1e-12)
        assert low <= high
        assert s.forward_time_iqr >= 0
        assert s.forward_time_trend is None  # five passes are too few for thirds
    low, high = result.score_interval
    assert low <= result.score <= high


def test_the_normalised_score_takes_the_device_as_yardstick(data):
    result = run(Slow(), data)
    # The planted calibration: 10 ms at 256 atoms and 40 ms at 1024 are 39 µs per atom and no overhead.
    for s in result.structures:
        yardstick = 0.01 * s.num_atoms / 256
        assert s.normalised_forward_time == pytest.approx(s.average_forward_time / yardstick)
    expected = np.mean([1 / (1 + s.normalised_forward_time**1.5) for s in result.structures])
    assert result.normalised_score == pytest.approx(expected)
    assert result.calibration.drift == 0.0


def test_a_drifting_device_is_mentioned(data):
    calibration = run(ToyCalculator(), data).calibration.model_copy(update={"drift": 0.3})
    assert any("+30%" in note for note in signs_of_a_busy_machine(calibration))


def test_a_file_that_is_no_xyz_is_named(data):
    (data / "inference_speed" / "10_broken.xyz").write_text("<html>")
    with pytest.raises(DataCorruptError, match=r"10_broken\.xyz"):
        run(ToyCalculator(), data)


def test_the_device_is_measured():
    from mlipaudit.backends.calibration import calibrate

    measured = calibrate()
    assert measured.workload_seconds[1024] > measured.workload_seconds[256] > 0
    assert measured.matrix_flops_per_second > 1e8
    assert measured.memory_bytes_per_second > 1e7
    assert measured.seconds(512) > measured.seconds(256)


def test_an_mlip_force_field_is_timed_on_both_engines(force_fields, data):
    for name in ("99_methane", "9_ethanol"):
        (data / "inference_speed" / f"{name}.xyz").unlink()
    (water,) = run(force_fields("tiny_mace"), data).structures
    assert set(water.md) == {"jax_md", "ase"}
    # Compilation is in none of the samples: a step of three atoms takes far less than any compilation.
    assert max(water.md["jax_md"].step_time_samples) < water.compile_seconds
    assert len(water.md["jax_md"].step_time_samples) == 4
    assert water.neighbour_seconds < water.compile_seconds
    assert not water.failed


def test_an_mlip_force_field_of_nans_gets_no_score(force_fields, data):
    for name in ("99_methane", "9_ethanol"):
        (data / "inference_speed" / f"{name}.xyz").unlink()
    result = run(force_fields("nan_mace"), data)
    assert result.score == 0.0
    assert result.failed
    assert set(result.failures) == {"3_water", "3_water/jax_md", "3_water/ase"}
    assert {failure.kind for failure in result.failures.values()} == {FailureKind.NON_FINITE}
