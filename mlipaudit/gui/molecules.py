# SPDX-License-Identifier: Apache-2.0
"""Structures as a page of their own, which draws them with 3Dmol.js and needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template

from mlipaudit.reporting.blocks import Molecule
from mlipaudit.reporting.cells import edges_of

HEIGHT = 330
"""Pixels of the page."""

PAGE = Template("""<!doctype html>
<meta charset="utf-8">
<style>
  body { margin: 0; font: 14px system-ui, sans-serif; color: $text; display: flex; gap: 12px; }
  figure { flex: 1; margin: 0; min-width: 0; }
  .view { position: relative; height: 290px; border: 1px solid #8884; border-radius: 8px; overflow: hidden; }
  figcaption { padding-top: 6px; opacity: 0.75; text-align: center; }
</style>
$figures
<script>$library</script>
<script>
  for (const [i, molecule] of $molecules.entries()) {
    const view = $$3Dmol.createViewer(document.getElementById("view-" + i), { backgroundAlpha: 0 });
    view.addModel(molecule.xyz, "xyz");
    const many = view.selectedAtoms({}).length > 1500;
    view.setStyle({}, many ? { line: {} } : { stick: { radius: 0.13 }, sphere: { scale: 0.24 } });
    for (const [start, end] of molecule.edges) view.addLine({ start, end, color: "gray" });
    view.zoomTo();
    view.render();
  }
  document.body.dataset.drawn = "yes";
</script>
""")


def page_of(molecules: Sequence[Molecule], *, dark: bool) -> str:
    """All of them side by side."""
    figures = "".join(
        f'<figure><div class="view" id="view-{i}"></div><figcaption>{html.escape(m.caption)}</figcaption></figure>'
        for i, m in enumerate(molecules)
    )
    # A name in an XYZ file must not end the script.
    content = json.dumps([{"xyz": m.xyz, "edges": edges_of(m.cell)} for m in molecules]).replace("</", "<\\/")
    text = "#fafafa" if dark else "#31333f"
    return PAGE.substitute(figures=figures, library=_library(), molecules=content, text=text)


@cache
def _library() -> str:
    vendor = files("mlipaudit.reporting") / "assets" / "vendor"
    return (vendor / "3Dmol-min.js").read_text(encoding="utf-8")
