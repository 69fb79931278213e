# SPDX-License-Identifier: Apache-2.0
"""Results of a data set: numbers of plain numpy, whatever the chunks; failures, thresholds, reference energies."""

import json

import numpy as np
import pytest
from ase import Atoms
from labelled import NAN_ENERGY, OFFSETS, UNLABELLED, WITHOUT_FORCES, crystals, labelled, make_frames, plain, score

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.dataset import DatasetBenchmark, DatasetModelOutput
from mlipaudit.testing import check_benchmark, check_result

EXACT = {"rtol": 1e-12, "atol": 0}
ALL = {"metrics": ["mae", "rmse", "mse", "r2", "smape", "max", "p50", "p95", "force_cosine", "within:0.05"]}
OTHER = {"depth": 0.25}


@pytest.fixture(scope="module")
def frames():
    return make_frames(80)


@pytest.fixture(scope="module")
def result(frames):
    return score(frames, ToyCalculator(**OTHER), config={**ALL, "group_by": ["element", "size", "family"]})


@pytest.fixture(scope="module")
def answers(frames):
    """Energies per atom and forces of the model, frame by frame, and the labels."""
    toy, found = ToyCalculator(**OTHER), []
    for frame in frames:
        atoms = frame.copy()
        atoms.calc = toy
        labels = frame.calc.results
        energy = labels.get("energy", np.nan) / len(atoms)
        forces = labels.get("forces", np.full((len(atoms), 3), np.nan))
        found.append((atoms.get_potential_energy() / len(atoms), energy, atoms.get_forces(), forces))
    return found


def pooled(answers, side):
    """Predicted and labelled components; side 0 is energies, 2 forces."""
    p = np.concatenate([np.ravel(answer[side]) for answer in answers])
    x = np.concatenate([np.ravel(answer[side + 1]) for answer in answers])
    return p[np.isfinite(x)], x[np.isfinite(x)]


def test_the_benchmark_keeps_the_contract(frames):
    check_benchmark(DatasetBenchmark)
    check_result(DatasetBenchmark(ToyCalculator(), frames))


@pytest.mark.parametrize(("quantity", "side"), [("energy_per_atom", 0), ("forces", 2)])
def test_pooled_metrics_are_those_of_plain_numpy(result, answers, quantity, side):
    p, x = pooled(answers, side)
    e = p - x
    expected = {
        "mae": np.abs(e).mean(),
        "mse": (e**2).mean(),
        "rmse": np.sqrt((e**2).mean()),
        "r2": 1 - (e**2).sum() / ((x - x.mean()) ** 2).sum(),
        "smape": (200 * np.abs(e) / (np.abs(p) + np.abs(x))).mean(),
        "max": np.abs(e).max(),
        "p50": np.percentile(np.abs(e), 50),
        "p95": np.percentile(np.abs(e), 95),
        "within:0.05": (np.abs(e) <= 0.05).mean(),
    }
    for name, value in expected.items():
        measured = result.metrics[quantity][name]
        np.testing.assert_allclose(measured.value, value, **EXACT, err_msg=name)
        assert measured.num_values == len(x)
    assert (result.energy_mae if side == 0 else result.forces_mae) == result.metrics[quantity]["mae"].value


def test_means_over_systems_are_those_of_plain_numpy(result, answers):
    known = [(p[np.isfinite(x)] - x[np.isfinite(x)]) for _, _, p, x in answers if np.isfinite(x).any()]
    forces = result.metrics["forces"]
    np.testing.assert_allclose(
        forces["mae"].mean_over_systems, np.mean([np.abs(e).mean() for e in known]), **EXACT
    )
    rms = [np.sqrt((e**2).mean()) for e in known]
    np.testing.assert_allclose(forces["rmse"].mean_over_systems, np.mean(rms), **EXACT)
    assert forces["mae"].num_systems == len(known)
    assert result.metrics["energy_per_atom"]["r2"].mean_over_systems is None
    assert result.metrics["energy_per_atom"]["r2"].reason_of_mean == "not defined for single systems"


