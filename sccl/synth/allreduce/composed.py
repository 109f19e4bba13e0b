"""Allreduce as a reducescatter and then an allgather: any two that are found, put together.

Let f(s) be the least R/C of a reducescatter with at most s steps, and g(s) that of an allgather,
both per chunk of the allreduce. A composition of S steps has S1 in its first half and S - S1 in the
other, and its R/C is the sum of theirs: at least min over S1 of f(S1) + g(S - S1). That is
attained: with algorithms side by side on more chunks, R and C grow alike, so both halves come to a
common C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from sccl.collectives import Spec, named
from sccl.core.algorithm import Algorithm, Send
from sccl.core.candidate import Candidate, Range
from sccl.core.ids import ChunkId
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.allreduce.classes import COMPOSED, SCOPES, ClassFrontier
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier, Point
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint
from sccl.topo.symmetry.expand import MAX_EXPANDED, expand
from sccl.transform import compose, invert

Least = Callable[[int], Fraction | None]
"""From a number of steps to what R/C a half has at least; None: it takes more steps."""


@dataclass(frozen=True, slots=True)
class Half:
    """An algorithm that may be one half, or what is known of it if there is none.

    Attributes:
        cost: rounds per chunk of the allreduce.
        chunks: of the allreduce, a multiple of which it can serve.
        algorithm: a reducescatter or an allgather.
    """

    steps: int
    cost: Fraction
    chunks: int
    algorithm: Algorithm | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two halves, and what they come to."""

    first: Half
    then: Half

    @property
    def steps(self) -> int:
        """Return S."""
        return self.first.steps + self.then.steps

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return self.first.cost + self.then.cost

    @property
    def chunks(self) -> int:
        """Return the fewest chunks that serve both."""
        return lcm(self.first.chunks, self.then.chunks)


def best_pairs(first: Iterable[Half], then: Sequence[Half], last: int) -> Iterator[list[Pair]]:
    """Yield, by S up to ``last``, the pairs of least R/C where that improves; few chunks first."""
    pairs = [Pair(a, b) for a in first for b in then if a.steps + b.steps <= last]
    best: Fraction | None = None
    for steps in sorted({pair.steps for pair in pairs}):
        here = [pair for pair in pairs if pair.steps == steps]
        cost = min(pair.cost for pair in here)
        if best is None or cost < best:
            best = cost
            yield sorted((p for p in here if p.cost == cost), key=lambda pair: pair.chunks)


