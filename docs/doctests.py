"""Examples in docstrings become blocks of code on the site, wherever they stand."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^(>>> .*(?:\n.+)*)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences what starts with ``>>>``, up to the next empty line."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a class, function or module that is read."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
