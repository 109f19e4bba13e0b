"""Compose pairs of a reducescatter and an allgather to allreduces.

Let f(s) be the least R/C of a reducescatter with at most s steps, and g(s) that of an allgather,
both per chunk of the allreduce. A composition of S steps has S1 steps in its first half and S - S1
in the other. Its R/C is the sum of both, so it is at least min over S1 of f(S1) + g(S - S1). This
minimum is attained: if copies of an algorithm run at the same time on more chunks, R and C grow by
the same factor. So both halves can have a common C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import ChunkId
from sccl.core.topology import Topology
from sccl.synth.limits import MAX_SENDS
from sccl.transform import compose, invert

CostFunction = Callable[[int], Fraction | None]
"""Function from a number of steps to a half's lower bound on R/C. None: it takes more steps."""


@dataclass(frozen=True, slots=True)
class Half:
    """An algorithm for one half. If it is not known, only its numbers.

    Attributes:
        steps: Number of steps.
        cost: Rounds per chunk of the allreduce.
        chunks: Unit of the chunks of the allreduce for which the algorithm can be used.
        algorithm: Reducescatter or allgather. None: unknown.
    """

    steps: int
    cost: Fraction
    chunks: int
    algorithm: Algorithm | None


@dataclass(frozen=True, slots=True)
class HalfPair:
    """Two halves of an allreduce."""

    first: Half
    second: Half

    @property
    def steps(self) -> int:
        """Return S."""
        return self.first.steps + self.second.steps

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return self.first.cost + self.second.cost

    @property
    def chunks(self) -> int:
        """Return the smallest number of chunks that both halves support."""
        return lcm(self.first.chunks, self.second.chunks)


def best_pairs(first: Iterable[Half], then: Sequence[Half], last: int) -> Iterator[list[HalfPair]]:
    """Yield, for each S up to ``last``, the pairs of least R/C if it improves. Few chunks first."""
    pairs = [HalfPair(a, b) for a in first for b in then if a.steps + b.steps <= last]
    best: Fraction | None = None
    for steps in sorted({pair.steps for pair in pairs}):
        step_pairs = [pair for pair in pairs if pair.steps == steps]
        cost = min(pair.cost for pair in step_pairs)
        if best is None or cost < best:
            best = cost
            yield sorted((p for p in step_pairs if p.cost == cost), key=lambda pair: pair.chunks)


def replicate_chunks(algorithm: Algorithm, times: int, spec: Spec) -> Algorithm:
    """Return an algorithm for ``times`` as many chunks: copies, each with its own rounds.

    Args:
        algorithm: The algorithm.
        times: Number of copies.
        spec: Its collective. Chunks repeat its pattern, so that copies follow one another.
    """
    count = algorithm.collective.num_chunks
    return replace(
        algorithm,
        collective=spec.at(algorithm.collective.chunks * times),
        rounds_per_step=tuple(rounds * times for rounds in algorithm.rounds_per_step),
        sends=tuple(
            Send(s.step, ChunkId(s.chunk + copy * count), s.src, s.dst, s.reduce)
            for copy in range(times)
            for s in algorithm.sends
        ),
        scope="",
        proved=(),
    )


def compose_pair(pair: HalfPair, spec: Spec) -> Algorithm | None:
    """Return the verified composition of two halves. None: too large, or a half is unknown.

    Args:
        pair: The halves.
        spec: The allreduce.
    """
    first, then = pair.first.algorithm, pair.second.algorithm
    if first is None or then is None:
        return None
    times = [pair.chunks // half.chunks for half in (pair.first, pair.second)]
    sends = sum(n * len(a.sends) for n, a in zip(times, (first, then), strict=True))
    if sends > MAX_SENDS:
        return None
    dual = dual_of(spec)
    scatter = replicate_chunks(first, times[0], dual.first_phase)
    gather = replicate_chunks(then, times[1], dual.spec)
    return compose(replace(scatter, topology=gather.topology), gather, spec.at(pair.chunks))


def reducescatter_by_reversal(algorithm: Algorithm, topology: Topology, dual: Dual) -> Algorithm:
    """Return the reducescatter that is an allgather reversed in time.

    Args:
        algorithm: The allgather.
        topology: The machine. Its links have equal capacities in both directions.
        dual: Dual of the allreduce.
    """
    chunks = algorithm.collective.chunks * dual.chunk_factor
    return replace(invert(algorithm, dual.first_phase.at(chunks)), topology=topology)


def min_cost_sum(first: CostFunction, then: CostFunction, steps: int) -> Fraction | None:
    """Return the lower bound on R/C of a composition of ``steps`` steps. None: not possible."""
    sums = []
    for first_steps in range(1, steps):
        a, b = first(first_steps), then(steps - first_steps)
        if a is not None and b is not None:
            sums.append(a + b)
    return min(sums, default=None)


def is_undominated(first: CostFunction, then: CostFunction, steps: int, cost: Fraction) -> bool:
    """Return whether no composition has fewer steps at this cost, or less cost at these steps."""
    bound, fewer = (min_cost_sum(first, then, s) for s in (steps, steps - 1))
    return (bound is None or bound >= cost) and (fewer is None or fewer > cost)
