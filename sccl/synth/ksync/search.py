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
from sccl.core.candidate import Candidate, Range
from sccl.core.frontier import Open, Refuted
from sccl.core.limit import StepLimit
from sccl.synth.candidates import candidates
from sccl.synth.ksync.level import Level


class LimitsWhen(Enum):
    """When the limit of a number of steps is asked for."""

    NEVER = auto()
    FIRST = auto()
    IF_NOT_CHEAPEST = auto()


@dataclass(frozen=True, slots=True)
class Space:
    """The search space.

    Attributes:
        steps: lower bound on S: the start.
        bandwidth: lower bound on R/C: the end.
        last_steps: the last S.
        covered: k and the largest C.
        bounded: whether to use bounds for numbers of steps.
    """

    dual: Dual
    steps: int
    bandwidth: Fraction
    last_steps: int
    covered: Range
    limits: LimitsWhen = LimitsWhen.NEVER
    bounded: bool = False

    def level(self, steps: int, below: Fraction | None) -> Level:
        """Return the candidates of a number of steps that cost less. None: all of them."""
        every = candidates(self.dual, self.bandwidth, steps, self.covered)
        return Level(steps, tuple(sorted(c for c in every if below is None or c.cost < below)))


@dataclass(frozen=True, slots=True)
class BoundOf:
    """The query for a fast lower bound on R/C for a number of steps."""

    steps: int


@dataclass(frozen=True, slots=True)
class LimitOf:
    """The query for the limit of a number of steps."""

    steps: int


@dataclass(frozen=True, slots=True)
class Best:
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
    within: Range | None
    rests_on: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """A search as far as it is, from :meth:`begin`: a question, its answer, a question, ...

    Attributes:
        level: the number of steps that it is at.
        best: of the numbers of steps before, where that improves.
        refuted: candidates of the numbers of steps before.
        open: likewise.
        limits: or bounds, as far as they are known, this level's too.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``. Empty: it goes on.
    """

    space: Space
    level: Level
    best: tuple[Best, ...] = ()
    refuted: tuple[Refuted, ...] = ()
    open: tuple[Open, ...] = ()
    limits: tuple[StepLimit, ...] = ()
    stopped: str = ""

    @staticmethod
    def begin(space: Space) -> Search:
        """Return the search at the fewest steps."""
        return _advanced(Search(space, space.level(space.steps, None)))

    def next(self) -> Candidate | BoundOf | LimitOf | None:
        """Return the next query. None: the search is complete."""
        level, when = self.level, self.space.limits
        if self.stopped:
            return None
        if self.space.bounded and not level.bounded:
            return BoundOf(level.steps)
        first = when is LimitsWhen.FIRST and self.limit is None
        wanted = first or (when is not LimitsWhen.NEVER and level.asked)
        return LimitOf(level.steps) if wanted and not level.limited else level.next()

    def ahead(self) -> Iterator[Candidate]:
        """Yield the candidates that are likely to be asked for, the next one first."""
        yield from self.level.ahead()
        following = self.level.steps + self.space.dual.phases
        if following <= self.space.last_steps:
            yield from self.space.level(following, self.least).undecided[:1]

    @property
    def least(self) -> Fraction | None:
        """Return the smallest R/C of the numbers of steps before."""
        return self.best[-1].candidate.cost if self.best else None

    @property
    def limit(self) -> StepLimit | None:
        """Return the limit of this level, or the bound on it, if it is known."""
        return next((x for x in self.limits if x.steps == self.level.steps), None)

    def record(self, answer: Answer) -> Search:
        """Return the search after the answer of a candidate."""
        return _advanced(replace(self, level=self.level.record(answer)))

    def record_limit(self, limit: StepLimit | None, seconds: float) -> Search:
        """Return the search after a limit. None: it could not be computed."""
        level = self.level.record_limit(limit, seconds)
        return _advanced(replace(self, level=level, limits=self._with(limit)))

    def record_bound(self, bound: StepLimit | None, seconds: float) -> Search:
        """Return the search after the bound of this level. None: there is none."""
        level = self.level.record_bound(bound, seconds)
        return _advanced(replace(self, level=level, limits=self._with(bound)))

    def _with(self, limit: StepLimit | None) -> tuple[StepLimit, ...]:
        """Return the limits with one more, which replaces its bound."""
        if limit is None:
            return self.limits
        return (*(x for x in self.limits if x.steps != limit.steps), limit)

    def interrupted(self) -> Search:
        """Return the search as it ends if nothing more may be asked. If it goes on, that is."""
        return self if self.stopped else replace(_settled(self), stopped="interrupted")

    @property
    def is_whole(self) -> bool:
        """Return whether no k gives more: every number of steps has its limit met, up to the last.

        By a point of as many steps or fewer: also where k left no candidate that would improve.
        """
        lower = {limit.steps: limit.lower for limit in self.limits}
        points = [best.candidate for best in self.best]
        return all(
            any(p.steps <= s and p.cost <= lower.get(s, 0) for p in points)
            for s in range(self.space.steps, points[-1].steps, self.space.dual.phases)
        )


