"""Steps of a small model with gradients by DDP and an exchange of data: ``torch_steps.py STEPS``.

Each rank prints a digest of its losses and parameters.
"""

from __future__ import annotations

import hashlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH = 64, 32


def main() -> None:
    dist.init_process_group("sccl")
    rank = dist.get_rank()
    torch.manual_seed(3)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    net = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    found = hashlib.sha256()
    for _ in range(int(sys.argv[1])):
        data = torch.randn(BATCH, WIDTH, generator=generator)
        mixed, flags = torch.empty_like(data), torch.full((3,), rank)
        work = dist.all_to_all_single(mixed, data, async_op=True)
        dist.broadcast(flags, 0)
        hidden = net(data)
        work.wait()
        loss = (hidden + mixed).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.update(loss.detach().numpy().tobytes())
        assert flags.eq(0).all()
    total = loss.detach().clone()
    dist.all_reduce(total)
    for parameter in net.parameters():
        found.update(parameter.detach().numpy().tobytes())
    sys.stdout.write(f"{rank} {found.hexdigest()[:16]} {total.item()!r}\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
