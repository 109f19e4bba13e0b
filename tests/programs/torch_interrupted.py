"""Steps of a job that runs until an interrupt. Rank 0 prints a line after six."""

from __future__ import annotations

import itertools
import sys

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("sccl")
    total = torch.ones(7)
    for step in itertools.count():
        dist.all_reduce(total, op=dist.ReduceOp.MAX)
        if step == 6 and dist.get_rank() == 0:
            sys.stdout.write("6 steps\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
