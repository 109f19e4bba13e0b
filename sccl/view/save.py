"""Charts as files: one page that needs nothing else, or a picture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.files import check_can_write, write_atomically, write_bytes_atomically
from sccl.errors import ParameterError
from sccl.view.theme import specification

if TYPE_CHECKING:
    import altair as alt

_SCALE = 2.0  # of PNG files, for screens with small pixels
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 1rem; background: white; }}
#chart {{ max-width: 100%; box-sizing: border-box; }}
#chart svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
<div id="chart"></div>
<script>
{libraries}
</script>
<script>
const chart = {chart};
vegaEmbed("#chart", chart, {{renderer: "svg", actions: {{export: true, source: false,
 compiled: false, editor: false}}}});
</script>
</body>
</html>
"""


def save(chart: alt.TopLevelMixin, path: Path, title: str = "sccl") -> None:
    """Write a chart to a file, whole or not at all; the suffix says what it becomes.

    A page carries the code that draws it, so it works without a network. Equal charts give equal
    files.

    Args:
        title: of a page.

    Raises:
        ParameterError: the suffix is none of .html, .svg, .png and .pdf.
        InputError: the file cannot be written.
    """
    check_picture(path)
    if path.suffix.lower() == ".html":
        write_atomically(path, page(chart, title))
        return
    content = _WRITERS[path.suffix.lower()](svg(chart))
    write_bytes_atomically(path, content)


def check_picture(path: Path) -> None:
    """Check that a chart can be written to a file, before work is spent on it.

    Raises:
        ParameterError: the suffix is none of those there are.
        InputError: its folder does not exist or may not be written to.
    """
    if path.suffix.lower() not in {".html", *_WRITERS} and not path.is_dir():
        suffix = f"its suffix is {path.suffix!r}" if path.suffix else "it has no suffix"
        raise ParameterError(
            f"cannot draw {path.name}: {suffix}, expected .html, .svg, .png or .pdf; rename it"
        )
    check_can_write(path)


def page(chart: alt.TopLevelMixin, title: str) -> str:
    """Return a page with a chart and all the code it needs."""
    import vl_convert  # noqa: PLC0415 - loads much

    libraries = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Inside a script, no text of the chart may end it.
    text = json.dumps(specification(chart), sort_keys=True).replace("<", "\\u003c")
    return _PAGE.format(title=escape(title), libraries=libraries, chart=text)


def svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG; equal charts give equal text."""
    import vl_convert  # noqa: PLC0415

    return _numbered_anew(vl_convert.vegalite_to_svg(specification(chart)))


def _numbered_anew(text: str) -> str:
    """Return SVG whose ids count from 0: the renderer counts on from one chart to the next."""
    ids = dict.fromkeys(re.findall(r'\bid="((?:clip|gradient_)\d+)"', text))
    new = {old: f"{re.sub(r'[0-9]+$', '', old)}{i}" for i, old in enumerate(ids)}
    return re.sub(
        r'(\bid="|url\(#)((?:clip|gradient_)\d+)',
        lambda found: found[1] + new.get(found[2], found[2]),
        text,
    )


def _png(text: str) -> bytes:
    import vl_convert  # noqa: PLC0415

    return vl_convert.svg_to_png(text, scale=_SCALE)


def _pdf(text: str) -> bytes:
    import vl_convert  # noqa: PLC0415

    # The writer numbers several fonts in the order of a hash table that changes with each run: so
    # there is one, without its bold face.
    return vl_convert.svg_to_pdf(re.sub(r'\bfont-weight="\w+"', "", text))


_WRITERS: dict[str, Callable[[str], bytes]] = {".svg": str.encode, ".png": _png, ".pdf": _pdf}