def test_groups_are_those_of_plain_numpy(result, answers, frames):
    for element in "HCNO":
        parts = [(p - x)[f.symbols == element] for f, (_, _, p, x) in zip(frames, answers, strict=True)]
        e = np.concatenate([part.ravel() for part in parts])
        mae = result.groups["element"][element]["forces"]["mae"].value
        np.testing.assert_allclose(mae, np.nanmean(np.abs(e)), **EXACT)
        assert result.force_mae_by_element[element] == mae
    small = [a for f, a in zip(frames, answers, strict=True) if len(f) <= 10]
    p, x = pooled(small, 0)
    np.testing.assert_allclose(result.energy_mae_by_size["1–10"], np.abs(p - x).mean(), **EXACT)
    assert list(result.groups["size"]) == ["1–10", "11–20", "21–50", "51–100"]
    odd = [a for i, a in enumerate(answers) if i % 2 == 0]
    p, x = pooled(odd, 2)
    np.testing.assert_allclose(
        result.groups["family"]["odd"]["forces"]["mae"].value, np.abs(p - x).mean(), **EXACT
    )


def test_intervals_hold_the_value_and_are_narrower_for_more_frames(result):
    few = score(make_frames(20), ToyCalculator(**OTHER), config=ALL)
    for name in ("mae", "rmse", "smape", "force_cosine"):
        low, high = result.metrics["forces"][name].interval
        assert low < result.metrics["forces"][name].value < high
    widths = [r.metrics["energy_per_atom"]["mae"].interval for r in (result, few)]
    assert widths[0][1] - widths[0][0] < widths[1][1] - widths[1][0]
    assert result.metrics["forces"]["max"].interval is None


# What takes part


def test_holes_are_counted(result, frames):
    without = {i for i in range(len(frames)) if i % WITHOUT_FORCES == 0} | {UNLABELLED}
    assert (result.num_systems, result.num_failed, result.num_unlabelled) == (79, 0, 1)
    assert str(UNLABELLED) not in [f.name for f in result.frames]
    assert result.frames[NAN_ENERGY - 1].energy_error is None
    assert [f.force_mae is None for f in result.frames] == [f.index in without for f in result.frames]
    assert any("1 frames without any label" in text for text in result.warnings)
    assert any("forces: left out are components that are not finite, 1 in 1" in text for text in result.warnings)


def test_worst_frames_come_first(result, answers):
    errors = {i: abs(p - x) for i, (p, x, _, _) in enumerate(answers) if np.isfinite(x)}
    expected = sorted(errors, key=lambda i: -errors[i])[:10]
    assert list(result.worst["energy_per_atom"]) == [str(i) for i in expected]
    assert result.worst_systems == list(result.worst["forces"])


def test_what_is_drawn_is_there(result, answers):
    for frame in result.frames:
        x = answers[frame.index][3]
        assert len(frame.labelled_forces) == len(frame.predicted_forces)
        assert set(frame.labelled_forces) <= set(x.ravel())
        if frame.force_max is not None:
            drawn = np.abs(np.subtract(frame.predicted_forces, frame.labelled_forces))
            assert drawn.max() == frame.force_max


class Broken(ToyCalculator):
    """Refuses nitrogen, and is lost with more than fifty atoms."""

    def calculate(self, *arguments, **keywords):
        super().calculate(*arguments, **keywords)
        if "N" in self.atoms.symbols:
            raise RuntimeError("no nitrogen")
        if len(self.atoms) > 50:
            self.results["forces"][0, 0] = np.nan


def test_frames_that_fail_have_a_reason_and_no_part_in_the_metrics(frames):
    result = score(frames, Broken())
    failed = {f.name: f.failure.kind for f in result.frames if f.failed}
    expected = {str(i) for i, f in enumerate(frames) if i != UNLABELLED and ("N" in f.symbols or len(f) > 50)}
    assert set(failed) == set(result.failures) == expected
    assert result.num_failed == len(expected) > 10
    rest = [f for i, f in enumerate(frames) if str(i) not in expected]
    assert score(rest).forces_mae == pytest.approx(result.forces_mae, rel=1e-12)
    assert f"{len(expected)} frames failed, and no metric rests on them" in result.warnings