def side_by_side(algorithm: Algorithm, times: int, spec: Spec) -> Algorithm:
    """Return an algorithm for ``times`` as many chunks: as many of it, each with its own rounds.

    Args:
        spec: its collective; chunks repeat its pattern, so that copies follow one another.
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


def compose_pair(pair: Pair, spec: Spec) -> Algorithm | None:
    """Return the composition of two halves, judged; None: it is too large, or a half is missing.

    Args:
        spec: allreduce.
    """
    first, then = pair.first.algorithm, pair.then.algorithm
    if first is None or then is None:
        return None
    times = [pair.chunks // half.chunks for half in (pair.first, pair.then)]
    sends = sum(n * len(a.sends) for n, a in zip(times, (first, then), strict=True))
    if sends > MAX_EXPANDED:
        return None
    scatter = side_by_side(first, times[0], named("reducescatter", spec.ranks))
    gather = side_by_side(then, times[1], named("allgather", spec.ranks))
    return compose(replace(scatter, topology=gather.topology), gather, spec.at(pair.chunks))


def turned_round(algorithm: Algorithm, topology: Topology) -> Algorithm:
    """Return the reducescatter that is an allgather run backwards.

    Args:
        topology: the machine; it carries alike both ways.
    """
    spec = named("reducescatter", topology.ranks)
    chunks = algorithm.collective.chunks * topology.ranks
    return replace(invert(algorithm, spec.at(chunks)), topology=topology)


# --- of sweeps -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SweptHalf:
    """A sweep of a reducescatter or an allgather, as one half of allreduces.

    Attributes:
        frontier: of the half, or of what it is run backwards.
        ranks: what its C is multiplied by.
        last: the last S that was swept.
        backwards: whether its algorithms are to be turned round.
    """

    frontier: Frontier
    ranks: int
    last: int
    backwards: bool

    def halves(self) -> Iterator[Half]:
        """Yield what was found; nothing of what is too large to write out."""
        for point in self.frontier.points:
            try:
                algorithm = expand(point.algorithm)
            except TooLargeError:
                continue
            if len(algorithm.sends) > MAX_EXPANDED:
                continue
            if self.backwards:
                algorithm = turned_round(algorithm, self.frontier.topology)
            c = point.candidate
            yield Half(c.steps, c.cost / self.ranks, c.chunks * self.ranks, algorithm)

    def least(self, steps: int) -> Fraction | None:
        """Return what R/C it has at least within the k and C that were searched."""
        found = self.frontier
        if steps < found.bounds.steps:
            return None
        if steps > self.last or found.stopped == "interrupted":
            return found.bounds.bandwidth / self.ranks
        points = [p.candidate for p in found.points]
        every = [*points, *(o.candidate for o in found.open)]
        costs = [c.cost for c in every if c.steps <= steps]
        return min(costs, default=found.bounds.bandwidth) / self.ranks

    def least_of_all(self, steps: int) -> Fraction | None:
        """Return what R/C it has at least, for every k and C."""
        found = self.frontier
        if steps < found.bounds.steps:
            return None
        lower = [limit.lower for limit in found.limits if limit.steps >= steps]
        return max([*lower, found.bounds.bandwidth]) / self.ranks


def least_sum(first: Least, then: Least, steps: int) -> Fraction | None:
    """Return what R/C a composition of ``steps`` steps has at least; None: there is none."""
    sums = []
    for one in range(1, steps):
        a, b = first(one), then(steps - one)
        if a is not None and b is not None:
            sums.append(a + b)
    return min(sums, default=None)


def _is_best(first: Least, then: Least, steps: int, cost: Fraction) -> bool:
    """Return whether nothing dominates (S, R/C): as many steps give no less, fewer give more."""
    here, fewer = (least_sum(first, then, s) for s in (steps, steps - 1))
    return (here is None or here >= cost) and (fewer is None or fewer > cost)


def composed(  # noqa: PLR0913, PLR0917 - two halves, and what is covered
    spec: Spec,
    first: SweptHalf,
    then: SweptHalf,
    covered: Range,
    last: int,
    folder: Folder | None,
) -> ClassFrontier:
    """Return the frontier of the compositions of two sweeps' points.

    Args:
        spec: allreduce.
        covered: k and the largest C.
        last: the largest S.
    """
    steps = first.frontier.bounds.steps + then.frontier.bounds.steps
    halves = (first.frontier.bounds.bandwidth, then.frontier.bounds.bandwidth)
    bandwidth = halves[0] / first.ranks + halves[1] / then.ranks
    points: list[Point] = []
    every = True
    for pairs in best_pairs(first.halves(), tuple(then.halves()), last):
        fit = [p for p in pairs if covered.max_chunks is None or p.chunks <= covered.max_chunks]
        point = next(filter(None, (_point(p, spec, first, then, covered, steps, bandwidth, folder)
                                   for p in fit)), None)  # fmt: skip
        every &= point is not None
        points += [point] if point else []
    done = all(half.frontier.complete for half in (first, then))
    whole = every and done and bool(points) and all(p.proved for p in points)
    restricted = any(p.within for p in points)
    limits = (
        (s, least_sum(first.least_of_all, then.least_of_all, s), _at(points, s))
        for s in range(steps, (points[-1].candidate.steps if points else 0) + 1)
    )
    return ClassFrontier(
        COMPOSED,
        _scope(covered if restricted or not whole else None),
        steps,
        bandwidth,
        tuple(points),
        tuple(StepLimit(s, low, high) for s, low, high in limits if low and high),
        whole,
        covered if restricted else None,
        first.frontier.seconds + (0.0 if first.backwards else then.frontier.seconds),
    )


def _at(points: Sequence[Point], steps: int) -> Fraction | None:
    return min((p.candidate.cost for p in points if p.candidate.steps <= steps), default=None)


def _scope(covered: Range | None) -> str:
    if covered is None:
        return SCOPES[COMPOSED]
    chunks = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    return f"{SCOPES[COMPOSED]}, halves of {covered.k}-synchronous algorithms side by side{chunks}"


def _point(  # noqa: PLR0913, PLR0917 - a pair, and what is known around it
    pair: Pair,
    spec: Spec,
    first: SweptHalf,
    then: SweptHalf,
    covered: Range,
    least_steps: int,
    bandwidth: Fraction,
    folder: Folder | None,
) -> Point | None:
    algorithm = compose_pair(pair, spec)
    if algorithm is None:
        return None
    steps, cost = pair.steps, pair.cost
    always = _is_best(first.least_of_all, then.least_of_all, steps, cost)
    proved = always or _is_best(first.least, then.least, steps, cost)
    limit = least_sum(first.least_of_all, then.least_of_all, steps)
    met = (
        ("latency", steps == least_steps),
        ("bandwidth", cost == bandwidth),
        ("limit", cost == limit != bandwidth),
    )
    optimal = tuple(what for what, is_met in met if is_met)
    within = None if always else covered
    claims = (*optimal, *(("pareto",) if proved else ()))
    algorithm = replace(algorithm, scope=_scope(within), proved=claims)
    file = folder.save(algorithm) if folder else None
    candidate = Candidate(cost, pair.chunks, steps, algorithm.rounds)
    return Point(candidate, algorithm, optimal, proved, 0.0, file, within=within)


# --- of limits -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LimitHalf:
    """A limit frontier of a reducescatter or an allgather, as one half of allreduces."""

    frontier: LimitFrontier
    ranks: int
    backwards: bool

    def halves(self) -> Iterator[Half]:
        """Yield the limits with the algorithms that attain them, or None, or are near them."""
        for point in self.frontier.points:
            found = point.algorithm
            if found and self.backwards:
                found = turned_round(found, self.frontier.topology)
            chunks = point.algorithm.collective.chunks * self.ranks if point.algorithm else 1
            yield Half(point.limit.steps, point.limit.upper / self.ranks, chunks, found)

    def least(self, steps: int) -> Fraction | None:
        """Return what R/C it has at least."""
        found = self.frontier
        if steps < found.bounds.steps:
            return None
        lower = [limit.lower for limit in found.limits if limit.steps >= steps]
        return max([*lower, found.bounds.bandwidth]) / self.ranks


def composed_limits(
    spec: Spec, first: LimitHalf, then: LimitHalf, last: int, folder: Folder | None
) -> ClassFrontier:
    """Return the limit frontier of compositions, from those of both halves.

    Args:
        spec: allreduce.
        last: the largest S.
    """
    steps = first.frontier.bounds.steps + then.frontier.bounds.steps
    ends = (first.frontier.bounds.bandwidth, then.frontier.bounds.bandwidth)
    bandwidth = ends[0] / first.ranks + ends[1] / then.ranks
    points = []
    for pairs in best_pairs(first.halves(), tuple(then.halves()), last):
        cost, at = pairs[0].cost, pairs[0].steps
        lower = least_sum(first.least, then.least, at)
        limit = StepLimit(at, lower if lower is not None else bandwidth, cost)
        met = (("latency", at == steps), ("bandwidth", cost == bandwidth))
        optimal = tuple(what for what, is_met in met if is_met)
        algorithm = next(filter(None, (compose_pair(pair, spec) for pair in pairs)), None)
        if algorithm is not None:
            best = _is_best(first.least, then.least, at, algorithm.bandwidth_cost)
            claims = (*optimal, "pareto") if best else ()
            algorithm = replace(algorithm, scope=_scope(None), proved=claims)
        file = str(folder.save(algorithm)) if folder and algorithm else None
        points.append(LimitPoint(limit, algorithm, optimal, 0.0, file))
    return ClassFrontier(
        COMPOSED,
        _scope(None),
        steps,
        bandwidth,
        tuple(points),
        tuple(point.limit for point in points),
        first.frontier.complete and then.frontier.complete and bool(points),
        None,
        first.frontier.seconds + (0.0 if first.backwards else then.frontier.seconds),
    )
