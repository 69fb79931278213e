# SPDX-License-Identifier: Apache-2.0
"""What passes the gate and what does not, and how that reads in a pull request and in CI."""

import json
from xml.etree import ElementTree

import pytest
from made_records import around, failed, scored

from mlipaudit.reporting.comparison import (
    BenchmarkComparison,
    Comparison,
    Obstacle,
    Overall,
    Verdict,
    compare_models,
)
from mlipaudit.reporting.comparison_tables import as_json, as_markdown, as_text, gate_sentence, sentence, signed
from mlipaudit.reporting.gate import Margins, Outcome, judge, refused
from mlipaudit.reporting.grid import grid
from mlipaudit.reporting.junit import as_junit

NOTHING = Overall(None, None, Verdict.NOT_COMPARABLE)


def entry(difference, interval, verdict=Verdict.NO_DIFFERENCE, **about):
    return BenchmarkComparison("x", 0.8, 0.8 + (difference or 0.0), difference, interval, verdict, 10, **about)


def found(*args, margin=0.02, **kwargs):
    """What the gate says about one benchmark."""
    judgement = judge(Comparison("a", "b", (entry(*args, **kwargs),), NOTHING), Margins(margin))
    return judgement.findings[0]


W, B, N, O = Verdict.WORSE, Verdict.BETTER, Verdict.NO_DIFFERENCE, Verdict.NOT_COMPARABLE  # noqa: E741


@pytest.mark.parametrize(
    ("difference", "interval", "verdict", "outcome"),
    [
        (-0.1, (-0.15, -0.05), W, Outcome.FAILS),
        (-0.021, (-0.03, -0.01), W, Outcome.FAILS),
        (-0.015, (-0.019, -0.01), W, Outcome.PASSES),
        (-0.015, (-0.03, -0.001), W, Outcome.UNDECIDED),
        (-0.5, None, W, Outcome.FAILS),
        (-0.1, (-0.3, 0.1), N, Outcome.UNDECIDED),
        (0.1, (-0.05, 0.3), N, Outcome.UNDECIDED),
        (0.0, (-0.02, 0.02), N, Outcome.PASSES),
        (0.0, (0.0, 0.0), N, Outcome.PASSES),
        (-0.1, None, N, Outcome.UNDECIDED),
        (0.1, (0.05, 0.2), B, Outcome.PASSES),
    ],
)
def test_outcomes_by_the_interval(difference, interval, verdict, outcome):
    assert found(difference, interval, verdict).outcome is outcome


@pytest.mark.parametrize(
    ("obstacle", "outcome"),
    [
        (Obstacle.NO_CANDIDATE, Outcome.FAILS),
        (Obstacle.NO_BASELINE, Outcome.SKIPPED),
        (Obstacle.MACHINE, Outcome.SKIPPED),
        (Obstacle.QUESTION, Outcome.SKIPPED),
    ],
)
def test_outcomes_of_what_is_not_comparable(obstacle, outcome):
    finding = found(None, None, O, obstacle=obstacle, why="because")
    assert (finding.outcome, finding.why) == (outcome, "because")


def test_failing_as_a_whole_fails_within_any_margin():
    assert found(-0.001, (-0.001, -0.001), W, newly_failed=True, margin=1.0).outcome is Outcome.FAILS


def test_systems_that_are_not_covered_leave_it_undecided():
    finding = found(0.0, (0.0, 0.0), num_uncovered=3)
    assert finding.outcome is Outcome.UNDECIDED
    assert "does not cover 3 of" in finding.why
    assert found(-0.5, (-0.6, -0.4), W, num_uncovered=3).outcome is Outcome.FAILS


def test_margins():
    margins = Margins(0.02, {"x": 0.1})
    assert (margins.of("x"), margins.of("y")) == (0.1, 0.02)
    assert margins.of_all(["x", "y"]) == pytest.approx(0.06)
    assert margins.of_all([]) == 0.02
    assert Margins(0.02, {"overall": 0.3}).of_all(["x"]) == 0.3


def test_overall_fails_where_no_benchmark_does():
    names = [f"x{i}" for i in range(9)]
    wide = [-0.4 if i % 2 else 0.34 for i in range(40)]  # 0.03 worse, with an interval of 0.12 on either side
    a = [scored("a", [0.5] * 40, name) for name in names]
    b = [scored("b", [0.5 + w for w in wide], name) for name in names]
    judgement = judge(compare_models(a, b), Margins(0.02))
    assert {f.outcome for f in judgement.findings[:-1]} == {Outcome.UNDECIDED}
    assert (judgement.findings[-1].name, judgement.findings[-1].outcome) == ("overall", Outcome.UNDECIDED)
    narrow = [scored("b", [0.5 - 0.03 - 0.09 * (-1) ** i for i in range(40)], name) for name in names]
    judgement = judge(compare_models(a, narrow), Margins(0.02, dict.fromkeys(names, 0.05) | {"overall": 0.02}))
    assert not judgement.having(Outcome.FAILS)[:-1]
    assert [f.name for f in judgement.having(Outcome.FAILS)] == ["overall"]


