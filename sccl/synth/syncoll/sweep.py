"""Sweeps: Algorithm 1 (:mod:`sccl.synth.syncoll.pareto`) with solvers, files, and progress."""

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
from sccl.core.bound import AlgorithmBounds
from sccl.core.cost import Costs
from sccl.core.frontier import ClassFrontier, Point, SweepFrontier
from sccl.core.instance import Candidate, Instance, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import SolverError, TooLargeError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.candidates import check_max_chunks, choose_k, last_step, scope_text
from sccl.synth.common.step_limits import StepLimits, StepLimitsFactory
from sccl.synth.common.sweep_events import (
    BoundsComputed,
    LimitComputed,
    LimitStarted,
    PointDecided,
    QueryAnswered,
    QueryStarted,
    SweepEvent,
)
from sccl.synth.constructions import construct_algorithm, cost_without_search
from sccl.synth.limits import MAX_PROGRAM_RANKS, MAX_SMALL_RANKS
from sccl.synth.syncoll.pareto import (
    LevelOptimum,
    ParetoSearch,
    SearchSpace,
    pareto_synthesize,
)
from sccl.transform import InstanceSolver, Question, build_question, solve_question

if TYPE_CHECKING:
    from sccl.synth.common.algorithm_folder import AlgorithmFolder
    from sccl.synth.common.prefetch import Prefetch


@dataclass(slots=True)
class _SweepFiles:
    """A folder of algorithms. Its provisional file is replaced by the next cheaper algorithm."""

    folder: AlgorithmFolder | None
    provisional: Path | None = None

    def save_provisional(self, algorithm: AnyAlgorithm) -> None:
        """Write an algorithm. Remove the more expensive one of this sweep for the same steps."""
        if self.folder is None:
            return
        older = self.provisional
        is_new = not self.folder.file_of(algorithm).exists()
        written = self.folder.save(algorithm)
        self.provisional = written if is_new else None  # existing files are kept
        if older and older != written:
            self.folder.discard(older)

    def save_final(self, algorithm: AnyAlgorithm) -> Path | None:
        """Write the final algorithm for these steps, with the state of its proof."""
        self.provisional = None
        return self.folder.save(algorithm) if self.folder else None


@dataclass(slots=True)
class _SweepOracle:
    """Bounds, limits, and a solver, with progress and provisional files.

    Attributes:
        topology: The machine.
        spec: The collective.
        solve: Function that answers an instance.
        solver: Name of the solver, for the record.
        bounds: Source of lower bounds on R/C. None: the sweep uses none.
        limits: Source of limits of R/C. None: the sweep uses none.
        asks_limit_first: Whether limits are quicker than queries of candidates.
        asks_costliest_first: Whether bounds are slow, so that an algorithm is searched before them.
        prefetch: Called with likely next instances.
        files: Folder of algorithms.
        notify: Called with the events.
        solutions: Algorithms for the current number of steps and larger ones.
    """

    topology: Topology
    spec: Spec
    solve: InstanceSolver
    solver: str
    bounds: StepLimits | None
    limits: StepLimits | None
    asks_limit_first: bool
    asks_costliest_first: bool
    prefetch: Prefetch
    files: _SweepFiles
    notify: Callable[[SweepEvent], None]
    solutions: dict[Candidate, Sat] = field(default_factory=dict)

    def answer(self, candidate: Candidate, search: ParetoSearch) -> Answer:
        """Return the answer for a candidate. Likely next queries may be solved in parallel."""
        self.notify(QueryStarted(candidate, len(search.level.undecided) - 1))
        answer = self._decide(candidate, search)
        if isinstance(answer, Sat):
            self.solutions[candidate] = answer
            self.files.save_provisional(answer.algorithm)
        self.notify(QueryAnswered(candidate, answer))
        return answer

    def forget_solutions(self, last: int) -> None:
        """Forget the algorithms of up to ``last`` steps."""
        self.solutions = {c: sat for c, sat in self.solutions.items() if c.steps > last}

    def quick_bound(self, steps: int) -> tuple[StepLimit | None, float]:
        """Return a quick lower bound on R/C for a number of steps, and the seconds it took."""
        return self._time_limit(self.bounds.quick_bound if self.bounds else None, steps)

    def step_limit(self, steps: int) -> tuple[StepLimit | None, float]:
        """Return the limit of R/C for a number of steps, and the seconds it took."""
        return self._time_limit(self.limits.step_limit if self.limits else None, steps)

    def _time_limit(
        self, compute: Callable[[int], StepLimit | None] | None, steps: int
    ) -> tuple[StepLimit | None, float]:
        """Return a limit of R/C and its seconds. None: the sweep continues without it."""
        if compute is None:
            return None, 0.0
        self.notify(LimitStarted(steps))
        begin = time.perf_counter()
        try:
            limit = compute(steps)
        except (SolverError, TooLargeError):
            limit = None
        seconds = time.perf_counter() - begin
        if limit is not None:
            self.notify(LimitComputed(limit))
        return limit, seconds

    def _decide(self, candidate: Candidate, search: ParetoSearch) -> Answer:
        """Return the answer of packing bounds, or of the solver."""
        question = self._build_question(candidate)
        refuted = self._refute_by_packing(question, search.current_limit)
        if refuted is not None:
            return refuted
        self.prefetch(self._upcoming_instances(search))
        try:
            return solve_question(question, self.solve)
        except SolverError as error:  # the candidate stays open, and the sweep continues
            reason = StopReason(StopKind.SOLVER_FAILED, f"the solver broke: {error}")
            return Unknown(reason, self.solver, 0.0)

    def _refute_by_packing(self, question: Question, limit: StepLimit | None) -> Unsat | None:
        """Refute a candidate by packing bounds for all its round vectors. None: not refuted.

        At the limit itself packing bounds cannot refute. If pricing needs a search, they take too
        long.
        """
        if self.limits is None or limit is None or not self.asks_limit_first:
            return None
        if Fraction(question.rounds, question.collective.chunks) == limit.lower:
            return None
        begin = time.perf_counter()
        vectors = self.limits.count_refuted_vectors(question)
        if not vectors:
            return None
        why = f"each of {vectors} round vectors (up to symmetry) packs fewer chunks (prices)"
        return Unsat(why, "packing", time.perf_counter() - begin)

    def _upcoming_instances(self, search: ParetoSearch) -> Iterator[Instance]:
        """Yield the instances of the next candidate, then of its possible successors."""
        for candidate in search.upcoming_candidates():
            yield from self._build_question(candidate).instances

    def _build_question(self, candidate: Candidate) -> Question:
        """Return the question whether a candidate has an algorithm."""
        c = candidate
        return build_question(self.topology, self.spec, c.chunks, c.steps, c.rounds)


