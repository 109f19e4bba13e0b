"""Draw the profile of a machine: times of transfers by bytes, with fitted alpha and beta.

Chunks of s bytes that are sent one after another take alpha + beta * s each. n chunks that are sent
at once take alpha + beta * n * s together. So if times are plotted by the bytes per alpha, all
points of a link lie on one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.core.formatting import format_count
from sccl.core.topology import link_name
from sccl.errors import ParameterError
from sccl.topo.profiles.measurements import LinkTiming, Pacing, RepetitionStatistic
from sccl.view import theme
from sccl.view.charts.time_by_size import size_axis
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

    from sccl.runtime.machine_profile import LinkProfile
    from sccl.topo.profiles.measured_machine import SharedCost

MAX_TIMED = 8
"""Maximum number of lines, as many as there are colors."""

_PER_OCTAVE = 2
_SHAPES = {Pacing.IN_TURN: "circle", Pacing.AT_ONCE: "triangle-up"}
_PACING_TEXT = {Pacing.IN_TURN: "one after another, each", Pacing.AT_ONCE: "at once, together"}


@dataclass(frozen=True, slots=True)
class TimedLinks:
    """A link, or several links with the same costs, with all timings.

    Attributes:
        us_per_mb: beta in microseconds per 10^6 bytes.
    """

    name: str
    timings: tuple[LinkTiming, ...]
    alpha_us: float
    us_per_mb: float

    def model_us(self, size_bytes: float) -> float:
        """Return the model's time for a number of bytes, in microseconds."""
        return self.alpha_us + self.us_per_mb * size_bytes / 1e6


def profile_chart(profile: LinkProfile) -> ChartType:
    """Draw times by bytes for each link or, if there are many, for links with equal costs.

    If there are too many costs, the chart shows those that most links share, and its title states
    the number of omitted ones.
    """
    title = f"{profile.topology.name}: transfers over its links"
    if len(profile.fits) <= MAX_TIMED:
        return link_times_chart(_by_link(profile), title, profile.take)
    costs = sorted(profile.costs, key=lambda cost: -len(cost.edges))[:MAX_TIMED]
    if left := len(profile.costs) - len(costs):
        title += f" ({format_count(left, 'cost')} of few links left out)"
    return link_times_chart(_by_cost(profile, costs), title, profile.take)


def _by_link(profile: LinkProfile) -> list[TimedLinks]:
    timings = profile.measurements.by_link()
    return [
        TimedLinks(
            link_name(fit.edge), tuple(timings[fit.edge]), fit.alpha_us.value, fit.us_per_mb.value
        )
        for fit in profile.fits
    ]


def _by_cost(profile: LinkProfile, costs: Sequence[SharedCost]) -> list[TimedLinks]:
    timings = profile.measurements.by_link()
    return [
        TimedLinks(
            f"{format_count(len(cost.edges), 'link')}: {cost.alpha_us:g} \u00b5s, "
            f"{cost.gb_per_s:g} GB/s",
            tuple(timing for edge in cost.edges for timing in timings[edge]),
            cost.alpha_us,
            1e3 / cost.gb_per_s,
        )
        for cost in costs
    ]


def link_times_chart(
    links: Sequence[TimedLinks], title: str, take: RepetitionStatistic = RepetitionStatistic.MIN
) -> ChartType:
    """Draw times by bytes: a point for each timing, and a line for each fit.

    Args:
        links: links with timings. Timings of empty chunks are left out.
        take: statistic of the repetitions that is drawn.

    Raises:
        ParameterError: there are no links, or more than :data:`MAX_TIMED`.
    """
    if not 1 <= len(links) <= MAX_TIMED:
        raise ParameterError(f"there are {len(links)} links to draw, expected 1 to {MAX_TIMED}")
    points: list[dict[str, Any]] = [
        {"bytes": t.size_bytes / t.latency_count, "us": take.select(t.us) / t.latency_count,
         "link": link.name, "pacing": _PACING_TEXT[t.pacing], "chunks": t.chunks}
        for link in links for t in link.timings if t.chunk_bytes
    ]  # fmt: skip
    ends = min(p["bytes"] for p in points), max(p["bytes"] for p in points)
    lines: list[dict[str, Any]] = [
        {"bytes": size, "us": link.model_us(size), "link": link.name}
        for link in links
        for size in _sample_sizes(*ends)
    ]
    times = [row["us"] for row in (*points, *lines)]
    drawn = _layers(points, lines, [link.name for link in links], ends, (min(times), max(times)))
    notes = (
        f"lines: alpha + beta x bytes, as fitted; points: the {take} of repetitions, by bytes per "
        "alpha"
    )
    return theme.finish_chart(drawn, title, notes)


def _sample_sizes(first: float, last: float) -> list[float]:
    sizes = [first]
    while sizes[-1] * 2 ** (1 / _PER_OCTAVE) < last:
        sizes.append(sizes[-1] * 2 ** (1 / _PER_OCTAVE))
    return [*sizes, last]


def _layers(
    points: Sequence[dict[str, Any]],
    lines: Sequence[dict[str, Any]],
    names: Sequence[str],
    sizes: tuple[float, float],
    times: tuple[float, float],
) -> ChartType:
    low, high = times[0] / 1.3, times[1] * 1.3
    first, last = sizes[0] / 1.15, sizes[1] * 1.15
    axes = {
        "x": alt.X("bytes:Q", title="Bytes",
                   scale=alt.Scale(type="log", base=2, domain=[first, last], nice=False),
                   axis=alt.Axis(grid=False, **size_axis(first, last, theme.WIDTH))),
        "y": alt.Y("us:Q", title="Time (\u00b5s)",
                   scale=alt.Scale(type="log", domain=[low, high], nice=False),
                   axis=alt.Axis(format=theme.NUMBERS, values=theme.decades(low, high))),
    }  # fmt: skip
    color = alt.Color("link:N", title=None, legend=theme.series_legend(names),
                       scale=theme.series_scale(names, theme.COLORS))  # fmt: skip
    words = list(_PACING_TEXT.values())
    shape = alt.Shape("pacing:N", title=None, scale=theme.series_scale(words, [*_SHAPES.values()]),
                      legend=alt.Legend(orient="bottom", columns=2))  # fmt: skip
    dots = (
        alt.Chart(theme.chart_rows(points))
        .mark_point(size=36, opacity=0.75, strokeWidth=1.2)
        .encode(**axes, color=color, shape=shape,
                tooltip=["link:N", "pacing:N", "chunks:Q", "bytes:Q", "us:Q"])
    )  # fmt: skip
    fits = alt.Chart(theme.chart_rows(lines)).mark_line(strokeWidth=2).encode(
        **axes, color=color,
        strokeDash=alt.StrokeDash("link:N", legend=None,
                                  scale=theme.series_scale(names, theme.DASHES)),
    )  # fmt: skip
    return alt.layer(fits, dots)
