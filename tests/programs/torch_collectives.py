"""Compare every collective of ``sccl`` with gloo: ``torchrun .. torch_collectives.py [whole]``.

Each rank prints the numbers of compared results and of unsupported calls. A different bit, or a
call that only gloo supports, ends it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

WHOLE = "whole" in sys.argv
TYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32),
    *(torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2),
)
SIZES = (0, 1, 3, 1024, 262_144, 70_001) if WHOLE else (0, 1, 1021)
REDUCTIONS = tuple(getattr(dist.ReduceOp, name) for name in
                   ("SUM", "MIN", "MAX", "PRODUCT", "AVG", "BAND", "BOR", "BXOR"))  # fmt: skip

Run = Callable[[Any, bool], list[torch.Tensor]]


def numbers(size: int, dtype: torch.dtype, rank: int) -> torch.Tensor:
    signed = dtype.is_floating_point or dtype.is_complex or dtype.is_signed
    return ((torch.arange(size) * 7 + rank * 3) % 5 - signed * 2).to(dtype)


def done(work: Any, later: bool) -> None:
    if later:
        work.wait()
    else:
        assert work is None


def cases(  # noqa: PLR0915 - a list
    group_ranks: int, rank: int, size: int, dtype: torch.dtype
) -> Iterator[tuple[str, Run]]:
    own = numbers(size, dtype, rank)
    wide = numbers(size * group_ranks, dtype, rank)

    def all_reduce(op: Any) -> Run:
        def run(group: Any, later: bool) -> list[torch.Tensor]:
            tensor = own.clone()
            done(dist.all_reduce(tensor, op, group, async_op=later), later)
            return [tensor]

        return run

    def all_gather_single(group: Any, later: bool) -> list[torch.Tensor]:
        out = torch.empty_like(wide)
        done(dist.all_gather_into_tensor(out, own, group, async_op=later), later)
        return [out]

    def all_gather(group: Any, later: bool) -> list[torch.Tensor]:
        out = [torch.empty_like(own) for _ in range(group_ranks)]
        done(dist.all_gather(out, own, group, async_op=later), later)
        return out

    def reduce_scatter_single(group: Any, later: bool) -> list[torch.Tensor]:
        out = torch.empty_like(own)
        done(dist.reduce_scatter_tensor(out, wide.clone(), group=group, async_op=later), later)
        return [out]

    def reduce_scatter(group: Any, later: bool) -> list[torch.Tensor]:
        out, parts = torch.empty_like(own), [p.clone() for p in wide.split([size] * group_ranks)]
        done(dist.reduce_scatter(out, parts, group=group, async_op=later), later)
        return [out]

    def all_to_all_single(group: Any, later: bool) -> list[torch.Tensor]:
        out = torch.empty_like(wide)
        done(dist.all_to_all_single(out, wide.clone(), group=group, async_op=later), later)
        return [out]

    def uneven(group: Any, later: bool) -> list[torch.Tensor]:
        gives = [(rank + to) % 3 * size for to in range(group_ranks)]
        gets = [(rank + to) % 3 * size for to in range(group_ranks)]
        out = torch.empty(sum(gets), dtype=dtype)
        work = dist.all_to_all_single(
            out, numbers(sum(gives), dtype, rank), gets, gives, group, async_op=later
        )
        done(work, later)
        return [out]

    def all_to_all(group: Any, later: bool) -> list[torch.Tensor]:
        out = [torch.empty_like(own) for _ in range(group_ranks)]
        parts = list(wide.clone().split([size] * group_ranks))
        done(dist.all_to_all(out, parts, group, async_op=later), later)
        return out

    def uneven_lists(group: Any, later: bool) -> list[torch.Tensor]:
        """Gloo takes none: it has them in one tensor each."""
        gives = [(rank + 2 * to) % 3 * size for to in range(group_ranks)]
        gets = [(to + 2 * rank) % 3 * size for to in range(group_ranks)]
        given = numbers(sum(gives), dtype, rank)
        out = torch.zeros(sum(gets), dtype=dtype)
        if dist.get_backend(group) == "gloo":
            done(dist.all_to_all_single(out, given, gets, gives, group, async_op=later), later)
        else:
            lists = list(out.split(gets)), list(given.split(gives))
            done(dist.all_to_all(*lists, group, async_op=later), later)
        return [out]

    def coalesced(group: Any, later: bool) -> list[torch.Tensor]:
        several = [own.clone(), wide.clone()]
        done(dist.all_reduce_coalesced(several, group=group, async_op=later), later)
        return several

    def broadcast(group: Any, later: bool) -> list[torch.Tensor]:
        tensor = own.clone()
        done(dist.broadcast(tensor, group_ranks - 1, group, async_op=later), later)
        return [tensor]

    def reduce(group: Any, later: bool) -> list[torch.Tensor]:
        tensor = own.clone()
        done(dist.reduce(tensor, 1, group=group, async_op=later), later)
        return [tensor] if rank == 1 else []

    def gather(group: Any, later: bool) -> list[torch.Tensor]:
        out = [torch.empty_like(own) for _ in range(group_ranks)] if rank == 0 else None
        done(dist.gather(own, out, 0, group, async_op=later), later)
        return out or []

    def scatter(group: Any, later: bool) -> list[torch.Tensor]:
        out = torch.empty_like(own)
        parts = [p.clone() for p in wide.split([size] * group_ranks)] if rank == 1 else None
        done(dist.scatter(out, parts, 1, group, async_op=later), later)
        return [out]

    for op in REDUCTIONS:
        yield f"all_reduce {op}", all_reduce(op)
    yield "all_gather_single", all_gather_single
    yield "all_gather", all_gather
    yield "reduce_scatter_single", reduce_scatter_single
    yield "reduce_scatter", reduce_scatter
    yield "all_to_all_single", all_to_all_single
    yield "uneven", uneven
    yield "all_to_all", all_to_all
    yield "uneven_lists", uneven_lists
    yield "coalesced", coalesced
    yield "broadcast", broadcast
    yield "reduce", reduce
    yield "gather", gather
    yield "scatter", scatter


OWN_REFUSALS = ("bundles and plans reduce no float8", "can't be cast to the desired output type")
"""Reductions of types unknown to gloo, some without sums, and averages of integers."""


def outcome(run: Run, group: Any, later: bool) -> bytes | str:
    """Return the bits of results, or the error of an unsupported call."""
    try:
        found = run(group, later)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return str(error)
    return b"".join(one.contiguous().view(torch.uint8).numpy().tobytes() for one in found)


def between_two(rank: int, size: int) -> None:
    """Send a tensor around the ring of all ranks."""
    ranks = dist.get_world_size()
    got = torch.empty(size)
    sent = dist.isend(torch.full((size,), float(rank)), (rank + 1) % ranks, tag=3)
    assert dist.recv(got, (rank - 1) % ranks, tag=3) == (rank - 1) % ranks
    assert sent is not None
    sent.wait()
    assert got.eq((rank - 1) % ranks).all()


def main() -> None:
    dist.init_process_group("sccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "sccl"
    beside = dist.new_group(backend="gloo")
    compared = refused = 0
    for size, dtype, later in itertools.product(SIZES, TYPES, (False, True)):
        for name, run in cases(ranks, rank, size, dtype):
            ours = outcome(run, dist.group.WORLD, later)
            theirs = outcome(run, beside, later)
            alike = ours == theirs
            if isinstance(theirs, str):  # this group takes more than gloo
                words = (theirs.splitlines()[0], *OWN_REFUSALS)
                alike = isinstance(ours, bytes) or any(one in ours for one in words)
            assert alike, f"{name} of {size} {dtype}: {ours[:99]!r} and {theirs[:99]!r}"
            compared += 1
            refused += isinstance(ours, str)
    between_two(rank, 1000)
    pairs = [dist.new_group([k, k + 1], backend="sccl") for k in range(0, ranks - 1, 2)]
    if rank // 2 < len(pairs):
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=pairs[rank // 2])
        assert tensor == 4 * (rank // 2) + 1
    objects: list[Any] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert [one["rank"] for one in objects] == list(range(ranks))
    for _ in range(3):
        again, ones = dist.new_group(backend="sccl"), torch.ones(3)
        dist.all_reduce(ones, group=again)
        assert ones.eq(ranks).all()
        dist.barrier()  # gloo's groups don't wait for the others to have read all
        dist.destroy_process_group(again)
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"{rank}: {compared} {refused}\n")  # at once


if __name__ == "__main__":
    main()
