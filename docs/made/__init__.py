"""Parts of pages that are made of what they are about: commands, Python, file formats, limits.

They are committed, so that pages read whole wherever the repository is shown. ``make reference``
makes them anew, and a test says when that is due.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.made import commands, files, formats, python

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"^<!-- made: (\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
_LIMITS = re.compile(
    r"^<!-- --8<-- \[start:limits\] -->\n(.*?)^<!-- --8<-- ", re.MULTILINE | re.DOTALL
)


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


def _limits() -> str:
    """Return the table of limits, as the README has it."""
    found = _LIMITS.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found, "README.md has no limits between its marks"
    return found[1]


_MADE = {
    "commands": commands.text,
    "files": files.text,
    "outputs": files.outputs,
    "python": python.text,
    "limits": _limits,
    "machines": formats.machines,
    "plans": formats.plans,
    "told": formats.told,
}
