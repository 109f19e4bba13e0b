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

_SMALL_BYTES, _EQUAL_RATIO = 1024, 1.03
"""Largest size whose time is mostly overhead, and the greatest ratio of equally fast calls."""


def deviation(claimed_ms: float, period_ms: float) -> float:
    """Return the relative deviation of a period from the claimed one."""
    return period_ms / claimed_ms - 1


def summary(results: Sequence[Result]) -> dict[str, float | str]:
    """Return the speedups of plans and the deviations of their claims."""
    jobs = [result for result in results if isinstance(result, EnforceResult)]
    figures: dict[str, float | str] = {}
    periods = {
        (result.part, result.method): result.period_ms for result in jobs if result.part != "claims"
    }
    for part in dict.fromkeys(result.part for result in jobs):
        for method, name in ((GLOO, "gloo on fast"), (BOTH, "gloo on both")):
            if (part, PLANNED) in periods and (part, method) in periods:
                figures[f"{part}: times {name}"] = periods[part, method] / periods[part, PLANNED]
        if (part, ORDER) in periods and (part, GLOO) in periods:
            figures[f"{part}: as called, above gloo"] = (
                periods[part, ORDER] / periods[part, GLOO] - 1
            )
    for result in results:
        if isinstance(result, SwitchResult):
            figures["switches"] = result.switches
            figures["the longest step, periods"] = result.longest_ms / result.period_ms
    calls = [result for result in results if isinstance(result, OverheadResult)]
    for part in dict.fromkeys(result.part for result in calls):
        for name, value in _overhead([result for result in calls if result.part == part]).items():
            figures[f"{part}: {name}"] = value
    claims = [
        deviation(result.claimed_ms, result.period_ms) for result in jobs if result.claimed_ms
    ]
    if claims:
        figures["plans"] = len(claims)
        figures["claims off, median"] = median(map(abs, claims))
        figures["claims off, most"] = max(map(abs, claims))
    for part in dict.fromkeys(result.part for result in jobs):
        losses = {result.method: result.losses for result in jobs if result.part == part}
        if GLOO in losses and PLANNED in losses:
            pairs = zip(losses[GLOO], losses[PLANNED], strict=False)
            differ = max(abs(float(b) / float(a) - 1) for a, b in pairs)
            figures[f"{part}: losses differ by"] = f"{differ:.1e}"
    return figures


def _overhead(results: Sequence[OverheadResult]) -> dict[str, float | str]:
    """Return the extra time of a planned call over gloo's, and the smallest size without any."""
    us = {(result.method, result.size_bytes): result for result in results}
    sizes = sorted({result.size_bytes for result in results if (ORDER, result.size_bytes) in us})
    pairs = [(us[GLOO, size], us[ORDER, size]) for size in sizes if (GLOO, size) in us]
    if not pairs:
        return {}
    small = [pair for pair in pairs if pair[0].size_bytes <= _SMALL_BYTES]
    smallest = None
    for gloo, ours in reversed(pairs):
        if ours.us > _EQUAL_RATIO * gloo.us:
            break
        smallest = ours.size_bytes
    return {
        "a planned call, us more": median(ours.us - gloo.us for gloo, ours in small),
        "processor, us more": median(o.processor_us - g.processor_us for g, o in small),
        "as fast as gloo's from": "no size" if smallest is None else format_bytes(smallest),
    }


