# SPDX-License-Identifier: Apache-2.0
"""From the id of a page to the page, as far as filters let it show; built once per state of the folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import streamlit as st

from mlipaudit.gui.snapshot import MAX_STATES, Moment, Snapshot, snapshot
from mlipaudit.reporting.blocks import Block, Notice, Page
from mlipaudit.reporting.contents import Contents, category_of
from mlipaudit.reporting.pages import benchmark_page, model_page, overview_page, system_page
from mlipaudit.reporting.pages.parts import benchmark_id, model_id
from mlipaudit.reporting.systems import systems_of

OVERVIEW = "overview"
MAX_KEPT = 256
PAUSE_S = 0.05
"""Between two pages that nobody has asked for yet: a reader's own goes first."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Filters:
    """What a reader wants to see; nothing chosen means everything."""

    models: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()

    def models_of(self, contents: Contents) -> list[str]:
        """Models that are left."""
        return [name for name in contents.models if not self.models or name in self.models]

    def benchmarks_of(self, contents: Contents) -> list[str]:
        """Benchmarks that are left."""
        return [name for name in contents.benchmarks if self._shows(name)]

    def _shows(self, benchmark: str) -> bool:
        by_category = not self.categories or category_of(benchmark) in self.categories
        return by_category and (not self.benchmarks or benchmark in self.benchmarks)


def page_of(root: Path, data: Path | None, moment: Moment, page: str, filters: Filters) -> Page:
    """A page of the folder at that moment."""
    return _pages(snapshot(root, data, moment), str(root), moment.key).get(page, filters)


class Pages:
    """Pages of one state of a folder. While a reader looks at the first, the others are built."""

    def __init__(self, shown: Snapshot) -> None:
        self._contents = shown.contents
        self._build = lru_cache(MAX_KEPT)(partial(build, shown))
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._build_ahead, name="pages", daemon=True).start()

    def get(self, page: str, filters: Filters) -> Page:
        """The page with an id, built if it is not there yet."""
        with self._one_at_a_time:
            return self._build(page, filters)

    def _build_ahead(self) -> None:
        benchmarks = map(benchmark_id, self._contents.benchmarks)
        for page in (OVERVIEW, *benchmarks, *map(model_id, self._contents.models)):
            try:
                self.get(page, Filters())
            except Exception as error:  # around a page: who asks for it will be told
                logger.debug("cannot build %s: %s", page, error)
            time.sleep(PAUSE_S)


@st.cache_resource(max_entries=MAX_STATES, show_spinner=False)
def _pages(_snapshot: Snapshot, root: str, key: str) -> Pages:
    return Pages(_snapshot)


def build(shown: Snapshot, page: str, filters: Filters) -> Page:
    """Filters of benchmarks leave alone the page of a benchmark, and those of models that of a model."""
    everything = shown.contents
    of_models = everything.only(models=filters.models_of(everything))
    of_benchmarks = everything.only(benchmarks=filters.benchmarks_of(everything))
    kind, _, name = page.partition("/")
    if page == OVERVIEW:
        return _filtered(overview_page(of_models.only(benchmarks=of_benchmarks.benchmarks)), everything, filters)
    if kind == "benchmark" and name in everything.benchmarks:
        return benchmark_page(of_models, name, shown.structures)
    if kind == "model" and name in everything.models:
        return _filtered(model_page(of_benchmarks, name), everything, filters)
    benchmark, _, system = name.partition("/")
    if kind == "system" and system in systems_in(everything, benchmark):
        return system_page(of_models, benchmark, system, shown.structures)
    return _not_there(page)


def systems_in(contents: Contents, benchmark: str) -> set[str]:
    """Every system that a result on a benchmark has."""
    return {name for record in contents.records_of(benchmark=benchmark) for name in systems_of(record.result)}


def _filtered(page: Page, contents: Contents, filters: Filters) -> Page:
    """With a remark where its means are over fewer benchmarks than there are."""
    names, left = contents.benchmarks, filters.benchmarks_of(contents)
    if len(left) == len(names):
        return page
    notice = Notice(
        f"Filtered: every mean on this page is over {len(left)} of {len(names)} benchmarks.", "warning"
    )
    return Page(page.id, page.title, (notice, *page.blocks), page.subtitle, page.section, page.group, page.names)


def _not_there(page: str) -> Page:
    text = f"There is no page `{page}` for this folder; its result may have gone, or have another name."
    blocks: tuple[Block, ...] = (Notice(text, "warning"),)
    return Page(page, "Not here", blocks)


def raw_record(root: Path, href: str) -> tuple[str, str]:
    """Text of a file in the results folder, and why there is none.

    A name that comes from an address must not lead out of the folder.
    """
    try:
        path = (root / href).resolve()
        if not path.is_relative_to(root.resolve()) or path.suffix != ".json":
            return "", f"`{href}` is no record of this folder."
        text = path.read_text(encoding="utf-8")
        json.loads(text)
    except (OSError, ValueError) as error:
        return "", f"`{href}` cannot be read: {error}"
    return text, ""
