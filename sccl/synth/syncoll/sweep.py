"""Sweeps: a search (:mod:`sccl.synth.syncoll.pareto`) driven with solvers, files and progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Sat, Unknown, Unsat, describe_solver
from sccl.core.bound import Bounds
from sccl.core.cost import Costs
from sccl.core.frontier import ClassFrontier, Frontier, Point
from sccl.core.instance import Candidate, Instance, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.sweep_events import (
    BoundsComputed,
    LimitComputed,
    LimitStarted,
    PointDecided,
    QueryAnswered,
    QueryStarted,
    SweepEvent,
)
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError, TooLargeError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import choose_k, last_step, scope_text
from sccl.synth.common.step_limits import StepLimits, StepLimitsFactory
from sccl.synth.constructions import (
    MAX_ALLTOALL_SEARCH_RANKS,
    construct_algorithm,
    cost_without_search,
)
from sccl.synth.syncoll.pareto import (
    BoundQuery,
    LevelOptimum,
    LimitQuery,
    ParetoSearch,
    SearchSpace,
    WhenToAskLimits,
)
from sccl.transform import InstanceSolver, Question, build_question, solve_question

if TYPE_CHECKING:
    from sccl.synth.common.prefetch import Prefetch

_MAX_LIMIT_RANKS = 256  # beyond, a limit takes longer than it saves


@dataclass(frozen=True, slots=True)
class _SweepOracle:
    """The source of answers for a search."""

    topology: Topology
    spec: Spec
    solve: InstanceSolver
    solver: str
    limits: StepLimits | None
    when_limits: WhenToAskLimits
    prefetch: Prefetch

    def answer(self, candidate: Candidate, search: ParetoSearch) -> Answer:
        """Return the answer for a candidate. Likely next queries may be solved meanwhile."""
        question = self.build_question(candidate)
        refuted = self.refute_by_packing(question, search.current_limit)
        if refuted is not None:
            return refuted
        self.prefetch(self.upcoming_instances(search))
        try:
            return solve_question(question, self.solve)
        except SolverError as error:  # it decides nothing and ends nothing
            return Unknown(f"the solver broke: {error}", self.solver, 0.0)

    def refute_by_packing(self, question: Question, limit: StepLimit | None) -> Unsat | None:
        """Return that packing bounds refute a candidate for all its round vectors, if they do.

        At the limit itself they cannot, and where pricing needs a search they take too long.
        """
        if self.limits is None or limit is None or self.when_limits is not WhenToAskLimits.FIRST:
            return None
        if Fraction(question.rounds, question.collective.chunks) == limit.lower:
            return None
        begin = time.perf_counter()
        vectors = self.limits.count_refuted_vectors(question)
        if not vectors:
            return None
        why = f"each of {vectors} round vectors (up to symmetry) packs fewer chunks (prices)"
        return Unsat(why, "packing", time.perf_counter() - begin)

    def step_limit(self, wanted: BoundQuery | LimitQuery) -> StepLimit | None:
        """Return the limit of a number of steps, or a bound. None: the search does without."""
        assert self.limits is not None
        try:
            if isinstance(wanted, BoundQuery):
                return self.limits.quick_bound(wanted.steps)
            return self.limits.step_limit(wanted.steps)
        except (SolverError, TooLargeError):
            return None

    def upcoming_instances(self, search: ParetoSearch) -> Iterator[Instance]:
        """Yield those of the next candidate, then of those that may follow it."""
        for candidate in search.upcoming_candidates():
            yield from self.build_question(candidate).instances

    def build_question(self, candidate: Candidate) -> Question:
        """Return the question whether a candidate has an algorithm."""
        c = candidate
        return build_question(self.topology, self.spec, c.chunks, c.steps, c.rounds)


@dataclass(slots=True)
class _SweepFiles:
    """A folder of algorithms, with a provisional file that a cheaper algorithm will replace."""

    folder: AlgorithmFolder | None
    provisional: Path | None = None

    def save_provisional(self, algorithm: AnyAlgorithm) -> None:
        """Write an algorithm, instead of the dearer one that this sweep wrote for these steps."""
        if self.folder is None:
            return
        older = self.provisional
        is_new = not self.folder.file_of(algorithm).exists()
        written = self.folder.save(algorithm)
        self.provisional = written if is_new else None  # what was there before is not ours
        if older and older != written:
            self.folder.discard(older)

    def save_final(self, algorithm: AnyAlgorithm) -> Path | None:
        """Write the last one for these steps, with the state of its proof."""
        self.provisional = None
        return self.folder.save(algorithm) if self.folder else None


@dataclass(slots=True)
class _Sweep:
    """A search in progress, and its points so far.

    Attributes:
        solutions: the algorithms found for these steps.
    """

    search: ParetoSearch
    oracle: _SweepOracle
    files: _SweepFiles
    notify: Callable[[SweepEvent], None]
    points: list[Point] = field(default_factory=list)
    solutions: dict[Candidate, Sat] = field(default_factory=dict)

    def run(self) -> None:
        """Search until it is over or the user interrupts."""
        try:
            while (wanted := self.search.next_query()) is not None:
                if isinstance(wanted, BoundQuery | LimitQuery):
                    self.ask_limit(wanted)
                else:
                    self.ask_candidate(wanted)
                self.add_points()
        except KeyboardInterrupt:
            self.search = self.search.stop_interrupted()
        self.add_points()

    def ask_limit(self, wanted: BoundQuery | LimitQuery) -> None:
        """Let the limit of a number of steps, or a bound on it, prune its candidates."""
        self.notify(LimitStarted(wanted.steps))
        begin = time.perf_counter()
        limit = self.oracle.step_limit(wanted)
        seconds = time.perf_counter() - begin
        if isinstance(wanted, BoundQuery):
            self.search = self.search.record_bound(limit, seconds)
        else:
            self.search = self.search.record_limit(limit, seconds)
        if limit:
            self.notify(LimitComputed(limit))

    def ask_candidate(self, candidate: Candidate) -> None:
        """Have a candidate answered."""
        self.notify(QueryStarted(candidate, len(self.search.level.undecided) - 1))
        answer = self.oracle.answer(candidate, self.search)
        if isinstance(answer, Sat):
            self.solutions[candidate] = answer
        self.search = self.search.record(answer)
        if isinstance(answer, Sat):
            self.files.save_provisional(answer.algorithm)
        self.notify(QueryAnswered(candidate, answer))

    def add_points(self) -> None:
        """Make points from the settled results of the search."""
        for best in self.search.optima[len(self.points) :]:
            point = self.make_point(best)
            self.points.append(point)
            self.solutions.clear()
            self.notify(PointDecided(point))

    def make_point(self, best: LevelOptimum) -> Point:
        """Return the point of a number of steps."""
        answer, composition = self.solutions[best.candidate], self.search.space.dual.scope
        # A file of an algorithm does not name origins, so it claims what needs none of others.
        is_verified = best.proved and all(origin.is_verified for origin in best.rests_on)
        algorithm = replace(
            answer.algorithm,
            scope=scope_text(best.within, composition),
            proved=(*best.optimal, *(("pareto",) if is_verified else ())),
        )
        return replace(
            Point.from_algorithm(algorithm),
            optimal=best.optimal,
            is_proved=best.proved,
            within=best.within,
            file=self.files.save_final(algorithm),
            seconds=answer.seconds,
            from_store=answer.from_store,
            proof_origins=best.rests_on,
            found_by=describe_solver(answer),
        )

    def frontier(self, bounds: Bounds, seconds: float) -> Frontier:
        """Return the frontier so far."""
        search, space, answers = self.search, self.search.space, self.oracle
        complete = search.stopped == "bandwidth-bound" and not search.open
        part = ClassFrontier(
            "",
            scope_text(space.covered, space.dual.scope),
            bounds.steps,
            bounds.bandwidth,
            tuple(self.points),
            search.limits,
            complete,
            None if complete and search.is_complete_for_any_k else space.covered,
            seconds=seconds,
        )
        return Frontier(
            answers.topology.name,
            answers.spec.name,
            answers.spec.root,
            Costs.from_topology(answers.topology),
            bounds,
            (part,),
            covered=space.covered,
            solver=answers.solver,
            open=search.open,
            refuted=search.refuted,
            stop_reason=search.stopped,
            seconds=seconds,
        ).require_consistent()


def _range_with_constructions(
    covered: SweepRange, topology: Topology, dual: Dual, bounds: Bounds
) -> SweepRange:
    """Return a range with its k. If not given, it is large enough to contain known constructions.

    A k for the bandwidth bound is enough if the fewest chunks attain it.
    """
    settled_range, unit = choose_k(covered, dual, bounds), dual.spec.at(dual.spec.unit)
    if covered.k is not None or topology.ranks <= MAX_ALLTOALL_SEARCH_RANKS or dual.phases > 1:
        return settled_range
    if not (unit.is_allgather or unit.is_alltoall):
        return settled_range
    best_known = cost_without_search(topology, unit)
    if best_known and best_known.is_optimal:
        rounds, steps = (
            best_known.bandwidth * unit.chunks * best_known.multiples[0],
            best_known.steps,
        )
    elif (
        best_known
        and unit.is_allgather
        and dual.bandwidth(best_known.bandwidth) == bounds.bandwidth
    ):
        return settled_range
    else:
        made = construct_algorithm(topology, unit, bounds.steps)
        if made is None:
            return settled_range
        rounds, steps = Fraction(made.rounds), made.steps
    return replace(settled_range, k=max(settled_range.k or 0, ceil(rounds) - steps))


def _check_range(spec: Spec, covered: SweepRange) -> None:
    """Complain of a range in which there is nothing to try."""
    if covered.max_chunks is not None and covered.max_chunks < spec.unit:
        raise ParameterError(
            f"max-chunks is {covered.max_chunks}, but the chunks of {spec.name} come in multiples "
            f"of {spec.unit}: give at least that many"
        )


def sweep(  # noqa: PLR0913 - what a sweep is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: InstanceSolver,
    *,
    solver: str,
    covered: SweepRange,
    limits: StepLimitsFactory | None = None,
    folder: AlgorithmFolder | None = None,
    notify: Callable[[SweepEvent], None] = lambda _: None,
    prefetch: Prefetch = lambda _: None,
) -> Frontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    Args:
        spec: the collective.
        solve: answers an instance.
        solver: its name, for the record.
        covered: k, last S, largest C.
        limits: source of limits of R/C. None: the sweep uses none.
        folder: where to keep the algorithms. None: nowhere.
        notify: called with every event, for progress.
        prefetch: receives likely next instances, to solve them in parallel.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    build_question(
        topology, spec, spec.unit, dual.phases, dual.phases
    )  # complains before anything runs
    bounds = lower_bounds(topology, spec)
    covered = _range_with_constructions(covered, topology, dual, bounds)
    last_steps = last_step(spec, bounds, covered.max_steps)
    _check_range(spec, covered)
    notify(BoundsComputed(bounds))
    if folder:
        folder.prepare()
    asked, when = None, WhenToAskLimits.NEVER
    if limits is not None:
        asked = limits(topology, spec, bounds)
    if asked is not None and topology.ranks <= _MAX_LIMIT_RANKS:
        when = WhenToAskLimits.FIRST if asked.are_quick() else WhenToAskLimits.IF_NOT_CHEAPEST
    bounded = asked is not None
    space = SearchSpace(dual, bounds.steps, bounds.bandwidth, last_steps, covered, when, bounded)
    answers = _SweepOracle(topology, spec, solve, solver, asked, when, prefetch)
    run = _Sweep(ParetoSearch.start(space), answers, _SweepFiles(folder), notify)
    run.run()
    return run.frontier(bounds, time.perf_counter() - begin)
