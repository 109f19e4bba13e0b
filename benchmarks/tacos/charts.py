"""The figures of TACOS as charts of the files that ``-o`` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.tacos.cases import TACOS
from benchmarks.tacos.report import series_name
from sccl.view.charts import ActivityShares, grouped_chart, measured_chart, shares_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_TITLES = {
    "fig2a": "Figure 2 (a): 64 ranks, 1 GB",
    "fig2b": "Figure 2 (b)",
    "fig15": "Figure 15: unequal links, 1 GB",
    "table5": "Table V: 3D-RFS of 2 to 16 nodes, 1 GB",
    "fig16": "Figure 16: BlueConnect and Themis",
    "fig17": "Figure 17: MultiTree and C-Cube",
    "fig18": "Figure 18: links busy",
    "fig19": "Figure 19: synthesis time",
}


def charts(results: Rows, only: Sequence[str] = ()) -> list[ChartType]:
    """Return the charts of the named figures, or of all figures, in the order of the results."""
    drawings: list[ChartType] = []
    for figure in dict.fromkeys(r["case"]["figure"] for r in results):
        if not only or figure in only:
            rows = [r for r in results if r["case"]["figure"] == figure]
            rows.sort(key=lambda r: r["case"]["algorithm"] != TACOS)  # TACOS has the first color
            drawings += _DRAWN[figure](rows, _TITLES[figure])
    return drawings


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the fields of a chart row."""
    case = result["case"]
    name = series_name(case["algorithm"], result["pieces"], len(case["pieces"]))
    share = result["ideal_us"] / result["us"]
    return {**result, **case, "series": name, "machine": _machine(case["topology"]), "share": share}


def _machine(name: str) -> str:
    """Return the name of a machine without its costs."""
    return name.partition("@")[0]


def _shares(results: Rows, title: str) -> list[ChartType]:
    rows = [_flat(r) for r in results]
    return [
        grouped_chart(rows, "machine", "share", "series", title=f"{title}; share of the ideal",
                      value_title="Ideal time / time", percent=True)
    ]  # fmt: skip


def _by_size(results: Rows, title: str, *, log: bool = False) -> list[ChartType]:
    rows = [_flat(r) for r in results]
    return [
        measured_chart(
            [r for r in rows if r["machine"] == machine], "size_bytes", "gb_per_s", "series",
            title=f"{title}: {machine}", x_title="Allreduce (bytes)", y_title="Size / time (GB/s)",
            x_bytes=True, log_y=log,
        )
        for machine in dict.fromkeys(r["machine"] for r in rows)
    ]  # fmt: skip


def _over_time(results: Rows, title: str) -> list[ChartType]:
    """Return the link activity of TACOS and of the ring over time, in one chart per machine."""
    rows = [_flat(r) for r in results]
    return [
        shares_chart(
            [
                ActivityShares(r["series"], r["us"], tuple(r["utilisation"]))
                for r in rows
                if r["machine"] == machine
            ],
            f"{title}: {machine}",
        )
        for machine in dict.fromkeys(r["machine"] for r in rows)
    ]


def _growth(results: Rows, title: str) -> list[ChartType]:
    kinds = {1: "mesh of two dimensions", 2: "mesh of three (\u201c3D hypercube\u201d)"}
    rows = [
        {**_flat(r), "series": kinds[_machine(r["case"]["topology"]).count("x")]}
        for r in results
        if r["case"]["algorithm"] == TACOS
    ]
    return [
        measured_chart(rows, "ranks", "seconds", "series", title=title,
                       x_title="Ranks", y_title="Seconds", log_x=True, log_y=True)
    ]  # fmt: skip


_DRAWN: dict[str, Callable[[Rows, str], list[ChartType]]] = {
    "fig2a": _shares,
    "fig2b": partial(_by_size, log=True),
    "fig15": _shares,
    "table5": _shares,
    "fig16": _by_size,
    "fig17": _by_size,
    "fig18": _over_time,
    "fig19": _growth,
}
