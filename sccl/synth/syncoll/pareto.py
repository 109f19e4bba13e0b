"""Pareto-Synthesize (SCCL section 3.7, Algorithm 1): all Pareto-optimal (S, R, C) of a collective.

:func:`pareto_synthesize` is the algorithm. It finds the paper's points and refutes the same
candidates with far fewer queries:

- A lower bound on R/C for S steps refutes cheaper candidates before any query.
- The cheapest candidate of S steps is tried first, then the middle one of those left. The paper
  tries them by ascending R/C. If bounds are slow, the most expensive candidates come first, so that
  an algorithm is known early.
- A refutation carries to every candidate with no more rounds and no fewer chunks
  (:meth:`Candidate.implies_unsat`). A solution makes all more expensive candidates irrelevant.
- The limit of R/C for S steps takes longer than the lower bound. It is computed once the cheapest
  candidate has no algorithm, or at first if it is quick and there is no lower bound.

If the solver gives up on a candidate, the candidate stays open. A point that it might dominate is
reported as the best found, not as proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from sccl.collectives import Dual
from sccl.core.answer import Answer, Origin, Sat, Unknown
from sccl.core.frontier import OpenCandidate, RefutedCandidate
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason
from sccl.synth.common.candidates import enumerate_candidates
from sccl.synth.syncoll.level import Level


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The candidates (S, R, C) of a sweep.

    Attributes:
        dual: The collective, and the one that is solved instead.
        min_steps: Lower bound on S, where the sweep starts (a_l in the paper).
        bandwidth: Lower bound on R/C, where the sweep ends (b_l in the paper).
        last_steps: The last S.
        covered: The range of R and C: k, with R <= S + k (line 6), and the largest C.
    """

    dual: Dual
    min_steps: int
    bandwidth: Fraction
    last_steps: int
    covered: SweepRange

    @property
    def step_counts(self) -> range:
        """Return every S of the sweep, in ascending order."""
        return range(self.min_steps, self.last_steps + 1, self.dual.phases)

    def candidates(self, steps: int, below: Fraction | None) -> tuple[Candidate, ...]:
        """Return the candidates of S steps with R/C less than ``below``, by ascending R/C."""
        everything = enumerate_candidates(self.dual, self.bandwidth, steps, self.covered)
        return tuple(sorted(c for c in everything if below is None or c.cost < below))


class CandidateOracle(Protocol):
    """The source of answers for :func:`pareto_synthesize`."""

    @property
    def asks_limit_first(self) -> bool:
        """Return whether limits are quicker than queries of candidates."""
        ...

    @property
    def asks_costliest_first(self) -> bool:
        """Return whether to ask for the candidates of the largest R/C before any bound."""
        ...

    def answer(self, candidate: Candidate, search: ParetoSearch) -> Answer:
        """Return whether a candidate has an algorithm. ``search`` lists likely next ones."""
        ...

    def quick_bound(self, steps: int) -> tuple[StepLimit | None, float]:
        """Return a lower bound on R/C for S steps, or None, and the seconds it took."""
        ...

    def step_limit(self, steps: int) -> tuple[StepLimit | None, float]:
        """Return the largest known lower bound on R/C for S steps, or None, and the seconds."""
        ...


def pareto_synthesize(
    space: SearchSpace, oracle: CandidateOracle, report: Callable[[ParetoSearch], None]
) -> ParetoSearch:
    """Return the Pareto-optimal candidates of a search space (SCCL Algorithm 1).

    Comments name the lines of Algorithm 1. Its lines 2 to 4 are the attributes of the search space,
    and lines 8 and 9 are the oracle: the instance, and the solver. A keyboard interrupt ends the
    search. All undecided candidates are then open.

    Args:
        space: The candidates.
        oracle: Source of answers.
        report: Called with the search after each number of steps.
    """
    search, interrupted, reached = ParetoSearch(space), False, 0
    probes: dict[Candidate, Answer] = {}
    try:
        for candidate, answer in _probe_dearest(search, oracle):
            probes[candidate] = answer  # noqa: PERF403 - an interrupt keeps earlier answers
        for steps in space.step_counts:  # line 5 of Algorithm 1
            search, reached = search.start_level(steps), steps  # line 6: the set A
            search = search.record_probes(probes)
            search = _refute_by_bounds(search, oracle)
            while search.level.undecided:  # line 7
                if search.level.is_queried and not search.level.is_limit_asked:
                    search = search.record_limit(*oracle.step_limit(steps))
                else:
                    candidate = search.level.next_candidate()
                    # line 9, SMT
                    answer = probes.get(candidate) or oracle.answer(candidate, search)
                    search = search.record(answer, candidate)  # line 13: SAT keeps cheaper ones
            search = search.finish_level()
            report(search)  # line 10, if there is an algorithm
            if search.best_cost == space.bandwidth:  # line 11
                break  # line 12: return
    except KeyboardInterrupt:
        search, interrupted = _finish_by_probes(search, probes, reached), True
    return search.stop(interrupted=interrupted)


