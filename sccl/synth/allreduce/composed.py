"""Allreduce as a reducescatter and then an allgather: the class that two frontiers make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.collectives import Dual, Spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Origin
from sccl.core.bounds import Bounds
from sccl.core.candidate import Range
from sccl.core.frontier import COMPOSED, ClassFrontier, Frontier, Point
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import SCOPES
from sccl.synth.allreduce.pairs import (
    MAX_SENDS,
    Half,
    Pair,
    best_pairs,
    compose_pair,
    is_best,
    least_sum,
    turned_round,
)
from sccl.synth.candidates import EXTRA_STEPS
from sccl.synth.folder import Folder
from sccl.topo.symmetry.expand import expand


@dataclass(frozen=True, slots=True)
class Side:
    """The known results of a reducescatter or an allgather, as one half of allreduces.

    Attributes:
        frontier: a sweep's or limits, of the half or of the collective that it reverses.
        topology: the machine.
        dual: the dual of the allreduce.
        gathers: whether it is an allgather, whose C is that of the allreduce divided by the factor.
        backwards: whether its algorithms are to be reversed.
    """

    frontier: Frontier
    topology: Topology
    dual: Dual
    gathers: bool
    backwards: bool

    @property
    def factor(self) -> int:
        """Return the factor from its C to that of the allreduce."""
        return self.dual.chunk_factor if self.gathers else 1

    @property
    def bounds(self) -> Bounds:
        """Return its bounds, in its C."""
        assert self.frontier.bounds is not None
        return self.frontier.bounds

    @property
    def bandwidth(self) -> Fraction:
        """Return its lower bound on R/C, in the C of the allreduce."""
        return self.bounds.bandwidth / self.factor

    def halves(self) -> Iterator[Half]:
        """Yield its algorithms, also those that are too large to be written down."""
        for point in self.frontier.points:
            algorithm = self._written(point.algorithm) if point.algorithm else None
            chunks = point.chunks * self.factor if point.chunks else 1
            yield Half(point.steps, point.cost / self.factor, chunks, algorithm)

    def _written(self, algorithm: AnyAlgorithm) -> Algorithm | None:
        """Return an algorithm send by send. None: it is too large for that."""
        if 2 * algorithm.num_sends > MAX_SENDS:
            return None
        whole = expand(algorithm)
        return turned_round(whole, self.topology, self.dual) if self.backwards else whole

    def missing(self, half: Half) -> str:
        """Return why an algorithm was not sought. Empty: it was, or it is there."""
        points = self.frontier.points
        return next((point.missing for point in points if point.steps == half.steps), "")

    def least(self, steps: int) -> Fraction | None:
        """Return its lower bound on R/C within the k and C of a sweep."""
        found, bounds = self.frontier, self.bounds
        if steps < bounds.steps:
            return None
        if steps > self._last or found.stopped == "interrupted":
            return self.bandwidth
        every = [*((p.steps, p.cost) for p in found.points)]
        every += [(o.candidate.steps, o.candidate.cost) for o in found.open]
        costs = [cost for s, cost in every if s <= steps]
        return min(costs, default=bounds.bandwidth) / self.factor

    @property
    def _last(self) -> int:
        """Return the last S that was swept."""
        asked = self.frontier.covered.max_steps if self.frontier.covered else None
        return self.bounds.steps + EXTRA_STEPS if asked is None else asked

    def least_of_all(self, steps: int) -> Fraction | None:
        """Return its lower bound on R/C for every k and C."""
        if steps < self.bounds.steps:
            return None
        limits = self.frontier.classes[0].limits
        lower = [limit.lower for limit in limits if limit.steps >= steps]
        return max([*lower, self.bounds.bandwidth]) / self.factor


@dataclass(frozen=True, slots=True)
class Compositions:
    """The compositions of two sides.

    Attributes:
        spec: allreduce.
        last: the largest S.
        folder: where to keep them. None: nowhere.
    """

    spec: Spec
    first: Side
    then: Side
    last: int
    folder: Folder | None

    @property
    def bounds(self) -> Bounds:
        """Return the combined bounds of both sides."""
        first, then = self.first, self.then
        steps = first.bounds.steps + then.bounds.steps
        return Bounds(steps, first.bandwidth + then.bandwidth)

    @property
    def complete(self) -> bool:
        """Return whether both sides are."""
        return self.first.frontier.complete and self.then.frontier.complete

    def swept(self, covered: Range) -> ClassFrontier:
        """Return the frontier of the compositions of two sweeps' points.

        Args:
            covered: k and the largest C.
        """
        points: list[Point] = []
        every = True
        for pairs in self._pairs():
            fit = [p for p in pairs if covered.max_chunks is None or p.chunks <= covered.max_chunks]
            every &= bool(fit)
            points += [self._swept_point(fit, covered)] if fit else []
        whole = every and self.complete and bool(points) and all(p.proved for p in points)
        restricted = any(p.within for p in points)
        return self._class(
            _scope(covered if restricted or not whole else None),
            points,
            self._limits(points),
            complete=whole,
            within=covered if restricted else None,
        )

    def at_limits(self) -> ClassFrontier:
        """Return the limit frontier of compositions, from those of both sides."""
        made = [self._limit_point(pairs) for pairs in self._pairs()]
        points, limits = [point for point, _ in made], tuple(limit for _, limit in made)
        complete = self.complete and bool(points)
        return self._class(_scope(None), points, limits, complete=complete)

    def _pairs(self) -> Iterator[list[Pair]]:
        return best_pairs(self.first.halves(), tuple(self.then.halves()), self.last)

    def _class(
        self,
        scope: str,
        points: Sequence[Point],
        limits: tuple[StepLimit, ...],
        *,
        complete: bool,
        within: Range | None = None,
    ) -> ClassFrontier:
        again = None if self.first.backwards else self.then.frontier.seconds
        return ClassFrontier(
            COMPOSED,
            scope,
            self.bounds.steps,
            self.bounds.bandwidth,
            tuple(points),
            limits,
            complete,
            within,
            seconds=(self.first.frontier.seconds or 0.0) + (again or 0.0),
        )

    def _limits(self, points: Sequence[Point]) -> tuple[StepLimit, ...]:
        """Return the combined limits of both sides, up to the last point."""
        limits = []
        for steps in range(self.bounds.steps, (points[-1].steps if points else 0) + 1):
            lower = self._least_of_all(steps)
            upper = min((p.cost for p in points if p.steps <= steps), default=None)
            if lower and upper:
                limits.append(StepLimit(steps, lower, upper))
        return tuple(limits)

    def _least_of_all(self, steps: int) -> Fraction | None:
        return least_sum(self.first.least_of_all, self.then.least_of_all, steps)

    def _is_best(self, steps: int, cost: Fraction) -> bool:
        """Return whether nothing dominates (S, R/C), for every k and C."""
        return is_best(self.first.least_of_all, self.then.least_of_all, steps, cost)

    def _swept_point(self, pairs: Sequence[Pair], covered: Range) -> Point:
        """Return the point of the first of some pairs that cost alike, if one can, written down."""
        steps, cost = pairs[0].steps, pairs[0].cost
        always = self._is_best(steps, cost)
        proved = always or is_best(self.first.least, self.then.least, steps, cost)
        at_limit = cost == self._least_of_all(steps) != self.bounds.bandwidth
        optimal = (*self.bounds.met(steps, cost), *(("limit",) if at_limit else ()))
        within = None if always else covered
        rests_on = () if always else self._rests_on(proved=proved)
        is_verified = proved and all(origin.is_verified for origin in rests_on)
        claims = (*optimal, *(("pareto",) if is_verified else ()))
        chunks = pairs[0].chunks
        point = Point(steps, cost, chunks, int(chunks * cost), optimal, proved, within, seconds=0.0)
        point = replace(point, rests_on=rests_on)
        algorithm = self._composed(pairs)
        if algorithm is None:
            return point
        algorithm = replace(algorithm, scope=_scope(within), proved=claims)
        file = self.folder.save(algorithm) if self.folder else None
        point = point.with_algorithm(algorithm, file)
        return replace(point, rounds_per_step=algorithm.rounds_per_step)

    def _rests_on(self, *, proved: bool) -> tuple[Origin, ...]:
        """Return the origins, other than this process, of refutations for both sides."""
        sides = (self.first.frontier, self.then.frontier)
        open_ = [one.origin for side in sides for one in side.open]
        if not proved and None in open_:
            return ()
        origins = {one.origin for side in sides for one in side.refuted}
        if not proved:
            origins |= {origin for origin in open_ if origin is not None}
        return tuple(sorted(origins - {Origin.HERE}))

    def _composed(self, pairs: Sequence[Pair]) -> Algorithm | None:
        """Return the composition of the first pair that is not too large."""
        return next(filter(None, (compose_pair(pair, self.spec) for pair in pairs)), None)

    def _limit_point(self, pairs: Sequence[Pair]) -> tuple[Point, StepLimit]:
        """Return the point of a number of steps, and its limit."""
        steps, cost = pairs[0].steps, pairs[0].cost
        lower = self._least_of_all(steps)
        limit = StepLimit(steps, self.bounds.bandwidth if lower is None else lower, cost)
        point = replace(Point.at(limit, self.bounds), seconds=0.0)
        algorithm = self._composed(pairs)
        if algorithm is None:
            missing = (self.first.missing(pairs[0].first), self.then.missing(pairs[0].then))
            return replace(point, missing=max(missing)), limit
        best = self._is_best(steps, algorithm.bandwidth_cost)
        claims = (*point.optimal, "pareto") if best else ()
        algorithm = replace(algorithm, scope=_scope(None), proved=claims)
        file = self.folder.save(algorithm) if self.folder else None
        return point.with_algorithm(algorithm, file), limit


def _scope(covered: Range | None) -> str:
    if covered is None:
        return SCOPES[COMPOSED]
    chunks = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    return f"{SCOPES[COMPOSED]}, halves of {covered.k}-synchronous algorithms side by side{chunks}"
