"""Compare bundles with gloo: ``torchrun .. torch_hosted.py``. Ranks print the compared calls.

Sums of floating-point numbers equal gloo's within rounding, and are equal to the bit on all ranks.
Everything else equals gloo's to the bit.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

WHOLE = (torch.int8, torch.uint8, torch.int32, torch.int64)
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOVED = (*WHOLE, *FLOATING, torch.bool, torch.complex64, torch.int16)
SIZES = (0, 1, 4099, 150_001)
"""Elements: none, fewer than ranks, odd, and more than all that is on its way at once."""
SUM, MIN, MAX, PRODUCT = (getattr(dist.ReduceOp, name) for name in ("SUM", "MIN", "MAX", "PRODUCT"))


def numbers(size: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(size, generator=source).add(0.5).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, (size,), generator=source).to(dtype)


class Both:
    """Calls of both groups, and their results."""

    def __init__(self, ours: Any, gloo: Any) -> None:
        self.ours, self.gloo = ours, gloo
        self.rank, self.ranks = dist.get_rank(ours), dist.get_world_size(ours)
        self.compared = 0

    def same(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        assert ours.dtype == theirs.dtype
        assert torch.equal(
            ours.contiguous().view(torch.uint8), theirs.contiguous().view(torch.uint8)
        )
        self.compared += 1

    def near(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        """Compare sums of numbers of one sign, each rounded once for every rank."""
        rounding = 2 * self.ranks * torch.finfo(ours.dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=rounding, atol=0)
        self.compared += 1

    def sums(self, size: int, dtype: torch.dtype, op: Any, later: bool) -> None:
        own = numbers(size, dtype, self.rank)
        ours, theirs = own.clone(), own.clone()
        wait(dist.all_reduce(ours, op, self.ours, async_op=later))
        dist.all_reduce(theirs, op, self.gloo)
        if op in (MIN, MAX) or not dtype.is_floating_point or not size:
            self.same(ours, theirs)
            return
        self.near(ours, theirs)
        first = ours.clone()
        dist.broadcast(first, 0, self.gloo)
        self.same(ours, first)

    def scattered(self, size: int, dtype: torch.dtype, later: bool) -> None:
        parts = [numbers(size, dtype, self.rank + 10 * k) for k in range(self.ranks)]
        outs = [torch.empty(size, dtype=dtype) for _ in range(3)]
        wait(dist.reduce_scatter_tensor(outs[0], torch.cat(parts), group=self.ours, async_op=later))
        wait(dist.reduce_scatter(outs[1], list(parts), group=self.ours, async_op=later))
        dist.reduce_scatter_tensor(outs[2], torch.cat(parts), group=self.gloo)
        self.same(outs[0], outs[1])
        if dtype.is_floating_point:
            self.near(outs[0], outs[2])
        else:
            self.same(outs[0], outs[2])

    def moved(self, size: int, dtype: torch.dtype, later: bool) -> None:
        own = numbers(size, dtype, self.rank)
        every = torch.cat([numbers(size, dtype, r) for r in range(self.ranks)])
        out = torch.zeros_like(every)
        wait(dist.all_gather_into_tensor(out, own, self.ours, async_op=later))
        self.same(out, every)
        listed = [torch.zeros_like(own) for _ in range(self.ranks)]
        wait(dist.all_gather(listed, own, self.ours, async_op=later))
        self.same(torch.cat(listed), every)
        got = own.clone()
        wait(dist.broadcast(got, self.ranks - 1, self.ours, async_op=later))
        self.same(got, every[every.numel() - size :])
        wide = numbers(size * self.ranks, dtype, 50 + self.rank)
        mine = torch.zeros_like(wide)
        wait(dist.all_to_all_single(mine, wide, group=self.ours, async_op=later))
        sources = (numbers(size * self.ranks, dtype, 50 + r) for r in range(self.ranks))
        self.same(mine, torch.cat([source.chunk(self.ranks)[self.rank] if size else source
                                   for source in sources]))  # fmt: skip

    def uneven(self, size: int, dtype: torch.dtype, later: bool) -> None:
        """Give each rank another number of elements of one type, sometimes none."""
        every = [[(source * 2 + to) % 3 * size for to in range(self.ranks)]
                 for source in range(self.ranks)]  # fmt: skip
        gives, gets = every[self.rank], [row[self.rank] for row in every]
        parts = [numbers(sum(row), dtype, r).split(row) for r, row in enumerate(every)]
        wanted = torch.cat([row[self.rank] for row in parts])
        mine = torch.zeros(sum(gets), dtype=dtype)
        given = torch.cat(parts[self.rank])
        wait(dist.all_to_all_single(mine, given, gets, gives, self.ours, async_op=later))
        self.same(mine, wanted)
        lists = [torch.zeros(n, dtype=dtype) for n in gets]
        wait(dist.all_to_all(lists, list(parts[self.rank]), self.ours, async_op=later))
        self.same(torch.cat(lists), wanted)


def wait(work: Any) -> None:
    if work is not None:
        work.wait()


def every(both: Both) -> None:
    later = itertools.cycle((False, True, True, False, True))  # no type or size has but one
    for size in SIZES:
        for dtype in MOVED:
            both.moved(size, dtype, next(later))
            both.uneven(size, dtype, next(later))
        for dtype in (*WHOLE, *FLOATING):
            for op in (SUM, MIN, MAX):
                both.sums(size, dtype, op, next(later))
            both.scattered(size, dtype, next(later))
        both.sums(size, torch.float64, PRODUCT, next(later))


def as_they_lie(both: Both) -> None:
    """Call with tensors that are not contiguous, or that lie in one another."""
    whole = numbers(60, torch.float32, both.rank).view(6, 10)
    ours, theirs = whole.clone(), whole.clone()
    dist.all_reduce(ours[:, ::2], group=both.ours)
    part = theirs[:, ::2].contiguous()
    dist.all_reduce(part, group=both.gloo)
    theirs[:, ::2] = part
    torch.testing.assert_close(ours, theirs)
    both.same(ours[:, 1::2], whole[:, 1::2])
    out = torch.zeros(both.ranks * 7)
    own = out[both.rank * 7 : (both.rank + 1) * 7]
    own.fill_(both.rank + 1)
    dist.all_gather_into_tensor(out, own, both.ours)
    both.same(out, torch.arange(1.0, both.ranks + 1).repeat_interleave(7))
    wide = torch.ones(both.ranks * 7) * (both.rank + 1)
    dist.reduce_scatter_tensor(wide[both.rank * 7 : (both.rank + 1) * 7], wide, group=both.ours)
    assert wide[both.rank * 7 : (both.rank + 1) * 7].eq(sum(range(both.ranks + 1))).all()
    turned = torch.arange(float(both.ranks)) + 10 * both.rank
    dist.all_to_all_single(turned, turned, group=both.ours)
    both.same(turned, torch.arange(both.ranks) * 10.0 + both.rank)


def later_and_sooner(both: Both, others: list[Any]) -> None:
    """Begin calls of several groups, each rank in another order of groups, and wait backwards."""
    begun: list[tuple[Any, torch.Tensor, Any]] = []
    mine = others if both.rank % 2 else others[::-1]
    for turn, group in itertools.product(range(5), mine):
        tensor = torch.full((1000,), float(turn + both.rank))
        begun.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, group))
    dist.all_reduce(torch.ones(3), group=both.ours)  # while all of them are under way
    futures = [work.get_future() for work, _, _ in begun]
    dist.barrier(both.ours)
    for (work, tensor, group), future in zip(begun[::-1], futures[::-1], strict=True):
        work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert future.wait()[0] is tensor
        ranks = dist.get_process_group_ranks(group)
        turn = begun.index((work, tensor, group)) // len(others)
        assert tensor.eq(sum(turn + rank for rank in ranks)).all()
        both.compared += 1


def child(both: Both) -> None:
    """Fork a child, as loaders of data do: it comes and goes, and the parent's calls go on."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    ones = torch.ones(5)
    dist.all_reduce(ones, group=both.ours)
    assert ones.eq(both.ranks).all()


