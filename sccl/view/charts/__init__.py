"""Charts of frontiers, times, machines and measurements, and how they are saved."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm
from sccl.view.charts.busy import (
    MOST_LINKS,
    Bar,
    BusyLinks,
    Shares,
    busy_chart,
    shares_chart,
)
from sccl.view.charts.comparison import ComparedSystem, Measured, comparison_chart
from sccl.view.charts.designs import DesignMark, designs_chart
from sccl.view.charts.failures import FailureBar, failures_chart
from sccl.view.charts.frontier import frontier_chart
from sccl.view.charts.grouped import grouped_chart
from sccl.view.charts.heat import arrival_chart, utilisation_chart
from sccl.view.charts.measured import measured_chart
from sccl.view.charts.searches import searches_chart
from sccl.view.charts.steps import COMPUTATION, StepBar, StepRows, steps_chart
from sccl.view.charts.timing import MOST_TIMES, time_chart
from sccl.view.charts.values import FrontierData, lines_of
from sccl.view.drawing.logical import LogicalTopology, logical_chart
from sccl.view.drawing.machine import topology_chart
from sccl.view.save import check_picture, save
from sccl.view.theme import stacked

if TYPE_CHECKING:
    from altair.typing import ChartType as ChartType

__all__ = [
    "COMPUTATION",
    "MOST_LINKS",
    "MOST_TIMES",
    "OF_ALGORITHMS",
    "Bar",
    "BusyLinks",
    "ComparedSystem",
    "DesignMark",
    "FailureBar",
    "FrontierData",
    "LogicalTopology",
    "Measured",
    "Shares",
    "StepBar",
    "StepRows",
    "arrival_chart",
    "busy_chart",
    "check_picture",
    "comparison_chart",
    "designs_chart",
    "failures_chart",
    "frontier_chart",
    "grouped_chart",
    "lines_of",
    "logical_chart",
    "measured_chart",
    "save",
    "searches_chart",
    "shares_chart",
    "stacked",
    "steps_chart",
    "time_chart",
    "topology_chart",
    "utilisation_chart",
]

OF_ALGORITHMS: "dict[str, Callable[[Algorithm], ChartType]]" = {
    "utilisation": utilisation_chart,
    "arrival": arrival_chart,
    "topology": lambda algorithm: topology_chart(algorithm.topology),
}
"""The charts of single algorithms, by their name in verbs and the API."""
