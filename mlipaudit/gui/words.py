# SPDX-License-Identifier: Apache-2.0
"""Plain text, in which back-quotes mark code, as Markdown and as HTML that show it as it is."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!$<>|~:&])")


def markdown(text: str) -> str:
    """For Streamlit's Markdown, which knows formulae, colours and emoji too."""
    parts = _CODE.split(text)
    # Every second part was inside back-quotes, where nothing is special.
    return "".join(f"`{part}`" if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts))


def as_html(text: str) -> str:
    """Escaped."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
