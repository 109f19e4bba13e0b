"""Draw frontiers, times, machines and measurements as charts, and save them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm
from sccl.view.chart_files import check_picture, save_chart
from sccl.view.charts.bar_charts import FailureBar, failures_chart, grouped_chart, searches_chart
from sccl.view.charts.design_scatter import DesignMark, designs_chart
from sccl.view.charts.frontier_chart import frontier_chart
from sccl.view.charts.frontier_data import FrontierData, frontier_lines
from sccl.view.charts.heat_maps import arrival_chart, utilization_chart
from sccl.view.charts.link_activity import (
    MAX_LINKS,
    ActivityShares,
    Bar,
    LinkActivity,
    link_activity_chart,
    shares_chart,
)
from sccl.view.charts.measurement_lines import measured_chart
from sccl.view.charts.step_gantt import COMPUTATION, StepBar, StepPanel, step_gantt_chart
from sccl.view.charts.system_times import SystemTimes, TimeMeasure, comparison_chart
from sccl.view.charts.time_by_size import MAX_TIMES, time_chart
from sccl.view.drawing.logical_topology import LogicalTopology, logical_chart, logical_topology
from sccl.view.drawing.topology_drawing import topology_chart
from sccl.view.theme import stack_charts

if TYPE_CHECKING:
    from altair.typing import ChartType as ChartType

__all__ = [
    "ALGORITHM_CHARTS",
    "COMPUTATION",
    "MAX_LINKS",
    "MAX_TIMES",
    "ActivityShares",
    "Bar",
    "DesignMark",
    "FailureBar",
    "FrontierData",
    "LinkActivity",
    "LogicalTopology",
    "StepBar",
    "StepPanel",
    "SystemTimes",
    "TimeMeasure",
    "arrival_chart",
    "check_picture",
    "comparison_chart",
    "designs_chart",
    "failures_chart",
    "frontier_chart",
    "frontier_lines",
    "grouped_chart",
    "link_activity_chart",
    "logical_chart",
    "logical_topology",
    "measured_chart",
    "save_chart",
    "searches_chart",
    "shares_chart",
    "stack_charts",
    "step_gantt_chart",
    "time_chart",
    "topology_chart",
    "utilization_chart",
]

ALGORITHM_CHARTS: "dict[str, Callable[[Algorithm], ChartType]]" = {
    "utilisation": utilization_chart,
    "arrival": arrival_chart,
    "topology": lambda algorithm: topology_chart(algorithm.topology),
}
"""Charts of single algorithms, by their names in commands and the API."""
