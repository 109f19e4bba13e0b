"""The comparison by value, on documents with one change each."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.golden.records import (
    RECORDS,
    blank,
    differences,
    read,
    regressions,
    schemas_differ,
    shapes_differ,
)

RECORD: dict[str, Any] = {
    "exit_code": 3,
    "document": {
        "bounds": {"steps": 2, "bandwidth": "7/6", "certificate": {"steps": 2}},
        "complete": True,
        "points": [
            {"steps": 2, "bandwidth_cost": "3/2", "proved": True, "limit": "3/2"},
            {"steps": 4, "bandwidth_cost": "5/4", "proved": False, "limit": None},
        ],
        "unsat": [{"steps": 2, "bandwidth_cost": "4/3"}],
        "times": [{"size_bytes": 1000, "finish_us": 100.0, "bound_us": 90.0, "proved": False}],
        "attained": {"steps": 4, "bandwidth": "7/6"},
    },
    "files": {"plan.json": "00"},
}
POINTS = ("document", "points")
ROW = ("document", "times", 0)
BOUNDS = ("document", "bounds")

Change = tuple[tuple[str | int, ...], Any]

TOLERATED: dict[str, Change] = {
    "a file": (("files", "plan.json"), "ff"),
    "a decision": (("exit_code",), 0),
    "a slower plan": ((*ROW, "finish_us"), 102.0),
    "a faster plan": ((*ROW, "finish_us"), 95.0),
    "a higher bound": ((*ROW, "bound_us"), 99.0),
    "a rounded bound": ((*ROW, "bound_us"), 89.99999),
    "a proof": ((*ROW, "proved"), True),
    "another cut": ((*BOUNDS, "certificate"), {}),
    "other candidates": (("document", "unsat"), []),
    "a better construction": (("document", "attained", "bandwidth"), "1"),
    "a better point": ((*POINTS, 1, "bandwidth_cost"), "7/6"),
    "a point of fewer steps": ((*POINTS, 1, "steps"), 3),
}
REFUSED: dict[str, Change] = {
    "an error": (("exit_code",), 2),
    "a slow plan": ((*ROW, "finish_us"), 102.1),
    "no plan": ((*ROW, "finish_us"), None),
    "a lower bound in microseconds": ((*ROW, "bound_us"), 89.9),
    "a bound above a plan": ((*ROW, "bound_us"), 100.1),
    "no row": (("document", "times"), []),
    "fewer steps than proved": ((*BOUNDS, "steps"), 1),
    "a lower bound on R/C": ((*BOUNDS, "bandwidth"), "8/7"),
    "an incomplete frontier": (("document", "complete"), False),
    "a point without its proof": ((*POINTS, 0, "proved"), False),
    "an optimum that is none": ((*POINTS, 0, "bandwidth_cost"), "151/100"),
    "a limit above its point": ((*POINTS, 0, "limit"), "2"),
    "a slow point": ((*POINTS, 1, "bandwidth_cost"), "13/10"),
    "no point": (POINTS, []),
    "a worse construction": (("document", "attained", "bandwidth"), "6/5"),
}


def changed(change: Change) -> dict[str, Any]:
    """Return the record with one value replaced."""
    (*places, last), value = change
    record: Any = copy.deepcopy(RECORD)
    inner = record
    for place in places:
        inner = inner[place]
    inner[last] = value
    assert list(differences(RECORD, record))
    result: dict[str, Any] = record
    return result


@pytest.mark.parametrize("name", TOLERATED)
def test_comparison_by_value_tolerates(name: str) -> None:
    assert list(regressions(RECORD, changed(TOLERATED[name]))) == []


@pytest.mark.parametrize("name", REFUSED)
def test_comparison_by_value_refuses(name: str) -> None:
    assert list(regressions(RECORD, changed(REFUSED[name])))


OF_SHAPES = {"documents", "schemas"}


@pytest.mark.parametrize("area", sorted({path.stem for path in RECORDS.glob("*.json")}))
def test_record_is_as_good_as_itself(area: str) -> None:
    compares = (shapes_differ, schemas_differ) if area in OF_SHAPES else (regressions,)
    for record in read(area).values():
        assert not [problem for compare in compares for problem in compare(record, record)]


def test_shapes_ignore_values_and_nulls() -> None:
    old = {"a": [{"b": 1}, {"b": None, "c": "x"}], "d": None}
    assert not list(shapes_differ(old, {"a": [{"b": 2.5, "c": ""}], "d": {"e": 1}}))
    assert not list(shapes_differ(blank(old), old))
    assert list(shapes_differ(old, {"a": [{"b": 2.5}], "d": None}))
    assert list(shapes_differ(old, {"a": [{"b": "1", "c": ""}], "d": None}))
    assert list(shapes_differ(old, {"a": old["a"]}))


def test_schemas_ignore_descriptions_but_not_properties_of_this_name() -> None:
    old = {"description": "one", "properties": {"description": {"type": "string"}}}
    assert not list(schemas_differ(old, old | {"description": "two"}))
    assert list(schemas_differ(old, {"properties": {}}))
