"""Plotting libraries, imported at their first use, since an import takes up to a second."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sccl.errors import ToolError

if TYPE_CHECKING:
    import altair as alt
    import vl_convert

__all__ = ["alt", "vl_convert"]


class _PlotLibrary:
    """A module of the extra ``plot``, imported at the first use of an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            raise ToolError(
                f"charts need {self._name}, which cannot be imported ({error}): "
                "pip install 'sccl[plot]'"
            ) from error
        return getattr(module, attribute)


if not TYPE_CHECKING:
    alt, vl_convert = map(_PlotLibrary, ("altair", "vl_convert"))
