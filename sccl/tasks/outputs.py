"""Define the common part of ``--json`` outputs, from which the published JSON Schemas derive.

Within schema 1, fields are added only. None is removed or changes its meaning. The output of each
verb is defined next to its task, in this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

import sccl
from sccl.collectives import Spec
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.collectives import collective_to_wire
from sccl.core.files.json_text import digest
from sccl.core.files.kinds import json_schema
from sccl.core.files.shapes import Part
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

    schema: Annotated[Literal[1], Meta(description="Version of this shape.")] = 1
    kind: str
    sccl: Annotated[str, Meta(description="The version of sccl.")] = sccl.__version__
    inputs: Inputs


# --- errors --------------------------------------------------------------------------------------


class Failure(Part, frozen=True, kw_only=True):
    """An error."""

    type: Annotated[str, Meta(description="The kind of error, such as ParameterError.")]
    exit_code: Annotated[
        int,
        Meta(
            description="2: bad input; 4: a solver or a tool failed or is missing; 130: "
            "interrupted."
        ),
    ]
    message: Annotated[str, Meta(description="The sentence on stderr.")]


class ErrorOutput(Output, frozen=True, kw_only=True):
    """The output of any verb that fails."""

    kind: Literal["error"] = "error"
    error: Failure


# --- heads ---------------------------------------------------------------------------------------


def question_digests(topology: Topology, spec: Spec | None = None) -> dict[str, str]:
    """Return the digests of a machine and of a collective at the smallest C it can have."""
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
    """Return the JSON Schema (2020-12) of an output: a field that may be missing is not required.

    Unknown fields are allowed, as later versions may add some.
    """
    schema: dict[str, Any] = json_schema(output)
    for shape in schema["$defs"].values():
        if shape.get("additionalProperties") is False:
            continue  # the shape of a file, which stands in it as a whole
        fields = shape["properties"]
        unset = {n for n in fields if n not in shape["required"] and "default" not in fields[n]}
        shape["required"] = [name for name in fields if name not in unset]
        for field in fields.values():
            field.pop("default", None)
    return schema
