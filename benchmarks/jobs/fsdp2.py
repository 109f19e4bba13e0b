"""Small transformer whose parameters FSDP2 shards over all ranks.

FSDP2 gathers layers before the forward and the backward pass, and scatters gradients.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from benchmarks.jobs.training import run_steps, start_job

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = 3, 192, 4, 512, 32, 2
SMALL_LAYERS, SMALL_WIDTH = 2, 32


class Block(nn.Module):
    """Attention, followed by two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output for some words: [sample, position, feature]."""
        samples, length, width = x.shape
        parts = self.joint(self.first(x)).view(samples, length, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(samples, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


class Model(nn.Module):
    """Model that predicts the next word."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.last = nn.Linear(width, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return scores: [sample, position, word]."""
        scores: torch.Tensor = self.last(self.blocks(self.words(words)))
        return scores


def main() -> None:
    """Train the model."""
    words = start_job()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    net = Model(*((SMALL_LAYERS, SMALL_WIDTH) if words.small else (LAYERS, WIDTH)))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    parameters = list(net.parameters())
    optimizer = torch.optim.Adam(parameters)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())

    def step(_: int) -> torch.Tensor:
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=generator)
        optimizer.zero_grad()
        scores = net(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    run_steps(words, step, parameters)


if __name__ == "__main__":
    main()