def test_strict_passes_only_what_is_decided():
    undecided = judge(Comparison("a", "b", (entry(-0.1, None),), NOTHING), Margins())
    assert undecided.is_passed()
    assert not undecided.is_passed(strict=True)
    assert judge(Comparison("a", "b", (entry(0.0, (0.0, 0.0)),), NOTHING), Margins()).is_passed(strict=True)


def test_what_is_refused():
    asked_otherwise = entry(None, None, O, obstacle=Obstacle.QUESTION)
    elsewhere = entry(None, None, O, obstacle=Obstacle.MACHINE)
    fine = entry(0.0, (0.0, 0.0))
    missing = entry(None, None, O, obstacle=Obstacle.NO_CANDIDATE)
    assert refused(Comparison("a", "b", (asked_otherwise, fine, elsewhere), NOTHING)) == [asked_otherwise]
    assert refused(Comparison("a", "b", (elsewhere, fine), NOTHING)) == []
    assert refused(Comparison("a", "b", (elsewhere,), NOTHING)) == [elsewhere]
    assert refused(Comparison("a", "b", (missing, elsewhere), NOTHING)) == []


# Texts


@pytest.fixture
def judgement():
    """Worse on one, better on one, failed on one, lacking one, and one that is new."""
    a = [scored("a", around(0.8), name) for name in ("lacking", "broken", "down", "up")]
    b = [scored("b", around(0.5), "down"), scored("b", around(0.9), "up"), failed("b", "broken")]
    return judge(compare_models(a, [*b, scored("b", around(0.5), "new")]), Margins())


def cells(line, separator):
    return [cell.strip().replace("\\", "") for cell in line.strip("| ").split(separator)]


def test_the_table_says_what_was_found(judgement):
    text = as_text(judgement, gated=True)
    rows = {line.split()[0]: line for line in text.splitlines() if line}
    assert text.startswith("candidate b against baseline a · run mode fast · data hub\n")
    assert rows["down"].split() == [
        "down", "0.800", "0.500", "-0.300", "-0.300", "…", "-0.300", "40", "worse", "fails"
    ]  # fmt: skip
    assert rows["up"].split()[3:] == ["+0.100", "+0.100", "…", "+0.100", "40", "better", "passes"]
    assert rows["broken"].split()[-2:] == ["worse", "fails"]
    assert rows["lacking"].split()[1:] == ["0.800", "–", "–", "–", "–", "not", "comparable", "fails"]
    assert rows["new"].split()[-1] == "skipped"
    last = [line for line in text.splitlines() if line.startswith("overall")]
    assert text.index(last[0]) > max(text.index(rows[name]) for name in ("down", "up", "broken", "lacking"))
    assert "note: lacking: the candidate has no result" in text
    assert "note: broken: failed as a whole: the candidate (load_error: planted)" in text


def test_without_a_gate_there_is_no_word_of_it(judgement):
    for text in (as_text(judgement, gated=False), as_markdown([judgement], gated=False)):
        assert "gate" not in text.lower()
        assert "margin" not in text


def test_markdown_has_the_numbers_of_the_table(judgement):
    lines = as_text(judgement, gated=True).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("benchmark"))
    table = [cells(line, "  ") for line in lines[first + 2 : lines.index("", first)]]
    markdown = as_markdown([judgement], gated=True)
    rows = [cells(line, "|") for line in markdown.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 6
    assert [[c for c in row if c] for row in rows] == [[c for c in row if c] for row in table]


def test_markdown_says_the_verdict_first_and_folds_the_rest(judgement):
    markdown = as_markdown([judgement], gated=True)
    before, _, folded = markdown.partition("<details>")
    assert before.splitlines()[0] == "### candidate b against baseline a"
    assert "**Gate failed by b: " in before
    assert "- **down** worse by 0.300" in before
    assert "| up |" in folded and "| up |" not in before
    assert folded.rstrip().endswith("</details>")


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0.5, 0.5], "b is not shown to differ from a on any of 2 benchmarks; overall no difference shown."),
        ([0.5, 0.4], "b is worse than a on 1 of 2 benchmarks; overall worse."),
        ([0.6, 0.3], "b is worse than a on 1 and better than a on 1 of 2 benchmarks; overall worse."),
        ([0.6], "b is better than a on 1 of 1 benchmark (1 not comparable); overall better."),
        ([], "b cannot be compared with a on any benchmark."),
    ],
)
def test_the_sentence(means, expected):
    a = [scored("a", around(0.5), name) for name in ("x", "y")]
    b = [scored("b", around(mean), name) for mean, name in zip(means, ("x", "y"), strict=False)]
    comparison = compare_models(a, b or [scored("b", around(0.5), "z")])
    assert sentence(comparison) == expected


