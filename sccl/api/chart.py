"""A chart that a notebook shows, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.api.arguments import checked
from sccl.api.html import picture
from sccl.errors import ParameterError
from sccl.view import charts
from sccl.view.save import Size, svg

if TYPE_CHECKING:
    from sccl.view.charts import ChartType


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A picture of a frontier, an algorithm or a machine.

    Attributes:
        value: the chart of Altair, to be changed further.
        title: what it shows.
    """

    value: ChartType
    title: str

    def __post_init__(self) -> None:
        if not callable(getattr(self.value, "to_dict", None)):
            raise ParameterError(
                f"sccl.Chart is given {self.value!r:.60}, and not a chart of Altair: use .plot() "
                "of a frontier, an algorithm or a topology"
            )

    @checked
    def save(
        self,
        path: str | PathLike[str],
        *,
        width: float | None = None,
        height: float | None = None,
        scale: float | None = None,
    ) -> Path:
        """Write the chart to a file and return its path: .html, .svg, .png or .pdf.

        Args:
            width: of the whole picture, letters and lines with it: in pixels, of .pdf in points (72
                are an inch); None: as it is drawn, or as the height says.
            height: likewise. With both, the picture stands in the middle, undistorted.
            scale: of .png: how many pixels of the file one pixel of the screen becomes (2).

        Raises:
            InputError: the suffix is none of these, a size is not positive or too large, or the
                file cannot be written.
        """
        size = Size(width, height, scale)
        charts.save(self.value, Path(path), title=f"sccl: {self.title}", size=size)
        return Path(path)

    def __repr__(self) -> str:
        return f"Chart({self.title}; in a notebook it shows itself, elsewhere: .save(path))"

    def _repr_html_(self) -> str:
        return picture(svg(self.value), self.title)
