# SPDX-License-Identifier: Apache-2.0
"""Every metric against plain numpy on the pooled values, and system by system."""

import numpy as np
import pytest
from ase import Atoms

from mlipaudit import registry
from mlipaudit.errors import UnknownNameError, UsageError
from mlipaudit.metrics import QUANTITIES, ErrorMetric, Sample, Values
from mlipaudit.metrics.chosen import choose_metrics
from mlipaudit.plugins import find

EXACT = {"rtol": 1e-12, "atol": 0}
PLAIN = {
    "mae": lambda p, x: np.mean(np.abs(p - x)),
    "mse": lambda p, x: np.mean((p - x) ** 2),
    "rmse": lambda p, x: np.sqrt(np.mean((p - x) ** 2)),
    "r2": lambda p, x: 1 - np.sum((p - x) ** 2) / np.sum((x - x.mean()) ** 2),
    "smape": lambda p, x: np.mean(200 * np.abs(p - x) / (np.abs(p) + np.abs(x))),
    "max": lambda p, x: np.max(np.abs(p - x)),
    "p50": lambda p, x: np.median(np.abs(p - x)),
    "p90": lambda p, x: np.percentile(np.abs(p - x), 90),
    "p95": lambda p, x: np.percentile(np.abs(p - x), 95),
    "p99": lambda p, x: np.percentile(np.abs(p - x), 99),
    "percentile:12.5": lambda p, x: np.percentile(np.abs(p - x), 12.5),
    "within:0.4": lambda p, x: np.mean(np.abs(p - x) <= 0.4),
}


def cosine(p, x):
    """Mean cosine of rows."""
    return np.mean(np.sum(p * x, axis=1) / np.linalg.norm(p, axis=1) / np.linalg.norm(x, axis=1))


@pytest.fixture(scope="module")
def samples():
    """Predictions and labels of 40 systems; a tenth of the labelled components is NaN."""
    rng, found = np.random.default_rng(3), []
    for size in rng.integers(1, 61, 40):
        atoms, x = Atoms("H" * size), rng.normal(size=(size, 3))
        forces = np.where(rng.random((size, 3)) < 0.1, np.nan, x)
        energy, stress = rng.normal() * size, rng.normal(size=6)
        labels = Sample(atoms, energy, forces, stress)
        predicted = x + 0.5 * rng.normal(size=x.shape)
        found.append(
            (Sample(atoms, energy + 0.3 * size * rng.normal(), predicted, stress + rng.normal(size=6)), labels)
        )
    return found


def components(samples, quantity):
    """Predicted and labelled components of all systems, those without label left out."""
    sides = {
        "energy_per_atom": lambda s: [s.energy / len(s.atoms)],
        "forces": lambda s: s.forces.ravel(),
        "stress": lambda s: s.stress,
    }
    p, x = (np.concatenate([sides[quantity](pair[i]) for pair in samples]) for i in (0, 1))
    return p[np.isfinite(x)], x[np.isfinite(x)]


def made(name, quantity):
    (chosen,) = choose_metrics([f"{quantity}/{name}"], tuple(QUANTITIES))
    return chosen.make()


def told(metric, samples):
    for prediction, reference in samples:
        metric.update(prediction, reference)
    return metric


def test_every_registered_metric_is_tested_here():
    names = {name.partition(":")[0] for name in PLAIN} | {"force_cosine"}
    assert names == set(registry.names(registry.METRICS))


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", PLAIN)
def test_pooled_equals_plain_numpy(name, quantity, samples):
    value = told(made(name, quantity), samples).compute()
    np.testing.assert_allclose(value, PLAIN[name](*components(samples, quantity)), **EXACT)


def test_force_cosine_is_the_mean_over_atoms_with_all_components(samples):
    p, x = (np.concatenate([pair[i].forces for pair in samples]) for i in (0, 1))
    whole = np.isfinite(x).all(axis=1)
    value = told(made("force_cosine", "forces"), samples).compute()
    np.testing.assert_allclose(value, cosine(p[whole], x[whole]), **EXACT)


