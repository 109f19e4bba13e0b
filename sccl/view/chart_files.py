"""Charts as files: one page that needs nothing else, or a picture."""

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

_SCALE = 2.0  # of PNG files, for screens with small pixels
_MAX_PIXELS = 16_384  # a side of a picture: more takes gigabytes
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
    """The size of a picture. None: as it is drawn.

    Attributes:
        width: in CSS pixels, or in points (1/72 inch) in a PDF.
        height: likewise. If only one of them is given, the aspect ratio is kept.
        scale: pixels of a PNG per CSS pixel.

    Raises:
        ParameterError: one is no positive number, or too large.
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
        """Return width and height of a picture that is drawn as large as this."""
        ratio = height / width
        if self.width is None:
            return (width, height) if self.height is None else (self.height / ratio, self.height)
        return self.width, self.width * ratio if self.height is None else self.height


AS_DRAWN = PictureSize()
"""As it is drawn."""


def save_chart(
    chart: alt.TopLevelMixin, path: Path, title: str = "sccl", size: PictureSize = AS_DRAWN
) -> None:
    """Write a chart to a file, completely or not at all. The suffix selects the format.

    An HTML page contains the code that draws it, so it works without a network. Equal charts give
    equal files.

    Args:
        title: title of a page.
        size: size of the picture.

    Raises:
        ParameterError: the suffix is none of .html, .svg, .png and .pdf, or the size is too large,
            or has a scale in a format without pixels.
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
    """Check that a chart can be written to a file, before work is spent on it.

    Raises:
        ParameterError: the suffix is none of those there are.
        InputError: its folder does not exist or may not be written to.
    """
    if path.suffix.lower() not in {".html", ".png", *_WRITERS} and not is_folder(path):
        suffix = f"its suffix is {path.suffix!r}" if path.suffix else "it has no suffix"
        raise ParameterError(
            f"cannot draw {path.name}: {suffix}, expected .html, .svg, .png or .pdf; rename it"
        )
    check_can_write(path)


def chart_page(chart: alt.TopLevelMixin, title: str, size: PictureSize = AS_DRAWN) -> str:
    """Return a page with a chart and all the code it needs."""
    # Inside a script, no text of the chart may end it.
    text = json.dumps(vega_specification(chart), sort_keys=True).replace("<", "\\u003c")
    return _PAGE.format(title=escape(title), libraries=_libraries(), chart=text, size=_style(size))


@cache
def _libraries() -> str:
    """Return the code that draws charts. To bundle it takes seconds."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def _style(size: PictureSize) -> str:
    """Return how large a page shows the picture, as CSS."""
    if size.width is None and size.height is None:
        return "max-width: 100%; height: auto;"
    sides = {"width": size.width, "height": size.height}
    texts = {name: "auto" if side is None else f"{side:g}px" for name, side in sides.items()}
    return " ".join(f"{name}: {text};" for name, text in texts.items())


def _resize(text: str, size: PictureSize) -> str:
    """Return an SVG with another outer size. Its content is scaled."""
    match = _SVG_SIZE.search(text)
    if size in (AS_DRAWN, PictureSize(scale=size.scale)) or match is None:
        return text
    width, height = size.fit(float(match[1]), float(match[2]))
    return f'{text[: match.start()]}width="{width:g}" height="{height:g}"{text[match.end() :]}'


def render_svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG, with equal text for equal charts."""
    return _renumber_ids(vl_convert.vegalite_to_svg(vega_specification(chart)))


def _renumber_ids(text: str) -> str:
    """Return SVG whose ids count from 0: the renderer counts on from one chart to the next."""
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
    # The writer numbers several fonts in the order of a hash table that changes with each run: so
    # there is one, without its bold face.
    return vl_convert.svg_to_pdf(re.sub(r'\bfont-weight="\w+"', "", text))


_WRITERS: dict[str, Callable[[str], bytes]] = {".svg": str.encode, ".pdf": _render_pdf}
