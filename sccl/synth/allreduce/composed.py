"""Compose allreduces of a reducescatter and an allgather, from the frontiers of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.collectives import Dual, Spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Origin
from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import COMPOSED, ClassFrontier, Frontier, LimitPoint, Point, SweepFrontier
from sccl.core.instance import SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.synth.allreduce.families import SCOPES
from sccl.synth.allreduce.pairs import (
    Half,
    HalfPair,
    best_pairs,
    compose_pair,
    is_undominated,
    min_cost_sum,
    reducescatter_by_reversal,
)
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import EXTRA_STEPS
from sccl.synth.limits import MAX_SENDS
from sccl.topo.symmetry.expansion import expand_algorithm

_NOT_SOUGHT = (StopKind.TIMEOUT, StopKind.INTERRUPTED)
"""Why an algorithm of a half was not sought, in the order of preference for its composition."""


@dataclass(frozen=True, slots=True)
class HalfFrontier:
    """The known results of a reducescatter or an allgather, as one half of allreduces.

    Attributes:
        frontier: Frontier of a sweep or of limits, of the half or of the collective to reverse.
        topology: The machine.
        dual: Dual of the allreduce.
        is_allgather: Whether the collective is an allgather. Its C is that of the allreduce divided
            by the chunk factor.
        is_reversed: Whether its algorithms must be reversed to be this half.
    """

    frontier: Frontier
    topology: Topology
    dual: Dual
    is_allgather: bool
    is_reversed: bool

    @property
    def chunk_factor(self) -> int:
        """Return the factor from its C to that of the allreduce."""
        return self.dual.chunk_factor if self.is_allgather else 1

    @property
    def bounds(self) -> AlgorithmBounds:
        """Return the bounds of the half, in its own C."""
        assert self.frontier.bounds is not None
        return self.frontier.bounds

    @property
    def bandwidth(self) -> Fraction:
        """Return the lower bound on R/C of the half, in the C of the allreduce."""
        return self.bounds.bandwidth / self.chunk_factor

    def halves(self) -> Iterator[Half]:
        """Yield the algorithms of the half, including those too large to be written."""
        for point in self.frontier.points:
            algorithm = self._expand(point.algorithm) if point.algorithm else None
            chunks = point.chunks * self.chunk_factor if point.chunks else 1
            yield Half(point.steps, point.cost / self.chunk_factor, chunks, algorithm)

    def _expand(self, algorithm: AnyAlgorithm) -> Algorithm | None:
        """Return an algorithm with all sends. None: it is too large."""
        if 2 * algorithm.num_sends > MAX_SENDS:
            return None
        expanded = expand_algorithm(algorithm)
        return (
            reducescatter_by_reversal(expanded, self.topology, self.dual)
            if self.is_reversed
            else expanded
        )

    def missing_kind(self, half: Half) -> StopKind:
        """Return why there was no search for an algorithm of a half."""
        points = self.frontier.points
        limit_points = (point for point in points if isinstance(point, LimitPoint))
        reasons = (point.missing_reason for point in limit_points if point.steps == half.steps)
        return next(reasons, NOT_STOPPED).kind

    def min_cost_in_range(self, steps: int) -> Fraction | None:
        """Return the lower bound on R/C of the half within the k and C of a sweep."""
        frontier, bounds = self.frontier, self.bounds
        if steps < bounds.steps:
            return None
        if steps > self._last_steps or frontier.is_interrupted:
            return self.bandwidth
        points = [*((p.steps, p.cost) for p in frontier.points)]
        points += [(o.candidate.steps, o.candidate.cost) for o in frontier.open]
        costs = [cost for s, cost in points if s <= steps]
        return min(costs, default=bounds.bandwidth) / self.chunk_factor

    @property
    def _last_steps(self) -> int:
        frontier = self.frontier
        max_steps = frontier.covered.max_steps if isinstance(frontier, SweepFrontier) else None
        return self.bounds.steps + EXTRA_STEPS if max_steps is None else max_steps

    def min_cost(self, steps: int) -> Fraction | None:
        """Return the lower bound on R/C of the half for every k and C."""
        if steps < self.bounds.steps:
            return None
        limits = self.frontier.classes[0].limits
        lower = [limit.lower for limit in limits if limit.steps >= steps]
        return max([*lower, self.bounds.bandwidth]) / self.chunk_factor


@dataclass(frozen=True, slots=True)
class Compositions:
    """The compositions of two halves.

    Attributes:
        spec: The allreduce.
        first: First halves.
        second: Second halves.
        max_steps: Largest S.
        folder: Folder for the algorithms. None: none.
    """

    spec: Spec
    first: HalfFrontier
    second: HalfFrontier
    max_steps: int
    folder: AlgorithmFolder | None

    @property
    def bounds(self) -> AlgorithmBounds:
        """Return the combined bounds of both halves."""
        first, then = self.first, self.second
        steps = first.bounds.steps + then.bounds.steps
        return AlgorithmBounds(steps, first.bandwidth + then.bandwidth)

    @property
    def is_complete(self) -> bool:
        """Return whether the frontiers of both halves are complete."""
        return self.first.frontier.is_complete and self.second.frontier.is_complete

    def frontier_of_sweeps(self, covered: SweepRange) -> ClassFrontier:
        """Return the frontier of the compositions of two sweeps' points.

        Args:
            covered: k and the largest C.
        """
        points: list[Point] = []
        all_fit = True
        for pairs in self._pairs():
            fit = [p for p in pairs if covered.max_chunks is None or p.chunks <= covered.max_chunks]
            all_fit &= bool(fit)
            points += [self._sweep_point(fit, covered)] if fit else []
        is_complete = (
            all_fit and self.is_complete and bool(points) and all(p.is_proved for p in points)
        )
        restricted = any(p.within for p in points)
        return self._family_frontier(
            _scope_text(covered if restricted or not is_complete else None),
            points,
            self._step_limits(points),
            complete=is_complete,
            within=covered if restricted else None,
        )

    def frontier_of_limits(self) -> ClassFrontier:
        """Return the limit frontier of compositions, from those of both halves."""
        made = [self._limit_point(pairs) for pairs in self._pairs()]
        points, limits = [point for point, _ in made], tuple(limit for _, limit in made)
        complete = self.is_complete and bool(points)
        return self._family_frontier(_scope_text(None), points, limits, complete=complete)

    def _pairs(self) -> Iterator[list[HalfPair]]:
        return best_pairs(self.first.halves(), tuple(self.second.halves()), self.max_steps)

    def _family_frontier(
        self,
        scope: str,
        points: Sequence[Point],
        limits: tuple[StepLimit, ...],
        *,
        complete: bool,
        within: SweepRange | None = None,
    ) -> ClassFrontier:
        again = None if self.first.is_reversed else self.second.frontier.seconds
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

    def _step_limits(self, points: Sequence[Point]) -> tuple[StepLimit, ...]:
        """Return the combined limits of both halves, up to the last point."""
        limits = []
        for steps in range(self.bounds.steps, (points[-1].steps if points else 0) + 1):
            lower = self._min_cost(steps)
            upper = min((p.cost for p in points if p.steps <= steps), default=None)
            if lower and upper:
                limits.append(StepLimit(steps, lower, upper))
        return tuple(limits)

    def _min_cost(self, steps: int) -> Fraction | None:
        return min_cost_sum(self.first.min_cost, self.second.min_cost, steps)

    def _is_undominated(self, steps: int, cost: Fraction) -> bool:
        """Return whether no composition of any k and C dominates (S, R/C)."""
        return is_undominated(self.first.min_cost, self.second.min_cost, steps, cost)

    def _sweep_point(self, pairs: Sequence[HalfPair], covered: SweepRange) -> Point:
        """Return the point of pairs with equal costs, with the algorithm of the first possible."""
        steps, cost = pairs[0].steps, pairs[0].cost
        always = self._is_undominated(steps, cost)
        proved = always or is_undominated(
            self.first.min_cost_in_range, self.second.min_cost_in_range, steps, cost
        )
        at_limit = cost == self._min_cost(steps) != self.bounds.bandwidth
        optimal = (*self.bounds.bounds_met(steps, cost), *(("limit",) if at_limit else ()))
        within = None if always else covered
        rests_on = () if always else self._unverified_origins(proved=proved)
        is_verified = proved and all(origin.is_verified for origin in rests_on)
        claims = (*optimal, *(("pareto",) if is_verified else ()))
        chunks = pairs[0].chunks
        point = Point(steps, cost, chunks, int(chunks * cost), optimal, proved, within, seconds=0.0)
        point = replace(point, proof_origins=rests_on)
        algorithm = self._compose_first(pairs)
        if algorithm is None:
            return point
        algorithm = replace(algorithm, scope=_scope_text(within), proved=claims)
        file = self.folder.save(algorithm) if self.folder else None
        point = point.with_algorithm(algorithm, file, "composition")
        return replace(point, rounds_per_step=algorithm.rounds_per_step)

    def _unverified_origins(self, *, proved: bool) -> tuple[Origin, ...]:
        """Return the origins, other than this process, of refutations for both halves."""
        sides = (self.first.frontier, self.second.frontier)
        open_ = [entry.origin for side in sides for entry in side.open]
        if not proved and None in open_:
            return ()
        origins = {entry.origin for side in sides for entry in side.refuted}
        if not proved:
            origins |= {origin for origin in open_ if origin is not None}
        return tuple(sorted(origins - {Origin.THIS_PROCESS}))

    def _compose_first(self, pairs: Sequence[HalfPair]) -> Algorithm | None:
        """Return the composition of the first pair whose result is not too large."""
        return next(filter(None, (compose_pair(pair, self.spec) for pair in pairs)), None)

    def _limit_point(self, pairs: Sequence[HalfPair]) -> tuple[Point, StepLimit]:
        steps, cost = pairs[0].steps, pairs[0].cost
        lower = self._min_cost(steps)
        limit = StepLimit(steps, self.bounds.bandwidth if lower is None else lower, cost)
        point = replace(LimitPoint.from_limit(limit, self.bounds), seconds=0.0)
        algorithm = self._compose_first(pairs)
        if algorithm is None:
            kinds = (
                self.first.missing_kind(pairs[0].first),
                self.second.missing_kind(pairs[0].second),
            )
            kind = next((kind for kind in _NOT_SOUGHT if kind in kinds), StopKind.TOO_LARGE)
            return replace(point, missing_reason=StopReason(kind)), limit
        best = self._is_undominated(steps, algorithm.bandwidth_cost)
        claims = (*point.optimal, "pareto") if best else ()
        algorithm = replace(algorithm, scope=_scope_text(None), proved=claims)
        file = self.folder.save(algorithm) if self.folder else None
        return point.with_algorithm(algorithm, file, "composition"), limit


def _scope_text(covered: SweepRange | None) -> str:
    if covered is None:
        return SCOPES[COMPOSED]
    chunks = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    return f"{SCOPES[COMPOSED]}, halves of {covered.k}-synchronous algorithms side by side{chunks}"
