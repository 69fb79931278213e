# SPDX-License-Identifier: Apache-2.0
"""Two models: known differences are found, luck is not, and nothing is compared that was not asked alike."""

import random
from functools import cache

import numpy as np
import pytest
from made_records import BROKEN, Entry, Result, around, failed, result_of, scored, task

from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks import DihedralScanBenchmark, ReactivityBenchmark, TautomersBenchmark
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.reporting.comparison import Obstacle, Verdict, compare_models
from mlipaudit.reporting.paired import T, expansion, independent_samples, paired_samples
from mlipaudit.scoring import interval_of
from mlipaudit.units import KCAL_MOL_PER_EV

SPREAD = [0.1, 0.9, 0.4, 0.7, 0.3, 0.8, 0.2, 0.6]


def compared(baseline, candidate):
    """The comparison on the only benchmark."""
    (entry,) = compare_models([baseline], [candidate]).benchmarks
    return entry


def on(record, device="cpu: cpu", **identity):
    """A record made on another device, or with another identity."""
    p = record.provenance
    record.provenance = p.model_copy(update={"device": device, "identity": p.identity.model_copy(update=identity)})
    return record


# Known differences


def test_a_constant_difference_is_found_exactly():
    entry = compared(scored("a", SPREAD), scored("b", [s - 0.05 for s in SPREAD]))
    assert entry.verdict is Verdict.WORSE
    assert (entry.baseline_score, entry.candidate_score) == pytest.approx((0.5, 0.45))
    assert entry.difference == pytest.approx(-0.05)
    assert entry.interval == pytest.approx((-0.05, -0.05))
    assert (entry.num_systems, entry.why, entry.obstacle) == (8, "", None)


