# SPDX-License-Identifier: Apache-2.0
"""Pages as one HTML file that needs no server and no network: text and tables as they are, pictures drawn when seen."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template
from urllib.parse import quote
from zlib import compress

import mlipaudit
from mlipaudit.reporting.blocks import (
    Block,
    Cell,
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
from mlipaudit.reporting.colours import REFERENCE, Mark, marks_of
from mlipaudit.reporting.tables import number

LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js", "3Dmol-min.js")
SHAPES = {
    "circle": '<circle cx="5" cy="5" r="4.5"/>',
    "square": '<rect x="1" y="1" width="8" height="8"/>',
    "triangle-up": '<path d="M5 .5 9.5 9.3H.5z"/>',
    "diamond": '<path d="M5 0 10 5 5 10 0 5z"/>',
    "cross": '<path d="M3.3 0h3.4v3.3H10v3.4H6.7V10H3.3V6.7H0V3.3h3.3z"/>',
}
SHORT, LONG = 24, 60
"""Letters below which a cell is not broken, and above which it is given room."""
COMPRESSED = 4000
"""Letters from which on data is compressed."""
VISIBLE = 0.01
"""Width of the shortest interval that is drawn on a bar."""
KINDS = {"note": "Note", "warning": "⚠ Attention", "failure": "✕ Failed"}
DOCUMENT = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="mlipaudit $version">
<title>$title</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head>
<body>
<a class="skip" href="#overview">Skip to the overview</a>
<header>
<button id="menu" aria-expanded="false" aria-controls="pages">Menu</button>
<a class="title" href="#overview">$title</a>
<span class="about">mlipaudit $version</span>
<button id="theme">Dark</button>
</header>
<nav id="pages" aria-label="Pages"><div class="inner">$navigation</div></nav>
<main>$pages</main>
<script>$libraries</script>
<script>$script</script>
</body>
</html>
""")


def render(pages: Sequence[Page], *, title: str, models: Sequence[str], results_href: str) -> str:
    """All pages in one document.

    Args:
        pages: the first is shown first.
        title: of the report.
        models: all of the results folder; colours depend on them.
        results_href: relative path from the document to the results folder.
    """
    drawing = _Drawing(marks_of(models), results_href.rstrip("/"), {page.id for page in pages})
    assets = files("mlipaudit.reporting") / "assets"
    return DOCUMENT.substitute(
        version=escape(str(mlipaudit.__version__)),
        title=escape(title),
        style=(assets / "report.css").read_text("utf-8"),
        script=(assets / "report.js").read_text("utf-8"),
        libraries="\n".join((assets / "vendor" / name).read_text("utf-8") for name in LIBRARIES),
        navigation="".join(_navigation(pages)),
        pages="".join(drawing.page(page) for page in pages),
    )


def _navigation(pages: Sequence[Page]) -> Iterator[str]:
    """Links by section and group; pages of systems are reached from their benchmarks."""
    for section, members in groupby((p for p in pages if p.section != "Systems"), key=lambda p: p.section):
        if section:
            yield f"<h2>{section}</h2>"
        for group, listed in groupby(members, key=lambda p: p.group):
            if group:
                yield f"<h3>{escape(group)}</h3>"
            yield f"<ul>{''.join(f'<li>{_page_link(p.id, p.title)}</li>' for p in listed)}</ul>"


def _page_link(page: str, text: str) -> str:
    return f'<a href="#{escape(_fragment(page))}">{escape(text)}</a>'


def _fragment(page: str) -> str:
    """As `encodeURI` of JavaScript writes it."""
    return quote(page, safe="!#$&'()*+,-./:;=?@_~")


