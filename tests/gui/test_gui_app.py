# SPDX-License-Identifier: Apache-2.0
"""The browser pages without a browser: the script that Streamlit runs, its parts, and the command."""

import csv
import io
import shutil
import socket
import sys
from pathlib import Path

import pytest
from planted import command

streamlit = pytest.importorskip("streamlit", reason="needs the extra `gui`")

from planted_results import EXACT, FAILED, MODELS, NEAR, NEAR_SCORE, PARTIAL, PARTIAL_SCORE, plant_results  # noqa: E402
from streamlit.testing.v1 import AppTest  # noqa: E402

import mlipaudit.gui  # noqa: E402
from mlipaudit.gui.building import Filters, raw_record  # noqa: E402
from mlipaudit.gui.drawing import Drawing  # noqa: E402
from mlipaudit.gui.frames import csv_of, frame_of, target_of  # noqa: E402
from mlipaudit.gui.molecules import page_of  # noqa: E402
from mlipaudit.gui.snapshot import Moment  # noqa: E402
from mlipaudit.gui.words import as_html, markdown  # noqa: E402
from mlipaudit.reporting.blocks import (  # noqa: E402
    Chart,
    Column,
    Facts,
    Folded,
    Heading,
    Link,
    ModelName,
    Molecule,
    Notice,
    Paragraph,
    ScoreBar,
    Table,
)
from mlipaudit.reporting.cells import edges_of  # noqa: E402
from mlipaudit.reporting.colours import PALETTE, REFERENCE, marks_of  # noqa: E402
from mlipaudit.reporting.contents import open_results  # noqa: E402

SCRIPT = Path(mlipaudit.gui.__file__).with_name("app.py")
MARKS = marks_of(MODELS)
PAGES = [
    "overview",
    "benchmark/tautomers",
    "benchmark/inference_speed",
    *(f"model/{model}" for model in MODELS),
    f"system/tautomers/{FAILED}",
    f"record/{EXACT}/tautomers/result.json",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return plant_results(tmp_path_factory.mktemp("gui") / "results").root


@pytest.fixture
def visit(monkeypatch):
    """Opens a page of a folder, as a browser that asks for that address would."""

    def open_page(folder, page=None, **filters):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(folder)])
        app = AppTest.from_file(str(SCRIPT), default_timeout=60)
        for key, value in ({"page": page} if page else {}).items() | filters.items():
            app.query_params[key] = value
        return app.run()

    return open_page


def words(app):
    """All titles, notices and text on a page."""
    kinds = (app.title, app.header, app.markdown, app.info, app.warning, app.error, app.caption)
    return "\n".join(element.value.replace("\\", "") for kind in kinds for element in kind)


# Pages


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn(visit, results, page):
    app = visit(results, page)
    assert not app.exception
    assert "cannot be drawn" not in words(app)
    assert (
        app.title[0].value.replace("\\", "") == page.partition("/")[2].removeprefix("tautomers/")
        or page == "overview"
    )


def test_scores_are_those_of_the_folder(visit, results):
    table = visit(results, "benchmark/tautomers").dataframe[0].value
    scores = dict(zip(table["0"], table["1"], strict=True))
    assert scores == {
        f"● {EXACT}": 1.0,
        f"● {NEAR}": pytest.approx(NEAR_SCORE),
        f"● {PARTIAL}": pytest.approx(PARTIAL_SCORE),
    }


def test_filters_leave_the_rest_out_and_say_so(visit, results):
    app = visit(results, model=NEAR, category="Small Molecules")
    assert app.dataframe[0].value["1"].tolist() == [f"● {NEAR}"]
    assert app.dataframe[0].value["2"].tolist() == [pytest.approx(NEAR_SCORE)]
    assert "over 1 of 2 benchmarks" in words(app)
    assert "over 1 of 2 benchmarks" not in words(visit(results, model=NEAR))


def test_a_filter_for_something_unknown_filters_nothing(visit, results):
    app = visit(results, model="no such model")
    assert not app.exception
    assert len(app.dataframe[0].value) == len(MODELS)


def test_a_model_keeps_its_colour_when_others_are_filtered_out(results):
    contents = open_results(results)
    assert contents.only(models=[PARTIAL]).models == [PARTIAL]
    assert contents.only(models=[PARTIAL]).only(benchmarks=["tautomers"]).coloured == sorted(MODELS)


def test_filters_choose_by_category_and_name(results):
    contents = open_results(results)
    assert Filters().benchmarks_of(contents) == ["inference_speed", "tautomers"]
    assert Filters(categories=("General",)).benchmarks_of(contents) == ["inference_speed"]
    assert Filters(categories=("General",), benchmarks=("tautomers",)).benchmarks_of(contents) == []
    assert Filters(models=(NEAR,)).models_of(contents) == [NEAR]


