"""Rectangles of the texts of an SVG picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree as ET

from sccl.view.drawing.layout import Rectangle

_LETTER = 0.5  # average width of a sans-serif letter, relative to the font size


def overlapping(svg: str) -> list[tuple[str, str]]:
    """Return the pairs of texts that cover one another."""
    found = list(texts(ET.fromstring(svg), 0.0, 0.0))  # noqa: S314 - it is our own
    return [(a, b) for (a, p), (b, q) in combinations(found, 2) if p.overlaps(q)]


def texts(node: ET.Element, x: float, y: float) -> Iterator[tuple[str, Rectangle]]:
    """Yield texts with their rectangles, without rotated texts and halos."""
    transform = node.get("transform", "")
    if moved := re.match(r"translate\(([-0-9.e]+), ?([-0-9.e]+)\)", transform):
        x, y = x + float(moved[1]), y + float(moved[2])
    if "rotate" in transform and "rotate(0)" not in transform:
        return
    text = "".join(node.itertext()).strip()
    seen = node.get("opacity") != "0" and node.get("stroke") != "white"
    if node.tag.endswith("text") and text and seen:
        size = float(node.get("font-size", "10px").removesuffix("px"))
        width = _LETTER * size * len(text)
        left = x - {"middle": width / 2, "end": width}.get(node.get("text-anchor", ""), 0.0)
        yield text, Rectangle(left, y - 0.7 * size, left + width, y + 0.1 * size)
        return
    for child in node:
        yield from texts(child, x, y)
