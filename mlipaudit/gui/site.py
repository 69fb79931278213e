# SPDX-License-Identifier: Apache-2.0
"""What a reader sees: filters and navigation at the side, one page, and whether the folder has changed since.

The page and the filters are in the address, so that a view can be shared and the browser's back button works.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Literal

import streamlit as st

from mlipaudit.gui.building import OVERVIEW, Filters, page_of, raw_record
from mlipaudit.gui.drawing import Drawing
from mlipaudit.gui.snapshot import Moment, Snapshot, snapshot
from mlipaudit.gui.words import markdown
from mlipaudit.reporting.blocks import Page
from mlipaudit.reporting.colours import Mark, marks_of
from mlipaudit.reporting.contents import Contents, category_of
from mlipaudit.reporting.pages.parts import benchmark_id, model_id, system_id, worst_first

POLL_S = 3.0
"""Between two looks at the folder."""
PAGE, MOMENT = "page", "moment"
RECORD = "record/"
"""Beginning of the id of the page of a raw record; its path in the folder follows."""

STYLE = """<style>
  .stMainBlockContainer { padding-top: 2.5rem; max-width: 1500px; }
  .stSidebar [data-testid="stSidebarHeader"] { height: 2.5rem; margin-bottom: 0; }
  .stMainBlockContainer h1 { font-size: 2rem; padding: 0.25rem 0; }
  .stMainBlockContainer h2 { font-size: 1.4rem; }
  .stMainBlockContainer h3 { font-size: 1.1rem; }
  .st-key-navigation { gap: 0; }
  .st-key-navigation button { min-height: 1.75rem; padding: 0 0.4rem; }
  .st-key-navigation button, .st-key-navigation button > div { justify-content: flex-start; }
  [class*="st-key-below-"] { margin-top: -0.75rem; }
  [class*="st-key-below-"] button { min-height: 1.5rem; }
  dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.25rem; padding: 0 !important; }
  dl.facts dt { opacity: 0.65; }
  dl.facts dd { margin: 0; overflow-wrap: anywhere; }
  dl.facts code { font-size: 0.85em; }
</style>"""
TO_THE_TOP = "<script>document.querySelector('[data-testid=stMain]').scrollTo(0, 0) /* {page} */</script>"

logger = logging.getLogger(__name__)


def show(root: Path, data: Path | None = None) -> None:
    """Draw the page that the address asks for."""
    name = root.resolve().name
    st.set_page_config(f"{name} · mlipaudit", layout="wide", initial_sidebar_state="auto")
    st.html(STYLE)
    moment = st.session_state.setdefault(MOMENT, Moment.of(root))
    shown = snapshot(root, data, moment)
    if shown.is_empty:
        _wait(root, shown)
        return
    marks = marks_of(shown.contents.models)
    with st.sidebar:
        st.markdown(f"### mlipaudit · {markdown(name)}")
        _watch(root, moment)
        filters = _filters(shown.contents)
        _navigation(shown.contents, filters, marks)
    _main(root, data, filters, marks)


def go(page: str) -> None:
    """Lead to a page."""
    st.query_params[PAGE] = page


def _main(root: Path, data: Path | None, filters: Filters, marks: Mapping[str, Mark]) -> None:
    moment = st.session_state[MOMENT]
    asked = st.query_params.get(PAGE, OVERVIEW)
    contents = snapshot(root, data, moment).contents
    st.html(TO_THE_TOP.format(page=asked.encode().hex()), unsafe_allow_javascript=True)
    drawing = Drawing(asked, marks, go)
    try:
        _trail(asked, drawing, contents)
        if asked.startswith(RECORD):
            _record(root, asked.removeprefix(RECORD))
        else:
            _draw(page_of(root, data, moment, asked, filters), drawing)
    except Exception as error:  # around a page, which a plug-in may have broken: the others can still be seen
        logger.exception("cannot draw %s", asked)
        st.error(markdown(f"This page cannot be drawn: {type(error).__name__}: {error}"))


def _draw(page: Page, drawing: Drawing) -> None:
    st.title(markdown(page.title), anchor=False)
    if page.subtitle:
        st.markdown(markdown(page.subtitle))
    drawing.draw(page.blocks)


# At the side


@st.fragment(run_every=POLL_S)
def _watch(root: Path, shown: Moment) -> None:
    """Say when the folder has changed, without taking the page away from under the reader's eyes."""
    now = Moment.of(root)
    if now != shown:
        changed = now.changed_since(shown)
        st.info(f"{changed} {'result has' if changed == 1 else 'results have'} changed since.")
    look: Literal["primary", "secondary"] = "secondary" if now == shown else "primary"
    if st.button("Reload", icon=":material/refresh:", type=look, width="stretch", key="reload"):
        _reload(root)


