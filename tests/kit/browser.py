"""A browser, started once for the tests of a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium. Not for the whole run: while it is open, no other test can have a loop."""
    # Only tests with a browser load these modules.
    from playwright.sync_api import sync_playwright

    from tests.kit.projects import tool

    # Without the parts of a browser that one sees, it needs half the time.
    path = shutil.which("chromium-headless-shell") or tool("chromium", "install Debian's package")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path)
        yield opened
        opened.close()
