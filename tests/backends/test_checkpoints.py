# SPDX-License-Identifier: Apache-2.0
"""An interrupted simulation continues to the same trajectory; a checkpoint of something else is not used."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import molecule

from mlipaudit.backends.checkpoints import Checkpoints
from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.frames import Frames
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.protocol import Ensemble, MolecularDynamics

NVT = MolecularDynamics(num_steps=60, snapshot_interval=10, log_interval=10, timestep_fs=0.5)
NAMES = ["methanol", "water"]


def systems():
    return [molecule("CH3OH"), molecule("H2O")]


@pytest.fixture(params=["jax_md", "ase", "toy"])
def case(request, backends):
    """Backend and engine."""
    if request.param == "toy":
        return backend_for(ToyCalculator()), "ase"
    return backends("tiny_mace"), request.param


class Killed(BaseException):
    """What no system catches."""


def stop_at(step, *, system=0):
    def observer(report):
        if report.step == step and report.system == system:
            raise Killed

    return observer


def simulate(case, folder=None, *, protocol=NVT, identity="task", said=None, **settings):
    backend, engine = case
    checkpoints = Checkpoints(folder, identity, interval_s=0.0) if folder else None
    told = [] if said is None else said

    def progress(what, done, total):
        if total == 0:
            told.append(what)

    return backend.simulate(
        systems(), protocol, engine=engine, checkpoints=checkpoints, names=NAMES, progress=progress, **settings
    )


def interrupt(case, folder, step=40, **settings):
    with pytest.raises(Killed):
        simulate(case, folder, observer=stop_at(step), **settings)


@pytest.mark.parametrize("ensemble", (Ensemble.NVE, Ensemble.NVT_LANGEVIN))
def test_an_interrupted_run_continues_to_the_same_trajectory(case, ensemble, tmp_path):
    protocol, said = replace(NVT, ensemble=ensemble), []
    whole = simulate(case, protocol=protocol)
    interrupt(case, tmp_path, protocol=protocol)
    continued = simulate(case, tmp_path, protocol=protocol, said=said)
    assert any("continuing from step" in line for line in said)
    for one, other in zip(whole, continued, strict=True):
        assert one.steps == other.steps == list(range(0, 61, 10))
        np.testing.assert_allclose(one.positions, other.positions, atol=2e-6)
        np.testing.assert_allclose(one.potential_energy, other.potential_energy, atol=1e-5)
        np.testing.assert_allclose(one.kinetic_energy, other.kinetic_energy, atol=1e-6)


def test_what_is_over_is_not_computed_again(case, tmp_path):
    first = simulate(case, tmp_path)
    reports = []
    again = simulate(case, tmp_path, observer=lambda report: reports.append(report) and None)
    assert reports == []
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.positions, other.positions)
        assert one.temperature == other.temperature


@pytest.mark.parametrize(
    "change",
    (
        {"identity": "another model"},
        {"protocol": replace(NVT, temperature_kelvin=310.0)},
        {"seed": 1},
        {"keep_positions": False},
    ),
)
def test_a_checkpoint_of_something_else_is_refused_in_words(change, backends, tmp_path):
    case, said = (backend_for(ToyCalculator()), "ase"), []
    interrupt(case, tmp_path)
    fresh = simulate(case, **{k: v for k, v in change.items() if k != "identity"})
    refused = simulate(case, tmp_path, said=said, **change)
    assert sum("checkpoint not used, it is of another" in line for line in said) == 1  # the second was never begun
    assert not any("continuing" in line for line in said)
    for one, other in zip(fresh, refused, strict=True):
        np.testing.assert_array_equal(one.potential_energy, other.potential_energy)


@pytest.mark.parametrize("damage", (lambda c: c[:100], lambda c: b"", lambda c: b"PK" + c[2:200] + b"\0" * 300))
def test_a_damaged_checkpoint_begins_anew(damage, tmp_path):
    case, said = (backend_for(ToyCalculator()), "ase"), []
    interrupt(case, tmp_path)
    (path,) = tmp_path.glob("*methanol.npz")
    path.write_bytes(damage(path.read_bytes()))
    for one, other in zip(simulate(case), simulate(case, tmp_path, said=said), strict=True):
        np.testing.assert_allclose(one.positions, other.positions, atol=1e-6)
    assert any("cannot be read" in line for line in said)


def test_missing_frames_begin_anew(tmp_path):
    case, said = (backend_for(ToyCalculator()), "ase"), []
    interrupt(case, tmp_path)
    (path,) = tmp_path.glob("*methanol.frames")
    path.write_bytes(path.read_bytes()[:50])
    trajectory = simulate(case, tmp_path, said=said)[0]
    assert any("frames are missing" in line for line in said)
    assert len(trajectory.positions) == 7


def test_a_disk_that_refuses_checkpoints_costs_no_trajectory(tmp_path, monkeypatch):
    from mlipaudit.backends import checkpoints

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_arrays", full)
    said = []
    trajectories = simulate((backend_for(ToyCalculator()), "ase"), tmp_path, said=said)
    assert [t.failure for t in trajectories] == [None, None]
    assert any("No space left" in line for line in said)


def test_frames_on_disk_are_those_in_memory(tmp_path):
    frames = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)
    inside, outside = Frames(), Frames(tmp_path / "frames", shape=(4, 3))
    for frame in frames:
        inside.append(frame)
        outside.append(frame)
    for kept in (inside, outside, Frames(tmp_path / "frames", shape=(4, 3))):
        np.testing.assert_array_equal(np.asarray(kept), frames)
        np.testing.assert_array_equal(kept[-1], frames[-1])
        assert len(kept) == len(list(kept)) == 5
    (tmp_path / "frames").write_bytes((tmp_path / "frames").read_bytes()[:-1])
    assert len(Frames(tmp_path / "frames", shape=(4, 3))) == 4
    assert len(Frames(tmp_path / "frames", shape=(4, 3), keep=2)) == 2
    with pytest.raises(ValueError, match="shape"):
        outside.append(np.zeros((3, 3)))
