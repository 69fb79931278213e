# SPDX-License-Identifier: Apache-2.0
"""The report as a file: complete, escaped, relative, and honest about what is missing."""

import base64
import json
import re
import zlib

import pytest
from made_records import failed

from mlipaudit.cli import main
from mlipaudit.reporting.blocks import (
    Chart,
    Column,
    Facts,
    Folded,
    Heading,
    Link,
    ModelName,
    Molecule,
    Notice,
    Page,
    Paragraph,
    ScoreBar,
    Table,
)
from mlipaudit.reporting.cells import edges_of
from mlipaudit.reporting.colours import marks_of
from mlipaudit.reporting.html import embedded, render
from mlipaudit.store import ResultStore

EVIL = "<script>alert(1)</script>"
WATER = "3\nwater\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0"


def page(*blocks, name="overview", title="Overview"):
    return Page(name, title, blocks)


def rendered(*pages, models=("a", "b")):
    return render(pages, title="T", models=models, results_href="results")


def content(text):
    """What is between <main> and its end."""
    return text.partition("<main>")[2].partition("</main>")[0]


def test_every_kind_of_block_and_cell_is_drawn():
    table = Table(
        (Column("x"), Column("score", numeric=True)), (("a", ScoreBar(0.5, (0.25, 0.75), "a")),), "t", "About."
    )
    blocks = [
        Heading("H"),
        Heading("S", 3),
        Paragraph("some `code` here"),
        Notice("n", "failure"),
        Facts((("f", "v"),)),
        table,
        Chart({"mark": "point"}, "c", "what it shows"),
        Molecule(WATER, "w", "H2O"),
        Folded("more", (Paragraph("inside"),)),
    ]
    text = content(rendered(page(*blocks)))
    for part in (
        "<h2>H</h2>",
        "<h3>S</h3>",
        "<code>code</code>",
        "notice failure",
        "<dt>f</dt><dd>v</dd>",
        'data-value="0.5"',
        "0.250 … 0.750",
        'aria-label="what it shows"',
        "<details><summary>more</summary><p>inside</p></details>",
        "left:25.0%;width:50.0%",
    ):
        assert part in text


def test_what_users_name_is_inert():
    cells = (EVIL, ModelName(EVIL), ScoreBar(0.1, None, EVIL), Link(EVIL, href=f"{EVIL}/result.json"))
    blocks = [
        Paragraph(EVIL),
        Notice(EVIL),
        Facts(((EVIL, EVIL),)),
        Table(tuple(Column(EVIL, hint=EVIL) for _ in cells), (cells,), EVIL, EVIL),
        Chart({"title": EVIL}, EVIL, EVIL),
        Molecule(f"1\n{EVIL}\nH 0 0 0", EVIL, EVIL),
    ]
    text = content(rendered(page(*blocks, title=EVIL), models=[EVIL]))
    scripts = re.findall(r"<script[^>]*>", text)
    assert scripts == ['<script type="application/json">'] * 2
    assert "alert(1)" in text


def test_data_of_charts_survives():
    spec = {"title": "</script> & <b> ü \u2028", "values": [1.5, None]}
    text = content(rendered(page(Chart(spec, "c"))))
    found = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert json.loads(found[1]) == spec


def test_large_data_is_compressed_and_survives():
    values = [{"x": i, "y": i**0.5, "name": "</script>"} for i in range(2000)]
    text = embedded(values)
    found = re.fullmatch(r'<script type="application/zlib">([\w+/=]+)</script>', text)
    assert json.loads(zlib.decompress(base64.b64decode(found[1]))) == values
    assert len(text) < len(json.dumps(values)) / 3


def test_links_lead_to_pages_that_are_there_and_to_files_beside_the_report():
    blocks = [
        Facts(
            (
                ("there", Link("b", page="benchmark/b")),
                ("gone", Link("c", page="benchmark/c")),
                ("raw", Link("r", href="my model/b/result.json")),
            )
        )
    ]
    text = content(rendered(page(*blocks), page(name="benchmark/b", title="b")))
    assert '<a href="#benchmark/b">b</a>' in text
    assert "benchmark/c" not in text
    assert '<a href="results/my%20model/b/result.json">r</a>' in text


def test_a_model_has_one_colour_everywhere_and_no_two_share_a_mark():
    names = [f"m{i:02d}" for i in range(24)]
    marks = marks_of(names)
    assert len({(mark.colour, mark.shape) for mark in marks.values()}) == 24
    assert marks_of(reversed(names)) == marks
    text = content(
        rendered(page(Facts((("m", ModelName("m03")), ("s", ScoreBar(1.0, None, "m03"))))), models=names)
    )
    assert set(re.findall(r"#[0-9A-F]{6}", text)) == {marks["m03"].colour}


def test_edges_of_a_cell():
    assert edges_of(None) == []
    edges = edges_of(((2.0, 0.0, 0.0), (0.0, 3.0, 0.0), (0.0, 0.0, 5.0)))
    lengths = sorted(sum(abs(end[axis] - start[axis]) for axis in "xyz") for start, end in edges)
    assert lengths == [2.0] * 4 + [3.0] * 4 + [5.0] * 4


# The command


def test_a_folder_without_results_says_so(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert main(["report", str(tmp_path / "results"), "-o", str(tmp_path / "r.html")]) == 1
    assert "no results" in capsys.readouterr().err
    assert "No result in this folder can be shown." in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"), [(["none"], "no results folder"), (["results", "-o", "."], "is a folder")]
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    assert main(["report", *arguments]) in (1, 2)
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_an_unreadable_result_is_named_and_the_rest_is_shown(tmp_path, capsys):
    store = ResultStore(tmp_path)
    for name in ("tautomers", "reactivity"):
        store.write(failed("a", name))
    (tmp_path / "a" / "reactivity" / "result.json").write_text("{")
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 1
    assert "cannot read" in capsys.readouterr().err
    text = content((tmp_path / "r.html").read_text("utf-8"))
    assert "The result of a on reactivity cannot be read" in text
    assert 'data-page="benchmark/tautomers"' in text
    assert 'data-page="benchmark/reactivity"' in text
    assert "planted" in text
