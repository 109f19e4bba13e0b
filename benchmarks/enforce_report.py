"""Show results of ``python -m benchmarks enforce`` as tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.enforce import (
    BOTH,
    GLOO,
    ORDER,
    PLANNED,
    EnforceResult,
    OverheadResult,
    Result,
    SwitchResult,
)
from sccl.core.cost import format_bytes
from sccl.errors import ParameterError
from sccl.view.charts import grouped_chart, measured_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_SMALL_BYTES, _SAME = 1024, 1.03
"""Largest size whose time is mostly overhead, and the greatest ratio of equally fast calls."""


def off(claimed_ms: float, period_ms: float) -> float:
    """Return the relative deviation of a period from the claimed one."""
    return period_ms / claimed_ms - 1


def summary(results: Sequence[Result]) -> dict[str, float | str]:
    """Return the speedups of plans and the deviations of their claims."""
    jobs = [one for one in results if isinstance(one, EnforceResult)]
    found: dict[str, float | str] = {}
    periods = {(one.part, one.way): one.period_ms for one in jobs if one.part != "claims"}
    for part in dict.fromkeys(one.part for one in jobs):
        for way, name in ((GLOO, "gloo on fast"), (BOTH, "gloo on both")):
            if (part, PLANNED) in periods and (part, way) in periods:
                found[f"{part}: times {name}"] = periods[part, way] / periods[part, PLANNED]
        if (part, ORDER) in periods and (part, GLOO) in periods:
            found[f"{part}: as called, above gloo"] = periods[part, ORDER] / periods[part, GLOO] - 1
    for one in results:
        if isinstance(one, SwitchResult):
            found["switches"] = one.switches
            found["the longest step, periods"] = one.longest_ms / one.period_ms
    calls = [one for one in results if isinstance(one, OverheadResult)]
    for part in dict.fromkeys(one.part for one in calls):
        for name, value in _overhead([one for one in calls if one.part == part]).items():
            found[f"{part}: {name}"] = value
    claims = [off(one.claimed_ms, one.period_ms) for one in jobs if one.claimed_ms]
    if claims:
        found["plans"] = len(claims)
        found["claims off, median"] = median(map(abs, claims))
        found["claims off, most"] = max(map(abs, claims))
    for part in dict.fromkeys(one.part for one in jobs):
        losses = {one.way: one.losses for one in jobs if one.part == part}
        if GLOO in losses and PLANNED in losses:
            pairs = zip(losses[GLOO], losses[PLANNED], strict=False)
            differ = max(abs(float(b) / float(a) - 1) for a, b in pairs)
            found[f"{part}: losses differ by"] = f"{differ:.1e}"
    return found


def _overhead(results: Sequence[OverheadResult]) -> dict[str, float | str]:
    """Return the extra time of a planned call over gloo's, and the smallest size without any."""
    us = {(one.way, one.size_bytes): one for one in results}
    sizes = sorted({one.size_bytes for one in results if (ORDER, one.size_bytes) in us})
    pairs = [(us[GLOO, size], us[ORDER, size]) for size in sizes if (GLOO, size) in us]
    if not pairs:
        return {}
    small = [pair for pair in pairs if pair[0].size_bytes <= _SMALL_BYTES]
    least = None
    for gloo, ours in reversed(pairs):
        if ours.us > _SAME * gloo.us:
            break
        least = ours.size_bytes
    return {
        "a planned call, us more": median(ours.us - gloo.us for gloo, ours in small),
        "processor, us more": median(o.processor_us - g.processor_us for g, o in small),
        "as fast as gloo's from": "no size" if least is None else format_bytes(least),
    }


