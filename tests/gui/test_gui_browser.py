# SPDX-License-Identifier: Apache-2.0
"""The browser pages in Chromium, served by the command: no error of ours, and no request to anywhere else."""

import contextlib
import csv
import io
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("streamlit", reason="needs the extra `gui`")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}")

from planted_results import (  # noqa: E402
    EXACT,
    FAILED,
    MODELS,
    NEAR,
    NEAR_SCORE,
    NUM_PAIRS,
    PARTIAL,
    PARTIAL_SCORE,
    plant_results,
)

from mlipaudit.reporting.colours import marks_of  # noqa: E402

COMMAND = "import sys; from mlipaudit.cli import main; sys.exit(main())"
ROW = 35
"""Height of a row of a table, in pixels."""
LEADERS, BENCHMARKS = "leaderboard-1", "Scores by benchmark."
SECONDS = 15_000
"""Limit of every wait, in milliseconds."""


@contextlib.contextmanager
def serving(folder, errors):
    """The command at work; gives its process and address. `errors` takes what it writes to stderr."""
    arguments = [sys.executable, "-c", COMMAND, "gui", str(folder), "--port", "0", "--no-browser"]
    with (
        errors.open("w") as stream,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stream, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            yield process, re.search(r"http://127\.0\.0\.1:\d+", line).group()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return plant_results(tmp_path_factory.mktemp("browser") / "results").root


@pytest.fixture(scope="module")
def address(results):
    errors = results.with_name("stderr.txt")
    with serving(results, errors) as (_, address):
        yield address
    assert "Traceback" not in errors.read_text("utf-8")


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=options)
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        context.set_default_timeout(SECONDS)
        playwright.expect.set_options(timeout=SECONDS)
        yield context
        browser.close()


@pytest.fixture
def page(chromium):
    """A page that complains of errors, and of requests to other hosts."""
    page = chromium.new_page()
    complaints, hosts = [], set()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    page.on("websocket", lambda socket: hosts.add(urlsplit(socket.url).hostname))
    yield page
    page.close()
    assert complaints == []
    assert hosts - {"", None} == {"127.0.0.1"}


def visit(page, address, query=""):
    """Open an address; the server may still be starting."""
    for _ in range(100):
        with contextlib.suppress(playwright.Error):
            page.goto(f"{address}/?{query}")
            break
        time.sleep(0.1)
    playwright.expect(page.locator("h1")).to_be_visible()


def title_is(page, text):
    playwright.expect(page.locator("h1")).to_have_text(text)


def table(page, name):
    """A table, by its caption or name, once its cells are there."""
    found = page.get_by_role("region", name=name, exact=True)
    found.locator("canvas table td").first.wait_for(state="attached")
    found.scroll_into_view_if_needed()
    return found


def cells(page, name):
    """Rows of a table, as a screen reader finds them."""
    rows = table(page, name).locator("canvas table tbody tr").all()
    return [row.locator("td").all_text_contents() for row in rows]


def click_cell(page, name, row, across=40):
    """Click into a row of a table, so many pixels from the left."""
    table(page, name).click(position={"x": across, "y": (row + 1.5) * ROW})


def saved(page, click):
    """What is downloaded by a click: name and text."""
    with page.expect_download() as waiting:
        click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def query_of(page):
    return parse_qs(urlsplit(page.url).query)


def go_to(page, name):
    page.locator(".st-key-navigation").get_by_role("button", name=name, exact=False).first.click()


# A folder as it is


def test_the_overview_opens(page, address):
    visit(page, address)
    title_is(page, "Overview")
    assert [row[1] for row in cells(page, LEADERS)] == [f"● {model}" for model in (EXACT, PARTIAL, NEAR)]
    playwright.expect(page.get_by_test_id("stVegaLiteChart").first).to_be_visible()


def test_a_filter_is_kept_in_the_address(page, address):
    visit(page, address)
    box = page.get_by_test_id("stMultiSelect").filter(has_text="Models").locator("input")
    box.fill(NEAR)
    box.press("Enter")
    page.wait_for_url(f"**model={NEAR}*")
    box.press("Escape")
    playwright.expect(table(page, LEADERS).locator("canvas table tbody tr")).to_have_count(1)
    assert [row[1] for row in cells(page, LEADERS)] == [f"● {NEAR}"]
    visit(page, address, urlsplit(page.url).query)
    assert [row[1] for row in cells(page, LEADERS)] == [f"● {NEAR}"]
    style = "e => getComputedStyle(e, '::before').color"
    colour = page.locator(".st-key-navigation").get_by_role("button", name=NEAR).locator("p").evaluate(style)
    assert colour == "rgb({}, {}, {})".format(*bytes.fromhex(marks_of(MODELS)[NEAR].colour[1:]))


