"""Docstrings in Google's style as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from docs.made.markdown import escape

_TITLES = {
    "Args": "Takes",
    "Attributes": "Has",
    "Examples": "Examples",
    "Raises": "Raises",
    "Returns": "Returns",
}
_SECTION = re.compile(rf"^({'|'.join(_TITLES)}):\n((?:(?: .*)?\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"^(\*?\w+): (.*(?:\n +.*)*)", re.MULTILINE)
_CODE = re.compile(r"(?::\w+:)?(`+)(.+?)\1", re.DOTALL)


def markdown(text: str) -> str:
    """Return a docstring with its sections as lists and its examples as code."""
    blocks: list[str] = []
    rest = text.strip() + "\n"
    while section := _SECTION.search(rest):
        blocks += _prose(rest[: section.start()])
        content = inspect.cleandoc(f"\n{section[2]}")
        entries = _prose(content) if section[1] == "Examples" else [_items(content)]
        blocks += [f"**{_TITLES[section[1]]}**", *entries]
        rest = rest[section.end() :]
    blocks += _prose(rest)
    return "\n\n".join(blocks)


def _prose(text: str) -> Iterator[str]:
    """Yield paragraphs, and examples from ``>>>`` to the next empty line."""
    for part in re.split(r"\n\n+", text.strip()):
        if part.startswith(">>>"):
            yield f"```pycon\n{part}\n```"
        elif part:
            yield line(part)


def _items(text: str) -> str:
    items = _ITEM.findall(text)
    if not items:
        return line(text)
    return "\n".join(f"- `{name}`: {line(description)}" for name, description in items)


def line(text: str) -> str:
    """Return a paragraph in one line, with code as Markdown and all other markup escaped."""
    joined = " ".join(text.split())
    parts, end = [], 0
    for code in _CODE.finditer(joined):
        parts += [escape(joined[end : code.start()]), f"`{code[2].lstrip('~')}`"]
        end = code.end()
    return "".join([*parts, escape(joined[end:])])
