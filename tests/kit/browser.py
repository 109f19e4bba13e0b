"""A browser, started once for the tests of a file, and pages in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOUR_MS = 3_600_000

Open = Callable[..., "Page"]


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


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a page, and check for errors and network access at the end."""
    wrong: list[str] = []
    contexts = []

    def open_page(text: str, **options: object) -> Page:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        contexts.append(browser.new_context(**options))  # type: ignore[arg-type]
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda r: None if r.url == file.as_uri() else wrong.append(r.url))
        tab.clock.install(time=0)
        tab.goto(file.as_uri())
        tab.clock.pause_at(HOUR_MS)  # otherwise a slow test would see a later time
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