@pytest.mark.parametrize(
    "page", ["nonsense", "benchmark/", "benchmark/none", "model/none", "system/tautomers/none", "system/"]
)
def test_a_page_that_is_not_there_says_so(visit, results, page):
    app = visit(results, page)
    assert not app.exception
    assert "There is no page" in words(app)


def test_a_broken_page_leaves_the_others_alone(visit, results, monkeypatch):
    def break_down(*_, **__):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("mlipaudit.gui.building.model_page", break_down)
    app = visit(results, f"model/{EXACT}", benchmark="tautomers")
    assert not app.exception
    assert "This page cannot be drawn: ZeroDivisionError: planted" in words(app)


# A folder that changes


@pytest.mark.parametrize("kind", ["missing", "empty", "a file"])
def test_a_folder_without_results_waits(visit, tmp_path, kind):
    folder = tmp_path / "later"
    if kind == "empty":
        folder.mkdir()
    elif kind == "a file":
        folder.write_text("", "utf-8")
    app = visit(folder)
    assert not app.exception
    assert app.title[0].value == "No results yet"
    assert "looks again every few seconds" in words(app)


def test_an_unreadable_result_is_shown(visit, results, tmp_path):
    folder = shutil.copytree(results, tmp_path / "results")
    file = folder / NEAR / "tautomers" / "result.json"
    file.write_text(file.read_text("utf-8")[:100], "utf-8")
    for page in PAGES:
        assert not visit(folder, page).exception
    assert f"The result of {NEAR} on tautomers cannot be read: not JSON, or cut short" in words(visit(folder))


def test_a_change_is_noticed_and_read_when_asked_for(visit, results, tmp_path):
    folder = shutil.copytree(results, tmp_path / "results")
    app = visit(folder)
    assert "changed since" not in words(app)
    shutil.rmtree(folder / NEAR / "tautomers")
    (folder / EXACT / "tautomers" / "result.json").write_text("{", "utf-8")
    app.run()
    assert "2 results have changed since" in words(app)
    assert len(app.dataframe[0].value) == len(MODELS)
    app.button(key="reload").click().run()
    assert not app.exception
    assert "changed since" not in words(app)
    assert f"The result of {EXACT} on tautomers cannot be read" in words(app)
    assert f"{NEAR} has no result yet on: tautomers" in words(app)


def test_a_moment_is_told_from_another_by_times_and_sizes(results, tmp_path):
    folder = shutil.copytree(results, tmp_path / "results")
    before = Moment.of(folder)
    assert before == Moment.of(folder)
    assert before.key == Moment.of(folder).key
    (folder / "run.json").write_text("{}", "utf-8")
    assert Moment.of(folder) != before
    assert Moment.of(folder).changed_since(before) == 0
    (folder / EXACT / "tautomers" / "result.json").write_text("{}", "utf-8")
    assert Moment.of(folder).changed_since(before) == 1
    assert Moment.of(tmp_path / "none").files == frozenset()


@pytest.mark.parametrize(
    "href",
    [
        "../secret.json",
        "/etc/passwd",
        "toy/../../secret.json",
        "run.json/../../secret.json",
        "none.json",
        "a\0b.json",
    ],
)
def test_no_file_outside_of_the_folder_is_shown(results, href):
    (results.parent / "secret.json").write_text('"secret"', "utf-8")
    text, problem = raw_record(results, href)
    assert text == ""
    assert problem


# Blocks


TABLE = Table(
    columns=(Column("model"), Column("score", numeric=True), Column("error (Å)", numeric=True), Column("page")),
    rows=(
        (ModelName(EXACT), ScoreBar(1 / 3, (0.25, 0.5), EXACT), "0.5", Link("here", page="benchmark/x")),
        (ModelName(NEAR), ScoreBar(None, None, NEAR), "–", Link("file", href="m/b/result.json")),
        ("none", "non_finite", "12", ""),
    ),
    name="table",
)
BLOCKS = (
    Heading("A heading"),
    Heading("A smaller one", level=3),
    Paragraph("costs $5 and $6, `a_b` *not* bold :red[not red]"),
    Notice("note"),
    Notice("warning", "warning"),
    Notice("failure", "failure"),
    Facts((("words", "text"), ("link", Link("there", page="benchmark/y")), ("model", ModelName(EXACT)))),
    TABLE,
    Chart({"mark": "point", "data": {"values": [{"x": 1}]}, "encoding": {}}, "chart", "caption"),
    Molecule("1\n\nH 0 0 0", "hydrogen", "H", cell=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))),
    Folded("more", (Paragraph("inside"), Table((Column("empty"),), (), "empty"))),
)


def draw_all():
    import test_gui_app

    from mlipaudit.gui.drawing import Drawing

    Drawing("page", test_gui_app.MARKS, lambda _: None).draw(test_gui_app.BLOCKS)


def test_every_kind_of_block_is_drawn(monkeypatch):
    monkeypatch.setattr("mlipaudit.gui.molecules._library", lambda: "")
    app = AppTest.from_function(draw_all, default_timeout=60).run()
    assert not app.exception
    assert [element.value for element in (*app.info, *app.warning, *app.error)] == ["note", "warning", "failure"]
    assert len(app.dataframe) == 2
    assert app.expander[0].label == "more"


