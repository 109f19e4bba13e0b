"""Hooks of the site: render formulas, fill the reference, and load nothing from a network."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.utils import get_relative_url

from docs.made import fill

_REMOTE = "https://unpkg.com/iframe-worker/shim"
_MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDE = {"index.md", "results/comparisons.md", "explanation/related-work.md"}
"""Pages without a table of contents, because their tables take the width."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with rendered formulas and the full reference."""
    if page.file.src_uri in _WIDE:
        page.meta["hide"] = ["toc"]
    markdown = fill(markdown, full=True)
    return _MATH.sub(
        lambda formula: f'<div class="math">{convert(formula[1], display="block")}</div>\n',
        markdown,
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Return a page that loads nothing from a network."""
    return output.replace(_REMOTE, get_relative_url("worker.js", page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    """Return a page without a source, such as the error page, that loads nothing from a network."""
    return output_content.replace(_REMOTE, "/worker.js")