def test_pairing_takes_out_how_hard_the_systems_are():
    easy_and_hard = [0.05, 0.95] * 10
    better = [s + 0.02 + 0.01 * (-1) ** (i // 2) for i, s in enumerate(easy_and_hard)]
    entry = compared(scored("a", easy_and_hard), scored("b", better))
    assert entry.verdict is Verdict.BETTER
    assert 0.01 < entry.interval[0] < 0.02 < entry.interval[1] < 0.03


def test_systems_are_matched_by_name_not_by_place():
    shuffled = result_of(SPREAD)
    shuffled.entries = shuffled.entries[::-1]
    entry = compared(scored("a", SPREAD), task("b", shuffled))
    assert (entry.difference, entry.interval, entry.verdict) == (0.0, (0.0, 0.0), Verdict.NO_DIFFERENCE)


@pytest.mark.parametrize("scores", [SPREAD, [0.5], [0.0, 0.0], [1.0] * 30])
def test_a_model_does_not_differ_from_itself(scores):
    comparison = compare_models([scored("a", scores)], [scored("a", scores)])
    (entry,) = comparison.benchmarks
    assert (entry.difference, entry.interval, entry.verdict) == (0.0, (0.0, 0.0), Verdict.NO_DIFFERENCE)
    overall = comparison.overall
    assert (overall.difference, overall.interval, overall.verdict) == (0.0, (0.0, 0.0), Verdict.NO_DIFFERENCE)


def test_rounding_is_no_difference():
    entry = compared(scored("a", SPREAD), scored("b", [s + 1e-9 for s in SPREAD]))
    assert entry.interval[0] > 0
    assert entry.verdict is Verdict.NO_DIFFERENCE


def test_few_of_many_systems_show_no_difference():
    entry = compared(scored("a", [1.0] * 40), scored("b", [0.5] + [1.0] * 39))
    assert entry.verdict is Verdict.NO_DIFFERENCE
    assert entry.difference == pytest.approx(-0.5 / 40)


# The same model with noise on its energies


@cache
def labelled(cls):
    reference = cls(OracleBackend([]), run_mode="fast", data="embedded").reference
    return [entry for group in cls.structures(reference).values() for entry in group]


def noisy(cls, model, noise, *, seed=0):
    """What a benchmark says about the reference with errors of 0.03 kcal/mol, plus noise."""
    errors, more = random.Random(1), random.Random(seed)
    energies = [
        (atoms, energy + (errors.gauss(0, 0.03) + more.gauss(0, noise)) / KCAL_MOL_PER_EV)
        for atoms, energy in labelled(cls)
    ]
    benchmark = cls(OracleBackend(energies), run_mode="fast", data="embedded")
    benchmark.run_model()
    return task(model, benchmark.analyze(), cls.name)


NOISE = {TautomersBenchmark: 0.1, DihedralScanBenchmark: 3.0, ReactivityBenchmark: 10.0}


@pytest.mark.parametrize("cls", NOISE, ids=lambda cls: cls.name)
@pytest.mark.parametrize("seed", [2, 3])
def test_noise_makes_a_model_worse(cls, seed):
    entry = compared(noisy(cls, "a", 0.0), noisy(cls, "noisy", NOISE[cls], seed=seed))
    assert entry.verdict is Verdict.WORSE
    assert entry.interval[0] < entry.difference < entry.interval[1] < -0.02
    assert entry.num_systems >= 20


@pytest.mark.parametrize("cls", NOISE, ids=lambda cls: cls.name)
def test_no_noise_makes_it_no_worse(cls):
    entry = compared(noisy(cls, "a", 0.0), noisy(cls, "a", 0.0, seed=5))
    assert (entry.difference, entry.interval, entry.verdict) == (0.0, (0.0, 0.0), Verdict.NO_DIFFERENCE)


# Coverage, where the truth is known

TRIALS = 400


def skewed(rng, n):
    """The candidate keeps a Beta(3, 1) part of each Beta(2, 2) score: on average it loses 1/2 - 1/2 · 3/4."""
    scores = rng.beta(2, 2, n)
    return scores, scores * rng.beta(3, 1, n)


def coverage(interval, n, truth=-0.125):
    rng = np.random.default_rng(11)
    intervals = [interval(*skewed(rng, n)) for _ in range(TRIALS)]
    return np.mean([low <= truth <= high for low, high in intervals])


def of_pairs(ours, theirs):
    return interval_of(paired_samples(theirs - ours, name="simulated"))


@pytest.mark.parametrize(("n", "stated"), [(5, 0.91), (10, 0.93), (20, 0.94), (50, 0.945)])
def test_coverage_is_near_95_percent(n, stated):
    # Three standard errors of a binomial; `stated` is what the docstring promises of skewed differences.
    tolerance = 3 * np.sqrt(stated * (1 - stated) / TRIALS)
    assert abs(coverage(of_pairs, n) - stated) < tolerance


def test_coverage_through_records():
    def of_records(ours, theirs):
        return compared(scored("a", ours.tolist()), scored("b", theirs.tolist())).interval

    assert abs(coverage(of_records, 20) - 0.94) < 3 * np.sqrt(0.94 * 0.06 / TRIALS)


def test_withoutexpansion_few_systems_would_cover_less(monkeypatch):
    monkeypatch.setattr("mlipaudit.reporting.paired.expansion", lambda n: 1.0)
    assert coverage(of_pairs, 5) < 0.87


def test_coverage_overall():
    rng, truth, hits = np.random.default_rng(3), -0.125, []
    for _ in range(TRIALS // 2):
        pairs = [(name, *skewed(rng, 15)) for name in ("x", "y", "z")]
        a, b = ([scored("m", pair[i].tolist(), pair[0]) for pair in pairs] for i in (1, 2))
        low, high = compare_models(a, b).overall.interval
        hits.append(low <= truth <= high)
    assert abs(np.mean(hits) - 0.95) < 3 * np.sqrt(0.95 * 0.05 / len(hits))


def test_two_equal_models_rarely_differ():
    rng = np.random.default_rng(8)
    shown = []
    for _ in range(TRIALS):
        scores = rng.beta(2, 1, (2, 20))
        shown.append(interval_of(paired_samples(scores[1] - scores[0], name="null")))
    wrong = np.mean([low > 0 or high < 0 for low, high in shown])
    assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / TRIALS)


def test_theexpansion_is_that_of_students_t():
    from scipy.stats import norm, t

    expected = [np.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1) / norm.ppf(0.975) for n in range(2, 200)]
    assert len(T) == 10
    assert [expansion(n) for n in range(2, 200)] == pytest.approx(expected, rel=2e-3)


def test_groups_of_many_systems_spread_as_the_systems():
    d = np.random.default_rng(2).normal(0.01, 0.1, 5001)
    samples = paired_samples(d, name="many")
    error = d.std() / np.sqrt(len(d))
    assert samples.mean() == pytest.approx(d.mean(), abs=4 * error / np.sqrt(len(samples)))
    assert samples.std() == pytest.approx(error, rel=0.12)  # 400 groups give it to 3.5 %


def test_samples_of_an_interval_have_that_interval():
    samples = independent_samples(0.2, (0.1, 0.5), name="x")
    assert np.percentile(samples, [2.5, 97.5]) == pytest.approx((0.1, 0.5), abs=1e-3)


# The other way round


def pairs_of_results():
    paired = scored("a", SPREAD), scored("b", SPREAD[3:] + SPREAD[:3])
    unpaired = alone("a", 0.3, (0.2, 0.6)), alone("b", 0.5, (0.45, 0.7))
    return {
        "paired": [paired],
        "unpaired": [unpaired],
        "together": [on_benchmark(paired, "x"), on_benchmark(unpaired, "y")],
        "failed": [(scored("a", SPREAD), failed("b"))],
        "many": [(scored("a", around(0.5, 601, 0.3)), scored("b", around(0.51, 601, -0.1)))],
    }


def alone(model, score, interval, benchmark="tautomers"):
    """A result whose score is no mean over systems."""
    return task(model, BenchmarkResult(score=score, score_interval=interval, num_systems=1), benchmark)


def on_benchmark(pair, name):
    return tuple(on(record, benchmark=name) for record in pair)


@pytest.mark.parametrize("case", pairs_of_results())
def test_exchanging_the_two_changes_signs_only(case):
    pairs = pairs_of_results()[case]
    there = compare_models([a for a, _ in pairs], [b for _, b in pairs])
    back = compare_models([b for _, b in pairs], [a for a, _ in pairs])
    other = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    for one, two in zip((*there.benchmarks, there.overall), (*back.benchmarks, back.overall), strict=True):
        assert two.difference == -one.difference
        assert two.interval == (-one.interval[1], -one.interval[0])
        assert two.verdict is other.get(one.verdict, one.verdict)


def test_the_order_of_records_does_not_matter():
    ours = [scored("a", SPREAD, "x"), scored("a", SPREAD[::-1], "y")]
    theirs = [scored("b", SPREAD[2:] + SPREAD[:2], "x"), scored("b", SPREAD, "y")]
    assert compare_models(ours, theirs) == compare_models(ours[::-1], theirs[::-1])


def test_another_benchmark_beside_it_changes_nothing():
    pair = scored("a", SPREAD, "x"), scored("b", SPREAD[::-1], "x")
    more = scored("a", SPREAD, "w"), scored("b", SPREAD[1:] + SPREAD[:1], "w")
    (both,) = [e for e in compare_models([pair[0], more[0]], [pair[1], more[1]]).benchmarks if e.benchmark == "x"]
    assert both == compared(*pair)


# Failures


def test_a_benchmark_that_failed_as_a_whole_is_zeros():
    entry = compared(scored("a", SPREAD), failed("b"))
    assert (entry.difference, entry.verdict, entry.newly_failed) == (-0.5, Verdict.WORSE, True)
    low, high = result_of(SPREAD).score_interval
    assert entry.interval == pytest.approx((-high, -low))
    assert entry.why == "failed as a whole: the candidate (load_error: planted)"


def test_all_systems_failing_is_the_same():
    dead = Result(
        entries=[Entry(name=f"system {i}", failed=True, failure=BROKEN) for i in range(8)],
        failures={"system 0": BROKEN}, failed=True, score=0.0, num_systems=8, num_failed=8,
    )  # fmt: skip
    one, other = (compared(scored("a", SPREAD), record) for record in (task("b", dead), failed("b")))
    assert (one.difference, one.interval, one.verdict) == (other.difference, other.interval, other.verdict)


def test_failing_on_the_only_system_is_a_fact_without_an_interval():
    comparison = compare_models([scored("a", [0.9])], [failed("b")])
    (entry,) = comparison.benchmarks
    assert (entry.verdict, entry.interval, entry.newly_failed) == (Verdict.WORSE, None, True)
    back = compared(failed("b"), scored("a", [0.9]))
    assert (back.verdict, back.newly_failed) == (Verdict.BETTER, False)


def test_one_system_cannot_tell_a_difference_from_luck():
    comparison = compare_models([scored("a", [0.9])], [scored("b", [0.1])])
    (entry,) = comparison.benchmarks
    assert (entry.verdict, entry.interval) == (Verdict.NO_DIFFERENCE, None)
    assert entry.difference == pytest.approx(-0.8)
    assert entry.why == "one system cannot tell a difference from luck"
    assert (comparison.overall.difference, comparison.overall.interval) == (None, None)
    assert comparison.overall.left_out == {"tautomers": entry.why}


def test_two_that_failed_do_not_differ():
    entry = compared(failed("a"), failed("b"))
    assert (entry.difference, entry.interval, entry.verdict) == (0.0, (0.0, 0.0), Verdict.NO_DIFFERENCE)
    assert not entry.newly_failed
    assert entry.why == "failed as a whole: both (load_error: planted)"


def test_half_widths_of_unpaired_scores_add_in_quadrature():
    entry = compared(alone("a", 0.5, (0.47, 0.54)), alone("b", 0.7, (0.67, 0.73)))
    assert entry.difference == pytest.approx(0.2)
    # below: 0.03 of the candidate and the baseline's 0.04 above; above: 0.03 and 0.03
    assert entry.interval == pytest.approx((0.2 - 0.05, 0.2 + 0.03 * 2**0.5))
    assert entry.verdict is Verdict.BETTER
    assert "not paired" in entry.why


def test_equal_scores_alone_are_not_the_same_answers():
    entry = compared(alone("a", 1.0, (0.8, 1.0)), alone("b", 1.0, (0.9, 1.0)))
    assert entry.interval == pytest.approx((-0.1, 0.2))


# Systems that a result does not list


def without(scores, hidden, *, counted, failed_ones=False):
    """A result that does not list the systems in `hidden`, which count 0 in its score or not at all."""
    result = result_of(scores)
    result.entries = [e for i, e in enumerate(result.entries) if i not in hidden]
    total = sum(e.value for e in result.entries)
    result.score = total / (len(scores) if counted else len(result.entries))
    result.num_skipped = 0 if failed_ones else len(hidden)
    return result


@pytest.mark.parametrize("failed_ones", [True, False])
def test_hidden_systems_that_count_are_zeros(failed_ones):
    hidden = without(SPREAD, {1, 5}, counted=True, failed_ones=failed_ones)
    entry = compared(scored("a", SPREAD), task("b", hidden))
    zeros = [0.0 if i in {1, 5} else s for i, s in enumerate(SPREAD)]
    explicit = compared(scored("a", SPREAD), scored("b", zeros))
    assert (entry.difference, entry.interval, entry.num_systems) == (
        explicit.difference, explicit.interval, explicit.num_systems
    )  # fmt: skip
    assert entry.difference == pytest.approx(hidden.score - 0.5)


def test_systems_hidden_in_both_make_no_difference():
    ours, theirs = without(SPREAD, {0, 1}, counted=True), without(SPREAD, {1, 5}, counted=True)
    entry = compared(task("a", ours), task("b", theirs))
    assert entry.num_systems == 8
    assert entry.difference == pytest.approx(theirs.score - ours.score)


def test_hidden_systems_that_do_not_count_are_left_out():
    entry = compared(scored("a", SPREAD), task("b", without(SPREAD, {1, 5}, counted=False)))
    assert (entry.difference, entry.interval, entry.num_systems) == (0.0, (0.0, 0.0), 6)
    assert entry.num_uncovered == 2
    assert entry.why == "on the 6 systems that both were asked"


def test_reactions_without_an_answer_count_0():
    whole = noisy(ReactivityBenchmark, "a", 0.0)
    known = labelled(ReactivityBenchmark)[3:]  # all states but those of the first reaction
    benchmark = ReactivityBenchmark(OracleBackend(known), run_mode="fast", data="embedded")
    benchmark.run_model()
    partial = task("b", benchmark.analyze(), "reactivity")
    entry = compared(whole, partial)
    assert partial.result.num_failed == 1
    assert entry.num_systems == partial.result.num_systems
    assert entry.difference == pytest.approx(partial.result.score - whole.result.score)


def test_other_systems_are_not_compared():
    other = result_of(SPREAD)
    other.entries = [e.model_copy(update={"name": f"other {e.name}"}) for e in other.entries]
    entry = compared(scored("a", SPREAD), task("b", other))
    assert (entry.verdict, entry.obstacle) == (Verdict.NOT_COMPARABLE, Obstacle.QUESTION)
    assert entry.why == "they differ in systems (8 and 8 that the other does not have)"


# What is not compared


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data_sha256": "e" * 64}, "input data (dddddddd, eeeeeeee)"),
        ({"data_sha256": None}, "input data (dddddddd, unknown)"),
        ({"protocol": {"steps": 20}}, "protocol (steps)"),
        ({"benchmark_version": "2"}, "benchmark version (1, 2)"),
        ({"run_mode": "dev"}, "run mode (fast, dev)"),
        ({"edition": "local"}, "edition (hub, local)"),
    ],
)
def test_what_was_not_asked_alike_is_not_compared(change, words):
    entry = compared(scored("a", SPREAD), scored("b", SPREAD[::-1], **change))
    assert (entry.verdict, entry.obstacle) == (Verdict.NOT_COMPARABLE, Obstacle.QUESTION)
    assert (entry.difference, entry.interval) == (None, None)
    assert entry.why == f"they differ in {words}"


