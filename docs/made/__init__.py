"""Generated parts of pages: commands, Python API, and file formats.

Pages of the repository hold a summary of each part. The site (``docs/hooks.py``) replaces it by the
full reference. ``make reference`` generates the summaries. A test fails if they are out of date.
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


def fill(text: str, *, full: bool = False) -> str:
    """Return a page with up-to-date generated parts.

    Args:
        full: Whether parts hold the full reference, as on the site, or a summary.

    Raises:
        KeyError: A part has an unknown name.
    """
    return PART.sub(
        lambda part: (
            f"<!-- made: {part[1]} -->\n\n{_MADE[part[1]][full]().strip()}\n\n<!-- end -->"
        ),
        text,
    )


_MADE = {
    "commands": (commands.summary, commands.full),
    "common": (commands.common, commands.common),
    "files": (files.summary, files.full),
    "outputs": (files.outputs_summary, files.outputs),
    "python": (python.summary, python.full),
    "machines": (formats.machines, formats.machines),
    "plans": (formats.plans, formats.plans),
    "options": (formats.options, formats.options),
}
"""The functions that make a part's summary and its full text."""
