"""The Pareto procedure (SCCL section 3.7, Algorithm 1) as a value: its state, and the next query.

For each number of steps S, from the latency bound up, the cheapest satisfiable candidate (R, C) is
sought among those that would improve on fewer steps. The search ends where R/C attains the
bandwidth bound. The paper tries candidates by ascending R/C until one is satisfiable, which refutes
all cheaper ones one by one. Here the same point is found, and the same candidates are refuted, with
far fewer queries: the cheapest is tried first (it ends the search if it attains the bound), then
the middle of the rest. A refutation carries to every candidate with no more rounds and no fewer
chunks (:meth:`Candidate.implies_unsat`), and a solution makes all more expensive candidates
irrelevant.

A bound on R/C for that many steps refutes cheaper candidates before any search. Their limit, which
takes longer, is computed once the cheapest remaining candidate is not satisfiable. It comes first
only if there is no such bound, and the limit is fast.

A candidate on which the solver gives up stays open. It never closes anything: a point that it might
dominate is reported as the best found, not as proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction

from sccl.collectives import Dual
from sccl.core.answer import Answer, Origin
from sccl.core.frontier import OpenCandidate, RefutedCandidate
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.synth.common.candidates import enumerate_candidates
from sccl.synth.syncoll.level import Level


class WhenToAskLimits(Enum):
    """When the limit of a number of steps is asked for."""

    NEVER = auto()
    FIRST = auto()
    IF_NOT_CHEAPEST = auto()


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The search space.

    Attributes:
        steps: lower bound on S: the start.
        bandwidth: lower bound on R/C: the end.
        last_steps: the last S.
        covered: k and the largest C.
        uses_bounds: whether to use bounds for numbers of steps.
    """

    dual: Dual
    steps: int
    bandwidth: Fraction
    last_steps: int
    covered: SweepRange
    when_limits: WhenToAskLimits = WhenToAskLimits.NEVER
    uses_bounds: bool = False

    def make_level(self, steps: int, below: Fraction | None) -> Level:
        """Return the candidates of a number of steps that cost less. None: all of them."""
        all_candidates = enumerate_candidates(self.dual, self.bandwidth, steps, self.covered)
        return Level(
            steps, tuple(sorted(c for c in all_candidates if below is None or c.cost < below))
        )


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """The query for a fast lower bound on R/C for a number of steps."""

    steps: int


@dataclass(frozen=True, slots=True)
class LimitQuery:
    """The query for the limit of a number of steps."""

    steps: int


@dataclass(frozen=True, slots=True)
class LevelOptimum:
    """The cheapest candidate of a number of steps that has an algorithm.

    Attributes:
        optimal: the lower bounds that it attains: ``"latency"``, on S; ``"bandwidth"``, on R/C.
            Otherwise perhaps ``"limit"``, on R/C for its S.
        proved: whether every candidate in ``within`` that would dominate it has been refuted.
        within: range of the proof. None: all k and C.
        rests_on: origins other than this process of the refutations that the proof needs, or, if it
            is not proved, that would prove it if they were verified.
    """

    candidate: Candidate
    optimal: tuple[str, ...]
    proved: bool
    within: SweepRange | None
    rests_on: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class ParetoSearch:
    """A search as far as it is, from :meth:`begin`: a question, its answer, a question, ...

    Attributes:
        level: the number of steps that it is at.
        optima: of the numbers of steps before, where that improves.
        refuted: candidates of the numbers of steps before.
        open: likewise.
        limits: or bounds, as far as they are known, this level's too.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``. Empty: it goes on.
    """

    space: SearchSpace
    level: Level
    optima: tuple[LevelOptimum, ...] = ()
    refuted: tuple[RefutedCandidate, ...] = ()
    open: tuple[OpenCandidate, ...] = ()
    limits: tuple[StepLimit, ...] = ()
    stopped: str = ""

    @staticmethod
    def start(space: SearchSpace) -> ParetoSearch:
        """Return the search at the fewest steps."""
        return _advance(ParetoSearch(space, space.make_level(space.steps, None)))

    def next_query(self) -> Candidate | BoundQuery | LimitQuery | None:
        """Return the next query. None: the search is complete."""
        level, when = self.level, self.space.when_limits
        if self.stopped:
            return None
        if self.space.uses_bounds and not level.has_bound:
            return BoundQuery(level.steps)
        first = when is WhenToAskLimits.FIRST and self.current_limit is None
        wanted = first or (when is not WhenToAskLimits.NEVER and level.has_query)
        return LimitQuery(level.steps) if wanted and not level.has_limit else level.next_candidate()

    def upcoming_candidates(self) -> Iterator[Candidate]:
        """Yield the candidates that are likely to be asked for, the next one first."""
        yield from self.level.upcoming_candidates()
        following = self.level.steps + self.space.dual.phases
        if following <= self.space.last_steps:
            yield from self.space.make_level(following, self.best_cost).undecided[:1]

    @property
    def best_cost(self) -> Fraction | None:
        """Return the smallest R/C of the numbers of steps before."""
        return self.optima[-1].candidate.cost if self.optima else None

    @property
    def current_limit(self) -> StepLimit | None:
        """Return the limit of this level, or the bound on it, if it is known."""
        return next((x for x in self.limits if x.steps == self.level.steps), None)

    def record(self, answer: Answer) -> ParetoSearch:
        """Return the search after the answer of a candidate."""
        return _advance(replace(self, level=self.level.record(answer)))

    def record_limit(self, limit: StepLimit | None, seconds: float) -> ParetoSearch:
        """Return the search after a limit. None: it could not be computed."""
        level = self.level.record_limit(limit, seconds)
        return _advance(replace(self, level=level, limits=self._with_limit(limit)))

    def record_bound(self, bound: StepLimit | None, seconds: float) -> ParetoSearch:
        """Return the search after the bound of this level. None: there is none."""
        level = self.level.record_bound(bound, seconds)
        return _advance(replace(self, level=level, limits=self._with_limit(bound)))

    def _with_limit(self, limit: StepLimit | None) -> tuple[StepLimit, ...]:
        """Return the limits with one more, which replaces its bound."""
        if limit is None:
            return self.limits
        return (*(x for x in self.limits if x.steps != limit.steps), limit)

    def stop_interrupted(self) -> ParetoSearch:
        """Return the search as it ends if nothing more may be asked. If it goes on, that is."""
        return self if self.stopped else replace(_close_level(self), stopped="interrupted")

    @property
    def is_complete_for_any_k(self) -> bool:
        """Return whether no k gives more: every number of steps has its limit met, up to the last.

        By a point of as many steps or fewer: also where k left no candidate that would improve.
        """
        lower = {limit.steps: limit.lower for limit in self.limits}
        points = [best.candidate for best in self.optima]
        return all(
            any(p.steps <= s and p.cost <= lower.get(s, 0) for p in points)
            for s in range(self.space.steps, points[-1].steps, self.space.dual.phases)
        )


