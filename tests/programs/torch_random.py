"""Random calls of uneven ranks: ``torchrun .. torch_random.py STEPS SEED``.

All ranks draw the same calls, over several groups, and each its own work between them and the order
of its waits. Groups end and are created again, twenty times in all. Data come from forked workers,
and a thread calls over a separate group. Each result is also computed here. Each rank prints the
number of correct ones.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

TYPES = (torch.int64, torch.float32, torch.float64, torch.int32, torch.uint8)
SIZES = (1, 2, 7, 64, 1000, 4096, 30_000)
IN_FLIGHT = 6
LIVES = 20
REDUCTIONS: tuple[tuple[Any, Callable[[torch.Tensor], torch.Tensor]], ...] = (
    (dist.ReduceOp.SUM, lambda rows: rows.sum(0)),
    (dist.ReduceOp.MAX, lambda rows: rows.amax(0)),
    (dist.ReduceOp.MIN, lambda rows: rows.amin(0)),
)


@dataclass
class Call:
    """A pending call: its work, its outputs, and the expected values."""

    work: Any
    got: Sequence[torch.Tensor]
    wanted: Sequence[torch.Tensor]

    def check(self) -> int:
        if self.work is not None:
            self.work.wait()
        for got, wanted in zip(self.got, self.wanted, strict=True):
            assert torch.equal(got, wanted)
        return len(self.got)


def numbers(seed: int, rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a rank's data: small integers, so that sums are exact in any order."""
    return ((torch.arange(size) * 3 + 7 * rank + seed) % 11).to(dtype)


def start(draw: random.Random, ranks: Sequence[int], group: Any, later: bool) -> Call:
    """Draw a call, and make it."""
    kind, seed = draw.choice(KINDS), draw.randrange(1000)
    size, dtype = draw.choice(SIZES), draw.choice(TYPES)
    return kind(draw, Data(seed, tuple(ranks), size, dtype), {"group": group, "async_op": later})


@dataclass(frozen=True)
class Data:
    """Data of all ranks of a group."""

    seed: int
    ranks: tuple[int, ...]
    size: int
    dtype: torch.dtype

    @property
    def place(self) -> int:
        return self.ranks.index(dist.get_rank())

    def of(self, place: int, size: int | None = None) -> torch.Tensor:
        size = self.size if size is None else size
        return numbers(self.seed, self.ranks[place], size, self.dtype)

    @property
    def own(self) -> torch.Tensor:
        return self.of(self.place)

    @property
    def rows(self) -> torch.Tensor:
        return torch.stack([self.of(k) for k in range(len(self.ranks))])

    @property
    def wide(self) -> torch.Tensor:
        """Return a block of each rank for each, by giver and taker."""
        many = len(self.ranks)
        return torch.stack([self.of(k, many * self.size).view(many, -1) for k in range(many)])


