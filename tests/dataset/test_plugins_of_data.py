# SPDX-License-Identifier: Apache-2.0
"""Metrics and transforms of other people: found by place, checked, told of systems, and failing by themselves."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from labelled import Reader, make_frames, plain, score

from mlipaudit import DatasetMetric, ErrorMetric, plugins
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.dataset import DatasetBenchmark, options
from mlipaudit.errors import UsageError

MODULE = '''
import numpy as np
from mlipaudit.metrics import DatasetMetric

def bias(predicted, labelled):
    """Mean error."""
    return np.mean(predicted - labelled)

bias.direction = "neither"

def broken(predicted, labelled):
    raise RuntimeError("cannot count")

def infinite(predicted, labelled):
    return np.inf

class Heaviest(DatasetMetric):
    """Largest number of atoms that was seen."""

    unit = "atoms"
    direction = "neither"

    def reset(self):
        self.most = 0

    def update(self, prediction, reference):
        self.most = max(self.most, len(prediction.atoms))

    def compute(self):
        return self.most

class Dipole(DatasetMetric):
    """Mean length of the dipole that is predicted."""

    needs = ("energy", "dipole")

    def reset(self):
        self.lengths = []

    def update(self, prediction, reference):
        self.lengths.append(float(np.linalg.norm(prediction.others["dipole"])))

    def compute(self):
        return np.mean(self.lengths)

    def state(self):
        return self.lengths

    def merge(self, state):
        self.lengths += state

class Forgetful(Dipole):
    state = DatasetMetric.state

def doubled(prediction, atoms):
    from dataclasses import replace
    return replace(prediction, energy=2 * prediction.energy)
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A module that can be imported."""
    (tmp_path / "my_own_metrics.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield "my_own_metrics"
    forget()


def forget():
    """As in a new process."""
    sys.modules.pop("my_own_metrics", None)
    plugins.find.cache_clear()
    options._protocol_of.cache_clear()


def test_a_function_of_two_arrays_is_a_metric(place):
    result = score(make_frames(20), ToyCalculator(depth=0.25), metrics=[f"{place}:bias", "mae"])
    bias = result.metrics["forces"][f"{place}:bias"]
    assert abs(bias.value) < result.metrics["forces"]["mae"].value
    assert (bias.unit, bias.better) == ("eV/Å", "neither")


def test_a_failing_metric_is_null_with_a_reason_and_costs_only_itself(place):
    result = score(make_frames(20), metrics=[f"{place}:broken", f"{place}:infinite", "mae"])
    for quantity in ("energy_per_atom", "forces"):
        metrics = result.metrics[quantity]
        assert metrics[f"{place}:broken"].value is None
        assert metrics[f"{place}:broken"].reason == "RuntimeError: cannot count"
        assert metrics[f"{place}:infinite"].reason == "the metric is inf"
        assert metrics["mae"].value > 0
    assert any("cannot count" in text for text in result.warnings)
    assert plain(result)["metrics"]["forces"][f"{place}:broken"]["value"] is None


def test_a_class_is_told_of_every_system(place):
    frames = make_frames(20)
    result = score(frames, metrics=[f"{place}:Heaviest"], config={"group_by": ["size"]})
    sizes = [len(frame) for i, frame in enumerate(frames) if i != 5]
    measured = result.metrics["system"][f"{place}:Heaviest"]
    assert (measured.value, measured.unit, measured.num_systems) == (max(sizes), "atoms", 19)
    assert measured.mean_over_systems == pytest.approx(np.mean(sizes))
    small = result.groups["size"]["1–10"]["system"][f"{place}:Heaviest"]
    assert small.value == max(size for size in sizes if size <= 10)


@pytest.mark.parametrize("size", [1, 6, 100])
def test_what_is_not_stored_survives_as_a_state(place, size, monkeypatch):
    frames = make_frames(20)
    monkeypatch.setattr(DatasetBenchmark, "chunk_systems", size)
    result = score(frames, Reader(), metrics=[f"{place}:Dipole"])
    energies = [f for i, f in enumerate(frames) if i not in (5, 33)]
    expected = np.mean([np.linalg.norm(f.positions.sum(axis=0)) for f in energies])
    assert result.metrics["system"][f"{place}:Dipole"].value == pytest.approx(expected, rel=1e-12)


def test_what_a_model_does_not_give_is_said(place):
    metrics = score(make_frames(8), metrics=[f"{place}:Dipole"]).metrics
    assert metrics["system"][f"{place}:Dipole"].reason == "the model gives no dipole"


def test_a_metric_that_could_not_be_split_is_refused(place):
    with pytest.raises(UsageError, match=r"needs dipole, and so must have state\(\)"):
        score(make_frames(3), metrics=[f"{place}:Forgetful"])


def test_activations_of_a_network_can_be_measured(backends):
    class Width(DatasetMetric):
        """Number of modules whose output is seen, summed over systems; each with a row per atom."""

        needs = ("activations",)

        def reset(self):
            self.seen = []

        def update(self, prediction, reference):
            rows = prediction.others["activations"].values()
            assert all(len(row) == len(prediction.atoms) and np.isfinite(row).all() for row in rows)
            self.seen.append(len(rows))

        def compute(self):
            return sum(self.seen)

        def state(self):
            return self.seen

        def merge(self, state):
            self.seen += state

    frames = make_frames(4, holes=False)
    result = score(frames, backends("tiny_mace"), metrics=[Width, "mae"])
    (name,) = result.metrics["system"]
    value = result.metrics["system"][name].value
    assert value >= 4
    assert value % 4 == 0
    bare = score(frames, backends("tiny_mace"), metrics=["mae"])
    assert bare.forces_mae == result.forces_mae


# Transforms


def shifted(atoms):
    """Everything one Å further, which changes no energy of the toy."""
    atoms.positions += 1.0
    return atoms


def halved(prediction, atoms):
    """Half the forces."""
    return replace(prediction, forces=prediction.forces / 2)


def reversed_order(atoms):
    """Another order of atoms."""
    return atoms[::-1]


def lost(prediction, atoms):
    """An energy that is none."""
    return replace(prediction, energy=np.nan)


def test_a_preprocessor_sees_structures_and_leaves_the_data_alone():
    frames = make_frames(10)
    before = [frame.positions.copy() for frame in frames]
    moved, still = score(frames, preprocessors=[shifted]), score(frames)
    assert moved.forces_mae == pytest.approx(still.forces_mae, rel=1e-9)
    assert all((frame.positions == old).all() for frame, old in zip(frames, before, strict=True))


def test_a_postprocessor_changes_predictions(place):
    frames = make_frames(10, noise=0.0)
    assert score(frames).forces_mae < 1e-12
    labels = np.concatenate(
        [np.abs(f.calc.results["forces"]).ravel() for f in frames if "forces" in f.calc.results]
    )
    assert score(frames, postprocessors=[halved]).forces_mae == pytest.approx(labels.mean() / 2)
    energies = [abs(f.calc.results["energy"]) / len(f) for i, f in enumerate(frames) if i != 5]
    assert score(frames, postprocessors=[f"{place}:doubled"]).energy_mae == pytest.approx(np.mean(energies))


def test_a_registered_transform_takes_the_net_force_away():
    frames = make_frames(10, noise=0.0)
    assert score(frames, postprocessors=["without_net_force"]).forces_mae < 1e-12
    assert score(frames, postprocessors=[halved, "without_net_force"]).forces_mae > 0


@pytest.mark.parametrize(
    ("where", "transform", "message"),
    [
        ("preprocessors", reversed_order, "a preprocessor has changed the atoms or their order"),
        ("postprocessors", lost, "energy is nan"),
    ],
)
def test_a_transform_that_spoils_a_frame_costs_that_frame(where, transform, message):
    frames = [frame for frame in make_frames(10) if len(set(frame.symbols)) > 1]
    result = score(frames, **{where: [transform]})
    failed = [frame for frame in result.frames if frame.failed]
    assert failed
    assert all(message in frame.failure.message for frame in failed)


# Identity


def test_an_edited_plug_in_is_another_protocol(place, tmp_path):
    options = {"metrics": [f"{place}:bias"]}
    before = DatasetBenchmark.protocol_of("fast", options)
    (tmp_path / f"{place}.py").write_text(MODULE + "\n# edited\n")
    forget()
    after = DatasetBenchmark.protocol_of("fast", options)
    assert before.made_by.keys() == after.made_by.keys() == {f"{place}:bias"}
    assert before.made_by != after.made_by
    assert DatasetBenchmark.protocol_of("fast", {"metrics": ["mae"]}).made_by == {}


def test_a_class_handed_over_is_named_after_its_place():
    class Mine(ErrorMetric):
        """Number of components."""

        unit = ""

        def of(self, values):
            return len(values.x)

    result = score(make_frames(6), metrics=[Mine])
    (name,) = result.metrics["forces"]
    assert name.endswith("Mine")
    assert result.metrics["forces"][name].value == result.labels["forces"].num_components
