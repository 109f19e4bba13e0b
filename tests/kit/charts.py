"""Frontiers, an algorithm and rows of charts, for tests of pictures."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.frontier import LimitPoint, Point
from sccl.core.topology import Topology
from sccl.view.charts import FrontierData
from sccl.view.theme import vega_specification

BROADCAST = FrontierData(
    "broadcast on dgx1",
    (
        Point(2, Fraction(1), 2, 2, is_proved=True),
        Point(3, Fraction(9, 22), 22, 9, is_proved=True),
        Point(4, Fraction(4, 13), 13, 4),
        LimitPoint(5, Fraction(5, 19), None, None, is_proved=True),
    ),
    min_steps=2,
    bandwidth=Fraction(1, 6),
    limits=((2, Fraction(1)), (3, Fraction(9, 22)), (4, Fraction(3, 10))),
    refuted=((3, Fraction(2, 5)), (3, Fraction(1, 3))),
    open=((4, Fraction(3, 10)),),
    alpha_us=0.7,
    gb_per_s=25.0,
)


ALLGATHER = FrontierData(
    "allgather on dgx1",
    (
        Point(2, Fraction(3, 2), 2, 3, is_proved=True),
        Point(3, Fraction(7, 6), 6, 7, is_proved=True),
    ),
    alpha_us=0.7,
    gb_per_s=25.0,
)


def one_step(topology: Topology) -> Algorithm:
    """Return an algorithm in which every rank sends its chunk over all its links."""
    sends = tuple(
        make_send(link.src, link.src, link.dst, 0) for link in topology.links if link.src < link.dst
    )
    return Algorithm(topology, named_spec("allgather", topology.ranks).at(1), (1, 2), sends)


def rows_of(chart: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of each layer."""
    spec = vega_specification(chart)
    return [layer.get("data", spec.get("data"))["values"] for layer in spec["layer"]]


def values(chart: Any, field: str) -> set[Any]:
    """Return the values of a field in all rows of all layers."""
    return {row[field] for rows in rows_of(chart) for row in rows if field in row}
