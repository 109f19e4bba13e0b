"""Workloads made by hand."""

from __future__ import annotations

from dataclasses import replace

from sccl.core.workload import Workload
from sccl.core.workload_ops import (
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

SUBMIT, WAIT = HostAction.SUBMIT, HostAction.WAIT


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
