"""Sweeps: a search (:mod:`sccl.synth.ksync.search`) driven with solvers, files and progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from pathlib import Path

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.bounds import Bounds
from sccl.core.candidate import Candidate, Range
from sccl.core.cost import Costs
from sccl.core.events import Answered, Asking, Bounded, Event, Limited, Limiting, Settled
from sccl.core.frontier import ClassFrontier, Frontier, Point
from sccl.core.instance import Instance
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError, TooLargeError
from sccl.prove.bounds import lower_bounds
from sccl.synth.ahead import Expect
from sccl.synth.ask import Solve, ask
from sccl.synth.candidates import last_step, scope_of, settled
from sccl.synth.direct import SEARCHED, attained, constructed
from sccl.synth.folder import Folder
from sccl.synth.ksync.search import Best, BoundOf, LimitOf, LimitsWhen, Search, Space
from sccl.synth.oracle import LimitOracle, Limits
from sccl.transform import Question, pose

_LIMIT_RANKS = 256  # beyond, a limit takes longer than it saves


@dataclass(frozen=True, slots=True)
class _Answers:
    """The source of answers for a search."""

    topology: Topology
    spec: Spec
    solve: Solve
    solver: str
    limits: Limits | None
    limits_when: LimitsWhen
    expect: Expect

    def of(self, candidate: Candidate, search: Search) -> Answer:
        """Return the answer for a candidate. Likely next queries may be solved meanwhile."""
        question = self.pose(candidate)
        refuted = self.refuted(question, search.limit)
        if refuted is not None:
            return refuted
        self.expect(self.instances(search))
        try:
            return ask(question, self.solve)
        except SolverError as error:  # it decides nothing and ends nothing
            return Unknown(f"the solver broke: {error}", self.solver, 0.0)

    def refuted(self, question: Question, limit: StepLimit | None) -> Unsat | None:
        """Return that packing bounds refute a candidate for all its round vectors, if they do.

        At the limit itself they cannot, and where pricing needs a search they take too long.
        """
        if self.limits is None or limit is None or self.limits_when is not LimitsWhen.FIRST:
            return None
        if Fraction(question.rounds, question.collective.chunks) == limit.lower:
            return None
        begin = time.perf_counter()
        vectors = self.limits.refuting(question)
        if not vectors:
            return None
        why = f"each of {vectors} round vectors (up to symmetry) packs fewer chunks (prices)"
        return Unsat(why, "packing", time.perf_counter() - begin)

    def limit(self, wanted: BoundOf | LimitOf) -> StepLimit | None:
        """Return the limit of a number of steps, or a bound. None: the search does without."""
        assert self.limits is not None
        try:
            if isinstance(wanted, BoundOf):
                return self.limits.bound_of_steps(wanted.steps)
            return self.limits.of_steps(wanted.steps)
        except (SolverError, TooLargeError):
            return None

    def instances(self, search: Search) -> Iterator[Instance]:
        """Yield those of the next candidate, then of those that may follow it."""
        for candidate in search.ahead():
            yield from self.pose(candidate).instances

    def pose(self, candidate: Candidate) -> Question:
        """Return the question whether a candidate has an algorithm."""
        c = candidate
        return pose(self.topology, self.spec, c.chunks, c.steps, c.rounds)


@dataclass(slots=True)
class _Files:
    """A folder of algorithms, with a provisional file that a cheaper algorithm will replace."""

    folder: Folder | None
    provisional: Path | None = None

    def keep(self, algorithm: AnyAlgorithm) -> None:
        """Write an algorithm, instead of the dearer one that this sweep wrote for these steps."""
        if self.folder is None:
            return
        older = self.provisional
        is_new = not self.folder.file_of(algorithm).exists()
        written = self.folder.save(algorithm)
        self.provisional = written if is_new else None  # what was there before is not ours
        if older and older != written:
            self.folder.discard(older)

    def settle(self, algorithm: AnyAlgorithm) -> Path | None:
        """Write the last one for these steps, with the state of its proof."""
        self.provisional = None
        return self.folder.save(algorithm) if self.folder else None


@dataclass(slots=True)
class _Sweep:
    """A search in progress, and its points so far.

    Attributes:
        found: the algorithms found for these steps.
    """

    search: Search
    answers: _Answers
    files: _Files
    notify: Callable[[Event], None]
    points: list[Point] = field(default_factory=list)
    found: dict[Candidate, Sat] = field(default_factory=dict)

    def run(self) -> None:
        """Search until it is over or the user interrupts."""
        try:
            while (wanted := self.search.next()) is not None:
                if isinstance(wanted, BoundOf | LimitOf):
                    self.limit(wanted)
                else:
                    self.ask(wanted)
                self.settle()
        except KeyboardInterrupt:
            self.search = self.search.interrupted()
        self.settle()

    def limit(self, wanted: BoundOf | LimitOf) -> None:
        """Let the limit of a number of steps, or a bound on it, prune its candidates."""
        self.notify(Limiting(wanted.steps))
        begin = time.perf_counter()
        limit = self.answers.limit(wanted)
        seconds = time.perf_counter() - begin
        if isinstance(wanted, BoundOf):
            self.search = self.search.record_bound(limit, seconds)
        else:
            self.search = self.search.record_limit(limit, seconds)
        if limit:
            self.notify(Limited(limit))

    def ask(self, candidate: Candidate) -> None:
        """Have a candidate answered."""
        self.notify(Asking(candidate, len(self.search.level.undecided) - 1))
        answer = self.answers.of(candidate, self.search)
        if isinstance(answer, Sat):
            self.found[candidate] = answer
        self.search = self.search.record(answer)
        if isinstance(answer, Sat):
            self.files.keep(answer.algorithm)
        self.notify(Answered(candidate, answer))

    def settle(self) -> None:
        """Make points from the settled results of the search."""
        for best in self.search.best[len(self.points) :]:
            point = self.point(best)
            self.points.append(point)
            self.found.clear()
            self.notify(Settled(point))

    def point(self, best: Best) -> Point:
        """Return the point of a number of steps."""
        answer, composition = self.found[best.candidate], self.search.space.dual.scope
        # A file of an algorithm does not name origins, so it claims what needs none of others.
        is_verified = best.proved and all(origin.is_verified for origin in best.rests_on)
        algorithm = replace(
            answer.algorithm,
            scope=scope_of(best.within, composition),
            proved=(*best.optimal, *(("pareto",) if is_verified else ())),
        )
        return replace(
            Point.of(algorithm),
            optimal=best.optimal,
            proved=best.proved,
            within=best.within,
            file=self.files.settle(algorithm),
            seconds=answer.seconds,
            from_store=answer.from_store,
            rests_on=best.rests_on,
        )

    def frontier(self, bounds: Bounds, seconds: float) -> Frontier:
        """Return the frontier so far."""
        search, space, answers = self.search, self.search.space, self.answers
        complete = search.stopped == "bandwidth-bound" and not search.open
        part = ClassFrontier(
            "",
            scope_of(space.covered, space.dual.scope),
            bounds.steps,
            bounds.bandwidth,
            tuple(self.points),
            search.limits,
            complete,
            None if complete and search.is_whole else space.covered,
            seconds=seconds,
        )
        return Frontier(
            answers.topology.name,
            answers.spec.name,
            answers.spec.root,
            Costs.of(answers.topology),
            bounds,
            (part,),
            covered=space.covered,
            solver=answers.solver,
            open=search.open,
            refuted=search.refuted,
            stopped=search.stopped,
            seconds=seconds,
        ).require_consistent()


def _with_what_is_known(covered: Range, topology: Topology, dual: Dual, bounds: Bounds) -> Range:
    """Return a range with its k. If not given, it is large enough to contain known constructions.

    A k for the bandwidth bound is enough if the fewest chunks attain it.
    """
    found, unit = settled(covered, dual, bounds), dual.spec.at(dual.spec.unit)
    if covered.k is not None or topology.ranks <= SEARCHED or dual.phases > 1:
        return found
    if not (unit.is_gathered or unit.is_transpose):
        return found
    known = attained(topology, unit)
    if known and known.is_least:
        rounds, steps = known.bandwidth * unit.chunks * known.times[0], known.steps
    elif known and unit.is_gathered and dual.bandwidth(known.bandwidth) == bounds.bandwidth:
        return found
    else:
        made = constructed(topology, unit, bounds.steps)
        if made is None:
            return found
        rounds, steps = Fraction(made.rounds), made.steps
    return replace(found, k=max(found.k or 0, ceil(rounds) - steps))


def _refuse_empty(spec: Spec, covered: Range) -> None:
    """Complain of a range in which there is nothing to try."""
    if covered.max_chunks is not None and covered.max_chunks < spec.unit:
        raise ParameterError(
            f"max-chunks is {covered.max_chunks}, but the chunks of {spec.name} come in multiples "
            f"of {spec.unit}: give at least that many"
        )


def sweep(  # noqa: PLR0913 - what a sweep is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    solver: str,
    covered: Range,
    limits: LimitOracle | None = None,
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
    expect: Expect = lambda _: None,
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
        expect: receives likely next instances, to solve them in parallel.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    pose(topology, spec, spec.unit, dual.phases, dual.phases)  # complains before anything runs
    bounds = lower_bounds(topology, spec)
    covered = _with_what_is_known(covered, topology, dual, bounds)
    last_steps = last_step(spec, bounds, covered.max_steps)
    _refuse_empty(spec, covered)
    notify(Bounded(bounds))
    if folder:
        folder.prepare()
    asked, when = None, LimitsWhen.NEVER
    if limits is not None:
        asked = limits(topology, spec, bounds)
    if asked is not None and topology.ranks <= _LIMIT_RANKS:
        when = LimitsWhen.FIRST if asked.are_quick() else LimitsWhen.IF_NOT_CHEAPEST
    bounded = asked is not None
    space = Space(dual, bounds.steps, bounds.bandwidth, last_steps, covered, when, bounded)
    answers = _Answers(topology, spec, solve, solver, asked, when, expect)
    run = _Sweep(Search.begin(space), answers, _Files(folder), notify)
    run.run()
    return run.frontier(bounds, time.perf_counter() - begin)
