# SPDX-License-Identifier: Apache-2.0
"""What the tests of the browser pages share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def own_main(monkeypatch):
    """Streamlit puts its script in the place of the main program, where processes that are spawned look for it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
