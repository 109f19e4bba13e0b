"""A small training job for ``docs/tutorials/pytorch.md``: a dense model, and experts.

Each step exchanges tokens with the experts of other ranks by two alltoalls forward and two
backward, and sums the gradients of the dense layers. Two networks can carry both at once.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import torch.distributed as dist

STEPS, TOKENS, WIDTH = 12, 1024, 192


class Exchange(torch.autograd.Function):
    """An alltoall of rows, and another one of their gradients."""

    @staticmethod
    def forward(_: Any, rows: torch.Tensor) -> torch.Tensor:
        """Send each rank its part of the rows, and return the received ones."""
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows.contiguous())
        return received

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Send the gradients back."""
        received = torch.empty_like(gradients[0])
        dist.all_to_all_single(received, gradients[0].contiguous())
        return received


def main() -> None:
    """Train for some steps, and print the time of a step and the loss."""
    dist.init_process_group(os.environ.get("BACKEND", "sccl"))
    torch.manual_seed(dist.get_rank())
    torch.set_num_threads(1)
    expert = torch.nn.Linear(WIDTH, WIDTH)
    torch.manual_seed(0)
    dense = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)))
    dense = torch.nn.parallel.DistributedDataParallel(dense, bucket_cap_mb=1)
    optimizer = torch.optim.SGD([*dense.parameters(), *expert.parameters()], lr=0.01)
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        rows = torch.randn(TOKENS, WIDTH)
        output = Exchange.apply(expert(Exchange.apply(dense(rows))))
        loss = (output - rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        median = sorted(times[STEPS // 2 :])[STEPS // 4]
        print(f"{1000 * median:.0f} ms per step, loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
