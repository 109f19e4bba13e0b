"""Frontiers of earlier versions: the fields that they did not write, and where classes lay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sccl.core.bounds import Bounds
from sccl.core.frontier import ClassFrontier, Frontier

_UNPROVED = {
    "problem": "",
    "kind": "",
    "steps": {"problem": "", "chunk": 0, "from": (), "to": 0, "distance": 0},
}
_HEAD = {"root": None, "alpha_us": 0.0, "gb_per_s": 0.0, "complete": False, "stopped": ""}
_POINT = {"chunks": None, "rounds": None, "bandwidth_cost": None, "optimal": (), "file": None}


def completed(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a frontier with the fields that earlier versions did not write."""
    bounds = plain.get("bounds")
    if not isinstance(bounds, dict):
        return plain
    bounds = {"scope": "", "certificate": _UNPROVED} | bounds
    classes = [{"complete": False} | one | _lists(one) for one in _rows(plain, "classes")]
    return (
        _HEAD
        | {"scope": bounds["scope"], "limits": ()}
        | {name: value for name, value in plain.items() if (name, value) != ("k", None)}
        | {"bounds": bounds}
        | ({"classes": classes} if classes else {})
        | _lists(plain)
    )


def _lists(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points and limits of a class, completed."""
    found = {
        "points": [_POINT | point for point in _rows(plain, "points")],
        "limits": [{"upper": limit.get("lower")} | limit for limit in _rows(plain, "limits")],
    }
    return {name: rows for name, rows in found.items() if rows}


def _rows(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a list. None where there is something else, which is complained of."""
    rows = plain.get(name)
    whole = isinstance(rows, list | tuple) and all(isinstance(row, dict) for row in rows)
    return list(rows) if whole and rows is not None else []


def older_class(part: ClassFrontier, own: Frontier) -> Frontier:
    """Return another class of an older file as a separate frontier, without bounds.

    If it runs the algorithms of another collective, nothing is beyond that one's bounds.

    Args:
        part: the class as it was read.
        own: the main frontier of the file.
    """
    first = part.points[0] if part.points else None
    known = first is not None and "latency" in first.optimal
    bounds = Bounds(1, Fraction(0)) if part.collective else None
    collective = part.collective or own.collective
    part = replace(part, collective="", steps=first.steps if first and known else None)
    return Frontier(own.topology, collective, own.root, own.costs, bounds, (part,))