def test_the_gate_in_a_sentence():
    undecided = judge(Comparison("a", "b", (entry(-0.1, None),), NOTHING), Margins())
    assert gate_sentence(undecided, strict=False) == "Gate passed by b. Undecided: x."
    assert gate_sentence(undecided, strict=True) == "Gate failed by b: x."


def test_signed():
    assert [signed(x) for x in (None, 0.0, -0.0, 1e-9, 0.1, -0.12345)] == [
        "–", "0.000", "0.000", "0.000", "+0.100", "-0.123"
    ]  # fmt: skip


def test_grid():
    assert grid(["a", "bb"], [["xyz", "1"], ["x", "100"]], right={1}) == [
        "a     bb", "───  ───", "xyz    1", "x    100"
    ]  # fmt: skip


def test_json_is_strict_and_complete(judgement):
    (content,) = json.loads(json.dumps(as_json([judgement]), allow_nan=False))
    assert content["benchmarks"]["down"]["difference"] == pytest.approx(-0.3)
    assert content["benchmarks"]["lacking"]["seconds"] is None
    assert content["benchmarks"]["down"]["gate"] | {"why": ""} == {"outcome": "fails", "margin": 0.02, "why": ""}
    assert content["overall"]["left_out"] == {
        "lacking": "the candidate has no result", "new": "the baseline has no result"
    }  # fmt: skip
    assert (content["passes"], content["sentence"]) == (False, sentence(judgement.comparison))


# JUnit


def suites(judgements, **kwargs):
    return ElementTree.fromstring(as_junit(judgements, **kwargs).encode())


def test_junit_has_a_test_per_benchmark_and_overall(judgement):
    (suite,) = suites([judgement])
    said = {case.get("name"): [child.tag for child in case] for case in suite}
    assert said == {
        "broken": ["failure"], "down": ["failure"], "lacking": ["failure"], "new": ["skipped"], "up": [],
        "overall": ["failure"],
    }  # fmt: skip
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": 6, "failures": 4, "skipped": 1, "errors": 0}
    times = {case.get("name"): float(case.get("time")) for case in suite}
    assert times == {"broken": 1.5, "down": 1.5, "lacking": 0.0, "new": 1.5, "up": 1.5, "overall": 0.0}
    assert float(suite.get("time")) == sum(times.values())
    down = next(case for case in suite if case.get("name") == "down")
    assert down.find("failure").get("message") == (
        "fails: worse by 0.300, 95 % interval 0.300 … 0.300, beyond the margin of 0.02"
    )


def test_junit_of_what_is_undecided():
    undecided = judge(Comparison("a", "b", (entry(-0.1, None, why="one system"),), NOTHING), Margins())
    (suite,) = suites([undecided])
    assert suite[0].find("system-out").text == "undecided: one system"
    assert suite.get("failures") == "0"
    (suite,) = suites([undecided], strict=True)
    assert suite[0].find("failure").get("message") == "undecided: one system"
    assert suite.get("failures") == "1"


@pytest.mark.parametrize(
    "name", ["<a & 'b'>", 'q"uote', "nul\0 bell\a", "\ud800 lone", "水 \U0001f4a7", "]]>", "\n"]
)
def test_junit_is_valid_for_any_name(name):
    comparison = Comparison(name, "b", (entry(-0.5, None, W, why=name),), NOTHING)
    (suite,) = suites([judge(comparison, Margins())])
    kept = "".join("\ufffd" if c in "\0\a\ud800" else c for c in name)
    assert suite.get("name") == f"b against {kept}"


@pytest.mark.parametrize("name", ["a|b", "*x* <b>", "`y`"])
def test_markdown_is_whole_for_any_name(name):
    comparison = Comparison(name, name, (entry(-0.5, None, W, why=name),), NOTHING)
    markdown = as_markdown([judge(comparison, Margins())], gated=True)
    rows = [line.replace("\\|", "") for line in markdown.splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {9}
    assert "<b>" not in markdown.replace("\\<b\\>", "")
