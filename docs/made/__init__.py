"""Generated parts of pages: commands, Python API, and file formats.

They are committed, so that pages are complete wherever the repository is shown. ``make reference``
generates them, and a test fails if they are out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.made import commands, files, formats, python

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"^<!-- made: (\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return the pages with generated parts."""
    paths = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in paths if PART.search(page.read_text(encoding="utf-8"))]


def fill(text: str) -> str:
    """Return a page with up-to-date generated parts.

    Raises:
        KeyError: A part has an unknown name.
    """
    return PART.sub(
        lambda part: f"<!-- made: {part[1]} -->\n\n{_MADE[part[1]]().strip()}\n\n<!-- end -->", text
    )


_MADE = {
    "commands": commands.text,
    "files": files.text,
    "outputs": files.outputs,
    "python": python.text,
    "machines": formats.machines,
    "plans": formats.plans,
    "options": formats.options,
}