def _probe_dearest(
    search: ParetoSearch, oracle: CandidateOracle
) -> Iterator[tuple[Candidate, Answer]]:
    """Yield the answer for the most expensive candidate of each S, up to the first solved one.

    Bounds and hard candidates of small S may take minutes. An algorithm is then already known.
    """
    for steps in search.space.step_counts if oracle.asks_costliest_first else ():
        level = search.start_level(steps)
        for dearest in level.level.undecided[-1:]:
            answer = oracle.answer(dearest, level)
            yield dearest, answer
            if isinstance(answer, Sat):
                return


def _finish_by_probes(
    search: ParetoSearch, probes: Mapping[Candidate, Answer], reached: int
) -> ParetoSearch:
    """Return an interrupted search with the answers for levels that it has not reached.

    All other candidates of these levels are open.

    Args:
        search: The search.
        probes: Answers for the most expensive candidates.
        reached: The last S that the search has reached.
    """
    search = search.finish_level()
    for candidate, answer in probes.items():
        if candidate.steps > reached:
            level = search.start_level(candidate.steps)
            if candidate in level.level.undecided:
                level = level.record(answer, candidate)
            search = level.finish_level()
    return search


def _refute_by_bounds(search: ParetoSearch, oracle: CandidateOracle) -> ParetoSearch:
    """Return the search at a new level after the quick bound on R/C, or else the limit."""
    steps = search.level.steps
    if search.level.undecided:
        search = search.record_bound(*oracle.quick_bound(steps))
    if search.level.undecided and oracle.asks_limit_first and search.current_limit is None:
        search = search.record_limit(*oracle.step_limit(steps))
    return search


@dataclass(frozen=True, slots=True)
class LevelOptimum:
    """The cheapest candidate of a number of steps with an algorithm.

    Attributes:
        candidate: The candidate.
        optimal: The lower bounds that it attains: ``"latency"``, on S; ``"bandwidth"``, on R/C.
            Otherwise perhaps ``"limit"``, on R/C for its S.
        proved: Whether every candidate in ``within`` that would dominate it has been refuted.
        within: Range of the proof. None: all k and C.
        proof_origins: Origins, other than this process, of refutations in the proof. If it is not
            proved, the origins whose verification would prove it.
    """

    candidate: Candidate
    optimal: tuple[str, ...]
    proved: bool
    within: SweepRange | None
    proof_origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class ParetoSearch:
    """The state of :func:`pareto_synthesize`.

    Attributes:
        space: The candidates.
        level: Candidates of the current number of steps. Empty between two levels.
        optima: Optima of earlier levels that improve R/C.
        refuted: Refuted candidates of earlier levels.
        open: Undecided candidates of earlier levels that would improve R/C.
        limits: Limits of R/C, or lower bounds on it, for numbers of steps.
        stop_reason: Bandwidth bound, largest S, or interrupt.
    """

    space: SearchSpace
    level: Level = Level()  # noqa: RUF009 - a frozen value
    optima: tuple[LevelOptimum, ...] = ()
    refuted: tuple[RefutedCandidate, ...] = ()
    open: tuple[OpenCandidate, ...] = ()
    limits: tuple[StepLimit, ...] = ()
    stop_reason: StopReason = NOT_STOPPED

    @property
    def best_cost(self) -> Fraction | None:
        """Return the smallest R/C of earlier numbers of steps."""
        return self.optima[-1].candidate.cost if self.optima else None

    @property
    def current_limit(self) -> StepLimit | None:
        """Return the limit or lower bound of this level. None: it is not known."""
        return next((x for x in self.limits if x.steps == self.level.steps), None)

    def upcoming_candidates(self) -> Iterator[Candidate]:
        """Yield the candidates that are likely to be queried, the next one first."""
        yield from self.level.upcoming_candidates()
        following = self.level.steps + self.space.dual.phases
        if following <= self.space.last_steps:
            yield from self.space.candidates(following, self.best_cost)[:1]

    def start_level(self, steps: int) -> ParetoSearch:
        """Return the search at the candidates of S steps that would improve R/C."""
        return replace(self, level=Level(steps, self.space.candidates(steps, self.best_cost)))

    def record(self, answer: Answer, candidate: Candidate) -> ParetoSearch:
        """Return the search after the answer for a candidate of this level."""
        return replace(self, level=self.level.record(answer, candidate))

    def record_probes(self, probes: Mapping[Candidate, Answer]) -> ParetoSearch:
        """Return the search after an answer from before this level.

        An unsat counts only when its candidate is next, because a bound may refute more.
        """
        for candidate in self.level.undecided:
            if isinstance(answer := probes.get(candidate), Sat | Unknown):
                return self.record(answer, candidate)
        return self

    def record_bound(self, bound: StepLimit | None, seconds: float) -> ParetoSearch:
        """Return the search after the lower bound on R/C of this level. None: there is none."""
        if bound is None:
            return self
        return replace(
            self, level=self.level.refute_below(bound, seconds), limits=(*self.limits, bound)
        )

    def record_limit(self, limit: StepLimit | None, seconds: float) -> ParetoSearch:
        """Return the search after the limit of this level. None: it cannot be computed."""
        level = replace(self.level, is_limit_asked=True)
        if limit is None:
            return replace(self, level=level)
        others = (x for x in self.limits if x.steps != limit.steps)
        return replace(self, level=level.refute_below(limit, seconds), limits=(*others, limit))

    def finish_level(self) -> ParetoSearch:
        """Return the search with the optimum, the refuted and the open candidates of this level."""
        level = self.level
        search = replace(
            self,
            level=Level(),
            refuted=(*self.refuted, *sorted(level.refuted, key=lambda r: r.candidate)),
            open=(*self.open, *level.open_candidates()),
        )
        if level.best is not None:
            optimum = _level_optimum(search, level.best)
            search = replace(search, optima=(*search.optima, optimum))
        # The best R/C so far is an upper bound on the limit of this level, but of no earlier level.
        return replace(
            search,
            limits=tuple(
                replace(x, upper=search.best_cost)
                if x.steps == level.steps and x.upper is None
                else x
                for x in search.limits
            ),
        )

    def stop(self, *, interrupted: bool) -> ParetoSearch:
        """Return the search with the reason why it ended."""
        if self.best_cost == self.space.bandwidth:
            kind = StopKind.BANDWIDTH_BOUND
        else:
            kind = StopKind.INTERRUPTED if interrupted else StopKind.MAX_STEPS
        return replace(self, stop_reason=StopReason(kind))

    @property
    def is_complete_for_any_k(self) -> bool:
        """Return whether a larger k would add no point.

        That is so if for each S before the last point, some point of at most S steps attains the
        lower bound on R/C for S steps.
        """
        lower = {limit.steps: limit.lower for limit in self.limits}
        points = [best.candidate for best in self.optima]
        return all(
            any(p.steps <= s and p.cost <= lower.get(s, 0) for p in points)
            for s in range(self.space.min_steps, points[-1].steps, self.space.dual.phases)
        )


