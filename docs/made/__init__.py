"""Parts of pages that are made of what they are about: commands, Python, file formats.

They are committed, so that pages read whole wherever the repository is shown. ``make reference``
makes them anew, and a test says when that is due.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.made import commands, files, formats, python

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"^<!-- made: (\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that have such parts."""
    every = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in every if PART.search(page.read_text(encoding="utf-8"))]


def filled(text: str) -> str:
    """Return a page with its parts as they are now.

    Raises:
        KeyError: a part has the name of none.
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
    "told": formats.told,
}
