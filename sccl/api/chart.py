"""Display charts in notebooks, without a network connection."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.api.arguments import check_arguments
from sccl.errors import ParameterError
from sccl.view import charts
from sccl.view.chart_files import PictureSize, render_svg
from sccl.view.text.markup import picture

if TYPE_CHECKING:
    from sccl.view.charts import ChartType


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A picture of a frontier, an algorithm, or a machine.

    Attributes:
        value: Altair chart, which you can change further.
        title: Description of the picture.
        kind: Kind of the chart, as in :func:`plot`. Empty: that of a method.

    Examples:
        >>> import sccl
        >>> sccl.topology("ring:4").plot()
        Chart(ring:4; notebooks display it, .save(path) writes it)
    """

    value: ChartType
    title: str
    kind: str = ""

    def __post_init__(self) -> None:
        if not callable(getattr(self.value, "to_dict", None)):
            raise ParameterError(
                f"sccl.Chart is given {self.value!r:.60}, expected a chart of Altair: use .plot() "
                "of a frontier, an algorithm or a topology"
            )

    @check_arguments
    def save(
        self,
        path: str | PathLike[str],
        *,
        width: float | None = None,
        height: float | None = None,
        scale: float | None = None,
    ) -> Path:
        """Write the chart to a .html, .svg, .png, or .pdf file, and return its path.

        Args:
            width: Width of the whole picture in pixels, for .pdf in points (1/72 inch). Text and
                lines are scaled with it. None: the drawn width, or the one that ``height`` implies.
            height: Height of the whole picture. With both, the picture is centered and keeps its
                proportions.
            scale: For .png: number of pixels in the file per pixel of the screen (default 2).

        Raises:
            InputError: The suffix is unknown, a size is not positive or too large, or the file
                cannot be written.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").plot().save("ring.svg", width=400).name
            'ring.svg'
        """
        size = PictureSize(width, height, scale)
        charts.save_chart(self.value, Path(path), title=f"sccl: {self.title}", size=size)
        return Path(path)

    def __repr__(self) -> str:
        return f"Chart({self.title}; notebooks display it, .save(path) writes it)"

    def _repr_html_(self) -> str:
        return picture(render_svg(self.value), self.title)