def _advanced(search: Search) -> Search:
    """Return the search at the first level, from this one on, where something is undecided."""
    while not search.stopped and not search.level.undecided:
        search = _following(_settled(search))
    return search


def _following(search: Search) -> Search:
    """Return the search at the next number of steps, or stopped."""
    least, steps = search.least, search.level.steps + search.space.dual.phases
    if least == search.space.bandwidth:
        return replace(search, stopped="bandwidth-bound")
    if steps > search.space.last_steps:
        return replace(search, stopped="max-steps")
    return replace(search, level=search.space.level(steps, least))


def _settled(search: Search) -> Search:
    """Return the search with all that is known of this level."""
    level = search.level
    search = replace(
        search,
        refuted=(*search.refuted, *sorted(level.refuted, key=lambda r: r.candidate)),
        open=(*search.open, *level.left_open()),
    )
    if level.best is not None:
        search = replace(search, best=(*search.best, _judged(search, level.best)))
    # A point of more steps says nothing about the limits of fewer steps.
    limits = (_with_found(x, search.least) if x.steps == level.steps else x for x in search.limits)
    return replace(search, limits=tuple(limits))


def _with_found(limit: StepLimit, cost: Fraction | None) -> StepLimit:
    """Return the limit of the latest steps with the best result for at most as many."""
    return replace(limit, upper=cost) if limit.upper is None else limit


def _judged(search: Search, candidate: Candidate) -> Best:
    """Return a level's best, with the state of its proof."""
    proved = not any(o.candidate.may_dominate(candidate) for o in search.open)
    beats_every_k = _beats_every_k(search, candidate)
    within = None if beats_every_k else search.space.covered
    rests_on = () if beats_every_k else _rests_on(search, candidate)
    return Best(candidate, _met(search, candidate), proved, within, rests_on)


def _rests_on(search: Search, candidate: Candidate) -> tuple[Origin, ...]:
    """Return the origins, other than this process, of all that keeps a level's best from proof."""
    origins: set[Origin] = set()
    for one in search.open:
        if one.candidate.may_dominate(candidate):
            if one.origin is None:
                return ()
            origins.add(one.origin)
    origins |= {r.origin for r in search.refuted if r.candidate.may_dominate(candidate)}
    return tuple(sorted(origins - {Origin.HERE}))


def _met(search: Search, candidate: Candidate) -> tuple[str, ...]:
    """Return which of the lower bounds a candidate meets."""
    met = ("latency",) if candidate.steps == search.space.steps else ()
    limit = search.limit
    if candidate.cost == search.space.bandwidth:
        return (*met, "bandwidth")
    return (*met, "limit") if limit and candidate.cost == limit.lower else met


def _beats_every_k(search: Search, candidate: Candidate) -> bool:
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
