"""Texts as Markdown in which names are only names."""

from __future__ import annotations

import html


def escape(text: str) -> str:
    """Return a text of which nothing is Markdown or HTML."""
    return html.escape(text, quote=False).replace("*", r"\*").replace("_", r"\_")


def cell(text: str) -> str:
    """Return a text for a table."""
    return escape(text).replace("|", r"\|").replace("\n", " ")
