"""Charts of frontiers, times, machines and measurements, and how they are saved."""

from typing import TYPE_CHECKING

from sccl.view.charts.frontier import frontier_chart
from sccl.view.charts.heat import arrival_chart, utilisation_chart
from sccl.view.charts.measured import measured_chart
from sccl.view.charts.timing import MOST_TIMES, time_chart
from sccl.view.charts.values import FrontierData, lines_of
from sccl.view.drawing.layout import Box, Layout, layout
from sccl.view.drawing.machine import topology_chart
from sccl.view.save import check_picture, save
from sccl.view.theme import stacked

if TYPE_CHECKING:
    from altair.typing import ChartType as ChartType

__all__ = [
    "MOST_TIMES",
    "Box",
    "FrontierData",
    "Layout",
    "arrival_chart",
    "check_picture",
    "frontier_chart",
    "layout",
    "lines_of",
    "measured_chart",
    "save",
    "stacked",
    "time_chart",
    "topology_chart",
    "utilisation_chart",
]
