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
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