def test_other_scoring_is_not_compared():
    result = result_of(SPREAD).model_copy(update={"scoring_version": 99})
    assert compared(scored("a", SPREAD), task("b", result)).why == "they differ in scoring version (1, 99)"


def test_seeds_and_weights_may_differ():
    entry = compared(scored("a", SPREAD), scored("b", SPREAD, seed=7, sha256="other"))
    assert entry.verdict is Verdict.NO_DIFFERENCE


def test_a_model_that_did_not_load_need_not_know_its_data():
    assert compared(scored("a", SPREAD), failed("b", data_sha256=None)).verdict is Verdict.WORSE


def test_what_exists_for_one_side_only():
    comparison = compare_models([scored("a", SPREAD, "x")], [scored("b", SPREAD, "y")])
    obstacles = {entry.benchmark: entry.obstacle for entry in comparison.benchmarks}
    assert obstacles == {"x": Obstacle.NO_CANDIDATE, "y": Obstacle.NO_BASELINE}
    assert comparison.overall.verdict is Verdict.NOT_COMPARABLE
    assert comparison.overall.left_out == {
        "x": "the candidate has no result", "y": "the baseline has no result"
    }  # fmt: skip
    assert comparison.having(Verdict.NOT_COMPARABLE) == ["x", "y"]


