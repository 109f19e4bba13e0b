"""The shape of files of workloads: one iteration of a training job."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import NonNegative
from sccl.training.types.workload_ops import MAX_NAME_LENGTH

_Named = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
_Lag = Annotated[int, Meta(ge=0, description="Number of iterations between the two operations.")]


class _WorkloadPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RoleWire(_WorkloadPart, frozen=True, kw_only=True):
    """A program's name, and the ranks that run it."""

    name: _Named
    ranks: Annotated[tuple[NonNegative, ...], Meta(min_length=1), "In ascending order."]


class ComputeOpWire(_WorkloadPart, frozen=True, kw_only=True, tag_field="op", tag="compute"):
    """Computation of every rank of a role."""

    id: _Named
    role: _Named
    stream: Annotated[_Named, "Operations, which run one after another in this order."]
    duration_us: Annotated[float, Meta(ge=0)]


class CommOpWire(
    _WorkloadPart, frozen=True, kw_only=True, omit_defaults=True, tag_field="op", tag="collective"
):
    """A collective among some ranks."""

    id: _Named
    collective: _Named
    group: Annotated[
        tuple[NonNegative, ...], Meta(min_length=1), "Ranks, in the order of the group."
    ]
    count: Annotated[
        NonNegative,
        "Elements of a rank's largest buffer: the whole buffer for allreduce, broadcast, and "
        "reduce; the output for allgather; the input for reducescatter and alltoall; the root's "
        "buffer for gather and scatter.",
    ]
    dtype: Annotated[str, "Type of the elements, such as float32."]
    root: Annotated[int | None, "Root, for collectives with one."] = None
    reduce: Annotated[str | None, "Operator of reductions: sum, max, ..."] = None
    splits: Annotated[
        tuple[tuple[NonNegative, ...], ...],
        "Elements from each rank to each, one row per sender; empty: equal parts.",
    ] = ()
    holds_bytes: Annotated[NonNegative, "Bytes of its result, stored until its last use ends."] = 0
    beside: Annotated[
        tuple[tuple[NonNegative, ...], ...],
        "Further groups that make the same call at the same time. All are disjoint and have the "
        "same size; roots and splits are at the same places.",
    ] = ()


class DependencyWire(_WorkloadPart, frozen=True, kw_only=True, omit_defaults=True):
    """An operation that has to be done before another begins."""

    before: _Named
    after: _Named
    lag: _Lag = 0


class HostEventWire(_WorkloadPart, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a program."""

    action: Literal["submit", "wait"]
    op: _Named
    lag: _Lag = 0


class HostProgramWire(_WorkloadPart, frozen=True, kw_only=True):
    """The operations that the ranks of a role submit and wait for, in order."""

    role: _Named
    events: Annotated[
        tuple[HostEventWire, ...],
        "Submissions and waits, in order; empty: unknown, because no rank of the role was traced.",
    ]


class WorkloadWire(_WorkloadPart, frozen=True, kw_only=True, omit_defaults=True):
    """One iteration of a training job: computation, collectives, and dependencies."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["workload"] = "workload"
    digest: Annotated[str | None, "sha256 of the content without this field; or null."] = None
    name: _Named
    source: Annotated[str, "Origin of the workload."] = ""
    ranks: Annotated[int, Meta(ge=1)]
    iteration_us: Annotated[float | None, "Duration of an iteration in the trace."] = None
    left_out_us: Annotated[
        float | None, "Part of this duration without any operation on a device, such as host time."
    ] = None
    roles: Annotated[tuple[RoleWire, ...], Meta(min_length=1)]
    ops: tuple[ComputeOpWire | CommOpWire, ...]
    deps: tuple[DependencyWire, ...]
    submits: tuple[HostProgramWire, ...]
