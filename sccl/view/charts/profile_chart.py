"""Draw the profile of a machine: times of transfers by bytes, for each link or shared cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sccl.core.formatting import format_count
from sccl.core.topology import link_name
from sccl.runtime.machine_profile import LinkProfile
from sccl.view.charts.link_times import MAX_TIMED, TimedLinks, link_times_chart

if TYPE_CHECKING:
    from sccl.topo.profiles.measured_machine import SharedCost
    from sccl.view.charts import ChartType


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