def test_from_a_score_to_the_system_and_back(page, address):
    visit(page, address)
    rows = [row[0] for row in cells(page, BENCHMARKS)]
    click_cell(page, BENCHMARKS, rows.index("tautomers"))
    title_is(page, "tautomers")
    assert query_of(page) == {"page": ["benchmark/tautomers"]}
    box = page.get_by_placeholder(f"go to a system: {NUM_PAIRS}, worst first")
    box.fill("urea")
    box.press("Enter")
    title_is(page, "urea_isourea")
    frame = page.frame_locator("iframe")
    playwright.expect(frame.locator("body[data-drawn=yes]")).to_be_visible()
    assert frame.locator("canvas").count() == 2
    page.go_back()
    title_is(page, "tautomers")
    page.go_back()
    title_is(page, "Overview")


def test_a_failed_system_is_one_click_away(page, address):
    visit(page, address, "page=benchmark/tautomers")
    assert [row[:3] for row in cells(page, "failures")] == [[f"● {PARTIAL}", FAILED, "non_finite"]]
    width = table(page, "failures").bounding_box()["width"]
    click_cell(page, "failures", 0, across=0.3 * width)
    title_is(page, FAILED)
    playwright.expect(page.get_by_text(f"{PARTIAL}: non_finite: planted: energy is nan")).to_be_visible()


def test_tables_and_pictures_are_downloaded(page, address):
    visit(page, address, "page=benchmark/tautomers")
    table(page, "failures")  # the last one: then everything above is there
    name, content = saved(page, page.get_by_role("button", name="CSV", exact=True).first.click)
    assert name == "results-1.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [(row["model"], row["coverage"], row["failures"]) for row in rows] == [
        (EXACT, "32/32", ""),
        (PARTIAL, "31/32", "non_finite"),
        (NEAR, "32/32", ""),
    ]
    assert [float(row["score"]) for row in rows] == pytest.approx([1.0, PARTIAL_SCORE, NEAR_SCORE])
    page.get_by_test_id("stVegaLiteChart").first.hover()
    _, content = saved(page, page.get_by_role("button", name="Download as PNG").first.click)
    assert content[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_raw_record_is_shown_and_downloaded(page, address, results):
    visit(page, address, f"page=record/{NEAR}/tautomers/result.json")
    name, content = saved(page, page.get_by_role("button", name="Download").click)
    assert name == f"{NEAR}-tautomers-result.json"
    assert content == (results / NEAR / "tautomers" / "result.json").read_bytes()


# A folder that is being written


def test_a_store_that_is_being_written(page, address, results, tmp_path):
    visit(page, address, f"page=model/{NEAR}")
    kept = shutil.copytree(results, tmp_path / "kept")
    file = results / NEAR / "tautomers" / "result.json"
    for text in ("", "{", file.read_text("utf-8")[:200]):
        file.write_text(text, "utf-8")
        go_to(page, "tautomers")
        title_is(page, "tautomers")
        go_to(page, NEAR)
        title_is(page, NEAR)
    shutil.rmtree(results / EXACT)
    playwright.expect(page.get_by_text("3 results have changed since")).to_be_visible()
    page.get_by_role("button", name="Reload").click()
    playwright.expect(page.get_by_text("changed since")).to_have_count(0)
    go_to(page, "Overview")
    playwright.expect(page.get_by_text(f"The result of {NEAR} on tautomers cannot be read")).to_be_visible()
    playwright.expect(
        page.get_by_text(f"{EXACT} has no result yet on: tautomers, inference_speed")
    ).to_be_visible()
    shutil.copytree(kept, results, dirs_exist_ok=True)
    playwright.expect(page.get_by_text("3 results have changed since")).to_be_visible()
    page.get_by_role("button", name="Reload").click()
    playwright.expect(page.get_by_text("cannot be read")).to_have_count(0)
    assert page.get_by_test_id("stException").count() == 0


def test_a_folder_that_is_not_there_yet_and_the_end(page, results, tmp_path):
    folder, errors = tmp_path / "later", tmp_path / "stderr.txt"
    with serving(folder, errors) as (process, address):
        visit(page, address)
        title_is(page, "No results yet")
        shutil.copytree(results, folder)
        title_is(page, "Overview")
        page.goto("about:blank")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) in (0, 130)
    assert errors.read_text("utf-8") == ""


def test_pages_switch_quickly(page, address, record_property):
    """Measured, not judged: a shared machine may be busy."""
    visit(page, address)
    times = {}
    for _ in range(2):
        for name in ("tautomers", "inference_speed", NEAR, "Overview"):
            start = time.perf_counter()
            go_to(page, name)
            title_is(page, name)
            times[name] = time.perf_counter() - start
    record_property("seconds", times)
    print(times)
    assert set(times) == {"tautomers", "inference_speed", NEAR, "Overview"}
