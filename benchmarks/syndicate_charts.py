"""SYNDICATE's figures as charts, drawn from what ``-o`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view.charts import measured_chart

if TYPE_CHECKING:
    from sccl.view.charts import ChartType

Rows = Sequence[Mapping[str, Any]]

_TITLES = {
    "figure16": "Figure 16: an allreduce of 128 GPUs",
    "figure17": "Figure 17: an alltoall of 128 over hosts, incast assumed",
    "figure18": "Figure 18: an alltoall beside an allreduce of 256 MiB",
}


def charts(results: Rows) -> list[ChartType]:
    """Return the charts of Figures 16 to 18, as far as there are results.

    Raises:
        ParameterError: there is none.
    """
    found = []
    for part, title in _TITLES.items():
        rows = [
            {"series": r["plan"], "bytes": r["size_bytes"], "ms": r["us"] / 1000}
            for r in results
            if r["part"] == part
        ]
        if rows:
            found.append(
                measured_chart(rows, "bytes", "ms", "series", title=title,
                               x_title="Buffer of a rank (bytes)", y_title="Time (ms)",
                               x_bytes=True, log_y=True)
            )  # fmt: skip
    if not found:
        raise ParameterError(f"there is nothing to draw: no result is of {', '.join(_TITLES)}")
    return found
