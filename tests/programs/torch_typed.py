"""Calls of :mod:`tests.kit.typed_calls`, several times: ``torch_typed.py STEPS``.

Each rank prints the calls whose results are not those of their definition, and the refusals.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.calls.call_description import DTYPES
from sccl.torch_backend.session import current_session
from tests.kit.typed_calls import REFUSED, SERVED, TypedCall

TYPES = {name: dtype for dtype, name in DTYPES.items()}
OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT,
       "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}  # fmt: skip
FOLDS: dict[str, Callable[[Any], int]] = {"sum": sum, "prod": math.prod, "min": min, "max": max}


def elements(call: TypedCall, rank: int, step: int, count: int) -> torch.Tensor:
    """Return elements of any bits: NaN, and integers whose sums wrap around, are among them."""
    dtype = TYPES[call.dtype]
    source = torch.Generator().manual_seed(1000 * step + rank)
    bits = torch.randint(0, 256, (count * dtype.itemsize,), generator=source, dtype=torch.uint8)
    return bits.view(dtype)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is not contiguous."""
    return tensor.new_zeros(tensor.numel(), 2)[:, 1].copy_(tensor)


def folded(call: TypedCall, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the reduction of integers by definition, and anything for other types, which fail."""
    if tensors[0].is_floating_point():
        return tensors[0]
    dtype, bits = tensors[0].dtype, 8 * tensors[0].itemsize
    low = torch.iinfo(dtype).min
    columns = [tensor.tolist() for tensor in tensors]
    results = [FOLDS[call.reduce](column) for column in zip(*columns, strict=True)]
    return torch.tensor([(one - low) % 2**bits + low for one in results], dtype=dtype)


Made = tuple[Any, Sequence[torch.Tensor], Sequence[torch.Tensor]]
"""The work of a call, its results, and those by definition."""


def make(call: TypedCall, step: int) -> Made:  # noqa: PLR0911, PLR0912 - a table
    """Make a call, and wait for it in even steps."""
    rank, ranks, block = dist.get_rank(), dist.get_world_size(), call.block
    small = [elements(call, other, step, block) for other in range(ranks)]
    large = [elements(call, other, step, block * ranks) for other in range(ranks)]
    own, whole = small[rank].clone(), large[rank].clone()
    parts = [list(one.chunk(ranks)) for one in large]
    empty = [torch.zeros_like(own) for _ in range(ranks)]
    mine = [row[rank] for row in parts]
    into = torch.zeros_like(whole)
    sent = parts[rank]
    if call.shape == "strided":
        own, whole, into = map(strided, (own, whole, into))
        empty, sent = list(map(strided, empty)), list(map(strided, sent))
    elif call.shape == "aliased":
        empty[0] = whole.view(ranks, -1)[rank]
        own = into.view(ranks, -1)[rank].copy_(own)
        into = whole if call.method == "all_to_all_single" else into
    elif call.shape == "rows":
        into, whole = into.view(ranks, block), whole.view(ranks, block)
    elif call.shape == "flattened":
        own, empty[0] = own.view(2, -1), empty[0].view(2, -1)
    elif call.shape == "scalars":
        own, empty[0] = own.view(()), empty[0].view(())
    how: dict[str, Any] = {"async_op": step % 2 == 1}
    by = how | {"op": OPS.get(call.reduce)}
    match call.method:
        case "all_gather":
            return dist.all_gather(empty, own, **how), empty, small
        case "all_gather_into_tensor":
            return dist.all_gather_into_tensor(into, own, **how), [into], [torch.cat(small)]
        case "all_reduce":
            return dist.all_reduce(whole, **by), [whole], [folded(call, large)]
        case "all_to_all":
            return dist.all_to_all(empty, sent, **how), empty, mine
        case "all_to_all_single":
            return dist.all_to_all_single(into, whole, **how), [into], [torch.cat(mine)]
        case "broadcast":
            return dist.broadcast(whole, 0, **how), [whole], [large[0]]
        case "gather":
            work = dist.gather(own, None if rank else empty, **how)
            return (work, [], []) if rank else (work, empty, small)
        case "reduce":
            work = dist.reduce(whole, 0, **by)
            return (work, [], []) if rank else (work, [whole], [folded(call, large)])
        case "reduce_scatter":
            work = dist.reduce_scatter(empty[0], sent, **by)
            return work, empty[:1], [folded(call, mine)]
        case "reduce_scatter_tensor":
            work = dist.reduce_scatter_tensor(empty[0], whole, **by)
            return work, empty[:1], [folded(call, mine)]
    return dist.scatter(own, None if rank else sent, **how), [own], [parts[0][rank]]


def outcomes(step: int) -> Iterator[tuple[TypedCall, str]]:
    """Make all calls of a step, and yield those that failed, or whose results are wrong."""
    every: list[tuple[TypedCall, Made | str]] = []
    for call in (*SERVED, *REFUSED):
        try:
            every.append((call, make(call, step)))
        except RuntimeError as error:
            every.append((call, str(error)))
    for call, one in every:
        if isinstance(one, str):
            yield call, one
            continue
        work, results, wanted = one
        try:
            if work is not None:
                work.wait()
        except RuntimeError as error:
            yield call, str(error)
        else:
            if not is_right(results, wanted):
                yield call, "wrong"


def is_right(results: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> bool:
    def bits(tensors: Sequence[torch.Tensor]) -> list[Any]:
        return [one.reshape(-1).contiguous().view(torch.uint8).tolist() for one in tensors]

    return bits(results) == bits(wanted)


def main() -> None:
    dist.init_process_group("sccl")
    lines = []
    for step in range(int(sys.argv[1])):
        lines += [f"{step} {call.shown}: {outcome}" for call, outcome in outcomes(step)]
    plans = current_session().plans
    if plans is not None and plans.enforcer is not None:
        lines.append(f"planned: {plans.enforcer.sequence.planned}")
    dist.destroy_process_group()
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
