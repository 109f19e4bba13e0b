"""A chart that a notebook shows, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sccl import view
from sccl.api.arguments import checked
from sccl.api.html import picture
from sccl.view.save import svg

if TYPE_CHECKING:
    from sccl.view import ChartType


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A picture of a frontier, an algorithm or a machine.

    Attributes:
        value: the chart of Altair, to be changed further.
        title: what it shows.
    """

    value: ChartType
    title: str

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the chart to a file and return its path: .html, .svg, .png or .pdf.

        Raises:
            InputError: the suffix is none of these, or the file cannot be written.
        """
        view.save(self.value, Path(path), title=f"sccl: {self.title}")
        return Path(path)

    def __repr__(self) -> str:
        return f"Chart({self.title}; in a notebook it shows itself, elsewhere: .save(path))"

    def _repr_html_(self) -> str:
        return picture(svg(self.value), self.title)