def _level_optimum(search: ParetoSearch, candidate: Candidate) -> LevelOptimum:
    """Return the best candidate of a finished level, with the state of its proof."""
    proved = not any(o.candidate.may_dominate(candidate) for o in search.open)
    beats_every_k = _is_optimal_for_any_k(search, candidate)
    within = None if beats_every_k else search.space.covered
    origins = () if beats_every_k else _proof_origins(search, candidate)
    return LevelOptimum(candidate, _met_bounds(search, candidate), proved, within, origins)


def _proof_origins(search: ParetoSearch, candidate: Candidate) -> tuple[Origin, ...]:
    """Return the origins, other than this process, of refutations of dominating candidates.

    The result is also empty if a dominating candidate is open without any claim of infeasibility.
    """
    origins: set[Origin] = set()
    for entry in search.open:
        if entry.candidate.may_dominate(candidate):
            if entry.origin is None:
                return ()
            origins.add(entry.origin)
    origins |= {r.origin for r in search.refuted if r.candidate.may_dominate(candidate)}
    return tuple(sorted(origins - {Origin.THIS_PROCESS}))


def _met_bounds(search: ParetoSearch, candidate: Candidate) -> tuple[str, ...]:
    """Return the names of the lower bounds that a candidate attains."""
    met = ("latency",) if candidate.steps == search.space.min_steps else ()
    if candidate.cost == search.space.bandwidth:
        return (*met, "bandwidth")
    is_limit = any(x.steps == candidate.steps and x.lower == candidate.cost for x in search.limits)
    return (*met, "limit") if is_limit else met


def _is_optimal_for_any_k(search: ParetoSearch, candidate: Candidate) -> bool:
    """Return whether no candidate of any k and C dominates a candidate.

    For as many steps, the limit or the bandwidth bound proves this. For fewer steps, the limit of
    the previous level proves it: a lower bound for S steps holds for every smaller S.
    """
    lower = {limit.steps: limit.lower for limit in search.limits}
    bandwidth = search.space.bandwidth
    if candidate.cost > max(lower.get(candidate.steps, bandwidth), bandwidth):
        return False
    before = candidate.steps - search.space.dual.phases
    return before < search.space.min_steps or lower.get(before, bandwidth) > candidate.cost
