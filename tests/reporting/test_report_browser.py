# SPDX-License-Identifier: Apache-2.0
"""The report of a real run, opened from disk in a browser."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from browser import Notes, chromium

EXAMPLE = Path(__file__).parents[2] / "examples" / "example_model.zip"
BENCHMARKS = ["tautomers", "dihedral_scan", "noncovalent_interactions"]
NAN = """\
import numpy as np
from ase.calculators.calculator import Calculator, all_changes


class NaN(Calculator):
    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": float("nan"), "forces": np.full((len(atoms), 3), np.nan)}


mlipaudit_external_model = NaN()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of four models, one of which answers nothing, its report, and the same numbers as JSON."""
    place = tmp_path_factory.mktemp("report")
    (place / "nan_model.py").write_text(NAN)
    models = [
        "toy",
        "nan_model.py",
        *(["gfn2-xtb"] if has_xtb() else []),
        *([str(EXAMPLE)] if EXAMPLE.exists() else []),
    ]
    command(place, "run", "-rm", "dev", "-b", *BENCHMARKS, "--workers", "0", "--models", *models, expect=1)
    command(place, "report", "results", "-o", "report.html")
    (place / "show.json").write_text(command(place, "show", "results", "--json"))
    return place


def has_xtb():
    from importlib.util import find_spec

    return find_spec("tblite") is not None


def command(place, *arguments, expect=0):
    done = subprocess.run(
        [sys.executable, "-m", "mlipaudit", *arguments], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == expect, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser, folder):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.notes = Notes(page)
    page.goto((folder / "report.html").as_uri())
    yield page
    context.close()


def pages_of(page):
    return page.eval_on_selector_all(".page", "pages => pages.map(page => page.dataset.page)")


def open_page(page, name):
    page.evaluate("name => { location.hash = encodeURI(name) }", name)
    page.wait_for_selector(f'.page.shown[data-page="{name}"]')


def wait_for_pictures(page):
    page.wait_for_function(
        """() => [...document.querySelectorAll('.page.shown .chart, .page.shown .molecule')]
                  .every(figure => figure.dataset.drawn || figure.closest('details:not([open])'))"""
    )


def test_every_page_has_its_pictures_and_asks_nobody(page, folder):
    names = pages_of(page)
    assert {"overview", *(f"benchmark/{name}" for name in BENCHMARKS), "model/toy", "model/nan_model"} <= set(
        names
    )
    charts = molecules = 0
    for name in names:
        open_page(page, name)
        wait_for_pictures(page)
        shown = page.locator(".page.shown")
        drawn = shown.locator(".chart svg.marks").count()
        assert drawn == shown.locator(".chart").count()
        if not name.startswith(("model/", "system/")):
            assert drawn > 0, name
        charts += drawn
        molecules += shown.locator(".molecule canvas").count()
        assert shown.locator(".molecule canvas").count() == shown.locator(".molecule").count()
    assert charts >= 10
    assert molecules >= 6
    assert page.notes.errors == []
    assert {url.partition("#")[0] for url in page.notes.requests} == {(folder / "report.html").as_uri()}


def test_the_numbers_are_those_of_show(page, folder):
    (ranking,) = json.loads((folder / "show.json").read_text())["rankings"]
    for model in ranking["models"]:
        open_page(page, f"model/{model['model']}")
        shown = page.eval_on_selector_all(
            ".page.shown [data-name=scores] tbody tr",
            "rows => Object.fromEntries(rows.map(row => [row.cells[0].innerText, row.cells[2].dataset.value]))",
        )
        expected = {name: task["score"] for name, task in model["benchmarks"].items()}
        assert {name: float(value) for name, value in shown.items()} == {**expected, "overall": model["score"]}


def test_the_worst_system_is_two_clicks_away(page):
    page.click('nav a:text-is("dihedral_scan")')
    page.click(".page.shown [data-name=worst-systems] tbody tr:first-child a")
    assert page.locator(".page.shown").get_attribute("data-page").startswith("system/dihedral_scan/")
    page.go_back()
    assert page.locator(".page.shown").get_attribute("data-page") == "benchmark/dihedral_scan"


def test_raw_records_are_beside_the_report(page, folder):
    open_page(page, "model/toy")
    links = page.eval_on_selector_all(
        ".page.shown [data-name=scores] a[href$='.json']", "links => links.map(a => a.href)"
    )
    assert len(links) == len(BENCHMARKS)
    for link in links:
        path = Path(link.removeprefix("file://"))
        assert path.is_relative_to(folder / "results")
        assert path.exists()


def test_tables_sort_and_can_be_saved(page, tmp_path):
    open_page(page, "overview")
    table = page.locator(".page.shown [data-name=benchmarks-1]")
    table.locator("th button").nth(1).click()
    values = table.locator("tbody tr td:nth-child(2)").evaluate_all(
        "cells => cells.map(cell => +cell.dataset.value)"
    )
    assert values == sorted(values, reverse=True)
    with page.expect_download() as download:
        table.locator("button[data-save=csv]").click()
    download.value.save_as(tmp_path / "table.csv")
    rows = list(csv.reader((tmp_path / "table.csv").open()))
    assert [float(row[1]) for row in rows[1:]] == values
    assert {row[0] for row in rows[1:]} == set(BENCHMARKS)


def test_light_and_dark(page):
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != before
    wait_for_pictures(page)
    assert page.notes.errors == []


def test_nothing_is_cut_off_on_a_phone(page):
    page.set_viewport_size({"width": 375, "height": 800})
    for name in pages_of(page):
        open_page(page, name)
        wait_for_pictures(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, name
    page.click("#menu")
    page.click('nav a:text-is("tautomers")')
    assert page.locator(".page.shown").get_attribute("data-page") == "benchmark/tautomers"
