# SPDX-License-Identifier: Apache-2.0
"""Blocks of a page as Streamlit's widgets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import groupby

import streamlit as st

from mlipaudit.gui.frames import csv_of, frame_of, target_of, text_of
from mlipaudit.gui.molecules import HEIGHT, page_of
from mlipaudit.gui.words import as_html, markdown
from mlipaudit.reporting.blocks import (
    Block,
    Chart,
    Facts,
    Folded,
    Heading,
    Molecule,
    Notice,
    Paragraph,
    Table,
)
from mlipaudit.reporting.colours import Mark

MAX_ROWS, ROW_HEIGHT = 25, 35
"""Of a table that is shown as a whole; a longer one scrolls. Height in pixels."""


@dataclass(frozen=True)
class Drawing:
    """How blocks of one page are drawn."""

    page: str
    """Its id, which keeps the widgets of different pages apart."""
    marks: Mapping[str, Mark]
    go: Callable[[str], None]
    """Leads to the page with an id."""

    def draw(self, blocks: Sequence[Block]) -> None:
        """All of them, structures that follow each other in one row."""
        for kind, group in groupby(blocks, type):
            if kind is Molecule:
                self._molecules([block for block in group if isinstance(block, Molecule)])
                continue
            for block in group:
                self._draw(block)

    @singledispatchmethod
    def _draw(self, block: Block) -> None:
        raise TypeError(f"no way to draw {type(block).__name__}")

    @_draw.register
    def _(self, block: Heading) -> None:
        draw = st.header if block.level == 2 else st.subheader
        draw(markdown(block.text), anchor=False)

    @_draw.register
    def _(self, block: Paragraph) -> None:
        st.markdown(markdown(block.text))

    @_draw.register
    def _(self, block: Notice) -> None:
        draw = {"note": st.info, "warning": st.warning, "failure": st.error}[block.kind]
        draw(markdown(block.text))

    @_draw.register
    def _(self, block: Folded) -> None:
        with st.expander(markdown(block.summary)):
            self.draw(block.blocks)

    @_draw.register
    def _(self, block: Facts) -> None:
        words = [(name, text_of(cell)) for name, cell in block.items if not target_of(cell)]
        rows = "".join(f"<dt>{as_html(name)}</dt><dd>{as_html(text)}</dd>" for name, text in words)
        st.html(f'<dl class="facts">{rows}</dl>')
        for name, cell in block.items:
            if target_of(cell):
                with st.container(horizontal=True, vertical_alignment="center", key=f"fact-{self.page}|{name}"):
                    st.caption(markdown(name), width="content")
                    self.link(text_of(cell), target_of(cell), where="facts")

    @_draw.register
    def _(self, block: Chart) -> None:
        # A copy, for pages are kept and shown to others.
        st.vega_lite_chart(copy.deepcopy(block.spec), alt=block.caption or None, key=f"{self.page}|{block.name}")
        if block.caption:
            st.caption(markdown(block.caption))

    @_draw.register
    def _(self, block: Table) -> None:
        frame = frame_of(block, self.marks)
        key = f"{self.page}|{block.name}"
        leads = any(target_of(cell) for row in block.rows for cell in row)
        st.dataframe(
            frame.styled(),
            hide_index=True,
            height="content" if len(block.rows) <= MAX_ROWS else MAX_ROWS * ROW_HEIGHT,
            column_config=frame.config,
            column_order=frame.order,
            key=key,
            placeholder="",
            alt=block.caption or block.name,
            selection_mode="single-cell",
            on_select=(lambda: self._follow(key, block)) if leads else "ignore",
        )
        self._below(block, key)

    def _below(self, block: Table, key: str) -> None:
        """Caption and download."""
        with st.container(horizontal=True, vertical_alignment="center", key=f"below-{key}"):
            st.caption(markdown(block.caption) or " ", width="stretch")
            st.download_button(
                "CSV",
                csv_of(block),
                f"{block.name}.csv",
                "text/csv",
                key=f"{key}|csv",
                help=f"Download {markdown(block.name)}",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
            )

    def _follow(self, key: str, block: Table) -> None:
        """Go where the selected cell leads; intervals lead nowhere."""
        for row, column in st.session_state[key].selection.cells:
            if column.isdecimal() and (target := target_of(block.rows[row][int(column)])):
                self.go(target)

    def _molecules(self, molecules: Sequence[Molecule]) -> None:
        alt = ", ".join(filter(None, (m.caption for m in molecules)))
        st.iframe(page_of(molecules, dark=is_dark()), height=HEIGHT, alt=f"structure: {alt}")

    def link(self, text: str, target: str, *, where: str) -> None:
        """A word that leads to a page."""
        st.button(markdown(text), key=f"{where}|{target}", type="tertiary", on_click=self.go, args=(target,))


def is_dark() -> bool:
    """Whether the reader's page is dark."""
    return st.context.theme.type == "dark"