def test_a_model_that_fails_everywhere_has_no_metric_and_says_why():
    class Lost(ToyCalculator):
        def calculate(self, *arguments, **keywords):
            raise RuntimeError("lost")

    result = score(make_frames(6), Lost())
    assert result.failed
    assert result.score is None
    assert result.energy_mae is None
    assert all(m.value is None and m.reason for by in result.metrics.values() for m in by.values())
    json.loads(result.model_dump_json())


def test_the_first_frames_only(frames):
    result = score(frames, config={"max_systems": 10})
    assert (result.num_systems, result.num_in_file) == (9, 80)
    assert "the first 10 of 80 frames were scored" in result.warnings
    assert len(score(make_frames(101), run_mode="dev").frames) == 99


def test_stress_is_compared_where_both_sides_have_it():
    frames, potential = crystals()
    other = type(potential)(sigma=3.3, epsilon=0.0104, rc=8.0)
    mixed = [*frames, *make_frames(3)]
    result = score(mixed, other, config={"group_by": []})
    expected = []
    for frame in frames:
        atoms = frame.copy()
        atoms.calc = other
        expected.append(np.abs(atoms.get_stress() - frame.get_stress()))
    np.testing.assert_allclose(result.stress_mae, np.mean(expected), **EXACT)
    assert result.metrics["stress"]["mae"].num_systems == len(frames)
    silent = score(frames)  # the toy has no stress
    assert silent.metrics["stress"]["mae"].value is None
    assert silent.metrics["stress"]["mae"].reason == "the model gives no stress"
    assert silent.stress_mae is None
    assert silent.energy_mae is not None


# However the work is split


@pytest.mark.parametrize("size", [1, 7, 33, 1000])
def test_chunks_make_no_difference(frames, size, monkeypatch):
    config = {**ALL, "reference_energies": "fit"}
    whole = score(frames, ToyCalculator(**OTHER), config=config)
    monkeypatch.setattr(DatasetBenchmark, "chunk_systems", size)
    assert plain(score(frames, ToyCalculator(**OTHER), config=config)) == plain(whole)


def test_chunks_done_apart_and_stored_make_no_difference(frames, result, monkeypatch):
    monkeypatch.setattr(DatasetBenchmark, "chunk_systems", 9)
    benchmark = DatasetBenchmark(
        ToyCalculator(**OTHER), frames, config={**ALL, "group_by": ["element", "size", "family"]}
    )
    chunks = benchmark.chunks(benchmark.reference)
    parts = {i: benchmark.ask_chunk(benchmark.backend, benchmark.reference, chunks[i]) for i in reversed(range(9))}
    stored = [DatasetModelOutput.model_validate_json(parts[i].model_dump_json()) for i in range(9)]
    joined = benchmark.join(stored)
    assert plain(benchmark.judge(joined, benchmark.reference, benchmark.protocol)) == plain(result)


def test_the_order_of_the_data_makes_no_difference_but_for_rounding(frames, result):
    mixed = [frames[i] for i in np.random.default_rng(0).permutation(len(frames))]
    other = score(mixed, ToyCalculator(**OTHER), config=ALL)
    for quantity, metrics in other.metrics.items():
        for name, measured in metrics.items():
            np.testing.assert_allclose(measured.value, result.metrics[quantity][name].value, rtol=1e-12)


# Reference energies


def shifted(frames, sign=1):
    """The same frames, whose labels contain energies of atoms."""
    found = []
    for frame in frames:
        results = dict(frame.calc.results)
        if "energy" in results:
            results["energy"] += sign * sum(OFFSETS[symbol] for symbol in frame.get_chemical_symbols())
        found.append(labelled(frame, **results))
    return found


def test_a_fit_recovers_planted_offsets():
    result = score(shifted(make_frames(40, noise=0.0)), config={"reference_energies": "fit"})
    assert result.reference_energies == pytest.approx(OFFSETS, abs=1e-8)
    assert result.energy_mae < 1e-8
    assert result.reference_energies_from == "fitted to label minus prediction, subtracted from labels"


def test_a_fit_that_the_data_does_not_determine_says_so():
    frames = [labelled(Atoms("OH2", positions=np.eye(3) * d), energy=d) for d in (1.0, 1.1)]
    result = score(frames, config={"reference_energies": "fit"})
    assert any("undetermined: they have rank 1" in text for text in result.warnings)