def test_an_unknown_block_is_refused():
    with pytest.raises(TypeError, match="no way to draw str"):
        Drawing("page", {}, lambda _: None).draw(["text"])  # type: ignore[list-item]


def test_a_download_has_full_precision_and_intervals_of_its_own():
    assert list(csv.reader(io.StringIO(csv_of(TABLE)))) == [
        ["model", "score", "score low", "score high", "error (Å)", "page"],
        [EXACT, repr(1 / 3), "0.25", "0.5", "0.5", "here"],
        [NEAR, "", "", "", "–", "file"],
        ["none", "non_finite", "", "", "12", ""],
    ]
    assert csv_of(Table((Column("a"), Column("b")), (), "empty")) == "a,b\n"


def test_a_frame_has_numbers_where_they_are_sorted():
    frame = frame_of(TABLE, MARKS)
    assert frame.data["1"] == [1 / 3, None, None]
    assert frame.data["1 beside"] == ["0.250 … 0.500", "", "non_finite"]
    assert frame.data["2"] == [0.5, None, 12.0]
    assert frame.data["0"] == [f"● {EXACT}", f"● {NEAR}", "none"]
    assert frame.styles["0"][0].startswith(f"text-decoration: underline; color: {PALETTE[0]}")
    assert frame.styles["0"][2] == ""


def bars(models_of_columns):
    """A table with a score in each column."""
    cells = tuple(ScoreBar(0.5, (0.4, 0.6), model) for model in models_of_columns)
    return frame_of(Table(tuple(Column(f"c{i}") for i in range(len(cells))), (cells, cells), "bars"), MARKS)


def test_intervals_of_a_wide_table_are_hidden():
    assert bars([EXACT, NEAR]).hidden == set()
    assert bars([EXACT] * 5).hidden == {f"{i} beside" for i in range(1, 5)}
    assert bars([EXACT, NEAR] * 3).hidden == {f"{i} beside" for i in range(6)}


def test_a_column_of_one_model_has_its_colour():
    frame = bars([NEAR])
    assert frame.config["0"]["type_config"]["color"] == PALETTE[1]
    mixed = Table((Column("a"),), ((ScoreBar(0.5, None, EXACT),), (ScoreBar(0.5, None, NEAR),)), "mixed")
    assert frame_of(mixed, MARKS).config["0"]["type_config"]["color"] == REFERENCE


@pytest.mark.parametrize(
    ("cell", "page"),
    [
        ("text", ""),
        (ScoreBar(0.5), ""),
        (ModelName("m"), "model/m"),
        (Link("x", page="benchmark/b"), "benchmark/b"),
        (Link("x", href="m/b/result.json"), "record/m/b/result.json"),
    ],
)
def test_where_cells_lead(cell, page):
    assert target_of(cell) == page


def test_text_is_shown_as_it_is():
    assert markdown("a_b *c* `d_e` $x$") == r"a\_b \*c\* `d_e` \$x\$"
    assert as_html("<b> `x<y`") == "&lt;b&gt; <code>x&lt;y</code>"


def test_a_cell_has_twelve_edges_of_its_lengths():
    edges = edges_of([(2.0, 0.0, 0.0), (0.0, 3.0, 0.0), (0.0, 0.0, 4.0)])
    lengths = [sum(abs(start[axis] - end[axis]) for axis in "xyz") for start, end in edges]
    assert sorted(lengths) == [2.0] * 4 + [3.0] * 4 + [4.0] * 4
    assert edges_of(None) == []


def test_a_name_cannot_end_the_script(monkeypatch):
    monkeypatch.setattr("mlipaudit.gui.molecules._library", lambda: "")
    page = page_of([Molecule("1\n</script><b>\nH 0 0 0", "x", "<i>")], dark=False)
    assert "</script><b>" not in page
    assert "&lt;i&gt;" in page


# The command


def test_a_port_in_use_is_named(results):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = command("gui", results, "--port", port, "--no-browser")
    assert (done.code, done.out) == (2, "")
    assert f"cannot serve at 127.0.0.1, port {port}: Address already in use; choose another --port" in done.err


def test_a_host_that_is_not_there_is_named(results):
    done = command("gui", results, "--no-browser", "--address", "no.such.host.invalid")
    assert done.code == 2
    assert "mlipaudit: error: cannot serve at no.such.host.invalid, port 8501:" in done.err


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_a_port_that_is_none_is_refused(results, port):
    done = command("gui", results, "--no-browser", "--port", port)
    assert done.code == 2
    assert "port" in done.err
    assert done.out == ""


def test_without_streamlit_the_command_says_what_to_install(results, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = command("gui", results)
    assert done.code == 2
    assert 'pip install "mlipaudit[gui]"' in done.err
