"""Outputs are built from the attributes of values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from sccl.core.files.outputs import Output as BaseOutput
from sccl.core.files.outputs import build_output, output_schema, to_plain
from sccl.core.files.shapes import FractionText, Part, Seconds


class Color(StrEnum):
    RED = "red"


class LinkPart(Part, frozen=True, kw_only=True):
    src: int
    us: float


class ShownOutput(BaseOutput, frozen=True, kw_only=True):
    kind: Literal["shown"] = "shown"
    topology: str
    cost: FractionText
    gap: float | None
    period_us: float
    seconds: Seconds
    color: Literal["red"]
    file: str | None
    links: Annotated[tuple[LinkPart, ...], "Links."]
    note: str = "none"
    group: str | UnsetType = UNSET


@dataclass(frozen=True)
class Link:
    src: int
    us: Fraction


@dataclass(frozen=True)
class Machine:
    name: str


@dataclass(frozen=True)
class Result:
    topology: Machine
    cost: Fraction
    gap: Fraction | None
    period_ns: int
    seconds: float
    color: Color
    links: tuple[Link, ...]


RESULT = Result(
    Machine("ring:4"), Fraction(7, 6), Fraction(1, 4), 1500, 0.12345, Color.RED,
    (Link(0, Fraction(1, 2)),),
)  # fmt: skip


def test_output_converts_attributes_by_the_types_of_its_fields() -> None:
    shown = build_output(ShownOutput, RESULT, inputs={}, file=Path("a/b.json"))
    assert to_plain(shown) == {
        "schema": 1,
        "kind": "shown",
        "sccl": shown.sccl,
        "inputs": {},
        "topology": "ring:4",
        "cost": "7/6",
        "gap": 0.25,
        "period_us": 1.5,
        "seconds": 0.123,
        "color": "red",
        "file": "a/b.json",
        "links": ({"src": 0, "us": 0.5},),
        "note": "none",
    }
    assert list(to_plain(shown))[:4] == ["schema", "kind", "sccl", "inputs"]


def test_given_fields_come_before_attributes() -> None:
    shown = build_output(
        ShownOutput,
        RESULT,
        inputs={},
        gap=None,
        file=None,
        links=(LinkPart(src=n, us=1) for n in range(2)),
        group="Z2",
    )
    assert (shown.gap, shown.file, shown.group) == (None, None, "Z2")
    assert [link.src for link in shown.links] == [0, 1]


def test_only_fields_that_may_be_absent_are_not_required() -> None:
    schema = output_schema(ShownOutput)["$defs"]["ShownOutput"]
    assert set(schema["properties"]) - set(schema["required"]) == {"group"}


def test_texts_in_annotations_describe_fields() -> None:
    properties = output_schema(ShownOutput)["$defs"]["ShownOutput"]["properties"]
    assert next(iter(properties["links"].items())) == ("description", "Links.")
    assert "description" not in properties["topology"]
