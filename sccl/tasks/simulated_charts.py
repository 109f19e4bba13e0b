"""Draw simulations: the load of links over time, and times by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from sccl.collectives import Spec, spec_of_collective
from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.errors import InputError, ParameterError
from sccl.sim import Timeline
from sccl.synth.fluid.curve import LeastCurve
from sccl.tasks.simulate import Member, Run, Source, run_of
from sccl.tasks.simulated import RunPart
from sccl.tasks.terms import Terms
from sccl.tasks.time_bound import MOST_RANKS, least_by_size
from sccl.view import charts
from sccl.view.charts import Bar, BusyLinks, Shares

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

_PARTS = 160
"""Number of time intervals for which the utilization of links is drawn."""

_MOST_BARS = 4000
"""Up to which each transfer is drawn by itself: else those of a link that nearly touch are one."""

_NEAR = 1 / 800
"""Fraction of the whole time that is less than a pixel."""

_MOST_LINES = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """The problem of a simulated collective.

    Attributes:
        size_bytes: Size of a rank's buffer, as stated.
        at_least: Smallest number of bytes of a rank, because chunks may differ.
    """

    topology: Topology
    spec: Spec
    size_bytes: int
    at_least: int
    model: AlphaModel


@dataclass(frozen=True, slots=True)
class Drawn:
    """The data of a simulation for charts.

    Attributes:
        asked: Problem of each collective that ran.
    """

    shares: Shares
    links: BusyLinks | None
    asked: tuple[Asked, ...]


def drawn_of(run: Run, *, alone: bool) -> Drawn:
    """Return the data of a simulation for charts.

    Args:
        alone: Whether it is the only one, so that all its links are drawn.
    """
    made = run.timeline
    name = " and ".join(part.source.name for part in run.parts)
    shares = Shares(name, made.finish_us, tuple(made.utilisation(_PARTS).tolist()))
    asked = tuple(_asked(part, made.topology, made.clock.model) for part in run.parts)
    return Drawn(shares, _busy_links(run, shares) if alone else None, asked)


def _asked(part: Member, topology: Topology, model: AlphaModel) -> Asked:
    collective = part.source.collective
    least = min(part.size_bytes, int(collective.served(part.chunk_bytes)))
    return Asked(topology, spec_of_collective(collective), part.size_bytes, least, model)


def schedule_chart(schedule: Schedule) -> ChartType:
    """Return a chart of the load of links over time in a verified schedule."""
    run = run_of([Source(schedule.topology.name, None, schedule, schedule.topology)], None, Terms())
    links = drawn_of(run, alone=True).links
    assert links is not None
    return charts.busy_chart(links)


def check_lines(plans: int) -> None:
    """Check that a chart has room for a line for each of some plans, before they are simulated.

    Raises:
        ParameterError: it has not.
    """
    if plans > _MOST_LINES:
        raise ParameterError(
            f"there are {plans} files, expected at most {_MOST_LINES} in a chart: give fewer"
        )


def chart_of(drawn: Sequence[Drawn], runs: Sequence[RunPart]) -> ChartType:
    """Return the chart of simulations.

    One simulation: load of its links over time. Several plans: utilization. Otherwise times by
    size.
    """
    if len(drawn) == 1 and drawn[0].links is not None:
        least = max(us for _, us in _least(drawn))
        return charts.busy_chart(replace(drawn[0].links, least_us=least))
    names = {one.shares.name for one in drawn}
    titles = {f"{p.collective} on {p.topology}" for run in runs for p in run.collectives}
    title = titles.pop() if len(titles) == 1 else "Simulations"
    if len(names) == len(drawn):
        size = bytes_text(runs[0].collectives[0].size_bytes)
        least = min(us for _, us in _least(drawn))
        return charts.shares_chart([one.shares for one in drawn], f"{title}, {size}", least)
    rows = [*_times(drawn, runs), *_bounds(runs), *_floors(drawn)]
    return charts.measured_chart(
        rows, "size", "time", "series", title=title, x_title="Size (bytes)",
        y_title="Time (\u00b5s)", log_y=True, x_bytes=True,
    )  # fmt: skip


def _times(drawn: Sequence[Drawn], runs: Sequence[RunPart]) -> Iterator[dict[str, object]]:
    for one, run in zip(drawn, runs, strict=True):
        for part in run.collectives:
            name = part.program or part.file if len(run.collectives) > 1 else one.shares.name
            yield {"size": part.size_bytes, "time": part.finish_us, "series": name}


def _bounds(runs: Sequence[RunPart]) -> Iterator[dict[str, object]]:
    """Yield the least bound of each size, if there is one for all: chunks may differ."""
    parts = [part for run in runs for part in run.collectives]
    if len({(part.collective, part.topology) for part in parts}) > 1:
        return
    for size in dict.fromkeys(part.size_bytes for part in parts):
        known = [part.bound_us for part in parts if part.size_bytes == size]
        if all(known):
            least = min(bound for bound in known if bound)
            yield {"size": size, "time": least, "series": "lower bound for these chunks"}


def _floors(drawn: Sequence[Drawn]) -> Iterator[dict[str, object]]:
    """Yield the lower bound at each size, if all plans solve the same problem."""
    if len({(one.topology, one.spec) for some in drawn for one in some.asked}) > 1:
        return
    by_size: dict[int, float] = {}
    for size, us in _least(drawn):
        by_size[size] = min(us, by_size.get(size, us))
    for size, us in by_size.items():
        if us:
            yield {"size": size, "time": us, "series": "lower bound for every chunk count"}


def _least(drawn: Sequence[Drawn]) -> Iterator[tuple[int, float]]:
    """Yield the size and the lower bound of each collective that ran. 0: none.

    The bound also holds next to concurrent collectives, which only take bandwidth away.
    """
    asked = [one for some in drawn for one in some.asked]
    sizes: dict[tuple[Topology, Spec, AlphaModel], set[int]] = {}
    for one in asked:
        sizes.setdefault((one.topology, one.spec, one.model), set()).add(one.at_least)
    curves: dict[tuple[Topology, Spec, AlphaModel], LeastCurve | None] = {}
    for question, of_question in sizes.items():
        topology, spec, model = question
        curves[question] = None
        if topology.ranks <= MOST_RANKS:
            with suppress(InputError):
                curves[question] = least_by_size(topology, spec, sorted(of_question), model)
    for one in asked:
        curve = curves[one.topology, one.spec, one.model]
        yield one.size_bytes, float(curve.us(one.at_least)) if curve else 0.0


# --- links ---------------------------------------------------------------------------------------


def _busy_links(run: Run, shares: Shares) -> BusyLinks:
    made = run.timeline
    path = made.critical_path()
    places = _links_shown(made, [step.link for step in path])
    critical = {step.row for step in path}
    bars: list[Bar] = []
    together = len(made.link) > _MOST_BARS
    for place, link in enumerate(places):
        own = _bars(made, place, link, critical)
        bars += _joined(own, made.finish_us * _NEAR) if together else own
    links = made.topology.links
    title = ", ".join(f"{p.source.collective.name} on {p.source.topology.name}, "
                      f"{bytes_text(p.size_bytes)}" for p in islice(run.parts, 1))  # fmt: skip
    more = f" and {counted(len(run.parts) - 1, 'other')}" if len(run.parts) > 1 else ""
    return BusyLinks(
        title=f"{title}{more}: {made.finish_us:.6g} \u00b5s",
        notes=tuple(_notes(run, len(places))),
        shares=shares,
        links=tuple(f"{links[k].src} \u2192 {links[k].dst}" for k in places),
        bars=tuple(bars),
    )


def _notes(run: Run, shown: int) -> Iterator[str]:
    yield f"{run.stepping or 'scheduled times'}, alpha {run.timeline.clock.model}"
    links = len(run.timeline.topology.links)
    if shown < links:
        yield f"{shown} of {links} links: those of the critical path, then the busiest"


def _links_shown(made: Timeline, path: Iterable[int]) -> list[int]:
    """Return which links are drawn: all, or those that matter most."""
    links = range(len(made.topology.links))
    if len(links) <= charts.MOST_LINKS:
        return list(links)
    busy = made.busy().tolist()
    by_load = sorted(links, key=lambda link: (-busy[link], link))
    return sorted(islice(dict.fromkeys((*reversed(list(path)), *by_load)), charts.MOST_LINKS))


def _bars(made: Timeline, place: int, link: int, critical: set[int]) -> list[Bar]:
    rows = (made.link == link).nonzero()[0]
    rows = rows[made.start[rows].argsort(kind="stable")]
    carried = made.messages.carried()
    first, end = carried.message.searchsorted((made.message[rows], made.message[rows] + 1))
    return [
        Bar(place, made.clock.us(start), made.clock.us(free), _what(chunks), row in critical)
        for row, start, free, chunks in zip(
            rows.tolist(), made.start[rows].tolist(), made.free[rows].tolist(),
            (carried.chunk[i:j].tolist() for i, j in zip(first, end, strict=True)), strict=True,
        )
    ]  # fmt: skip


def _what(chunks: Sequence[int]) -> str:
    """Return a description of the chunks of a transfer."""
    return f"chunk{'s' * (len(chunks) > 1)} {', '.join(map(str, chunks))}"


def _joined(bars: Iterable[Bar], near_us: float) -> list[Bar]:
    """Return bars of a link, those of one kind that nearly touch as one."""
    found: list[Bar] = []
    counts: list[int] = []
    for bar in bars:
        last = found[-1] if found else bar
        if found and last.critical == bar.critical and bar.since_us - last.until_us < near_us:
            counts[-1] += 1
            what = f"{counts[-1]} transfers"
            found[-1] = Bar(bar.link, last.since_us, bar.until_us, what, bar.critical)
        else:
            found.append(bar)
            counts.append(1)
    return found