def test_missing_data_says_nothing_about_a_model():
    missing = Failure(kind=FailureKind.DATA_UNAVAILABLE, message="no network")
    record = task("b", BenchmarkResult(failed=True, score=0.0, failure=missing))
    entry = compared(record, scored("a", SPREAD))
    assert (entry.verdict, entry.obstacle) == (Verdict.NOT_COMPARABLE, Obstacle.NO_BASELINE)
    assert "no network" in entry.why


def test_a_result_without_a_score():
    assert compared(scored("a", SPREAD), task("b", BenchmarkResult())).why == "the candidate has no score"


@pytest.mark.parametrize(
    ("change", "words"), [({"device": "gpu: H200"}, "device"), ({"precision": "float64"}, "precision")]
)
def test_speed_is_compared_on_the_same_machine_only(change, words):
    speed = scored("a", SPREAD, "inference_speed"), scored("b", SPREAD, "inference_speed")
    assert compared(*speed).verdict is Verdict.NO_DIFFERENCE
    entry = compared(speed[0], on(speed[1], **change))
    assert (entry.verdict, entry.obstacle) == (Verdict.NOT_COMPARABLE, Obstacle.MACHINE)
    assert f"on the same {words} (" in entry.why


def test_accuracy_is_compared_across_machines():
    entry = compared(scored("a", SPREAD), on(scored("b", SPREAD), device="gpu: H200", precision="float64"))
    assert entry.verdict is Verdict.NO_DIFFERENCE


