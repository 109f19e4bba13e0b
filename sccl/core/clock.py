"""Clock: the cost of a chunk on each link and budget in whole ticks, and models of alpha and steps.

Costs are rounded up only here. All code that computes with times uses a clock, so proofs and
simulations agree on every time. Costs are exact decimals, not floats, so ticks are the same on
every computer.

A link of n lanes is one pipe with n times the rate of a lane, and so is a budget.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Literal, TypeVar

from sccl.core.formatting import format_rounded
from sccl.core.topology import Topology, link_name
from sccl.errors import ParameterError

MAX_CHUNK_BYTES = 2**50
"""Maximum size of a chunk: one PiB, as a guard against typing errors."""

MAX_TICK_PS = 10**12
"""Maximum length of a tick: one second."""

MAX_TICKS = 2**48
"""Maximum ticks of one chunk on one link, so that sums over long schedules fit in 64 bits."""

PS_PER_US = 10**6
"""Picoseconds per microsecond."""

T = TypeVar("T", bound=Hashable)


AlphaText = Literal["travels", "occupies"]
"""Name of an alpha model in outputs."""


class StepAlignment(StrEnum):
    """Start time of the messages of a step.

    ``BARRIER``: after all messages of the previous step have arrived. ``PIPELINED``: as soon as the
    data of the message have arrived. Every link preserves the order of steps, as a thread block
    does.
    """

    BARRIER = "barrier"
    PIPELINED = "pipelined"


class AlphaModel(StrEnum):
    """The state of a link during alpha.

    ``TRAVELS``: the link is busy for ``size * beta``, and the chunk arrives alpha later (TE-CCL,
    ASTRA-sim). ``OCCUPIES``: the link is busy for ``alpha + size * beta``, and the chunk arrives
    when the link becomes free (TACOS, TACCL).
    """

    TRAVELS = "travels"
    OCCUPIES = "occupies"

    @property
    def text(self) -> AlphaText:
        """Return the name of the model in outputs."""
        return "travels" if self is AlphaModel.TRAVELS else "occupies"


@dataclass(frozen=True, slots=True)
class Clock:
    """The costs of a machine's links and budgets for chunks of given sizes, in ticks.

    Created by :meth:`from_topology`.

    Attributes:
        tick_ps: Length of a tick, picoseconds.
        model: State of a link during alpha.
        chunk_bytes: Size of every chunk, or a tuple with the size of each chunk, bytes.
        sizes: Distinct sizes, ascending.
        alpha: Ticks of alpha on each link, in the order of the topology.
        beta: Ticks of a chunk on a link without alpha, shape (sizes, links).
        shared: Ticks of a chunk in a budget, shape (sizes, budgets).
    """

    tick_ps: int
    model: AlphaModel
    chunk_bytes: int | tuple[int, ...]
    sizes: tuple[int, ...]
    alpha: tuple[int, ...]
    beta: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[int, ...], ...]

    @classmethod
    def from_topology(
        cls,
        topology: Topology,
        chunk_bytes: int | tuple[int, ...],
        model: AlphaModel = AlphaModel.TRAVELS,
        tick_ps: int = 1,
    ) -> Clock:
        """Return the clock of a machine for chunks of one or several sizes.

        Raises:
            ParameterError: A size or the tick is out of range, or a chunk takes too many ticks.
        """
        sizes = _distinct_sizes(chunk_bytes)
        if not 1 <= tick_ps <= MAX_TICK_PS:
            raise ParameterError(
                f"tick is {tick_ps} ps, expected 1 to {MAX_TICK_PS} (a second): give another"
            )
        links = [(k.lanes, k.gb_per_s) for k in topology.links]
        speeds = topology.budget_speeds()
        budgets = [(b.chunks_per_round, v) for b, v in zip(topology.budgets, speeds, strict=True)]
        clock = cls(
            tick_ps=tick_ps,
            model=model,
            chunk_bytes=chunk_bytes,
            sizes=sizes,
            alpha=_ticks_by_cost(
                [k.alpha_us for k in topology.links], partial(_alpha_ticks, tick_ps)
            ),
            beta=tuple(
                _ticks_by_cost(links, partial(_passing_ticks, size, tick_ps)) for size in sizes
            ),
            shared=tuple(
                _ticks_by_cost(budgets, partial(_passing_ticks, size, tick_ps)) for size in sizes
            ),
        )
        clock._check(topology)
        return clock

    def _check(self, topology: Topology) -> None:
        costs = zip(self.alpha, self.beta[-1], strict=True)
        ticks = max(*(alpha + beta for alpha, beta in set(costs)), *self.shared[-1], 0)
        if ticks <= MAX_TICKS:
            return
        links = [alpha + beta for alpha, beta in zip(self.alpha, self.beta[-1], strict=True)]
        pipes = [link_name(k.edge) for k in topology.links] + [b.name for b in topology.budgets]
        slowest = pipes[[*links, *self.shared[-1]].index(ticks)]
        raise ParameterError(
            f"topology {topology.name!r}, {slowest}: a chunk of {self.sizes[-1]} bytes takes "
            f"{format_rounded(ticks)} ticks of {self.tick_ps} ps, expected at most {MAX_TICKS}: "
            "give "
            "smaller chunks or a longer tick"
        )

    def _size_index(self, chunk: int) -> int:
        """Return the index of a chunk's size."""
        if isinstance(self.chunk_bytes, int):
            return 0
        return bisect_left(self.sizes, self.chunk_bytes[chunk])

    def busy(self, link: int, chunk: int = 0) -> int:
        """Return the ticks that a link is busy with a chunk."""
        return self.busy_combined(link, (chunk,))

    def busy_combined(self, link: int, chunks: Iterable[int]) -> int:
        """Return the ticks that a link is busy with a transfer of several chunks.

        The transfer has one alpha. The beta of each chunk is rounded up separately.
        """
        betas = sum(self.beta[self._size_index(chunk)][link] for chunk in chunks)
        return betas + (self.alpha[link] if self.model is AlphaModel.OCCUPIES else 0)

    def lag(self, link: int) -> int:
        """Return the ticks between the release of a link and the arrival of the chunk."""
        return self.alpha[link] if self.model is AlphaModel.TRAVELS else 0

    def budget_ticks(self, budget: int, chunk: int = 0) -> int:
        """Return the ticks that a chunk occupies a budget."""
        return self.shared[self._size_index(chunk)][budget]

    def us(self, ticks: int) -> float:
        """Return a number of ticks in microseconds."""
        return ticks * self.tick_ps / PS_PER_US


