"""Motifs at work: gloo's own collectives on parts of tensors, or transfers, step after step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist

from sccl.enforce.rows import OpRow
from sccl.enforce.script import ScriptMotif, ScriptOp

Combine = Callable[[torch.Tensor, torch.Tensor], Any]

_COMBINE: Mapping[str, Combine] = {
    "sum": torch.Tensor.add_,
    "avg": torch.Tensor.add_,
    "prod": torch.Tensor.mul_,
    "min": lambda into, other: torch.minimum(into, other, out=into),
    "max": lambda into, other: torch.maximum(into, other, out=into),
}
_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}

_Rows = Sequence[tuple[int, int, int, int, int, bool]]


def transfer(motif: ScriptMotif, op: ScriptOp, row: OpRow, rank: int, world: Any) -> None:
    """Do what this rank does of a motif's transfers.

    What a step sends was there before it: so what is got is put in place when all of the step is
    there.

    Args:
        rank: global, of this process.
        world: a group of all ranks, over the motif's channel.
    """
    mine = [one for one in motif.transfers if rank in one[3:5]]
    for _, rows in groupby(mine, key=lambda one: one[0]):
        _step(list(rows), op, row, rank, world)


def _step(rows: _Rows, op: ScriptOp, row: OpRow, rank: int, world: Any) -> None:
    """Exchange what a step does, in one message for each rank and direction."""
    sent: dict[int, list[torch.Tensor]] = {}
    wanted: dict[int, list[tuple[torch.Tensor, bool]]] = {}
    for _, start, stop, source, target, adds in rows:
        if source == rank:
            sent.setdefault(target, []).append(row.at(start, stop))
        else:
            wanted.setdefault(source, []).append((row.at(start, stop), adds))
    works: list[Any] = []
    kept: list[torch.Tensor] = []  # until they are sent
    for target, parts in sent.items():
        kept.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        works.append(world.send([kept[-1]], target, 0))
    brought: list[tuple[torch.Tensor, list[tuple[torch.Tensor, bool]]]] = []
    both = len(sent) > 0
    for source, places in wanted.items():
        size = sum(place.numel() for place, _ in places)
        straight = len(places) == 1 and not places[0][1] and not both
        buffer = places[0][0] if straight else places[0][0].new_empty(size)
        works.append(world.recv([buffer], source, 0))
        brought.append((buffer, [] if straight else places))
    for work in works:
        work.wait()
    for buffer, places in brought:
        at = 0
        for place, adds in places:
            part = buffer[at : at + place.numel()]
            at += place.numel()
            if adds:
                _COMBINE[op.reduce](place, part)
            else:
                place.copy_(part)


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
