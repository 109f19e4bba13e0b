"""Frontiers of earlier versions: the fields that they did not write, and where classes lay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import ClassFrontier, Frontier

_EMPTY_CERTIFICATE = {
    "problem": "",
    "kind": "",
    "steps": {"problem": "", "chunk": 0, "from": (), "to": 0, "distance": 0},
}
_FRONTIER_DEFAULTS = {
    "root": None,
    "alpha_us": 0.0,
    "gb_per_s": 0.0,
    "complete": False,
    "stopped": "",
}
_POINT_DEFAULTS = {
    "chunks": None,
    "rounds": None,
    "bandwidth_cost": None,
    "optimal": (),
    "file": None,
}


def fill_missing_fields(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a frontier with the fields that earlier versions did not write."""
    bounds = plain.get("bounds")
    if not isinstance(bounds, dict):
        return plain
    bounds = {"scope": "", "certificate": _EMPTY_CERTIFICATE} | bounds
    classes = [{"complete": False} | row | _filled_lists(row) for row in _rows(plain, "classes")]
    return (
        _FRONTIER_DEFAULTS
        | {"scope": bounds["scope"], "limits": ()}
        | {name: value for name, value in plain.items() if (name, value) != ("k", None)}
        | {"bounds": bounds}
        | ({"classes": classes} if classes else {})
        | _filled_lists(plain)
    )


def _filled_lists(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points and limits of a class, completed."""
    lists = {
        "points": [_POINT_DEFAULTS | point for point in _rows(plain, "points")],
        "limits": [{"upper": limit.get("lower")} | limit for limit in _rows(plain, "limits")],
    }
    return {name: rows for name, rows in lists.items() if rows}


def _rows(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a list. None where there is something else, which is complained of."""
    rows = plain.get(name)
    is_valid = isinstance(rows, list | tuple) and all(isinstance(row, dict) for row in rows)
    return list(rows) if is_valid and rows is not None else []


def legacy_class_frontier(part: ClassFrontier, frontier: Frontier) -> Frontier:
    """Return another class of an older file as a separate frontier, without bounds.

    If it runs the algorithms of another collective, nothing is beyond that one's bounds.

    Args:
        part: the class as it was read.
        frontier: the main frontier of the file.
    """
    first = part.points[0] if part.points else None
    meets_latency = first is not None and "latency" in first.optimal
    bounds = AlgorithmBounds(1, Fraction(0)) if part.collective else None
    collective = part.collective or frontier.collective
    part = replace(part, collective="", steps=first.steps if first and meets_latency else None)
    return Frontier(frontier.topology, collective, frontier.root, frontier.costs, bounds, (part,))