def tables(results: Sequence[Result]) -> list[Table]:
    """Return the tables of jobs and of single calls that have rows."""
    jobs = Table("Job", "Way", "Channels", "Search", title="Jobs in the lab")
    for name in ("Claimed, ms", "Period, ms", "Off", "Processor, ms", "Load"):
        jobs.add_column(name, justify="right")
    calls = Table("Channels", "Calls of", title="Calls alone: allreduces, 16 under way")
    sizes: dict[tuple[str, int], dict[str, OverheadResult]] = {}
    for one in results:
        if isinstance(one, OverheadResult):
            sizes.setdefault((one.channels, one.size_bytes), {})[one.way] = one
            continue
        if isinstance(one, SwitchResult):
            jobs.add_row(
                one.job, f"{one.switches} switches", one.channels, "",
                "", f"{one.period_ms:.0f}, at most {one.longest_ms:.0f}", "", "",
                f"{one.load:.1f}",
            )  # fmt: skip
            continue
        claimed = one.claimed_ms
        jobs.add_row(
            one.job, one.way, one.channels,
            f"{one.search}, seed {one.seed}" if one.search else "",
            "" if claimed is None else f"{claimed:.0f}",
            f"{one.period_ms:.0f}",
            "" if claimed is None else f"{off(claimed, one.period_ms):+.1%}",
            f"{one.processor_ms:.0f}", f"{one.load:.1f}",
        )  # fmt: skip
    ways = list(dict.fromkeys(way for own in sizes.values() for way in own))
    for way in ways:
        calls.add_column(f"{way}, us (processor)", justify="right")
    for (channels, size), own in sizes.items():
        found = [own.get(way) for way in ways]
        cells = ["" if o is None else f"{o.us:.0f} ({o.processor_us:.0f})" for o in found]
        calls.add_row(channels, format_bytes(size), *cells)
    return [table for table in (jobs, calls) if table.row_count]


def charts(results: Rows) -> list[ChartType]:
    """Return charts of the periods of jobs, their deviations from claims, and single calls.

    Raises:
        ParameterError: There is nothing to draw.
    """
    jobs = [r for r in results if "claimed_ms" in r]
    found: list[ChartType] = []
    bars = [
        {"job": r["job"], "way": r["way"], "s": r["period_ms"] / 1000}
        for r in jobs
        if r["part"] == r["job"]
    ]
    if bars:
        found.append(
            grouped_chart(bars, "job", "s", "way", title="Steps of 4 ranks in the lab",
                          value_title="Period (s)")
        )  # fmt: skip
    claims = [
        {
            "claimed": r["claimed_ms"],
            "off": 100 * off(r["claimed_ms"], r["period_ms"]),
            "series": r["job"],
        }
        for r in jobs
        if r["claimed_ms"]
    ]
    if claims:
        found.append(
            measured_chart(claims, "claimed", "off", "series", joined=False,
                           title="Periods beside what plans claim",
                           x_title="Claimed (ms)", y_title="Above it (%)")
        )  # fmt: skip
    for r in results:
        if "versions" in r:
            series = ["one plan", "another"]
            steps = [
                {"step": k, "ms": took, "series": series[version % 2]}
                for k, (took, version) in enumerate(
                    zip(r["periods_ms"], r["versions"], strict=True), 1
                )
            ]
            found.append(
                measured_chart(steps, "step", "ms", "series", joined=False,
                               title=f"Steps of {r['job']} over {r['switches']} switches",
                               x_title="Step", y_title="Period (ms)")
            )  # fmt: skip
    calls = [r for r in results if "size_bytes" in r]
    for part in dict.fromkeys(r["part"] for r in calls):
        for field, title in (("us", "Time"), ("processor_us", "Processor time of a rank")):
            rows = [
                {"bytes": r["size_bytes"], "us": r[field], "series": r["way"]}
                for r in calls
                if r["part"] == part
            ]
            rate = part.removeprefix("overhead")
            found.append(
                measured_chart(rows, "bytes", "us", "series", title=f"{title} of an allreduce{rate}"
                               ", 16 under way", x_title="Bytes", y_title="\u00b5s", x_bytes=True,
                               log_y=True)
            )  # fmt: skip
    if not found:
        raise ParameterError("there is nothing to draw: no result is of a job, or of calls alone")
    return found
