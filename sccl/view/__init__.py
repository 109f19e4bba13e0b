"""Pictures of results: where ranks are drawn, and charts. It reads values and computes none."""

from typing import TYPE_CHECKING

from sccl.view.frontier import frontier_chart
from sccl.view.heat import arrival_chart, utilisation_chart
from sccl.view.layout import Box, Layout, layout
from sccl.view.machine import topology_chart
from sccl.view.measured import measured_chart
from sccl.view.save import check_picture, save
from sccl.view.theme import stacked
from sccl.view.timing import MOST_TIMES, time_chart
from sccl.view.values import CostPoint, FrontierData

if TYPE_CHECKING:
    from altair.typing import ChartType as ChartType

__all__ = [
    "MOST_TIMES",
    "Box",
    "CostPoint",
    "FrontierData",
    "Layout",
    "arrival_chart",
    "check_picture",
    "frontier_chart",
    "layout",
    "measured_chart",
    "save",
    "stacked",
    "time_chart",
    "topology_chart",
    "utilisation_chart",
]