def embedded(content: object) -> str:
    """JSON inside a page: nothing in it may end the script; compressed where that saves much."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if len(text) > COMPRESSED:
        packed = b64encode(compress(text.encode(), 9)).decode("ascii")
        return f'<script type="application/zlib">{packed}</script>'
    return f'<script type="application/json">{text.replace("<", chr(92) + "u003c")}</script>'


class _Drawing:
    """Blocks and cells as HTML."""

    def __init__(self, marks: dict[str, Mark], results_href: str, pages: set[str]) -> None:
        self.marks, self.results_href, self.pages = marks, results_href, pages

    def page(self, page: Page) -> str:
        """One section."""
        subtitle = f'<p class="subtitle">{escape(page.subtitle)}</p>' if page.subtitle else ""
        attributes = f'data-page="{escape(page.id)}" data-title="{escape(page.title)}"'
        content = f"<h1>{escape(page.title)}</h1>{subtitle}{self.blocks(page.blocks)}"
        return f'<section class="page" {attributes}>{content}</section>'

    def blocks(self, blocks: Iterable[Block]) -> str:
        """One after the other; structures side by side."""
        parts = []
        for are_molecules, group in groupby(blocks, key=lambda block: isinstance(block, Molecule)):
            text = "".join(self.block(block) for block in group)
            parts.append(f'<div class="molecules">{text}</div>' if are_molecules else text)
        return "".join(parts)

    @singledispatchmethod
    def block(self, block: Block) -> str:
        """One block."""
        raise TypeError(f"no block: {block!r}")

    @block.register
    def _(self, block: Heading) -> str:
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"

    @block.register
    def _(self, block: Paragraph) -> str:
        return f"<p>{_with_code(block.text)}</p>"

    @block.register
    def _(self, block: Notice) -> str:
        kind = f'<span class="kind">{KINDS[block.kind]}</span>'
        return f'<div class="notice {block.kind}" role="note">{kind}<span>{_with_code(block.text)}</span></div>'

    @block.register
    def _(self, block: Facts) -> str:
        items = (f"<dt>{escape(name)}</dt><dd>{self.cell(cell)}</dd>" for name, cell in block.items)
        return f"<dl>{''.join(items)}</dl>"

    @block.register
    def _(self, block: Table) -> str:
        head = "".join(map(_header, block.columns))
        body = "".join(self._row(row, block.columns) for row in block.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        caption = f"<figcaption>{escape(block.caption)}</figcaption>" if block.caption else ""
        tools = '<div class="tools"><button data-save="csv">CSV</button></div>'
        content = f'<div class="scroll">{table}</div>{tools}{caption}'
        return f'<figure class="table" data-name="{escape(block.name)}">{content}</figure>'

    @block.register
    def _(self, block: Chart) -> str:
        canvas = f'<div class="canvas" role="img" aria-label="{escape(block.caption or block.name)}"></div>'
        tools = "".join(f'<button data-save="{kind}">{kind.upper()}</button>' for kind in ("svg", "png"))
        caption = f'<figcaption>{escape(block.caption)}</figcaption><div class="tools">{tools}</div>'
        content = f"{canvas}{caption}{embedded(block.spec)}"
        return f'<figure class="chart" data-name="{escape(block.name)}">{content}</figure>'

    @block.register
    def _(self, block: Molecule) -> str:
        size = int(block.xyz.split("\n", maxsplit=1)[0])
        content = {"xyz": block.xyz, "size": size, "edges": edges_of(block.cell)}
        label = escape(f"Structure of {block.name}, {block.caption}")
        view = f'<div class="view" role="img" aria-label="{label}"></div>'
        caption = f"<figcaption>{escape(block.caption)}</figcaption>"
        return f'<figure class="molecule">{view}{caption}{embedded(content)}</figure>'

    @block.register
    def _(self, block: Folded) -> str:
        return f"<details><summary>{escape(block.summary)}</summary>{self.blocks(block.blocks)}</details>"

    def _row(self, row: Sequence[Cell], columns: Sequence[Column]) -> str:
        cells = (
            f"<td{_class(cell, column)}{_value(cell)}>{self.cell(cell)}</td>"
            for cell, column in zip(row, columns, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    @singledispatchmethod
    def cell(self, cell: Cell) -> str:
        """One cell."""
        raise TypeError(f"no cell: {cell!r}")

    @cell.register
    def _(self, cell: str) -> str:
        return _with_code(cell)

    @cell.register
    def _(self, cell: Link) -> str:
        if cell.href:
            return f'<a href="{escape(f"{self.results_href}/{quote(cell.href)}")}">{escape(cell.text)}</a>'
        return _page_link(cell.page, cell.text) if cell.page in self.pages else escape(cell.text)

    @cell.register
    def _(self, cell: ModelName) -> str:
        link = self.cell(Link(cell.model, page=f"model/{cell.model}"))
        return f'<span class="name">{self._swatch(cell.model)}{link}</span>'

    @cell.register
    def _(self, cell: ScoreBar) -> str:
        if cell.score is None:
            return "–"
        colour = self._mark(cell.model).colour
        fill = f'<span class="fill" style="width:{100 * cell.score:.1f}%;background:{colour}"></span>'
        hint, line = "", ""
        if cell.interval:
            low, high = cell.interval
            hint = f' title="95 % interval {number(low)} … {number(high)}"'
            if high - low >= VISIBLE:
                place = f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"
                line = f'<span class="range" style="{place}"></span>'
        bar = f'<span class="bar" aria-hidden="true">{fill}{line}</span>'
        return f'<span class="score"{hint}>{bar}<span>{escape(number(cell.score))}</span></span>'

    def _mark(self, model: str) -> Mark:
        return self.marks.get(model, Mark(REFERENCE, "circle", (1, 0)))

    def _swatch(self, model: str) -> str:
        mark = self._mark(model)
        attributes = f'class="swatch" viewBox="0 0 10 10" aria-hidden="true" fill="{mark.colour}"'
        return f"<svg {attributes}>{SHAPES[mark.shape]}</svg>"


def _header(column: Column) -> str:
    attributes = ' class="numeric"' if column.numeric else ""
    if column.hint:
        attributes += f' title="{escape(column.hint)}"'
    return f'<th scope="col"{attributes}><button>{escape(column.title)}</button></th>'


def _class(cell: Cell, column: Column) -> str:
    if column.numeric:
        return ' class="numeric"'
    length = len(cell) if isinstance(cell, str) else 0
    return ' class="long"' if length > LONG else ' class="short"' if length < SHORT else ""


def _value(cell: Cell) -> str:
    """A score in full, for sorting and downloads."""
    return f' data-value="{cell.score!r}"' if isinstance(cell, ScoreBar) and cell.score is not None else ""


def _with_code(text: str) -> str:
    """Text in which back-quotes mark code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a lone back-quote is one
        return escape(text)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
