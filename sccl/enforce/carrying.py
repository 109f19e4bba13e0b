"""Motifs that gloo's own collectives do, on parts of tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sccl.enforce.rows import OpRow
from sccl.enforce.script import ScriptMotif, ScriptOp

_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


def by_gloo(motif: ScriptMotif, op: ScriptOp, row: OpRow, group: Any) -> None:
    """Let gloo do a collective of a part of each block, or of all where there are no blocks.

    Args:
        group: over the motif's channel, of the operation's ranks.
    """
    start, stop = motif.part
    if op.collective == "allreduce":
        options = dist.AllreduceOptions()
        options.reduceOp = _REDUCTIONS[op.reduce]
        group.allreduce([row.at(start, stop)], options).wait()
        return
    places, each = group.size(), op.count // group.size()
    if op.collective == "allgather":
        part = row.given[start:stop].clone()
        out = part.new_empty(places * (stop - start))
        group.all_gather_single(out, part).wait()
        row.got.view(places, each)[:, start:stop].copy_(out.view(places, -1))
        return
    assert op.collective == "alltoall", op.collective
    part = row.given.view(places, each)[:, start:stop].contiguous().view(-1)
    out = torch.empty_like(part)
    group.all_to_all_single(out, part, [], []).wait()
    row.got.view(places, each)[:, start:stop].copy_(out.view(places, -1))
