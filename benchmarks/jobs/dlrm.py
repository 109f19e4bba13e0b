"""A recommendation model, as DLRM: tables are of single ranks, the layers of all.

Lookups of every rank's tables go to the ranks whose samples they are by an alltoall, their
gradients back by another, which run beside the bottom layers. Layers are averaged by DDP.

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

from benchmarks.jobs.training import begun, run_steps


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the model is.

    Attributes:
        tables: of each rank.
        rows: of each table.
        width: of each row.
        batch: samples of each rank.
        pooled: lookups of a sample in each table.
        bottom: widths of layers of dense features.
        top: widths of layers of all features, but for the first.
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
    """Return layers of these widths."""
    found: list[nn.Module] = []
    for inwards, outwards in pairwise(widths):
        found += [nn.Linear(inwards, outwards), nn.ReLU()]
    return nn.Sequential(*found[:-1])


@dataclass(slots=True)
class Exchange:
    """An alltoall under way, forwards or backwards."""

    work: Any = None
    got: torch.Tensor | None = None

    def start(self, given: torch.Tensor) -> None:
        """Begin."""
        self.got = torch.empty_like(given)
        self.work = dist.all_to_all_single(self.got, given, async_op=True)

    def end(self) -> torch.Tensor:
        """Return what the others gave."""
        assert self.got is not None
        self.work.wait()
        return self.got


class Begin(torch.autograd.Function):
    """Begins the exchange; backwards it waits for that of gradients."""

    @staticmethod
    def forward(ctx: Any, pooled: torch.Tensor, ways: tuple[Exchange, Exchange]) -> torch.Tensor:
        """Begin the exchange."""
        ctx.back = ways[1]
        ways[0].start(pooled.contiguous())
        return pooled.view_as(pooled)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Wait for that of gradients."""
        return ctx.back.end(), None


class End(torch.autograd.Function):
    """Waits for the exchange; backwards it begins that of gradients."""

    @staticmethod
    def forward(ctx: Any, begun_: torch.Tensor, ways: tuple[Exchange, Exchange]) -> torch.Tensor:
        """Wait for the exchange."""
        ctx.back = ways[1]
        return ways[0].end().view_as(begun_)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Begin that of gradients."""
        ctx.back.start(grads[0].contiguous())
        return grads[0], None


class Tables(nn.Module):
    """The tables of this rank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(100 + dist.get_rank())
            self.bags = nn.ModuleList(
                nn.EmbeddingBag(shape.rows, shape.width, mode="sum", sparse=True)
                for _ in range(shape.tables)
            )

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Return rows of all samples, those of each rank one after the other."""
        return torch.stack([bag(own) for bag, own in zip(self.bags, indices, strict=True)], dim=1)


def main() -> None:
    """Train."""
    words = begun()
    shape, ranks, rank = SMALL if words.small else FULL, dist.get_world_size(), dist.get_rank()
    features = shape.width * (shape.tables * ranks + 1)
    bottom = DistributedDataParallel(layers(shape.bottom), bucket_cap_mb=100)
    top = DistributedDataParallel(layers((features, *shape.top)), bucket_cap_mb=100)
    tables = Tables(shape)
    parameters = [*bottom.parameters(), *top.parameters(), *tables.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    everyone = torch.Generator().manual_seed(3)  # samples are told to all ranks
    samples = shape.batch * ranks
    own = slice(rank * shape.batch, (rank + 1) * shape.batch)

    def step(_: int) -> torch.Tensor:
        dense = torch.rand(samples, shape.bottom[0], generator=everyone)[own]
        wanted = (ranks, shape.tables, samples, shape.pooled)
        indices = torch.randint(shape.rows, wanted, generator=everyone)[rank]
        clicks = torch.randint(2, (samples, 1), generator=everyone)[own].float()
        optimizer.zero_grad()
        ways = (Exchange(), Exchange())
        pooled = Begin.apply(tables(indices), ways)
        low = bottom(dense)
        looked_up = End.apply(pooled, ways).view(ranks, shape.batch, -1).transpose(0, 1)
        given = torch.cat([low, looked_up.reshape(shape.batch, -1)], dim=1)
        loss = nn.functional.binary_cross_entropy_with_logits(top(given), clicks)
        loss.backward()
        optimizer.step()
        return loss

    run_steps(words, step, parameters)


if __name__ == "__main__":
    main()
