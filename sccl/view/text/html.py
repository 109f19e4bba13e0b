"""Write HTML for notebooks that uses the page's colors and escapes all names."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

_TABLE = "border-collapse:collapse;margin:0.4em 0"
_CELL = "padding:0.15em 0.9em 0.15em 0;text-align:left;border-bottom:1px solid rgba(128,128,128,.4)"


def heading(text: str) -> str:
    """Return a heading."""
    return f"<div><strong>{escape(text)}</strong></div>"


def paragraph(text: str) -> str:
    """Return a line of text."""
    return f"<div>{escape(text)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    first = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in head)
    others = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table style="{_TABLE}"><tr>{first}</tr>{others}</table>'


def picture(svg: str, alt: str) -> str:
    """Return a picture as an image, so that its ids are private and no script in it runs."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}" style="max-width:100%">'
    )