def _distinct_sizes(chunk_bytes: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the distinct sizes, ascending.

    Raises:
        ParameterError: there is no size, or a size is out of range.
    """
    sizes = tuple(sorted({chunk_bytes} if isinstance(chunk_bytes, int) else set(chunk_bytes)))
    if not sizes:
        raise ParameterError("no chunk has a size: give one for all chunks, or one for each")
    for size in sizes:
        if not 1 <= size <= MAX_CHUNK_BYTES:
            raise ParameterError(
                f"a chunk has {size} bytes, expected 1 to {MAX_CHUNK_BYTES}: give another size"
            )
    return sizes


def _ticks_by_cost(costs: Sequence[T], ticks: Callable[[T], int]) -> tuple[int, ...]:
    """Return the ticks of every cost. Each distinct cost is computed once."""
    ticks_by_cost = {cost: ticks(cost) for cost in set(costs)}
    if len(ticks_by_cost) == 1:
        return (*ticks_by_cost.values(),) * len(costs)
    return tuple(ticks_by_cost[cost] for cost in costs)


def _alpha_ticks(tick_ps: int, alpha_us: float) -> int:
    return math.ceil(Fraction(str(alpha_us)) * PS_PER_US / tick_ps)


def _passing_ticks(size: int, tick_ps: int, pipe: tuple[int, float]) -> int:
    """Return the ticks of ``size`` bytes on a pipe of (lanes, bandwidth per lane in GB/s)."""
    lanes, gb_per_s = pipe
    return math.ceil(size * 1000 / (lanes * Fraction(str(gb_per_s))) / tick_ps)