@st.fragment(run_every=POLL_S)
def _wait(root: Path, shown: Snapshot) -> None:
    """Say that there is nothing yet, until there is something."""
    if Moment.of(root) != st.session_state[MOMENT]:
        _reload(root)
    st.title("No results yet", anchor=False)
    st.info(
        f"{markdown(shown.problem or f'There is no result in `{root}`')}. This page looks again every few seconds."
    )
    st.markdown(f"To make some:\n\n    mlipaudit run --models m.zip --run-mode dev --output {root}")


def _reload(root: Path) -> None:
    st.session_state[MOMENT] = Moment.of(root)
    st.rerun()


def _filters(contents: Contents) -> Filters:
    """Three lists, kept in the address; nothing chosen means everything."""
    categories = list(dict.fromkeys(map(category_of, contents.benchmarks)))
    choices = {"model": contents.models, "category": categories, "benchmark": contents.benchmarks}
    labels = {"model": "Models", "category": "Categories", "benchmark": "Benchmarks"}
    chosen = [
        st.multiselect(labels[key], options, key=key, bind="query-params", placeholder="all")
        for key, options in choices.items()
    ]
    return Filters(*map(tuple, chosen))


def _navigation(contents: Contents, filters: Filters, marks: Mapping[str, Mark]) -> None:
    with st.container(key="navigation"):
        _entry("Overview", OVERVIEW)
        for category, names in groupby(filters.benchmarks_of(contents), category_of):
            st.caption(markdown(category))
            for name in names:
                _entry(name, benchmark_id(name))
        st.caption("Models")
        for name in filters.models_of(contents):
            _entry(name, model_id(name), marks[name].colour)


def _entry(text: str, page: str, colour: str = "") -> None:
    here = st.query_params.get(PAGE, OVERVIEW) == page
    key = f"nav-{page.encode().hex()}"
    if colour:
        st.html(f'<style>.st-key-{key} p::before {{ content: "● "; color: {colour}; }}</style>')
    label = f"**{markdown(text)}**" if here else markdown(text)
    st.button(label, key=key, type="tertiary", width="stretch", on_click=go, args=(page,))


# Above and beside a page


def _trail(asked: str, drawing: Drawing, contents: Contents) -> None:
    """The way back, and every system of the benchmark."""
    if asked == OVERVIEW:
        return
    kind, *names = asked.split("/", maxsplit=2)
    benchmark = names[0] if kind in ("benchmark", "system") and names else ""
    left, right = st.columns([2, 1], vertical_alignment="center")
    with left, st.container(horizontal=True):
        drawing.link("Overview", OVERVIEW, where="trail")
        if kind == "system":
            drawing.link(benchmark, benchmark_id(benchmark), where="trail")
        if kind == "record" and names:
            drawing.link(names[0], model_id(names[0]), where="trail")
    if benchmark:
        with right:
            _systems(benchmark, worst_first(contents.records_of(benchmark=benchmark)))


def _systems(benchmark: str, names: list[str]) -> None:
    if not names:
        return
    key = f"systems|{benchmark}"

    def open_chosen() -> None:
        if system := st.session_state[key]:
            go(system_id(benchmark, system))
            st.session_state[key] = None

    st.selectbox(
        "System",
        names,
        index=None,
        key=key,
        on_change=open_chosen,
        placeholder=f"go to a system: {len(names)}, worst first",
        label_visibility="collapsed",
    )


def _record(root: Path, href: str) -> None:
    text, problem = raw_record(root, href)
    st.title(markdown(href), anchor=False)
    if problem:
        st.error(markdown(problem))
        return
    st.download_button("Download", text, href.replace("/", "-"), "application/json", on_click="ignore")
    st.json(text, expanded=1)
