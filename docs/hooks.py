"""Hooks of the site: render formulas, fill the reference, and load nothing from a network."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

from docs.made import commands, fill

_REMOTE = "https://unpkg.com/iframe-worker/shim"
_MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = "reference/commands.md"
_WIDE = {"index.md", "results/comparisons.md", "explanation/related-work.md"}
"""Pages without a table of contents, because their tables take the width."""


def on_config(config: Any) -> None:
    """List the pages of commands in the navigation, below their index."""
    for section in config.nav:
        for entry in section.get("Reference", []) if isinstance(section, dict) else ():
            if _COMMANDS in entry.values():
                pages = [{word: _page_of(word)} for word in commands.pages()]
                entry["Commands"] = [_COMMANDS, *pages]


def on_files(files: Any, config: Any) -> None:
    """Generate a page for each command."""
    for word, text in commands.pages().items():
        files.append(File.generated(config, _page_of(word), content=text))


def _page_of(word: str) -> str:
    return f"{_COMMANDS.removesuffix('.md')}/{word}.md"


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
