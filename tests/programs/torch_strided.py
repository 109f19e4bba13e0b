"""Calls with non-contiguous or aliased tensors, compared with their results by definition."""

from __future__ import annotations

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("sccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(12.0).view(6, 2) + rank
    expected = sum(torch.arange(12.0).view(6, 2) + each for each in range(ranks))
    untouched = whole[:, 1].clone()
    dist.all_reduce(whole[:, 0])
    assert torch.equal(whole[:, 0], expected[:, 0]), whole
    assert torch.equal(whole[:, 1], untouched), whole

    column = torch.arange(12.0).view(6, 2)[:, 1] * (1 - rank)
    work = dist.broadcast(column, 0, async_op=True)
    work.wait()
    assert torch.equal(column, torch.arange(12.0).view(6, 2)[:, 1]), column

    given = (torch.arange(4.0 * ranks).view(2 * ranks, 2) + 100 * rank)[:, 0]
    got = torch.zeros(2 * ranks, 3)
    dist.all_to_all_single(got[:, 1], given)
    blocks = [
        (torch.arange(4.0 * ranks).view(2 * ranks, 2) + 100 * each)[2 * rank : 2 * rank + 2, 0]
        for each in range(ranks)
    ]
    assert torch.equal(got[:, 1], torch.cat(blocks)), got
    assert not got[:, ::2].any(), got

    aliased = torch.arange(2.0 * ranks) + 100 * rank
    dist.all_to_all_single(aliased, aliased)
    blocks = [
        (torch.arange(2.0 * ranks) + 100 * each)[2 * rank : 2 * rank + 2] for each in range(ranks)
    ]
    assert torch.equal(aliased, torch.cat(blocks)), aliased
    check_lists(rank, ranks)
    dist.destroy_process_group()


def column_of(number: float) -> torch.Tensor:
    """Return a column of a matrix, which is not contiguous."""
    return (torch.arange(6.0).view(3, 2) + number)[:, 0]


def check_lists(rank: int, ranks: int) -> None:
    blocks = [column_of(10 * place) for place in range(ranks)]
    for into in (torch.zeros(3), torch.zeros(3, 2)[:, 1]):
        dist.scatter(into, None if rank else blocks)
        assert torch.equal(into, blocks[rank]), into
        dist.reduce_scatter(into, blocks)
        assert torch.equal(into, ranks * blocks[rank]), into
    for rows in (torch.zeros(ranks, 3), torch.zeros(ranks, 3, 2)[..., 1]):
        dist.all_gather(list(rows), blocks[rank])
        assert torch.equal(rows, torch.stack(blocks)), rows
        rows.zero_()
        dist.gather(blocks[rank], None if rank else list(rows))
        assert rank or torch.equal(rows, torch.stack(blocks)), rows


if __name__ == "__main__":
    main()
