"""The explorer: one page that shows algorithms step by step, and the frontiers they are on.

The page is whole: text, style, script and data are in one file, and its policy lets nothing else be
loaded. What comes from files (names, labels, reasons) travels as JSON in a block that is not
executed; the script only ever sets it as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from sccl.core.files import read_text
from sccl.errors import ParameterError
from sccl.view.page_data import page_data, title
from sccl.view.shown import Shown, Sweep

MAX_SENDS = 100_000
"""Sends of all algorithms of a page, up to which it is small and quick."""

MAX_LINKS = 5_000
"""Links of a machine, up to which a drawing of it is."""

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("model", "marks", "stage", "panels", "tables", "frontier", "app")


def page(shown: Sequence[Shown], sweeps: Sequence[Sweep] = (), *, frontier: bool = False) -> str:
    """Return the explorer as the text of one HTML file: the same bytes for the same input.

    Args:
        shown: at least one.
        sweeps: of the same machines and collectives.
        frontier: whether to start with the frontiers instead of the first algorithm.

    Raises:
        ParameterError: a machine has too many links, or there are too many sends to show.
    """
    _check_size(shown)
    titles = dict.fromkeys(title(one.algorithm) for one in shown)
    style = read_text(_PAGE / "style.css")
    script = "\n".join(read_text(_PAGE / f"{name}.js") for name in _SCRIPTS)
    return Template(read_text(_PAGE / "page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(", ".join(list(titles)[:2])),
        style=style,
        script=script,
        data=_json(page_data(shown, sweeps, frontier=frontier)),
    )


def _check_size(shown: Sequence[Shown]) -> None:
    for one in shown:
        links = len(one.algorithm.topology.links)
        if links > MAX_LINKS:
            raise ParameterError(
                f"{one.file}: topology {one.algorithm.topology.name!r} has {links} links, more "
                f"than the explorer can draw (at most {MAX_LINKS}); see the sends with 'sccl show'"
            )
    sends = sum(s.algorithm.num_sends for s in shown)
    if sends > MAX_SENDS:
        most = max(shown, key=lambda s: s.algorithm.num_sends)
        raise ParameterError(
            f"there are {sends} sends to show ({most.algorithm.num_sends} of them in {most.file}), "
            f"more than a page shows smoothly (at most {MAX_SENDS}); give fewer or smaller files"
        )


def _hash(text: str) -> str:
    """Return a source expression that allows this one inline block."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """Return JSON that ends no script block and no line of JavaScript, whatever its strings are."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII: U+2028 and U+2029 are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
