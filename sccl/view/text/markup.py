"""Generate HTML for notebooks and LaTeX tables. All names are escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_TABLE = "border-collapse:collapse;margin:0.4em 0"
_CELL = "padding:0.15em 0.9em 0.15em 0;text-align:left;border-bottom:1px solid rgba(128,128,128,.4)"


def heading(text: str) -> str:
    """Return a heading in HTML."""
    return f"<div><strong>{escape(text)}</strong></div>"


def paragraph(text: str) -> str:
    """Return a line of text in HTML."""
    return f"<div>{escape(text)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in HTML."""
    first = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in head)
    others = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table style="{_TABLE}"><tr>{first}</tr>{others}</table>'


def picture(svg: str, alt: str) -> str:
    """Return an SVG picture as an HTML image, so that its ids are private and no script runs."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}" style="max-width:100%">'
    )


_SPECIAL = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}


class Latex(str):
    """LaTeX source. Notebooks display it as text, and typeset it in a LaTeX document."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def escape_text(value: object) -> str:
    """Return a value as one line of escaped LaTeX text."""
    line = " ".join(str(value).split())
    return "".join(_SPECIAL.get(char, char) for char in line if char.isprintable())


def tabular(
    head: Sequence[str],
    columns: str,
    parts: Mapping[str, Iterable[Sequence[object]]],
    caption: str | None = None,
    label: str | None = None,
) -> Latex:
    """Return a LaTeX table with the rules of booktabs.

    Args:
        columns: Column specification, such as ``"rl"``.
        parts: Rows of each part, by its title. An empty title is omitted.
        caption: Caption. With a caption or a label, the table floats.
        label: Label for references. Characters other than letters, digits, and ``:-_./`` are
            replaced by ``-``.
    """
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _row(head)]
    for name, rows in parts.items():
        above = escape_text(name)
        title = [rf"\multicolumn{{{len(head)}}}{{l}}{{\emph{{{above}}}}} \\"] if above else []
        lines += [r"\midrule", *title, *map(_row, rows)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption is None and label is None:
        return Latex("\n".join(lines))
    says = [rf"\caption{{{escape_text(caption)}}}"] if caption is not None else []
    if label is not None:
        said = re.sub(r"[^\w:./-]", "-", label)
        says.append(rf"\label{{{said}}}")
    floating = [r"\begin{table}", r"\centering", *says, *lines, r"\end{table}"]
    return Latex("\n".join(floating))


def _row(cells: Sequence[object]) -> str:
    return rf"{' & '.join(map(escape_text, cells))} \\"
