"""SYNDICATE's figures as charts of the files that ``-o`` wrote, with figures from the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.syndicate_systems import BS, EXEC, FIFO, HO, OURS, PUBLISHED, SCHED, SHOWN
from sccl.errors import ParameterError
from sccl.view.charts import (
    COMPUTATION,
    StepBar,
    StepPanel,
    grouped_chart,
    measured_chart,
    step_gantt_chart,
)

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_TITLES = {
    "figure16": "Figure 16: an allreduce of 128 GPUs",
    "figure17": "Figure 17: an alltoall of 128 over hosts, incast assumed",
    "figure18": "Figure 18: an alltoall beside an allreduce of 256 MiB",
}


_MOST = 16
"""Nodes of the paper's testbed."""

_FIGURE_2 = {"computation": 0.348, "communication": 0.063}
_FIGURE_11 = {
    HO: {"A1": 1.74 / 1.26, "A2": 1.44 / 1.21, "A3": 1.38 / 1.2, "A5": 1.0},
    "SYNDICATE": {"A1": 1.74, "A2": 1.44, "A3": 1.38, "A4": 1.77, "A5": 1.21, "A6": 0.97},
}
_IDLE = 0.274
_FIGURE_14 = {BS: 1.64 * _IDLE, HO: 1.51 * _IDLE, EXEC: 1.26 * _IDLE, SCHED: 1.32 * _IDLE}
_FIGURE_15 = {HO: 0.157, EXEC: 0.171, SCHED: 0.219}
_SYNDICATE = {14: _IDLE, 15: 0.306}
"""Source: SYNDICATE (NSDI 2023), sections 3 and 6.5."""


def charts(results: Rows) -> list[ChartType]:
    """Return the charts of all figures with results.

    Raises:
        ParameterError: No result belongs to a figure.
    """
    costs = [r for r in results if r.get("part") in _TITLES]
    systems = [r for r in results if "system" in r]
    if not costs and not systems:
        raise ParameterError("there is nothing to draw: no result is of a figure from 2 to 18")
    return [*_costs(costs), *(_systems(systems) if systems else ())]


def _costs(results: Rows) -> list[ChartType]:
    """Return the charts of Figures 16 to 18, as far as there are results."""
    drawings = []
    for part, title in _TITLES.items():
        rows = [
            {"series": r["plan"], "bytes": r["size_bytes"], "ms": r["us"] / 1000}
            for r in results
            if r["part"] == part
        ]
        if rows:
            drawings.append(
                measured_chart(rows, "bytes", "ms", "series", title=title,
                               x_title="Buffer of a rank (bytes)", y_title="Time (ms)",
                               x_bytes=True, log_y=True)
            )  # fmt: skip
    return drawings


def _systems(results: Rows) -> list[ChartType]:
    """Return the charts of Figures 2, 11, 12, 14 and 15, as far as there are results."""
    drawings = []
    shown = {r["system"]: r for r in results if (r["model"], r["nodes"]) == (SHOWN, _MOST)}
    if shown:
        drawings += [_figure2(shown[FIFO]), _timeline(shown[FIFO])]
    if {r["model"] for r in results} != {SHOWN}:
        drawings.append(_figure11([r for r in results if r["nodes"] == _MOST]))
    if {r["nodes"] for r in results} != {_MOST}:
        drawings.append(_figure12([r for r in results if r["model"] == SHOWN]))
    if shown:
        idle = {name: 1 - r["computes"] for name, r in shown.items()}
        shorter = {n: 1 - r["period_us"] / shown[BS]["period_us"] for n, r in shown.items()}
        del shorter[BS]
        drawings += [
            _compare_fractions(14, "computation stands still", _FIGURE_14, idle),
            _compare_fractions(15, "an iteration is shorter than under BS+", _FIGURE_15, shorter),
            *(_timeline(shown[name]) for name in (BS, HO, EXEC, SCHED, OURS)),
        ]
    return drawings


def _figure2(fifo: Mapping[str, Any]) -> ChartType:
    measured = {"computation": 1 - fifo["computes"], "communication": 1 - fifo["communicates"]}
    rows = [
        {"stream": stream, "series": series, "idle": value[stream]}
        for stream in measured
        for series, value in (("published", _FIGURE_2), ("here, FIFO", measured))
    ]
    return grouped_chart(rows, "stream", "idle", "series", percent=True,
                         title=f"Figure 2: gaps of streams, {SHOWN}",
                         value_title="Part of an iteration")  # fmt: skip


def _figure11(results: Rows) -> ChartType:
    rows: list[dict[str, Any]] = [
        {"model": model, "series": f"published: {name}", "times": by[model]}
        for name, by in _FIGURE_11.items()
        for model in by
    ]
    baseline_us = {r["model"]: r["period_us"] for r in results if r["system"] == BS}
    rows += [
        {"model": r["model"], "series": f"here: {name}",
         "times": baseline_us[r["model"]] / r["period_us"]}
        for name in (HO, PUBLISHED, OURS)
        for r in results
        if r["system"] == name
    ]  # fmt: skip
    rows.sort(key=lambda row: row["model"])
    return grouped_chart(rows, "model", "times", "series",
                         title="Figure 11: throughput on 128 GPUs beside BS+",
                         value_title="Times that of BS+")  # fmt: skip


def _figure12(results: Rows) -> ChartType:
    single_node_us = {r["system"]: r["period_us"] for r in results if r["nodes"] == 1}
    rows = [
        {"series": "ideal", "nodes": nodes, "times": nodes}
        for nodes in dict.fromkeys(r["nodes"] for r in results)
    ]
    rows += [
        {"series": r["system"], "nodes": r["nodes"],
         "times": r["nodes"] * single_node_us[r["system"]] / r["period_us"]}
        for name in (OURS, PUBLISHED, HO, BS)
        for r in results
        if r["system"] == name
    ]  # fmt: skip
    return measured_chart(rows, "nodes", "times", "series",
                          title=f"Figure 12: throughput of {SHOWN} beside one node",
                          x_title="Nodes of 8 GPUs", y_title="Times that of one node")  # fmt: skip


def _compare_fractions(
    figure: int, quantity: str, published: Mapping[str, float], measured: Mapping[str, float]
) -> ChartType:
    """Return bars of fractions of an iteration, published and measured."""
    rows = []
    for name in (BS, HO, SCHED, EXEC, PUBLISHED, OURS):
        if name in measured:
            published_fraction = published.get(name, _SYNDICATE[figure])
            rows += [
                {"system": name, "series": "published", "part": published_fraction},
                {"system": name, "series": "here", "part": measured[name]},
            ]
    return grouped_chart(rows, "system", "part", "series", percent=True,
                         title=f"Figure {figure}: {quantity}, {SHOWN}",
                         value_title="Part of an iteration")  # fmt: skip


def _timeline(result: Mapping[str, Any]) -> ChartType:
    """Return the timeline of an iteration."""
    lines = [bar.split("\t") for bar in result["bars"]]
    computing = {row for row, kind, *_ in lines if kind == COMPUTATION}
    names = tuple(
        sorted({row for row, *_ in lines}, key=lambda name: (name not in computing, name))
    )
    bars = tuple(
        StepBar(names.index(row), float(since), float(until), kind, label, label)
        for row, kind, since, until, label in lines
    )
    title = f"{SHOWN} under {result['system']}: an iteration"
    return step_gantt_chart([StepPanel(title, (), names, bars, 0.0, result["period_us"])])
