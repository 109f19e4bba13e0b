"""TACCL's figures as charts of the files that ``-o`` wrote: bandwidth by buffer size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view.charts import measured_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_PARTS = {
    "a": ("receiver", "IB connections of a sender"),
    "b": ("planned for", "the size of a chunk it is planned for"),
    "c": ("of a buffer", "chunks of a buffer"),
    "d": ("uc-", "policy of the switch"),
    "e": ("at once", "instances"),
}
"""Parts of Figure 9: a substring of their ``change``, and a title."""


def charts(results: Rows) -> list[ChartType]:
    """Return the charts of Figures 6 to 8, 9 and 11, as far as there are results.

    Raises:
        ParameterError: No result belongs to these figures.
    """
    drawings = [*_compare_with_nccl(results), *_changes(results)]
    if not drawings:
        raise ParameterError("there is nothing to draw: no result is of the parts auto and fig9")
    return drawings


def _gb_per_s(result: Mapping[str, Any]) -> float:
    """Return the algorithm bandwidth: 10^9 bytes of a rank's output per second."""
    return float(result["case"]["size_bytes"] / result["finish_us"] / 1000)


def _compare_with_nccl(results: Rows) -> list[ChartType]:
    """Return bandwidths by machine and collective, for sketches and for NCCL's stand-in."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in results:
        case = r["case"]
        if case["part"] != "auto":
            continue
        rows = groups.setdefault((case["machine"], case["collective"]), [])
        size = case["size_bytes"]
        by = "sketch by hand" if case["sketch"] else "sketch by itself"
        rows.append({"series": by, "bytes": size, "speed": _gb_per_s(r)})
        if r["nccl_us"]:
            speed = size / r["nccl_us"] / 1000
            rows.append({"series": "like NCCL", "bytes": size, "speed": speed})
    order = ("sketch by itself", "sketch by hand", "like NCCL")
    return [
        _speeds(sorted(rows, key=lambda row: order.index(row["series"])),
                f"{collective} on {machine.removeprefix('teccl-')}")
        for (machine, collective), rows in groups.items()
    ]  # fmt: skip


def _changes(results: Rows) -> list[ChartType]:
    """Return bandwidths for the parts of Figure 9 that have results."""
    drawings = []
    for part, (word, title) in _PARTS.items():
        rows = [
            {"series": r["case"]["change"], "bytes": r["case"]["size_bytes"],
             "speed": _gb_per_s(r)}
            for r in results
            if r["case"]["part"] == "fig9" and word in r["case"]["change"]
        ]  # fmt: skip
        if rows:
            drawings.append(_speeds(rows, f"Figure 9{part}: {title}"))
    return drawings


def _speeds(rows: Rows, title: str) -> ChartType:
    return measured_chart(rows, "bytes", "speed", "series", title=title,
                          x_title="Output of a rank (bytes)",
                          y_title="Algorithm bandwidth (GB/s)",
                          x_bytes=True, log_y=True)  # fmt: skip
