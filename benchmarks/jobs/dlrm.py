"""Recommendation model like DLRM, with a table on a single rank and layers on all ranks.

An alltoall sends the lookups of each rank's tables to the ranks that own the samples. Another
alltoall returns their gradients. Both run concurrently with the bottom layers. DDP averages the
layers.

Source: Naumov et al., "Deep Learning Recommendation Model", 2019 (arXiv:1906.00091).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.training import run_steps, start_job


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the model.

    Attributes:
        tables: Number of tables per rank.
        rows: Number of rows per table.
        width: Width of a row.
        batch: Number of samples per rank.
        pooled: Number of lookups of a sample in each table.
        bottom: Widths of the layers for dense features.
        top: Widths of the layers for all features, without the input width.
    """

    tables: int
    rows: int
    width: int
    batch: int
    pooled: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]


FULL = Shape(8, 2000, 128, 128, 4, (256, 1024, 640, 128), (256, 192, 1))
SMALL = Shape(2, 50, 16, 8, 2, (16, 64, 16), (32, 1))


def layers(widths: tuple[int, ...]) -> nn.Sequential:
    """Return linear layers of these widths, with ReLU between them."""
    modules: list[nn.Module] = []
    for inwards, outwards in pairwise(widths):
        modules += [nn.Linear(inwards, outwards), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@dataclass(slots=True)
class Exchange:
    """Alltoall in flight, forward or backward."""

    work: Any = None
    received: torch.Tensor | None = None

    def start(self, data: torch.Tensor) -> None:
        """Start the alltoall."""
        self.received = torch.empty_like(data)
        self.work = dist.all_to_all_single(self.received, data, async_op=True)

    def end(self) -> torch.Tensor:
        """Wait for the alltoall, and return the received tensor."""
        assert self.received is not None
        self.work.wait()
        return self.received


class Begin(torch.autograd.Function):
    """Start the exchange. The backward pass waits for the exchange of gradients."""

    @staticmethod
    def forward(
        ctx: Any, pooled: torch.Tensor, exchanges: tuple[Exchange, Exchange]
    ) -> torch.Tensor:
        """Start the exchange."""
        ctx.back = exchanges[1]
        exchanges[0].start(pooled.contiguous())
        return pooled.view_as(pooled)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Wait for the exchange of gradients."""
        return ctx.back.end(), None


class End(torch.autograd.Function):
    """Wait for the exchange. The backward pass starts the exchange of gradients."""

    @staticmethod
    def forward(
        ctx: Any, pooled: torch.Tensor, exchanges: tuple[Exchange, Exchange]
    ) -> torch.Tensor:
        """Wait for the exchange."""
        ctx.back = exchanges[1]
        return exchanges[0].end().view_as(pooled)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Start the exchange of gradients."""
        ctx.back.start(grads[0].contiguous())
        return grads[0], None


class Tables(nn.Module):
    """Tables of this rank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(100 + dist.get_rank())
            self.bags = nn.ModuleList(
                nn.EmbeddingBag(shape.rows, shape.width, mode="sum", sparse=True)
                for _ in range(shape.tables)
            )

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Return the rows of all samples, grouped by rank."""
        rows = [bag(lookups) for bag, lookups in zip(self.bags, indices, strict=True)]
        return torch.stack(rows, dim=1)


def main() -> None:
    """Train the model."""
    words = start_job()
    shape, ranks, rank = SMALL if words.small else FULL, dist.get_world_size(), dist.get_rank()
    features = shape.width * (shape.tables * ranks + 1)
    bottom = DistributedDataParallel(layers(shape.bottom), bucket_cap_mb=100)
    top = DistributedDataParallel(layers((features, *shape.top)), bucket_cap_mb=100)
    tables = Tables(shape)
    parameters = [*bottom.parameters(), *top.parameters(), *tables.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    generator = torch.Generator().manual_seed(3)  # all ranks draw the same samples
    samples = shape.batch * ranks
    local = slice(rank * shape.batch, (rank + 1) * shape.batch)

    def step(_: int) -> torch.Tensor:
        dense = torch.rand(samples, shape.bottom[0], generator=generator)[local]
        index_shape = (ranks, shape.tables, samples, shape.pooled)
        indices = torch.randint(shape.rows, index_shape, generator=generator)[rank]
        clicks = torch.randint(2, (samples, 1), generator=generator)[local].float()
        optimizer.zero_grad()
        exchanges = (Exchange(), Exchange())
        pooled = Begin.apply(tables(indices), exchanges)
        low = bottom(dense)
        looked_up = End.apply(pooled, exchanges).view(ranks, shape.batch, -1).transpose(0, 1)
        inputs = torch.cat([low, looked_up.reshape(shape.batch, -1)], dim=1)
        loss = nn.functional.binary_cross_entropy_with_logits(top(inputs), clicks)
        loss.backward()
        optimizer.step()
        return loss

    run_steps(words, step, parameters)


if __name__ == "__main__":
    main()
