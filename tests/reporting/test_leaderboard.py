# SPDX-License-Identifier: Apache-2.0
"""Who is ranked above whom: by proof, on the same questions, and never without saying what is missing."""

import math
from pathlib import Path

import pytest
from made_records import around, failed, result_of, scored, task

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.reporting.contents import Contents
from mlipaudit.reporting.leaderboard import listed, rankings
from mlipaudit.reporting.rows import Gap, rows_of
from mlipaudit.scoring import combine_intervals
from mlipaudit.store import Unreadable


def contents_of(*records, gaps=(), unreadable=()):
    return Contents(Path("results"), records, tuple(unreadable), tuple(gaps))


def ranking_of(*records, **kwargs):
    (ranking,) = rankings(contents_of(*records, **kwargs))
    return ranking


def ranks(ranking):
    return {s.model: (s.rank, s.tied) for s in ranking.standings}


# Ranks


def test_models_that_differ_have_ranks_of_their_own():
    ranking = ranking_of(scored("b", around(0.5)), scored("a", around(0.9)), scored("c", around(0.1)))
    assert [s.model for s in ranking.standings] == ["a", "b", "c"]
    assert ranks(ranking) == {"a": (1, False), "b": (2, False), "c": (3, False)}
    assert ranking.remarks == ()


def test_the_same_answers_share_a_rank_and_the_next_one_is_skipped():
    ranking = ranking_of(scored("a", around(0.9)), scored("b", around(0.9)), scored("c", around(0.1)))
    assert ranks(ranking) == {"a": (1, True), "b": (1, True), "c": (3, False)}


def test_a_rank_is_shared_with_the_best_of_it_not_with_the_neighbour():
    a = [0.6] * 40
    b = [x - 0.02 - 0.1 * (-1) ** i for i, x in enumerate(a)]  # 0.02 ± 0.016 below a: not shown to differ
    c = [x - 0.02 + 0.1 * (-1) ** i for i, x in enumerate(b)]  # the same below b, yet 0.04 below a everywhere
    assert c == pytest.approx([0.56] * 40)
    ranking = ranking_of(scored("a", a), scored("b", b), scored("c", c))
    assert ranks(ranking) == {"a": (1, True), "b": (1, True), "c": (3, False)}


def test_models_that_overlap_but_differ_on_each_system_are_told_apart():
    easy_and_hard = [0.1, 0.9] * 20
    ranking = ranking_of(scored("a", easy_and_hard), scored("b", [x - 0.05 for x in easy_and_hard]))
    a, b = (s.overall for s in ranking.standings)
    assert a.interval[0] < b.interval[1]
    assert ranks(ranking) == {"a": (1, False), "b": (2, False)}


def test_a_model_that_failed_everywhere_is_last_and_shares_no_rank():
    records = [scored("a", around(0.9), name) for name in ("tautomers", "stability")]
    broken = [failed("broken", name) for name in ("tautomers", "stability")]
    ranking = ranking_of(*records, *broken)
    assert ranks(ranking) == {"a": (1, False), "broken": (2, False)}
    assert ranking.standings[1].overall.covered == 0


def test_without_intervals_nothing_is_shown_but_failure():
    ranking = ranking_of(scored("a", [0.9]), scored("b", [0.1]), failed("broken"))
    assert ranks(ranking) == {"a": (1, True), "b": (1, True), "broken": (3, False)}


def test_a_lead_that_rests_on_a_benchmark_without_an_interval_is_none():
    lucky = [scored("lucky", [0.9], "stability"), scored("lucky", around(0.4), "tautomers")]
    steady = [scored("steady", [0.1], "stability"), scored("steady", around(0.6), "tautomers")]
    ranking = ranking_of(*lucky, *steady)
    assert ranks(ranking) == {"lucky": (1, True), "steady": (1, True)}


def test_rounding_is_no_difference():
    a = around(0.5)
    ranking = ranking_of(scored("a", a), scored("b", [x - 1e-9 for x in a]))
    assert ranks(ranking) == {"a": (1, True), "b": (1, True)}


def test_two_models_that_failed_everywhere_share_a_rank():
    ranking = ranking_of(failed("a"), failed("b"))
    assert ranks(ranking) == {"a": (1, True), "b": (1, True)}


# Nothing of different modes or editions in one ranking


def test_a_ranking_for_each_mode_and_edition():
    found = rankings(
        contents_of(
            scored("a", around(0.5)),
            scored("b", around(0.6), run_mode="dev"),
            scored("c", around(0.7), edition="local"),
            scored("d", around(0.8), edition=None),
        )
    )
    settings = {(r.run_mode, r.edition): [s.model for s in r.standings] for r in found}
    assert list(settings) == sorted(settings)
    assert settings == {
        ("fast", "hub"): ["a"],
        ("dev", "hub"): ["b"],
        ("fast", "local"): ["c"],
        ("fast", "none"): ["d"],
    }


