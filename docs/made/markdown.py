"""Escaping of texts for Markdown."""

from __future__ import annotations

import html


def escape(text: str) -> str:
    """Return a text without active Markdown or HTML."""
    return html.escape(text, quote=False).replace("*", r"\*").replace("_", r"\_")


def cell(text: str) -> str:
    """Return a text for a table cell."""
    return escape(text).replace("|", r"\|").replace("\n", " ")
