"""The common part of ``--json`` outputs, from which the published JSON Schemas derive.

Within schema 1, fields may be added, but no field is removed or changes its meaning. The output of
a verb is defined next to its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import Meta, UnsetType

import sccl
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.collective import Collective
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.collectives import collective_to_wire
from sccl.core.files.json_text import digest
from sccl.core.files.kinds import json_schema
from sccl.core.files.shapes import Part, Seconds
from sccl.core.files.topologies import topology_to_wire
from sccl.core.topology import Topology

if TYPE_CHECKING:
    from sccl.core.outcome import Plan

Inputs = Annotated[
    dict[str, Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]],
    Meta(description="sha256 of each input: topology, collective, or file."),
]


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The head of every output: its kind, the version of sccl, and digests of its inputs."""

    schema: Annotated[Literal[1], "Version of this shape."] = 1
    kind: str
    sccl: Annotated[str, "The version of sccl."] = sccl.__version__
    inputs: Inputs


# --- values --------------------------------------------------------------------------------------

ShapeT = TypeVar("ShapeT", bound=msgspec.Struct)
ValueT = TypeVar("ValueT")

Convert = Callable[[Any], Any]


def build_output(shape: type[ShapeT], value: object = None, /, **fields: object) -> ShapeT:
    """Build an output, or a part of one, from a value.

    Each field is the attribute of the same name, unless ``fields`` contains it. The type of a field
    determines the conversion: fractions and paths become numbers or texts, objects with a name
    become their names, and other objects become parts with their attributes. Fields in microseconds
    may come from attributes in nanoseconds. A field without a value has its default. Seconds are
    rounded to milliseconds.
    """
    values = {}
    for name, convert in _converters(shape).items():
        if name in fields:
            values[name] = convert(fields[name])
        elif hasattr(value, name):
            values[name] = convert(getattr(value, name))
        elif name.endswith("_us") and hasattr(value, nanoseconds := f"{name[:-3]}_ns"):
            values[name] = getattr(value, nanoseconds) / 1000
    return shape(**values)


def copy_fields(kind: type[ValueT], source: object, /, **values: object) -> ValueT:
    """Build a dataclass whose fields are attributes of an object, unless ``values`` has them."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    copied = {name: getattr(source, name) for name in names if hasattr(source, name)}
    return kind(**copied | values)


@cache
def _converters(shape: type[msgspec.Struct]) -> dict[str, Convert]:
    """Return the function that converts the values of each field."""
    return {field.name: _converter(field.type) for field in msgspec.structs.fields(shape)}


def _converter(kind: Any) -> Convert:
    """Return the function that converts values to a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        is_duration = set(get_args(Seconds)[1:]) & set(parts[1:])
        return _round_seconds if is_duration else _converter(parts[0])
    if origin in {Union, UnionType}:
        convert = _converter(next(part for part in parts if part not in {NoneType, UnsetType}))
        kept = (NoneType, UnsetType, msgspec.Struct)
        return lambda value: value if isinstance(value, kept) else convert(value)
    if origin is tuple:
        convert_part = _converter(parts[0]) if parts[-1] is ... else _plain
        return lambda values: tuple(map(convert_part, values))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return lambda value: value if isinstance(value, kind) else build_output(kind, value)
    simple: dict[Any, Convert] = {float: float, str: _to_text, int: int, bool: bool}
    return simple.get(kind, _plain)


def _round_seconds(seconds: float) -> float:
    return round(seconds, 3)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _to_text(value: Any) -> str:
    if isinstance(value, str | Enum | Path):
        return str(_plain(value))
    return str(getattr(value, "name", value))


# --- errors --------------------------------------------------------------------------------------


class Failure(Part, frozen=True, kw_only=True):
    """An error."""

    type: Annotated[str, "The kind of error, such as ParameterError."]
    exit_code: Annotated[
        int, "2: bad input; 4: a solver or a tool failed or is missing; 130: interrupted."
    ]
    message: Annotated[str, "The sentence on stderr."]


class ErrorOutput(Output, frozen=True, kw_only=True):
    """The output of any verb that fails."""

    kind: Literal["error"] = "error"
    error: Failure


# --- heads ---------------------------------------------------------------------------------------


class CollectiveKind(Protocol):
    """A collective for any number of chunks (:class:`sccl.collectives.Spec`)."""

    @property
    def unit(self) -> int:
        """Return the smallest number of chunks."""

    def at(self, chunks: int) -> Collective:
        """Return the collective with a number of chunks."""


def question_digests(topology: Topology, spec: CollectiveKind | None = None) -> dict[str, str]:
    """Return the digests of a machine and of a collective at its smallest C."""
    digests = {"topology": digest(topology_to_wire(topology))}
    if spec is not None:
        digests["collective"] = digest(collective_to_wire(spec.at(spec.unit)))
    return digests


def plan_digests(plans: Mapping[str, Plan]) -> dict[str, str]:
    """Return the digests of algorithms and schedules by file."""
    return {name: _digest_of_plan(plan) for name, plan in plans.items()}


def _digest_of_plan(plan: Plan) -> str:
    if isinstance(plan, KSynchronousPlan):
        return digest(algorithm_to_wire(plan))
    from sccl.core.files.packed_schedules import packed_digest  # noqa: PLC0415 - NumPy is slow to load
    from sccl.core.files.schedules import schedule_digest  # noqa: PLC0415
    from sccl.core.packed_schedule import PackedSchedule  # noqa: PLC0415

    if isinstance(plan, PackedSchedule):
        return packed_digest(plan)
    return schedule_digest(plan)


def output_head(kind: str, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that every output starts with."""
    return {"schema": 1, "kind": kind, "sccl": sccl.__version__, "inputs": dict(inputs)}


def to_plain(output: Output) -> dict[str, Any]:
    """Return an output as plain JSON values, its head first."""
    values: dict[str, Any] = msgspec.to_builtins(output)
    return {name: values[name] for name in ("schema", "kind", "sccl", "inputs")} | values


def output_schema(output: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an output, without requiring optional fields.

    Unknown fields are allowed, since later versions may add some.
    """
    schema: dict[str, Any] = json_schema(output)
    for shape in schema["$defs"].values():
        if shape.get("additionalProperties") is False:
            continue  # an embedded file shape, which is complete
        fields = shape["properties"]
        unset = {n for n in fields if n not in shape["required"] and "default" not in fields[n]}
        shape["required"] = [name for name in fields if name not in unset]
        for field in fields.values():
            field.pop("default", None)
    return schema