def again() -> Iterator[Any]:
    for _ in range(3):
        yield dist.new_group(backend="sccl")


def main() -> None:
    store, rank, ranks = next(dist.rendezvous("env://"))
    for life in range(2):
        own = dist.PrefixStore(f"life-{life}", store)  # gloo's groups leave their messages in it
        dist.init_process_group("sccl", store=own, rank=rank, world_size=ranks)
        gloo = dist.new_group(backend="gloo")
        both = Both(dist.group.WORLD, gloo)
        if not life:
            every(both)
        as_they_lie(both)
        groups = list(again())
        later_and_sooner(both, groups)
        child(both)
        for group in groups:
            dist.barrier(gloo)  # gloo's groups don't wait for the others to have read all
            dist.destroy_process_group(group)
        dist.barrier(gloo)
        left = [line for line in open("/proc/self/maps") if "memfd:sccl" in line]  # noqa: PTH123, SIM115
        assert len(left) == 1, left  # of the group of all ranks
        assert not [name for name in os.listdir("/dev/shm") if "sccl" in name]  # noqa: PTH208, S108
        sys.stdout.write(f"{both.rank}: {both.compared}\n")  # at once
        sys.stdout.flush()
        del groups, group, gloo, both
        dist.destroy_process_group()
    os._exit(0)  # without torch's cleanup of gloo's threads


if __name__ == "__main__":
    main()