def _advance(search: ParetoSearch) -> ParetoSearch:
    """Return the search at the first level, from this one on, where something is undecided."""
    while not search.stopped and not search.level.undecided:
        search = _next_level(_close_level(search))
    return search


def _next_level(search: ParetoSearch) -> ParetoSearch:
    """Return the search at the next number of steps, or stopped."""
    best_cost, steps = search.best_cost, search.level.steps + search.space.dual.phases
    if best_cost == search.space.bandwidth:
        return replace(search, stopped="bandwidth-bound")
    if steps > search.space.last_steps:
        return replace(search, stopped="max-steps")
    return replace(search, level=search.space.make_level(steps, best_cost))


def _close_level(search: ParetoSearch) -> ParetoSearch:
    """Return the search with all that is known of this level."""
    level = search.level
    search = replace(
        search,
        refuted=(*search.refuted, *sorted(level.refuted, key=lambda r: r.candidate)),
        open=(*search.open, *level.open_candidates()),
    )
    if level.best is not None:
        search = replace(search, optima=(*search.optima, _level_optimum(search, level.best)))
    # A point of more steps says nothing about the limits of fewer steps.
    limits = (
        _with_upper_bound(x, search.best_cost) if x.steps == level.steps else x
        for x in search.limits
    )
    return replace(search, limits=tuple(limits))


def _with_upper_bound(limit: StepLimit, cost: Fraction | None) -> StepLimit:
    """Return the limit of the latest steps with the best result for at most as many."""
    return replace(limit, upper=cost) if limit.upper is None else limit


def _level_optimum(search: ParetoSearch, candidate: Candidate) -> LevelOptimum:
    """Return a level's best, with the state of its proof."""
    proved = not any(o.candidate.may_dominate(candidate) for o in search.open)
    beats_every_k = _is_optimal_for_any_k(search, candidate)
    within = None if beats_every_k else search.space.covered
    rests_on = () if beats_every_k else _unverified_origins(search, candidate)
    return LevelOptimum(candidate, _met_bounds(search, candidate), proved, within, rests_on)


def _unverified_origins(search: ParetoSearch, candidate: Candidate) -> tuple[Origin, ...]:
    """Return the origins, other than this process, of all that keeps a level's best from proof."""
    origins: set[Origin] = set()
    for entry in search.open:
        if entry.candidate.may_dominate(candidate):
            if entry.origin is None:
                return ()
            origins.add(entry.origin)
    origins |= {r.origin for r in search.refuted if r.candidate.may_dominate(candidate)}
    return tuple(sorted(origins - {Origin.THIS_PROCESS}))


def _met_bounds(search: ParetoSearch, candidate: Candidate) -> tuple[str, ...]:
    """Return which of the lower bounds a candidate meets."""
    met = ("latency",) if candidate.steps == search.space.steps else ()
    limit = search.current_limit
    if candidate.cost == search.space.bandwidth:
        return (*met, "bandwidth")
    return (*met, "limit") if limit and candidate.cost == limit.lower else met


def _is_optimal_for_any_k(search: ParetoSearch, candidate: Candidate) -> bool:
    """Return whether no candidate of any k and C dominates a candidate.

    With as many steps its limit or the bandwidth bound proves it. With fewer, limits do: the limit
    of a number of steps holds for every smaller one, too.
    """
    lower = {limit.steps: limit.lower for limit in search.limits}
    bandwidth = search.space.bandwidth
    if candidate.cost > max(lower.get(candidate.steps, bandwidth), bandwidth):
        return False
    before = candidate.steps - search.space.dual.phases
    return before < search.space.steps or lower.get(before, bandwidth) > candidate.cost