def all_reduce(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    op, combine = draw.choice(REDUCTIONS)
    own = data.own
    return Call(dist.all_reduce(own, op, **how), [own], [combine(data.rows).to(data.dtype)])


def broadcast(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    root, own = draw.randrange(len(data.ranks)), data.own
    return Call(dist.broadcast(own, data.ranks[root], **how), [own], [data.of(root)])


def reduce(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    root, own = draw.randrange(len(data.ranks)), data.own
    work = dist.reduce(own, data.ranks[root], **how)
    there = root == data.place
    return Call(work, [own][:there], [data.rows.sum(0).to(data.dtype)][:there])


def all_gather(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    rows = data.rows
    if draw.random() < 0.5:
        out = torch.empty_like(rows.view(-1))
        return Call(dist.all_gather_into_tensor(out, data.own, **how), [out], [rows.view(-1)])
    outs = [torch.empty_like(row) for row in rows]
    return Call(dist.all_gather(outs, data.own, **how), outs, list(rows))


def reduce_scatter(_: random.Random, data: Data, how: dict[str, Any]) -> Call:
    out, wide = torch.empty_like(data.own), data.wide
    work = dist.reduce_scatter_tensor(out, wide[data.place].reshape(-1).clone(), **how)
    return Call(work, [out], [wide.sum(0)[data.place].to(data.dtype)])


def all_to_all(_: random.Random, data: Data, how: dict[str, Any]) -> Call:
    wide = data.wide
    out, given = torch.empty_like(wide[0].reshape(-1)), wide[data.place].reshape(-1).clone()
    work = dist.all_to_all_single(out, given, **how)
    return Call(work, [out], [wide[:, data.place].reshape(-1)])


def uneven(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    many, wide = len(data.ranks), data.wide
    sizes = [[draw.randrange(data.size + 1) for _ in range(many)] for _ in range(many)]
    given = [wide[data.place, to, : sizes[data.place][to]].clone() for to in range(many)]
    wanted = [wide[k, data.place, : sizes[k][data.place]] for k in range(many)]
    outs = [torch.empty_like(one) for one in wanted]
    if draw.random() < 0.5:
        return Call(dist.all_to_all(outs, given, **how), outs, wanted)
    out, gives = torch.cat(outs), [one.numel() for one in given]
    gets = [one.numel() for one in outs]
    work = dist.all_to_all_single(out, torch.cat(given), gets, gives, **how)
    return Call(work, [out], [torch.cat(wanted)])


def gather(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    root, rows = draw.randrange(len(data.ranks)), data.rows
    outs = [torch.empty_like(row) for row in rows] if root == data.place else None
    work = dist.gather(data.own, outs, data.ranks[root], **how)
    return Call(work, outs or [], list(rows) if outs else [])


def scatter(draw: random.Random, data: Data, how: dict[str, Any]) -> Call:
    root, wide, out = draw.randrange(len(data.ranks)), data.wide, torch.empty_like(data.own)
    parts = [part.clone() for part in wide[root]] if root == data.place else None
    work = dist.scatter(out, parts, data.ranks[root], **how)
    return Call(work, [out], [wide[root, data.place]])


def barrier(_: random.Random, data: Data, how: dict[str, Any]) -> Call:
    assert data.ranks
    return Call(dist.barrier(**how), [], [])


def around(_: random.Random, data: Data, how: dict[str, Any]) -> Call:
    """Send to the next rank, and receive from the previous one."""
    many, out = len(data.ranks), torch.empty_like(data.own)
    if many == 1:
        return Call(None, [], [])
    to, come = data.ranks[(data.place + 1) % many], data.ranks[(data.place - 1) % many]
    sent = dist.isend(data.own, to, how["group"], tag=data.seed)
    got = dist.irecv(out, come, how["group"], tag=data.seed)
    assert sent is not None
    assert got is not None
    sent.wait()
    return Call(got, [out], [data.of((data.place - 1) % many)])


KINDS = (all_reduce, all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, uneven,
         gather, scatter, barrier, around)  # fmt: skip


class Squares(Dataset[int]):
    """Numbers that a worker squares."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, at: int) -> int:
        return at * at


def loaded() -> int:
    """Return how many batches came from workers that were forked beside all that runs here."""
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    batches = [batch.tolist() for batch in loader]
    assert [one for batch in batches for one in batch] == [k * k for k in range(12)]
    return len(batches)


class Groups:
    """Some that share ranks: of all, of all but one, of pairs, of single ranks."""

    def __init__(self) -> None:
        ranks = range(dist.get_world_size())
        those = [list(ranks), list(ranks)]
        those += [[k for k in ranks if k != out] for out in ranks if len(ranks) > 1]
        those += [[0]]
        self.all = [(one, dist.new_group(one, backend="sccl")) for one in those]

    def renew(self, at: int) -> None:
        """End one, and make it again."""
        ranks, group = self.all[at]
        dist.barrier()  # gloo's groups don't wait for the others to have read all
        if dist.get_rank() in ranks:
            dist.destroy_process_group(group)
        self.all[at] = ranks, dist.new_group(ranks, backend="sccl")


def worked(draw: random.Random) -> None:
    """Compute for as long as this rank draws."""
    size = draw.choice((1, 1, 1, 10, 60))
    own = torch.ones(size, size)
    for _ in range(draw.randrange(6)):
        own = own @ own / size


def run(steps: int, seed: str, groups: Groups) -> int:
    draw, own = random.Random(seed), random.Random(f"{seed} {dist.get_rank()}")  # noqa: S311
    open_calls: list[Call] = []
    right = 0
    for step in range(steps):
        if step % max(1, steps // LIVES) == 0:
            while open_calls:
                right += open_calls.pop().check()
            groups.renew(draw.randrange(len(groups.all)))
        if step % max(1, steps // 4) == steps // 8:
            right += loaded()
        ranks, group = draw.choice(groups.all)
        later, of_this = draw.random() < 0.6, random.Random(draw.random())  # noqa: S311
        if dist.get_rank() not in ranks:
            continue
        open_calls.append(start(of_this, ranks, group, later))
        if not later:
            right += open_calls.pop().check()
        worked(own)
        while len(open_calls) > own.randrange(IN_FLIGHT):
            right += open_calls.pop(own.randrange(len(open_calls))).check()
    return right + sum(call.check() for call in open_calls)


def main() -> None:
    steps, seed = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("sccl")
    groups, ranks = Groups(), range(dist.get_world_size())
    aside = dist.new_group(backend="sccl")
    found: list[int] = []

    def beside() -> None:
        draw = random.Random(f"{seed} beside")  # noqa: S311
        found.append(sum(start(draw, ranks, aside, False).check() for _ in range(steps // 5)))

    thread = threading.Thread(target=beside)
    thread.start()
    right = run(steps, seed, groups)
    thread.join()
    assert found
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"{right} {found[0]}\n")  # at once


if __name__ == "__main__":
    main()
