"""TE-CCL's figures as charts of the files that ``-o`` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.core.cost import format_bytes
from sccl.errors import ParameterError
from sccl.view.charts import grouped_chart, measured_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_WIDE = 4
"""Number of bar groups whose names fit side by side."""


def charts(results: Rows) -> list[ChartType]:
    """Return the charts of the figures among the epoch results.

    Raises:
        ParameterError: No result belongs to a figure.
    """
    drawings: list[ChartType] = []
    for figure, draw in _DRAWN.items():
        rows = [r for r in results if r["case"].get("figure") == figure]
        drawings += draw(rows) if rows else []
    if not drawings:
        raise ParameterError(f"there is nothing to draw: no result is of {', '.join(_DRAWN)}")
    return drawings


def scale_charts(results: Rows) -> list[ChartType]:
    """Return charts of processor seconds and of memory over the number of GPUs."""
    rows = [
        {**r, "gpus": r["case"]["ranks"], "series": r["case"]["series"]}
        for r in results
        if r["case"]["series"]
    ]
    kinds = (
        ("user_seconds", "NDv2 nodes: CPU time of the whole process", "CPU seconds"),
        ("memory_mb", "Memory", "MB"),
    )
    return [
        measured_chart(rows, "gpus", field, "series", title=title, x_title="GPUs",
                       y_title=unit, log_x=True, log_y=field == "user_seconds")
        for field, title, unit in kinds
    ]  # fmt: skip


def _in_epochs(result: Mapping[str, Any]) -> float | None:
    """Return the end of the last epoch in microseconds, or None if it is unknown."""
    if result["epochs"] is None:
        return None
    return float(result["epoch_us"] * result["epochs"])


def _figure_10(results: Rows) -> list[ChartType]:
    """Return the relative difference of small and large epochs, by size."""
    pairs: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for r in results:
        series = f"{r['case']['collective']} {r['case']['topology'].removeprefix('teccl-')}"
        pairs.setdefault((series, r["output_bytes"]), {})[r["case"]["epoch"]] = r
    kinds: tuple[tuple[str, Callable[[Mapping[str, Any]], float | None]], ...] = (
        ("(a): CPU time", lambda r: _if_solved(r, r["user_seconds"])),
        ("(b): completion time in whole epochs", _in_epochs),
        ("(b): exact completion time", lambda r: r["finish_us"]),
    )
    drawings = []
    for title, value in kinds:
        rows = []
        for (series, size), both in pairs.items():
            if len(both) < 2:
                continue
            small, large = value(both["fastest"]), value(both["slowest"])
            if small is not None and large is not None:
                differ = 100 * (small - large) / large
                rows.append({"series": series, "bytes": size, "differ": differ})
        if rows:
            drawings.append(
                measured_chart(rows, "bytes", "differ", "series", title=f"Figure 10 {title}",
                               x_title="Output of a rank (bytes)",
                               y_title="Change with small epochs (%)", x_bytes=True)
            )  # fmt: skip
    return drawings


def _if_solved(result: Mapping[str, Any], value: float) -> float | None:
    return None if result["finish_us"] is None else value


def _bars(results: Rows, title: str, series: Callable[[Mapping[str, Any]], str]) -> list[ChartType]:
    """Return bars of epochs and of processor time, with a few cases per chart."""
    rows = [
        {
            "group": _name(r),
            "series": series(r["case"]),
            "epochs": r["epochs"],
            "seconds": r["user_seconds"],
        }
        for r in results
    ]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    names = list(dict.fromkeys(row["series"] for row in rows))
    drawings = []
    for few in (groups[i : i + _WIDE] for i in range(0, len(groups), _WIDE)):
        shown = [row for row in rows if row["group"] in few and row["epochs"]]
        if len({row["series"] for row in shown}) < 2:  # no second bar for a comparison
            continue
        shown.sort(key=lambda row: (few.index(row["group"]), names.index(row["series"])))
        drawings += [
            grouped_chart(
                shown,
                "group",
                field,
                "series",
                title=f"{title}: {quantity}",
                value_title=unit,
            )
            for field, quantity, unit in (
                ("epochs", "epochs until completion", "Epochs"),
                ("seconds", "CPU time", "CPU seconds"),
            )
        ]
    return drawings


def _name(result: Mapping[str, Any]) -> str:
    """Return a short name of a case."""
    case = result["case"]
    machine = case["topology"].removeprefix("teccl-")
    if case["figure"] == "fig11" and machine != "dgx1":
        return f"{machine} {format_bytes(result['output_bytes'])}"
    detail = f"C={case['chunks']}" if case["collective"] == "allgather" else case["collective"]
    return f"{machine} {detail}{'' if case['alpha'] else ', no alpha'}"


def _figure_11(results: Rows) -> list[ChartType]:
    return _bars(
        results,
        "Figure 11",
        lambda case: "store and forward" if case["buffers"] else "no buffers",
    )


def _astar(results: Rows) -> list[ChartType]:
    return _bars(results, "A*", lambda case: "A*" if case["model"] == "astar" else "all at once")


_DRAWN: dict[str, Callable[[Rows], list[ChartType]]] = {
    "fig10": _figure_10,
    "fig11": _figure_11,
    "astar": _astar,
}
