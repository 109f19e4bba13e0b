"""Motifs that gloo's own collectives do, on parts of tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.script import ScriptMotif, ScriptOp
from sccl.torch_backend.tensor_rows import OpRow, Row

_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.SUM,  # it is divided once all is there
    "prod": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


def run_on_gloo(motif: ScriptMotif, op: ScriptOp, row: Row, group: Any) -> None:
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
        part = row.inputs[start:stop].clone()
        out = part.new_empty(places * (stop - start))
        group.all_gather_single(out, part).wait()
        row.got.view(places, each)[:, start:stop].copy_(out.view(places, -1))
        return
    assert op.collective == "alltoall", op.collective
    rank = group.rank()
    sent = [(rank * places + peer) * each for peer in range(places)]
    got = [(peer * places + rank) * each for peer in range(places)]
    parts, into = ([row.at(at + start, at + stop) for at in cells] for cells in (sent, got))
    # Told of sizes, gloo takes blocks of any.
    sizes = [[block.numel() for block in blocks] for blocks in (into, parts)]
    out = parts[0].new_empty(sum(sizes[0]))
    group.all_to_all_single(out, torch.cat(parts), *sizes).wait()
    for block, came in zip(into, out.split(sizes[0]), strict=True):
        block.copy_(came)
