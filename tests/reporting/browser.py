# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, and what it noticed."""

from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def chromium():
    """The browser; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


class Notes:
    """Errors, and requests to anything but the page itself and what it made."""

    def __init__(self, page):
        self.errors, self.requests = [], []
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._note(request.url))

    def _note(self, url):
        if not url.startswith(("data:", "blob:")):
            self.requests.append(url)
