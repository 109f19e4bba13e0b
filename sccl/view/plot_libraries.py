"""The libraries that draw, each loaded when something of it is first used: that takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    import altair as alt
    import vl_convert
else:
    alt, vl_convert = map(lazy_loader.load, ("altair", "vl_convert"))

__all__ = ["alt", "vl_convert"]
