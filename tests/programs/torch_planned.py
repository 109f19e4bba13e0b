"""The operations of a script, called as it has them: ``torch_planned.py STEPS [CHANGE ..]``.

A change is a step and a word: ``3:more`` calls one that is not planned, ``3:less`` leaves one out,
``3:early`` waits for each before the next, ``3:uneven`` exchanges blocks of other sizes, some of
nothing, and ``3:mixed`` those that are planned, whose sizes odd ranks tell. Results are compared
with gloo's. Each rank prints how often it left its plan, whether it keeps to it in the end, and how
many calls it made.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.script import ScriptOp, read_script
from sccl.torch_backend.session import current_session

TYPES = {"float32": torch.float32, "int64": torch.int64}


def numbers(count: int, dtype: str, seed: int) -> torch.Tensor:
    return ((torch.arange(count) * 7 + 3 * seed) % 11).to(TYPES[dtype])  # sums of these are exact


def exchange(
    op: ScriptOp, step: int, group: Any, count: int, blocks: str
) -> tuple[Any, list[torch.Tensor]]:
    """Call an alltoall, and return its work and its outputs."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    each: int = count // ranks

    def size(source: int, target: int) -> int:
        return each if blocks != "uneven" else (source + 2 * target + step) % 5 * each // 3

    gives = [size(rank, other) for other in range(ranks)]
    gets = [size(other, rank) for other in range(ranks)]
    whole = numbers(sum(gives), op.dtype, rank + 10 * step)
    out = torch.empty(sum(gets), dtype=whole.dtype)
    mixed = blocks == "mixed" and rank % 2 and not op.keeps_blocks
    told = (gets, gives) if blocks == "uneven" or mixed else ()
    return dist.all_to_all_single(out, whole, *told, group=group, async_op=True), [out]


def start(  # noqa: PLR0911 - a table
    op: ScriptOp, step: int, group: Any, call: int = 0, blocks: str = ""
) -> tuple[Any, list[torch.Tensor]]:
    """Call an operation, or one of its calls, and return its work and its outputs."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    seed, root = rank + 10 * step, op.roots[0] if op.roots else None
    count = op.counts[call]
    whole, block = (numbers(many, op.dtype, seed) for many in (count, count // ranks))
    into = torch.empty_like(block)
    how = {"group": group, "async_op": True}
    match op.collective:
        case "allreduce":
            ops = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG}
            return dist.all_reduce(whole, ops[op.reduce], **how), [whole]
        case "broadcast":
            return dist.broadcast(whole, root, **how), [whole]
        case "reduce":
            return dist.reduce(whole, root, **how), [whole] if rank == root else []
        case "allgather":
            out = torch.empty_like(whole)
            return dist.all_gather_into_tensor(out, block, **how), [out]
        case "reducescatter":
            return dist.reduce_scatter_tensor(into, whole, **how), [into]
        case "alltoall":
            return exchange(op, step, group, count, blocks)
        case "gather":
            outs = [torch.empty_like(block) for _ in range(ranks)] if rank == root else None
            return dist.gather(block, outs, root, **how), outs or []
    parts = list(whole.chunk(ranks)) if rank == root else None
    return dist.scatter(into, parts, root, **how), [into]


def main() -> None:
    script = read_script(Path(os.environ["SCCL_SCRIPT"]))
    changes = dict(word.split(":") for word in sys.argv[2:])
    dist.init_process_group("sccl")
    beside = dist.new_group(backend="gloo")
    for step in range(int(sys.argv[1])):
        change = changes.get(str(step), "")
        calls = list(script.submits)
        if change == "less":
            del calls[len(calls) // 2]
        works = []
        for number, (place, call) in enumerate(calls):
            if change == "more" and number == 1:
                dist.all_reduce(other := torch.ones(13))
                assert other.eq(dist.get_world_size()).all()
            op = script.ops[place]
            works.append((op, call, *start(op, step, dist.group.WORLD, call, change)))
            if change == "early":
                works[-1][2].wait()
        for op, call, work, got in works:
            work.wait()
            theirs, wanted = start(op, step, beside, call, change)
            theirs.wait()
            assert all(map(torch.equal, got, wanted)), f"{op.id} in step {step}"
    plans = current_session().plans
    assert plans is not None
    enforcer = plans.enforcer
    assert enforcer is not None
    sequence = enforcer.sequence
    dist.barrier(beside)
    line = f"{dist.get_rank()} {sequence.cuts} {sequence.planned} {sequence.calls}\n"
    dist.destroy_process_group()
    sys.stdout.write(line)


if __name__ == "__main__":
    main()