def test_what_is_unknown_is_called_so():
    ranking = ranking_of(gaps=[Gap("a", "tautomers", "unreadable", "unknown", None)])
    assert (ranking.run_mode, ranking.edition) == ("unknown", "none")


# Who is not ranked


def both(model, mean, **kwargs):
    return [scored(model, around(mean), name, **kwargs) for name in ("stability", "tautomers")]


def test_a_model_with_fewer_benchmarks_is_not_ranked():
    ranking = ranking_of(*both("a", 0.5), *both("b", 0.3), scored("easy", around(0.95), "tautomers"))
    assert ranks(ranking) == {"easy": (None, False), "a": (1, False), "b": (2, False)}
    assert ranking.remarks == ("not ranked: easy, without a score on stability",)


@pytest.mark.parametrize("why", ["missing", "unreadable"])
def test_a_model_without_a_result_that_counts_is_not_ranked(why):
    unreadable = [Unreadable(Path("b/stability/result.json"), "cut short")] if why == "unreadable" else []
    gap = Gap("b", "stability", why, "fast", "hub")
    ranking = ranking_of(*both("a", 0.5), scored("b", around(0.9), "tautomers"), gaps=[gap], unreadable=unreadable)
    assert ranks(ranking) == {"b": (None, False), "a": (1, False)}
    b = ranking.standings[0]
    assert (b.overall.covered, b.overall.asked) == (1, 2)
    assert b.tasks["stability"].failures == (why,)
    assert ranking.remarks == ("not ranked: b, without a score on stability",)


def test_models_that_lack_the_same_are_named_together():
    ranking = ranking_of(*both("a", 0.5), scored("b", around(0.4)), scored("c", around(0.3)))
    assert ranking.remarks == ("not ranked: b and c, without a score on stability",)


def test_a_benchmark_of_a_few_does_not_undo_the_others_ranks():
    ranking = ranking_of(*both("a", 0.5), *both("b", 0.3), scored("c", around(0.9), "sampling"))
    assert ranks(ranking) == {"c": (None, False), "a": (1, False), "b": (2, False)}
    assert "ranks do not rest on sampling, where not every ranked model has a score" in ranking.remarks
    assert "not ranked: c, without a score on stability and tautomers" in ranking.remarks


def test_a_model_that_failed_everywhere_is_not_the_only_complete_one():
    broken = [failed("broken", name) for name in ("stability", "tautomers")]
    ranking = ranking_of(
        *broken, scored("a", around(0.5), "tautomers"), gaps=[Gap("a", "stability", "missing", "fast", "hub")]
    )
    assert ranks(ranking) == {"a": (1, False), "broken": (2, False)}
    assert "ranks do not rest on stability, where not every ranked model has a score" in ranking.remarks


def test_models_with_other_benchmarks_each_are_not_ranked():
    ranking = ranking_of(scored("a", around(0.5), "tautomers"), scored("b", around(0.6), "stability"))
    assert ranks(ranking) == {"a": (None, False), "b": (None, False)}
    assert any("no model is ranked" in remark for remark in ranking.remarks)


def test_nothing_but_gaps():
    gaps = [Gap("a", name, "missing", "fast", "hub") for name in ("stability", "tautomers")]
    ranking = ranking_of(gaps=gaps)
    (standing,) = ranking.standings
    assert (standing.rank, standing.overall.score, standing.overall.covered, standing.overall.asked) == (
        None, None, 0, 2
    )  # fmt: skip
    assert [c.score for c in standing.categories] == [None, None]
    assert "no model has a score on stability and tautomers" in ranking.remarks
    assert "not ranked: a, without any score" in ranking.remarks


def test_models_without_a_score_are_last():
    nothing = Gap("a", "tautomers", "missing", "fast", "hub")
    ranking = ranking_of(scored("z", [0.0, 0.0]), task("b", BenchmarkResult()), gaps=[nothing])
    assert [s.model for s in ranking.standings] == ["z", "a", "b"]
    assert ranks(ranking) == {"z": (1, False), "a": (None, False), "b": (None, False)}


def test_no_results():
    assert rankings(contents_of()) == []


def test_one_model_in_two_ways_is_not_averaged():
    ranking = ranking_of(scored("a", around(0.5), "stability"), scored("a", around(0.9), "tautomers", seed=1))
    assert [s.overall.score for s in ranking.standings] == pytest.approx([0.9, 0.5])
    assert any("weights or seeds" in remark for remark in ranking.remarks)


