"""Motifs that gloo's own collectives do, on parts of tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sccl.enforce.rows import OpRow, Row
from sccl.enforce.script import ScriptMotif, ScriptOp

_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.SUM,  # it is divided once all is there
    "prod": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


def by_gloo(motif: ScriptMotif, op: ScriptOp, row: Row, group: Any) -> None:
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
        assert isinstance(row, OpRow)
        part = row.given[start:stop].clone()
        out = part.new_empty(places * (stop - start))
        group.all_gather_single(out, part).wait()
        row.got.view(places, each)[:, start:stop].copy_(out.view(places, -1))
        return
    assert op.collective == "alltoall", op.collective
    own = group.rank()
    given = [(own * places + other) * each for other in range(places)]
    got = [(other * places + own) * each for other in range(places)]
    parts, into = ([row.at(at + start, at + stop) for at in cells] for cells in (given, got))
    # Told of sizes, gloo takes blocks of any.
    sizes = [[one.numel() for one in those] for those in (into, parts)]
    out = parts[0].new_empty(sum(sizes[0]))
    group.all_to_all_single(out, torch.cat(parts), *sizes).wait()
    for one, came in zip(into, out.split(sizes[0]), strict=True):
        one.copy_(came)