def test_a_crash_that_left_no_word_of_the_device_counts_as_one():
    crashed = on(failed("b", "inference_speed"), device="unknown")
    assert compared(scored("a", SPREAD, "inference_speed"), crashed).newly_failed
    elsewhere = on(failed("b", "inference_speed"), device="gpu: H200")
    assert compared(scored("a", SPREAD, "inference_speed"), elsewhere).obstacle is Obstacle.MACHINE


# Overall


def test_overall_is_the_mean_of_what_has_an_interval():
    ours = [scored("a", SPREAD, "x"), scored("a", SPREAD, "y"), scored("a", [0.5], "z")]
    theirs = [scored("b", [s - 0.08 for s in SPREAD], "x"), scored("b", SPREAD, "y"), scored("b", [0.4], "z")]
    comparison = compare_models(ours, theirs)
    assert comparison.overall.difference == pytest.approx(-0.04)
    assert comparison.overall.interval == pytest.approx((-0.04, -0.04))
    assert comparison.overall.verdict is Verdict.WORSE
    assert comparison.overall.benchmarks == ("x", "y")
    assert list(comparison.overall.left_out) == ["z"]
    assert (comparison.baseline, comparison.candidate) == ("a", "b")
    assert comparison.settings == ("run mode fast · data hub",)


def test_overall_of_one_benchmark_is_its_own():
    comparison = compare_models([scored("a", SPREAD)], [scored("b", SPREAD[::-1])])
    (entry,) = comparison.benchmarks
    assert comparison.overall.interval == entry.interval


def test_errors_of_independent_benchmarks_add_in_quadrature():
    rng = np.random.default_rng(4)
    names = [f"x{i}" for i in range(9)]
    base, change = rng.uniform(0.3, 0.7, 60), rng.uniform(-0.2, 0.2, 60)
    comparison = compare_models(
        [scored("a", base.tolist(), name) for name in names],
        [scored("b", (base + change).tolist(), name) for name in names],
    )
    widths = [entry.interval[1] - entry.interval[0] for entry in comparison.benchmarks]
    low, high = comparison.overall.interval
    assert high - low == pytest.approx(np.mean(widths) / 3, rel=0.1)


def test_no_results_at_all():
    comparison = compare_models([], [])
    assert (comparison.benchmarks, comparison.overall.difference) == ((), None)
