"""A few steps of training by DDP, ZeRO and FSDP2: ``torchrun .. torch_training.py``.

Each rank prints the final parameters, to the last bit, over ``sccl`` and over gloo.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS, WIDTH, BATCH = 3, 24, 5


def model() -> torch.nn.Sequential:
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(2 * WIDTH, WIDTH)
    )


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """Train, and return a digest of losses and parameters."""
    found = hashlib.sha256()
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = net(torch.randn(BATCH, WIDTH, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        found.update(loss.detach().numpy().tobytes())
    for parameter in net.parameters():
        own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        found.update(own.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def by_ddp(group: Any) -> str:
    net = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=1)
    return train(net, torch.optim.Adam(net.parameters()))


def by_zero(group: Any) -> str:
    net = DistributedDataParallel(model(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, process_group=group)
    return train(net, optimizer)


def by_fsdp2(group: Any) -> str:
    mesh = DeviceMesh.from_group(group, "cpu")
    net = model()
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return train(net, torch.optim.Adam(net.parameters()))


def main() -> None:
    dist.init_process_group("sccl")
    beside = dist.new_group(backend="gloo")
    for way in (by_ddp, by_zero, by_fsdp2):
        ours, theirs = way(dist.group.WORLD), way(beside)
        sys.stdout.write(f"{dist.get_rank()} {way.__name__} {ours} {theirs}\n")  # at once
    dist.barrier()  # gloo's groups don't wait for the others to have read all
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
