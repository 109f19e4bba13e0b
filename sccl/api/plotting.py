"""Draw files and machines."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from sccl.api.arguments import check_arguments, parse_choice
from sccl.api.chart import Chart
from sccl.core.algorithm import Algorithm
from sccl.core.files.disk import slugify
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.training.plan_files import LoadedTraining, valid_timeline
from sccl.view import charts
from sccl.view.charts import FrontierData, frontier_lines
from sccl.view.charts.chart_sources import (
    ChartKind,
    Source,
    default_chart,
    load_sources,
    source_frontiers,
)
from sccl.view.charts.frontier_data import common_question

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule
    from sccl.view.charts import ChartType

_KINDS: dict[type, str] = {Topology: "a topology", LoadedTraining: "a training plan"}


@check_arguments
def plot(
    *sources: str | PathLike[str],
    what: str | None = None,
    alpha_us: float | None = None,
    gb_per_s: float | None = None,
) -> Chart:
    """Return a picture of algorithms, schedules, frontiers, machines, or training plans.

    Frontiers share one chart. Training plans share a time scale.

    Args:
        sources: Files, folders, patterns, and names of machines.
        what: ``"frontier"``, ``"time"``, ``"utilisation"``, ``"arrival"``, ``"topology"``, or
            ``"timeline"``. None: the kind of the sources determines it.
        alpha_us: For ``"time"``: latency of a step, in microseconds. None: the machine's.
        gb_per_s: For ``"time"``: bandwidth of a lane, in 10^9 bytes/s. None: the machine's.

    Raises:
        InputError: A source cannot be read, fails verification, or has no such chart.

    Examples:
        >>> import sccl
        >>> sccl.plot(sccl.baseline("direct", "allgather", "ring:4").save("direct.json"))
        Chart(allgather-ring-4-schedule-utilisation; notebooks display it, .save(path) writes it)
    """
    if not sources:
        raise ParameterError("sccl.plot is given no source")
    kind = parse_choice("what", what, ChartKind)
    loaded = load_sources(map(str, sources), kind)
    kind = kind or default_chart(loaded)
    if kind is not ChartKind.TIME and (alpha_us, gb_per_s) != (None, None):
        raise ParameterError(
            "alpha_us and gb_per_s apply to the time chart only: ask for what=time, or leave them "
            "out"
        )
    chart, name = _build_chart(loaded, kind, alpha_us, gb_per_s)
    return Chart(chart, slugify(f"{name} {kind.value}"), kind.value)


def _build_chart(
    sources: Sequence[Source], view: ChartKind, alpha_us: float | None, gb_per_s: float | None
) -> tuple[ChartType, str]:
    """Return the chart of several sources, and its name."""
    if view in {ChartKind.FRONTIER, ChartKind.TIME}:
        frontiers = _frontier_data(sources, view)
        single_name = frontiers[0].name if len(frontiers) == 1 else "frontiers"
        chart = (
            charts.frontier_chart(frontiers)
            if view is ChartKind.FRONTIER
            else charts.time_chart(frontiers, alpha_us, gb_per_s)
        )
        return chart, common_question(frontiers) or single_name
    trained = [source for source in sources if isinstance(source, LoadedTraining)]
    if len(trained) == len(sources):  # their panels share scales
        return _training_part(trained, view)
    parts = [_single_chart(source, view) for source in sources]
    chart = charts.stack_charts([part for part, _ in parts]) if len(parts) > 1 else parts[0][0]
    return chart, parts[0][1]


def _frontier_data(sources: Sequence[Source], view: ChartKind) -> list[FrontierData]:
    for source in sources:
        if not isinstance(source, Algorithm | Frontier):
            kind = _KINDS.get(type(source), "a schedule")
            raise ParameterError(
                f"what={view.value} draws frontiers and algorithms, and {kind} is neither; leave "
                "it out"
            )
    return frontier_lines(source_frontiers(sources))


def _single_chart(source: Source, view: ChartKind) -> tuple[ChartType, str]:
    if isinstance(source, LoadedTraining):
        return _training_part([source], view)
    if isinstance(source, Topology) and view is ChartKind.TOPOLOGY:
        return charts.topology_chart(source), source.name
    if not isinstance(source, Algorithm | Topology | Frontier):
        return _schedule_chart(source, view)
    if not isinstance(source, Algorithm):
        kind = "a topology" if isinstance(source, Topology) else "a frontier"
        raise ParameterError(
            f"what={view.value} draws algorithms, and {source.name!r} is {kind}; give the file "
            "of an algorithm ('sccl pareto --output')"
        )
    a = source
    name = f"{a.collective.name} {a.topology.name} c{a.collective.chunks} s{a.steps} r{a.rounds}"
    return charts.ALGORITHM_CHARTS[view](a), name


def _training_part(plans: Sequence[LoadedTraining], view: ChartKind) -> tuple[ChartType, str]:
    if view is not ChartKind.TIMELINE:
        raise ParameterError(
            f"what={view.value} cannot draw {plans[0].name!r}, a training plan: leave it out "
            "to draw its timeline"
        )
    return training_chart(plans), plans[0].name


def training_chart(plans: Sequence[LoadedTraining]) -> ChartType:
    """Return the chart of one iteration of each training plan, on one time scale.

    Raises:
        InputError: A plan fails verification.
    """
    from sccl.view.charts.step_pictures import RunningPlan, step_panels  # noqa: PLC0415 - drawn rarely

    running = [RunningPlan(loaded.plan, valid_timeline(loaded), loaded.name) for loaded in plans]
    return charts.step_gantt_chart(step_panels(running))


def _schedule_chart(schedule: Schedule, view: ChartKind) -> tuple[ChartType, str]:
    """Return the chart of a schedule, and a name for its file."""
    name = f"{schedule.collective.name} {schedule.topology.name} schedule"
    if view is ChartKind.TOPOLOGY:
        return charts.topology_chart(schedule.topology), name
    if view is ChartKind.UTILIZATION:
        from sccl.comparison.simulation_charts import schedule_chart  # noqa: PLC0415 - loads NumPy

        return schedule_chart(schedule), name
    raise ParameterError(
        f"what={view.value} draws algorithms, and {name!r} is a schedule: leave it out to "
        "draw the load of links over time"
    )
