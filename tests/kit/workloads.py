"""Workloads made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sccl.training.models import DlrmJob
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    COMBINING,
    ROOTED,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

SUBMIT, WAIT = HostAction.SUBMIT, HostAction.WAIT

RECOMMENDING = DlrmJob(
    ranks=16,
    batch=1024,
    tables=64,
    dimension=64,
    pooling=10,
    bottom=(2048, 2048, 2048),
    top=(512, 512, 512),
    interaction_mflops=20.0,
    tflops=60.0,
    data_prefetch=False,
)
"""A small recommendation model, whose exchanges are not hidden."""


def prefetching(**changes: object) -> Workload:
    """Return a step of two ranks: gradients are added up, the next batch is exchanged ahead."""
    found = Workload(
        name="prefetching",
        ranks=2,
        roles=(Role("all", (0, 1)),),
        ops=(
            ComputeOp("forward", "all", "7", 3.0),
            ComputeOp("backward", "all", "7", 5.5),
            ComputeOp("optimizer", "all", "7", 1.0),
            CommOp("gradients", "allreduce", (0, 1), 1024, "float32", reduce="sum"),
            CommOp("batch", "alltoall", (0, 1), 30, "int64", splits=((10, 20), (15, 5))),
        ),
        deps=(
            Dependency("batch", "forward", 1),
            Dependency("backward", "gradients"),
            Dependency("gradients", "optimizer"),
        ),
        submits=(
            HostProgram(
                "all",
                (
                    HostEvent(WAIT, "batch", 1),
                    HostEvent(SUBMIT, "batch"),
                    HostEvent(SUBMIT, "gradients"),
                    HostEvent(WAIT, "gradients"),
                ),
            ),
        ),
        iteration_us=12.5,
        source="made by hand",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def calling(ranks: int, *ops: CommOp) -> Workload:
    """Return a step in which every rank calls the collectives that it takes part in, in order."""
    programs = (
        (f"rank {rank}", tuple(HostEvent(SUBMIT, op.id) for op in ops if rank in op.members))
        for rank in range(ranks)
    )
    return Workload(
        name="calling",
        ranks=ranks,
        roles=tuple(Role(f"rank {rank}", (rank,)) for rank in range(ranks)),
        ops=ops,
        deps=(),
        submits=tuple(HostProgram(name, events) for name, events in programs),
    )


def comm(name: str, collective: str, group: Iterable[int], count: int, **told: Any) -> CommOp:
    """Return a collective of 32-bit numbers that sums, with the first of its group as root."""
    ranks = tuple(group)
    if collective in COMBINING:
        told.setdefault("reduce", "sum")
    if collective in ROOTED:
        told.setdefault("root", ranks[0])
    return CommOp(name, collective, ranks, count, "float32", **told)