def tables(results: Sequence[Result]) -> list[Table]:
    """Return the tables of jobs and of single calls that have rows."""
    jobs = Table("Job", "Mode", "Channels", "Search", title="Jobs in the lab")
    for name in ("Claimed, ms", "Period, ms", "Off", "Processor, ms", "Load"):
        jobs.add_column(name, justify="right")
    calls = Table("Channels", "Calls of", title="Calls alone: allreduces, 16 at a time")
    sizes: dict[tuple[str, int], dict[str, OverheadResult]] = {}
    for result in results:
        if isinstance(result, OverheadResult):
            sizes.setdefault((result.channels, result.size_bytes), {})[result.method] = result
            continue
        if isinstance(result, SwitchResult):
            jobs.add_row(
                result.job, f"{result.switches} switches", result.channels, "",
                "", f"{result.period_ms:.0f}, at most {result.longest_ms:.0f}", "", "",
                f"{result.load:.1f}",
            )  # fmt: skip
            continue
        claimed = result.claimed_ms
        jobs.add_row(
            result.job, result.method, result.channels,
            f"{result.search}, seed {result.seed}" if result.search else "",
            "" if claimed is None else f"{claimed:.0f}",
            f"{result.period_ms:.0f}",
            "" if claimed is None else f"{deviation(claimed, result.period_ms):+.1%}",
            f"{result.processor_ms:.0f}", f"{result.load:.1f}",
        )  # fmt: skip
    methods = list(dict.fromkeys(method for row in sizes.values() for method in row))
    for method in methods:
        calls.add_column(f"{method}, us (processor)", justify="right")
    for (channels, size), row in sizes.items():
        cell_results = [row.get(method) for method in methods]
        cells = ["" if o is None else f"{o.us:.0f} ({o.processor_us:.0f})" for o in cell_results]
        calls.add_row(channels, format_bytes(size), *cells)
    return [table for table in (jobs, calls) if table.row_count]


def charts(results: Rows) -> list[ChartType]:
    """Return charts of the periods of jobs, their deviations from claims, and single calls.

    Raises:
        ParameterError: There is nothing to draw.
    """
    jobs = [r for r in results if "claimed_ms" in r]
    pictures: list[ChartType] = []
    bars = [
        {"job": r["job"], "method": r["method"], "s": r["period_ms"] / 1000}
        for r in jobs
        if r["part"] == r["job"]
    ]
    if bars:
        pictures.append(
            grouped_chart(bars, "job", "s", "method", title="Steps of 4 ranks in the lab",
                          value_title="Period (s)")
        )  # fmt: skip
    claims = [
        {
            "claimed": r["claimed_ms"],
            "off": 100 * deviation(r["claimed_ms"], r["period_ms"]),
            "series": r["job"],
        }
        for r in jobs
        if r["claimed_ms"]
    ]
    if claims:
        pictures.append(
            measured_chart(claims, "claimed", "off", "series", joined=False,
                           title="Measured period compared with the plan's",
                           x_title="Period of the plan (ms)", y_title="Measured: longer by (%)")
        )  # fmt: skip
    for r in results:
        if "versions" in r:
            series = ["first plan", "second plan"]
            steps = [
                {"step": k, "ms": ms, "series": series[version % 2]}
                for k, (ms, version) in enumerate(
                    zip(r["periods_ms"], r["versions"], strict=True), 1
                )
            ]
            pictures.append(
                measured_chart(steps, "step", "ms", "series", joined=False,
                               title=f"Steps of {r['job']}: {r['switches']} changes of plan",
                               x_title="Step", y_title="Period (ms)")
            )  # fmt: skip
    calls = [r for r in results if "size_bytes" in r]
    for part in dict.fromkeys(r["part"] for r in calls):
        for field, title in (("us", "Time"), ("processor_us", "Processor time of a rank")):
            rows = [
                {"bytes": r["size_bytes"], "us": r[field], "series": r["method"]}
                for r in calls
                if r["part"] == part
            ]
            rate = part.removeprefix("overhead")
            pictures.append(
                measured_chart(rows, "bytes", "us", "series",
                               title=f"{title} of an allreduce{rate}, 16 at a time",
                               x_title="Bytes", y_title="Time (\u00b5s)", x_bytes=True, log_y=True)
            )  # fmt: skip
    if not pictures:
        raise ParameterError("there is nothing to draw: no result is of a job, or of calls alone")
    return pictures
