"""Draw simulations: the load of links over time, and times by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from sccl.collectives import Spec, recover_spec
from sccl.comparison.plan_simulation import (
    SimulatedCollective,
    SimulationRun,
    SimulationSource,
    run_together,
)
from sccl.comparison.simulation_output import RunPart
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.formatting import format_count
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.prove.bounds.time_cuts import CompletionTimeBound
from sccl.sim import Timeline
from sccl.sim.settings import SimulationSettings
from sccl.synth.limits import MAX_CUT_RANKS
from sccl.synth.packing.by_time.time_bound import lower_bound_curve
from sccl.view import charts
from sccl.view.charts import ActivityShares, Bar, LinkActivity

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

_PARTS = 160
"""Number of time intervals for which the utilization of links is drawn."""

_MAX_BARS = 4000
"""Number of transfers above which transfers of a link that nearly touch are drawn as one bar."""

_NEAR = 1 / 800
"""Fraction of the total time that is less than a pixel."""

_MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class ChartedDemand:
    """The problem of a simulated collective.

    Attributes:
        topology: Machine.
        spec: Collective.
        size_bytes: Nominal size of a rank's buffer.
        rank_bytes: Size in bytes for which the lower bound holds. It is smaller than the nominal
            size if chunks have smaller sizes.
        model: Alpha model.
    """

    topology: Topology
    spec: Spec
    size_bytes: int
    rank_bytes: int
    model: AlphaModel


@dataclass(frozen=True, slots=True)
class ChartedRun:
    """The data of a simulation for charts.

    Attributes:
        shares: Utilization of all links over time.
        links: Transfers of each link. None: not drawn.
        demands: Problem of each collective that ran.
    """

    shares: ActivityShares
    links: LinkActivity | None
    demands: tuple[ChartedDemand, ...]


def chart_run(run: SimulationRun, *, is_single: bool) -> ChartedRun:
    """Return the data of a simulation for charts.

    Args:
        run: Simulation.
        is_single: Whether it is the only one, so that its links are drawn.
    """
    timeline = run.timeline
    name = " and ".join(part.source.name for part in run.parts)
    shares = ActivityShares(name, timeline.finish_us, tuple(timeline.utilization(_PARTS).tolist()))
    demands = tuple(
        _build_demand(part, timeline.topology, timeline.clock.model) for part in run.parts
    )
    return ChartedRun(shares, _link_activity(run, shares) if is_single else None, demands)


def _build_demand(
    part: SimulatedCollective, topology: Topology, model: AlphaModel
) -> ChartedDemand:
    collective = part.source.collective
    min_bytes = min(part.size_bytes, int(collective.served_bytes(part.chunk_bytes)))
    return ChartedDemand(topology, recover_spec(collective), part.size_bytes, min_bytes, model)


def schedule_chart(schedule: Schedule) -> ChartType:
    """Return a chart of the load of links over time in a verified schedule."""
    run = run_together(
        [SimulationSource(schedule.topology.name, None, schedule, schedule.topology)],
        None,
        SimulationSettings(),
    )
    links = chart_run(run, is_single=True).links
    assert links is not None
    return charts.link_activity_chart(links)


def check_lines(plans: int) -> None:
    """Check that the number of plans does not exceed the number of lines in a chart.

    Raises:
        ParameterError: It does.
    """
    if plans > _MAX_LINES:
        raise ParameterError(
            f"there are {plans} files, expected at most {_MAX_LINES} in a chart: give fewer"
        )


def simulation_chart(charted_runs: Sequence[ChartedRun], runs: Sequence[RunPart]) -> ChartType:
    """Return the chart of simulations.

    For one simulation, it shows the load of its links over time. For several plans at one size, it
    shows their utilization over time. Otherwise it shows completion times by size.
    """
    if len(charted_runs) == 1 and charted_runs[0].links is not None:
        lower_bound = max(us for _, us in _lower_bounds(charted_runs))
        return charts.link_activity_chart(
            replace(charted_runs[0].links, lower_bound_us=lower_bound)
        )
    names = {charted_run.shares.name for charted_run in charted_runs}
    titles = {f"{p.collective} on {p.topology}" for run in runs for p in run.collectives}
    title = titles.pop() if len(titles) == 1 else "Simulations"
    if len(names) == len(charted_runs):
        size = format_bytes(runs[0].collectives[0].size_bytes)
        lower_bound = min(us for _, us in _lower_bounds(charted_runs))
        return charts.shares_chart(
            [charted_run.shares for charted_run in charted_runs], f"{title}, {size}", lower_bound
        )
    rows = [*_time_rows(charted_runs, runs), *_bound_rows(runs), *_lower_bound_rows(charted_runs)]
    return charts.measured_chart(
        rows, "size", "time", "series", title=title, x_title="Size (bytes)",
        y_title="Time (\u00b5s)", log_y=True, x_bytes=True,
    )  # fmt: skip


def _time_rows(
    charted_runs: Sequence[ChartedRun], runs: Sequence[RunPart]
) -> Iterator[dict[str, object]]:
    for charted_run, run in zip(charted_runs, runs, strict=True):
        for part in run.collectives:
            name = (
                part.program or part.file if len(run.collectives) > 1 else charted_run.shares.name
            )
            yield {"size": part.size_bytes, "time": part.finish_us, "series": name}


def _bound_rows(runs: Sequence[RunPart]) -> Iterator[dict[str, object]]:
    """Yield the lowest bound of each size, if all plans have one. Their chunks may differ."""
    parts = [part for run in runs for part in run.collectives]
    if len({(part.collective, part.topology) for part in parts}) > 1:
        return
    for size in dict.fromkeys(part.size_bytes for part in parts):
        bounds = [part.bound_us for part in parts if part.size_bytes == size]
        if all(bounds):
            lower_bound = min(bound for bound in bounds if bound)
            yield {"size": size, "time": lower_bound, "series": "lower bound for these chunks"}


def _lower_bound_rows(charted_runs: Sequence[ChartedRun]) -> Iterator[dict[str, object]]:
    """Yield the lower bound at each size, if all plans solve the same problem."""
    if (
        len(
            {
                (demand.topology, demand.spec)
                for charted_run in charted_runs
                for demand in charted_run.demands
            }
        )
        > 1
    ):
        return
    by_size: dict[int, float] = {}
    for size, us in _lower_bounds(charted_runs):
        by_size[size] = min(us, by_size.get(size, us))
    for size, us in by_size.items():
        if us:
            yield {"size": size, "time": us, "series": "lower bound for every chunk count"}


def _lower_bounds(charted_runs: Sequence[ChartedRun]) -> Iterator[tuple[int, float]]:
    """Yield the size and the lower bound in microseconds of each collective. 0: no bound.

    The bound also holds for concurrent collectives, since others only reduce the bandwidth.
    """
    demands = [demand for charted_run in charted_runs for demand in charted_run.demands]
    sizes: dict[tuple[Topology, Spec, AlphaModel], set[int]] = {}
    for demand in demands:
        sizes.setdefault((demand.topology, demand.spec, demand.model), set()).add(demand.rank_bytes)
    curves: dict[tuple[Topology, Spec, AlphaModel], CompletionTimeBound | None] = {}
    for demand_key, rank_sizes in sizes.items():
        topology, spec, model = demand_key
        curves[demand_key] = None
        if topology.ranks <= MAX_CUT_RANKS:
            with suppress(InputError):
                curves[demand_key] = lower_bound_curve(topology, spec, sorted(rank_sizes), model)
    for demand in demands:
        curve = curves[demand.topology, demand.spec, demand.model]
        yield demand.size_bytes, float(curve.us(demand.rank_bytes)) if curve else 0.0


# --- links ---------------------------------------------------------------------------------------


def _link_activity(run: SimulationRun, shares: ActivityShares) -> LinkActivity:
    timeline = run.timeline
    path = timeline.critical_path()
    places = _select_links(timeline, [step.link for step in path])
    critical = {step.row for step in path}
    bars: list[Bar] = []
    together = len(timeline.link) > _MAX_BARS
    for place, link in enumerate(places):
        link_bars = _link_bars(timeline, place, link, critical)
        bars += _join_bars(link_bars, timeline.finish_us * _NEAR) if together else link_bars
    links = timeline.topology.links
    title = ", ".join(f"{p.source.collective.name} on {p.source.topology.name}, "
                      f"{format_bytes(p.size_bytes)}" for p in islice(run.parts, 1))  # fmt: skip
    more = f" and {format_count(len(run.parts) - 1, 'other')}" if len(run.parts) > 1 else ""
    return LinkActivity(
        title=f"{title}{more}: {timeline.finish_us:.6g} \u00b5s",
        notes=tuple(_notes(run, len(places))),
        shares=shares,
        links=tuple(f"{links[k].src} \u2192 {links[k].dst}" for k in places),
        bars=tuple(bars),
    )


def _notes(run: SimulationRun, shown_links: int) -> Iterator[str]:
    yield f"{run.stepping or 'scheduled times'}, alpha {run.timeline.clock.model}"
    links = len(run.timeline.topology.links)
    if shown_links < links:
        yield f"{shown_links} of {links} links: the critical path, then the busiest links"


def _select_links(timeline: Timeline, path: Iterable[int]) -> list[int]:
    links = range(len(timeline.topology.links))
    if len(links) <= charts.MAX_LINKS:
        return list(links)
    busy = timeline.busy().tolist()
    by_load = sorted(links, key=lambda link: (-busy[link], link))
    return sorted(islice(dict.fromkeys((*reversed(list(path)), *by_load)), charts.MAX_LINKS))


def _link_bars(timeline: Timeline, place: int, link: int, critical: set[int]) -> list[Bar]:
    rows = (timeline.link == link).nonzero()[0]
    rows = rows[timeline.start[rows].argsort(kind="stable")]
    carried = timeline.messages.carried_chunks()
    first, end = carried.message.searchsorted((timeline.message[rows], timeline.message[rows] + 1))
    to_us = timeline.clock.us
    return [
        Bar(place, to_us(start), to_us(free), _chunks_text(chunks), row in critical)
        for row, start, free, chunks in zip(
            rows.tolist(), timeline.start[rows].tolist(), timeline.free[rows].tolist(),
            (carried.chunk[i:j].tolist() for i, j in zip(first, end, strict=True)), strict=True,
        )
    ]  # fmt: skip


def _chunks_text(chunks: Sequence[int]) -> str:
    return f"chunk{'s' * (len(chunks) > 1)} {', '.join(map(str, chunks))}"


def _join_bars(bars: Iterable[Bar], near_us: float) -> list[Bar]:
    """Join bars of a link that nearly touch, if both or neither are on the critical path."""
    joined: list[Bar] = []
    counts: list[int] = []
    for bar in bars:
        last = joined[-1] if joined else bar
        if joined and last.critical == bar.critical and bar.since_us - last.until_us < near_us:
            counts[-1] += 1
            label = f"{counts[-1]} transfers"
            joined[-1] = Bar(bar.link, last.since_us, bar.until_us, label, bar.critical)
        else:
            joined.append(bar)
            counts.append(1)
    return joined
