"""Layers of experts, one on each rank, and dense layers that all ranks share.

Every rank has a fixed number of slots for each expert. The router selects the expert of a word, and
a word without a free slot skips the layer. An alltoall sends words to the experts and another
returns them, as for their gradients. DDP averages the dense layers.

Source: Lepikhin et al., "GShard", 2020 (arXiv:2006.16668), with one expert for a word.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.training import run_steps, start_job

LAYERS, WIDTH, WORDS, CLASSES, BATCH = 2, 128, 4096, 32, 1536
SMALL_LAYERS, SMALL_WIDTH, SMALL_BATCH = 1, 32, 16


class Exchange(torch.autograd.Function):
    """Alltoall, with another one for the gradients."""

    @staticmethod
    def forward(_: Any, data: torch.Tensor) -> torch.Tensor:
        """Send a tensor, and return the received one."""
        received = torch.empty_like(data)
        dist.all_to_all_single(received, data.contiguous())
        return received

    @staticmethod
    def backward(_: Any, *grads: torch.Tensor) -> torch.Tensor:
        """Send the gradients back."""
        received = torch.empty_like(grads[0])
        dist.all_to_all_single(received, grads[0].contiguous())
        return received


class Dense(nn.Module):
    """Layers of all ranks: the embedding, a layer and a router per expert layer, and the output."""

    def __init__(self, layers: int, width: int, ranks: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.routers = nn.ModuleList(nn.Linear(width, ranks) for _ in range(layers))
        self.last = nn.Linear(width, CLASSES)
        self.experts: list[nn.Module] = []  # a list, so that the experts are no submodules

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return scores: [word, class]."""
        x = self.words(words)
        for layer, router, expert in zip(self.layers, self.routers, self.experts, strict=True):
            x = torch.relu(layer(x))
            x = x + apply_experts(x, router(x), expert)
        scores: torch.Tensor = self.last(x)
        return scores


def apply_experts(x: torch.Tensor, choices: torch.Tensor, expert: nn.Module) -> torch.Tensor:
    """Return the experts' outputs for words: [word, feature]."""
    ranks = choices.shape[1]
    places = len(x) // ranks
    weight, expert_index = choices.softmax(dim=1).max(dim=1)
    one_hot = nn.functional.one_hot(expert_index, ranks)
    position = (one_hot.cumsum(dim=0) * one_hot).sum(dim=1) - 1  # index of a word at its expert
    fits = position < places
    slot = (expert_index * places + position)[fits]
    dispatched = x.new_zeros(ranks * places, x.shape[1]).index_copy(0, slot, x[fits])
    results = Exchange.apply(expert(Exchange.apply(dispatched)))
    returned = torch.zeros_like(x).index_copy(0, fits.nonzero().flatten(), results[slot])
    return returned * weight[:, None]


def main() -> None:
    """Train the model."""
    words = start_job()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    layers, width = (SMALL_LAYERS, SMALL_WIDTH) if words.small else (LAYERS, WIDTH)
    batch = SMALL_BATCH if words.small else BATCH
    dense = Dense(layers, width, ranks)
    torch.manual_seed(100 + rank)
    experts = [
        nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        for _ in range(layers)
    ]
    dense.experts = list(experts)
    net = DistributedDataParallel(dense, bucket_cap_mb=1)
    parameters = [
        *net.parameters(),
        *(weight for expert in experts for weight in expert.parameters()),
    ]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    generator = torch.Generator().manual_seed(rank)

    def step(_: int) -> torch.Tensor:
        tokens = torch.randint(WORDS, (batch,), generator=generator)
        targets = torch.randint(CLASSES, (batch,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(tokens), targets)
        loss.backward()
        optimizer.step()
        return loss

    run_steps(words, step, parameters)


if __name__ == "__main__":
    main()
