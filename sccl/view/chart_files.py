"""Write charts to files: as a self-contained web page, or as a picture."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from sccl.core.files.disk import (
    check_can_write,
    is_folder,
    write_atomically,
    write_bytes_atomically,
)
from sccl.errors import ParameterError
from sccl.view.plot_libraries import alt, vl_convert
from sccl.view.theme import vega_specification

_SCALE = 2.0  # default scale of PNG files, for high-resolution screens
_MAX_PIXELS = 16_384  # maximum side of a picture. A larger one would take gigabytes
_SVG_SIZE = re.compile(r'\bwidth="([\d.]+)" height="([\d.]+)"')
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 1rem; background: white; }}
#chart {{ max-width: 100%; box-sizing: border-box; }}
#chart svg {{ {size} }}
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


@dataclass(frozen=True, slots=True)
class PictureSize:
    """The size of a picture. If only one of width and height is given, the aspect ratio is kept.

    Attributes:
        width: width in CSS pixels, or in points (1/72 inch) in a PDF. None: as drawn.
        height: height in the same unit. None: as drawn.
        scale: pixels of a PNG per CSS pixel. None: the default.

    Raises:
        ParameterError: a value is not positive, or is too large.
    """

    width: float | None = None
    height: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        for name in ("width", "height", "scale"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 < value <= _MAX_PIXELS):
                raise ParameterError(
                    f"{name} is {value:g}, expected a number above 0, up to {_MAX_PIXELS}"
                )

    def fit(self, width: float, height: float) -> tuple[float, float]:
        """Return the width and height of a picture that was drawn with the given ones."""
        ratio = height / width
        if self.width is None:
            return (width, height) if self.height is None else (self.height / ratio, self.height)
        return self.width, self.width * ratio if self.height is None else self.height


AS_DRAWN = PictureSize()
"""The size as drawn."""


def save_chart(
    chart: alt.TopLevelMixin, path: Path, title: str = "sccl", size: PictureSize = AS_DRAWN
) -> None:
    """Write a chart to a file, completely or not at all. The suffix selects the format.

    An HTML page contains the code that draws it, so it works without a network. Equal charts give
    equal files.

    Raises:
        ParameterError: the suffix is none of .html, .svg, .png and .pdf, the size is too large, or
            a scale is given for a format without pixels.
        InputError: the file cannot be written.
    """
    check_picture(path)
    suffix = path.suffix.lower()
    if size.scale is not None and suffix != ".png":
        raise ParameterError(
            f"scale is {size.scale:g}, but a {suffix} has no pixels: leave it out, or write a .png"
        )
    if suffix == ".html":
        write_atomically(path, chart_page(chart, title, size))
        return
    text = _resize(render_svg(chart), size)
    content = (
        _render_png(text, size.scale or _SCALE) if suffix == ".png" else _WRITERS[suffix](text)
    )
    write_bytes_atomically(path, content)


def check_picture(path: Path) -> None:
    """Check that a chart can be written to a file, before it is drawn.

    Raises:
        ParameterError: the suffix is not supported.
        InputError: the folder does not exist or cannot be written to.
    """
    if path.suffix.lower() not in {".html", ".png", *_WRITERS} and not is_folder(path):
        suffix = f"its suffix is {path.suffix!r}" if path.suffix else "it has no suffix"
        raise ParameterError(
            f"cannot draw {path.name}: {suffix}, expected .html, .svg, .png or .pdf; rename it"
        )
    check_can_write(path)


def chart_page(chart: alt.TopLevelMixin, title: str, size: PictureSize = AS_DRAWN) -> str:
    """Return an HTML page with a chart and all code that it needs."""
    # No text of the chart may end the script block.
    text = json.dumps(vega_specification(chart), sort_keys=True).replace("<", "\\u003c")
    return _PAGE.format(title=escape(title), libraries=_libraries(), chart=text, size=_style(size))


@cache
def _libraries() -> str:
    """Return the JavaScript that draws charts. Bundling it takes seconds."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def _style(size: PictureSize) -> str:
    """Return the CSS for the size of the picture on a page."""
    if size.width is None and size.height is None:
        return "max-width: 100%; height: auto;"
    sides = {"width": size.width, "height": size.height}
    texts = {name: "auto" if side is None else f"{side:g}px" for name, side in sides.items()}
    return " ".join(f"{name}: {text};" for name, text in texts.items())


def _resize(text: str, size: PictureSize) -> str:
    """Return an SVG with another outer size and scaled content."""
    match = _SVG_SIZE.search(text)
    if size in (AS_DRAWN, PictureSize(scale=size.scale)) or match is None:
        return text
    width, height = size.fit(float(match[1]), float(match[2]))
    return f'{text[: match.start()]}width="{width:g}" height="{height:g}"{text[match.end() :]}'


def render_svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG. Equal charts give equal text."""
    return _renumber_ids(vl_convert.vegalite_to_svg(vega_specification(chart)))


def _renumber_ids(text: str) -> str:
    """Renumber the ids of an SVG from 0, since the renderer continues them across charts."""
    ids = dict.fromkeys(re.findall(r'\bid="((?:clip|gradient_)\d+)"', text))
    new = {old: f"{re.sub(r'[0-9]+$', '', old)}{i}" for i, old in enumerate(ids)}
    return re.sub(
        r'(\bid="|url\(#)((?:clip|gradient_)\d+)',
        lambda match: match[1] + new.get(match[2], match[2]),
        text,
    )


def _render_png(text: str, scale: float) -> bytes:
    match = _SVG_SIZE.search(text)
    if match and max(float(match[1]), float(match[2])) * scale > _MAX_PIXELS:
        raise ParameterError(
            f"a picture of {match[1]} x {match[2]} at scale {scale:g} has more than {_MAX_PIXELS} "
            "pixels along a side: give a smaller width, height or scale, or write .svg or .pdf"
        )
    return vl_convert.svg_to_png(text, scale=scale)


def _render_pdf(text: str) -> bytes:
    # The writer numbers fonts in the order of a hash table, which differs between runs. So only one
    # font is used, without its bold face.
    return vl_convert.svg_to_pdf(re.sub(r'\bfont-weight="\w+"', "", text))


_WRITERS: dict[str, Callable[[str], bytes]] = {".svg": str.encode, ".pdf": _render_pdf}