def test_force_cosine_of_a_predicted_zero_is_zero_and_of_a_labelled_zero_nothing():
    atoms = Atoms("H3")
    predicted = Sample(atoms, forces=np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]))
    reference = Sample(atoms, forces=np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
    assert told(made("force_cosine", "forces"), [(predicted, reference)]).compute() == 0.5


@pytest.mark.parametrize("name", [*PLAIN, "force_cosine"])
def test_each_system_by_itself_is_what_a_metric_of_that_system_says(name, samples):
    values = Values.joined([Values.of_system(p.forces, r.forces) for p, r in samples])
    metric = made(name, "forces")
    expected = []
    for pair in samples:
        alone = made(name, "forces")
        try:
            with np.errstate(all="ignore"):
                expected.append(told(alone, [pair]).compute())
        except ValueError:
            expected.append(np.nan)
    np.testing.assert_allclose(metric.of_each(values), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ErrorMetric.of_each(metric, values), expected, rtol=1e-12, atol=1e-13)


def test_r2_and_mean_of_systems_without_spread_are_not_numbers():
    same = Values.of_system(np.array([[1.0], [2.0]]), np.array([[0.1 + 0.2], [0.3]]))
    flat = Values.of_system(np.array([[1.0], [2.0]]), np.array([[0.3], [0.3]]))
    assert np.isnan(made("r2", "energy_per_atom").of_each(flat)).all()
    with pytest.raises(ValueError, match="all the same"):
        made("r2", "energy_per_atom").of(flat)
    assert np.isfinite(made("r2", "energy_per_atom").of(same))


@pytest.mark.parametrize("name", PLAIN)
def test_a_metric_is_a_function_of_its_sums_where_it_has_any(name, samples):
    metric = made(name, "forces")
    values = Values.joined([Values.of_system(p.forces, r.forces) for p, r in samples])
    sums = metric.sums(values)
    if sums is None:
        assert name.startswith("p") or name == "max"
    else:
        np.testing.assert_allclose(metric.of_sums(sums.sum(axis=0)), metric.of(values), rtol=1e-12)


@pytest.mark.parametrize("name", [*PLAIN, "force_cosine"])
def test_states_can_be_merged_in_any_grouping(name, samples):
    whole = told(made(name, "forces"), samples).compute()
    for size in (1, 7):
        merged = made(name, "forces")
        for start in range(0, len(samples), size):
            merged.merge(told(made(name, "forces"), samples[start : start + size]).state())
        assert merged.compute() == whole


def test_reset_forgets(samples):
    metric = told(made("mae", "forces"), samples)
    metric.reset()
    assert told(metric, samples[:1]).compute() == told(made("mae", "forces"), samples[:1]).compute()


# Names


def test_units_are_those_of_the_quantity():
    chosen = choose_metrics(["mae", "mse", "r2", "smape"], ("forces",))
    assert [one.unit for one in chosen] == ["eV/Å", "(eV/Å)²", "", "%"]


def test_a_metric_of_forces_is_made_for_forces_only():
    assert [one.key for one in choose_metrics(["force_cosine"], tuple(QUANTITIES))] == ["forces/force_cosine"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rsme", "unknown metric 'rsme'; did you mean 'rmse'?"),
        ("forces/rsme", "did you mean 'rmse'?"),
        ("energy_per_atom/force_cosine", "force_cosine is one of forces"),
        ("within", "it takes a threshold, such as within:0.05"),
        ("within:much", "not 'much'"),
        ("percentile:101", "not '101'"),
        ("mae:3", "it takes no argument"),
        ("nowhere_at_all:f", "nowhere_at_all cannot be imported"),
        ("math:nothing", "unknown metric in math 'nothing'"),
        ("math:pi", "is neither a function of two arrays nor a class"),
        ("mlipaudit.metrics:Quantity", "nor a class with update(), compute() and reset()"),
    ],
)
def test_what_is_no_metric_is_said_in_one_line(text, message):
    with pytest.raises(UsageError) as error:
        choose_metrics([text], tuple(QUANTITIES))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_plug_ins_of_ours_are_told_by_our_version_and_others_by_their_source():
    assert find(registry.METRICS, "mae").made_by.startswith("mlipaudit ")
    assert find(registry.METRICS, "textwrap:dedent").made_by.startswith("sha256 ")
    with pytest.raises(UnknownNameError):
        find(registry.TRANSFORMS, "warp")