@dataclass(slots=True)
class _SweepPoints:
    """The points of a sweep so far, with their files."""

    oracle: _SweepOracle
    points: list[Point] = field(default_factory=list)

    def add(self, search: ParetoSearch) -> None:
        """Add points for new optima of the search."""
        for best in search.optima[len(self.points) :]:
            point = self.make_point(best, search.space.dual.scope)
            self.points.append(point)
            self.oracle.forget_solutions(best.candidate.steps)
            self.oracle.notify(PointDecided(point))

    def make_point(self, best: LevelOptimum, composition: str) -> Point:
        """Return the point of a number of steps, with its final file.

        Args:
            best: The optimum.
            composition: The family of algorithms that the dual represents.
        """
        answer = self.oracle.solutions[best.candidate]
        # Files do not name origins, so a file claims only proofs that need no other origin.
        is_verified = best.proved and all(origin.is_verified for origin in best.proof_origins)
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
            file=self.oracle.files.save_final(algorithm),
            seconds=answer.seconds,
            from_store=answer.from_store,
            proof_origins=best.proof_origins,
            found_by=describe_solver(answer),
        )


def _make_frontier(
    search: ParetoSearch, points: _SweepPoints, bounds: AlgorithmBounds, seconds: float
) -> SweepFrontier:
    """Return the frontier of a finished search."""
    space, oracle = search.space, points.oracle
    complete = search.stop_reason.kind is StopKind.BANDWIDTH_BOUND and not search.open
    part = ClassFrontier(
        "",
        scope_text(space.covered, space.dual.scope),
        bounds.steps,
        bounds.bandwidth,
        tuple(points.points),
        search.limits,
        complete,
        None if complete and search.is_complete_for_any_k else space.covered,
        seconds=seconds,
    )
    return SweepFrontier(
        oracle.topology.name,
        oracle.spec.name,
        oracle.spec.root,
        Costs.from_topology(oracle.topology),
        bounds,
        (part,),
        covered=space.covered,
        solver=oracle.solver,
        open=search.open,
        refuted=search.refuted,
        stop_reason=search.stop_reason,
        seconds=seconds,
    ).require_consistent()


def _range_with_constructions(
    covered: SweepRange, topology: Topology, dual: Dual, bounds: AlgorithmBounds
) -> SweepRange:
    """Return a range with its k. By default k is large enough to contain known constructions.

    The k of the bandwidth bound suffices if the fewest chunks attain the bound.
    """
    settled_range, unit = choose_k(covered, dual, bounds), dual.spec.at(dual.spec.unit)
    if covered.k is not None or topology.ranks <= MAX_SMALL_RANKS or dual.phases > 1:
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
) -> SweepFrontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    Args:
        topology: The machine.
        spec: The collective.
        solve: Function that answers an instance.
        solver: Name of the solver, for the record.
        covered: k, last S, largest C.
        limits: Source of limits of R/C. None: the sweep uses none.
        folder: Folder for the algorithms. None: none.
        notify: Called with every event, for progress.
        prefetch: Called with likely next instances, to solve them in parallel.

    Raises:
        InputError: The collective does not fit the topology, or a rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    # only for its errors, before anything runs
    build_question(topology, spec, spec.unit, dual.phases, dual.phases)
    bounds = lower_bounds(topology, spec)
    covered = _range_with_constructions(covered, topology, dual, bounds)
    last_steps = last_step(spec, bounds, covered.max_steps)
    check_max_chunks(spec, covered)
    notify(BoundsComputed(bounds))
    if folder:
        folder.prepare()
    step_limits = None if limits is None else limits(topology, spec, bounds)
    is_large = topology.ranks > MAX_PROGRAM_RANKS
    are_quick = step_limits is not None and step_limits.are_quick()
    oracle = _SweepOracle(
        topology,
        spec,
        solve,
        solver,
        bounds=step_limits,
        limits=None if is_large else step_limits,
        asks_limit_first=are_quick and not is_large,
        asks_costliest_first=step_limits is not None and not are_quick,
        prefetch=prefetch,
        files=_SweepFiles(folder),
        notify=notify,
    )
    points = _SweepPoints(oracle)
    space = SearchSpace(dual, bounds.steps, bounds.bandwidth, last_steps, covered)
    search = pareto_synthesize(space, oracle, points.add)
    points.add(search)  # the level that a keyboard interrupt ended
    return _make_frontier(search, points, bounds, time.perf_counter() - begin)