def test_given_energies_are_in_the_unit_of_the_labels():
    frames = make_frames(20, noise=0.0)
    in_mev = [
        labelled(f, **{w: 1000 * v if w == "energy" else v for w, v in f.calc.results.items()})
        for f in shifted(frames)
    ]
    given = {element: 1000 * energy for element, energy in OFFSETS.items()}
    result = score(in_mev, config={"reference_energies": given, "units": {"energy": "meV"}})
    assert result.energy_mae < 1e-9
    assert result.reference_energies == pytest.approx(OFFSETS)
    assert result.reference_energies_from == "given, subtracted from labels"


def test_energies_that_both_sides_contain_change_no_error_and_the_spread():
    class WithAtoms(ToyCalculator):
        def calculate(self, *arguments, **keywords):
            super().calculate(*arguments, **keywords)
            self.results["energy"] += sum(OFFSETS[symbol] for symbol in self.atoms.get_chemical_symbols())

    frames = make_frames(40)
    model, data = WithAtoms(), shifted(frames)
    total = score(data, model)
    both = {"source": "given", "energies": OFFSETS, "subtract_from": "both"}
    binding = score(data, model, config={"reference_energies": both})
    assert binding.energy_mae == pytest.approx(total.energy_mae, rel=1e-9)
    assert total.metrics["energy_per_atom"]["r2"].value > 0.99999
    assert binding.metrics["energy_per_atom"]["r2"].value == pytest.approx(
        score(frames).metrics["energy_per_atom"]["r2"].value, rel=1e-6
    )


def test_a_model_that_does_not_tell_its_energies_of_atoms_has_no_energy_errors(frames):
    result = score(frames, config={"reference_energies": "model"})
    assert result.energy_mae is None
    assert "does not say which energies of atoms" in result.metrics["energy_per_atom"]["mae"].reason
    assert result.forces_mae is not None


def test_energies_of_atoms_are_read_from_a_model(backends):
    backend = backends("tiny_mace")
    frames = make_frames(12, holes=False)
    total, binding = (
        score(frames, backend, config={"reference_energies": source}) for source in ("none", "model")
    )
    from ase.data import atomic_numbers

    table = backend.atomic_energies
    assert table is not None
    assert binding.reference_energies == {
        s: table[atomic_numbers[s]] for s in sorted("HCNO", key=atomic_numbers.get)
    }
    assert binding.energy_mae == pytest.approx(total.energy_mae, rel=1e-6)


# Scores


def test_there_is_no_score_without_thresholds(result):
    assert result.score is None
    assert all(frame.score is None for frame in result.frames)


def test_thresholds_make_a_score(frames):
    limits = {"energy_per_atom/mae": 0.1, "forces/rmse": 0.2}
    result = score(frames, ToyCalculator(**OTHER), config={"thresholds": limits})
    for frame in result.frames:
        errors = [(abs(e), t) for e, t in ((frame.energy_error, 0.1), (frame.force_rmse, 0.2)) if e is not None]
        errors = [(abs(e), t) for e, t in errors]
        each = [min(1.0, np.exp(-3 * (e - t) / t)) for e, t in errors]
        assert frame.score == pytest.approx(np.mean(each))
    assert result.score == pytest.approx(np.mean([frame.score for frame in result.frames]))
    low, high = result.score_interval
    assert low < result.score < high
    worst = sorted(result.frames, key=lambda frame: frame.score)[0]
    assert result.worst_systems[0] == worst.name


def test_a_frame_that_failed_scores_zero(frames):
    result = score(frames, Broken(), config={"thresholds": {"forces/mae": 1e9}})
    forces = [f for f in result.frames if f.index % WITHOUT_FORCES]
    assert all(f.score == (0.0 if f.failed else 1.0) for f in forces)
    assert all(f.skipped and f.score is None for f in result.frames if f not in forces)
    assert result.score == pytest.approx(np.mean([not f.failed for f in forces]))


def test_a_task_that_came_to_nothing_scores_zero_only_under_thresholds():
    protocols = [
        DatasetBenchmark.protocol_of("fast", options)
        for options in ({"thresholds": {"forces/mae": 1.0}}, {"group_by": []})
    ]
    scores = [DatasetBenchmark.result_of_failure(None, protocol).score for protocol in protocols]
    assert scores == [0.0, None]