# Different questions


DIFFERENT = {
    "input data": {"data_sha256": "e" * 64},
    "protocol": {"protocol": {"steps": 20}},
    "version": {"benchmark_version": "2"},
}


@pytest.mark.parametrize("words", DIFFERENT)
def test_the_one_that_was_asked_something_else_is_not_ranked(words):
    other = scored("odd", around(0.9), **DIFFERENT[words])
    ranking = ranking_of(scored("a", around(0.5)), scored("b", around(0.3)), other)
    assert ranks(ranking) == {"odd": (None, False), "a": (1, False), "b": (2, False)}
    assert f"tautomers: the results of odd / a and b differ in {words} and are not compared" in ranking.remarks
    assert any(remark.startswith("not ranked: odd, without a result on tautomers") for remark in ranking.remarks)


@pytest.mark.parametrize("words", DIFFERENT)
def test_of_two_questions_neither_counts_more(words):
    ranking = ranking_of(scored("a", around(0.5)), scored("b", around(0.3), **DIFFERENT[words]), failed("broken"))
    assert {rank for rank, _ in ranks(ranking).values()} == {None}
    assert f"tautomers: the results of a / b differ in {words} and are not compared" in ranking.remarks


def test_another_scoring_version_is_another_question():
    result = result_of(around(0.9)).model_copy(update={"scoring_version": 99})
    ranking = ranking_of(scored("a", around(0.5)), scored("b", around(0.3)), task("odd", result))
    assert ranks(ranking)["odd"] == (None, False)
    assert "tautomers: the results of odd / a and b differ in scoring version and are not compared" in (
        ranking.remarks
    )


def test_a_benchmark_that_failed_as_a_whole_was_asked_nothing_else():
    ranking = ranking_of(scored("a", around(0.5)), failed("b", data_sha256=None))
    assert ranks(ranking) == {"a": (1, False), "b": (2, False)}
    assert ranking.remarks == ()


# Numbers


def test_the_numbers_are_those_of_the_rows():
    records = [*both("a", 0.6), scored("a", [0.1, 0.2, 0.6], "sampling")]
    (standing,) = ranking_of(*records).standings
    *tasks, overall = rows_of(records)
    assert standing.overall == overall
    assert standing.tasks == {row.benchmark: row for row in tasks}


def test_categories_are_means_over_their_benchmarks():
    records = [
        scored("a", [0.2, 0.4], "tautomers"),
        scored("a", [0.6, 1.0], "dihedral_scan"),
        scored("a", [0.5, 0.5], "stability"),
        scored("b", [0.5, 0.5], "stability"),
    ]
    ranking = ranking_of(*records)
    assert ranking.categories == ("General", "Small Molecules")
    assert ranking.benchmarks == ("stability", "dihedral_scan", "tautomers")
    by_model = {s.model: s.categories for s in ranking.standings}
    general, small = by_model["a"]
    assert (general.score, general.interval, general.covered, general.asked) == (0.5, (0.5, 0.5), 1, 1)
    assert small.score == pytest.approx(0.55)
    assert small.interval == combine_intervals([(0.2, 0.4), (0.6, 1.0)], [0.3, 0.8])
    half = math.hypot(0.1, 0.2) / 2
    assert small.interval == pytest.approx((0.55 - half, 0.55 + half))
    assert (small.covered, small.asked) == (2, 2)
    _, nothing = by_model["b"]
    assert (nothing.score, nothing.interval, nothing.covered, nothing.asked) == (None, None, 0, 0)


@pytest.mark.parametrize("record", [scored("a", [0.123456789012345, 0.3, 0.7]), failed("a")])
def test_overall_numbers_of_one_benchmark_are_its_own(record):
    (standing,) = ranking_of(record).standings
    row = standing.tasks["tautomers"]
    assert (standing.overall.score, standing.overall.interval) == (row.score, row.interval)
    assert (standing.overall.covered, standing.overall.asked) == (0 if row.failed else 1, 1)
    assert standing.overall.benchmark is None
    assert (standing.rank, standing.tied) == (1, False)


def test_a_score_without_an_interval_is_remarked():
    lonely = [scored("a", [0.9], "stability"), scored("a", around(0.5), "tautomers")]
    (remark,) = ranking_of(*lonely).remarks
    assert remark.startswith("there is no 95 % interval on stability,")
    (remark,) = ranking_of(scored("a", [0.9], "stability")).remarks
    assert remark.startswith("no benchmark has a 95 % interval")


def test_listed():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c"
    ]  # fmt: skip
