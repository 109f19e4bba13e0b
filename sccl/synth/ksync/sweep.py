"""The Pareto procedure (SCCL section 3.7, Algorithm 1), with the proofs it rests on kept apart.

For each number of steps S, from the latency bound up, the cheapest satisfiable candidate (R, C) is
sought among those that would improve on fewer steps; the sweep ends where R/C meets the bandwidth
bound. The paper tries candidates by ascending R/C until one is satisfiable, which refutes all
cheaper ones one by one. The same point is found, and the same candidates refuted, with far fewer
queries: the cheapest is tried first (it ends the sweep if it meets the bound), then the middle of
what is left. A refutation carries to every candidate with no more rounds and no fewer chunks
(:meth:`Candidate.implies_unsat`), and a solution makes everything dearer irrelevant.

The limit of R/C for that many steps (:mod:`sccl.synth.limit`) refutes what is cheaper before any
search. It is computed first where that is quick, else once the cheapest candidate has not been
satisfiable.

A candidate on which the solver gives up stays open. It never closes anything: a point that it might
dominate is reported as the best found, not as proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.candidate import Candidate, Range
from sccl.core.frontier import Open, Refuted
from sccl.core.instance import Instance
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError, TooLargeError
from sccl.prove.bounds import LowerBounds, lower_bounds
from sccl.synth.ahead import Expect
from sccl.synth.ask import Solve, ask
from sccl.synth.candidates import candidates, scope_of, settled
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier, Point, meets
from sccl.synth.limit.frontier import Packed, last_step, packing_refutes, step_limit
from sccl.transform import Question, pose

_LIMIT_RANKS = 256  # beyond, a limit takes longer than it saves
LIMIT_EFFORT = 8.0
"""For the limit of a number of steps, which prunes a sweep: see :func:`sccl.synth.limit.solve`."""

_PACKING_ROUNDS = 2000  # on the packing bounds of a candidate, before it is searched


@dataclass(frozen=True, slots=True)
class Bounded:
    """The bounds are known, and with them where the sweep starts."""

    bounds: LowerBounds


@dataclass(frozen=True, slots=True)
class Asking:
    """A candidate is being solved; ``left`` more may follow at this number of steps."""

    candidate: Candidate
    left: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A candidate has its answer."""

    candidate: Candidate
    answer: Answer


@dataclass(frozen=True, slots=True)
class Settled:
    """The point of a number of steps is known."""

    point: Point


@dataclass(frozen=True, slots=True)
class Limiting:
    """The limit of a number of steps is being computed."""

    steps: int


@dataclass(frozen=True, slots=True)
class Limited:
    """The limit of a number of steps is known, or bounded."""

    limit: StepLimit


@dataclass(frozen=True, slots=True)
class Begun:
    """A part of the work begins, such as one half of an allreduce."""

    part: str


Event = Begun | Bounded | Asking | Answered | Settled | Limiting | Limited


@dataclass(slots=True)
class _Level:
    """The candidates of one number of steps: undecided, refuted, open, and the best found."""

    undecided: list[Candidate]
    refuted: list[Refuted] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    best: tuple[Candidate, Sat] | None = None
    limit: StepLimit | None = None
    asked: bool = False
    limited: bool = False

    def next(self) -> Candidate:
        """Return the cheapest candidate at first, then the middle one."""
        return self.undecided[len(self.undecided) // 2 if self.asked else 0]

    def ahead(self) -> Iterator[Candidate]:
        """Yield the next candidate, then those that come after it by any answers, breadth first."""
        queue = [(self.asked, self.undecided)]
        seen: set[Candidate] = set()
        for asked, undecided in queue:
            if not undecided:
                continue
            candidate = undecided[len(undecided) // 2 if asked else 0]
            if candidate not in seen:
                seen.add(candidate)
                yield candidate
            if_sat = [c for c in undecided if c < candidate]
            if_not = [c for c in undecided if c != candidate and not candidate.implies_unsat(c)]
            queue += [(True, if_sat), (True, if_not)]

    def take(self, limit: StepLimit, seconds: float) -> None:
        """Refute every candidate below the limit: no k and no C gives less."""
        self.limit = limit
        why = f"no algorithm of {limit.steps} steps has R/C below {limit.lower} (limit certificate)"
        others = [*self.undecided, *(o.candidate for o in self.open)]
        below = [c for c in others if c.cost < limit.lower]
        self.refuted += [Refuted(c, why, seconds if i == 0 else 0.0) for i, c in enumerate(below)]
        self.undecided = [c for c in self.undecided if c.cost >= limit.lower]
        self.open = [o for o in self.open if o.candidate.cost >= limit.lower]

    def record(self, candidate: Candidate, answer: Answer) -> None:
        """Take in an answer and all that follows from it."""
        self.asked = True
        match answer:
            case Sat():
                self.best = (candidate, answer)
                self.undecided = [c for c in self.undecided if c < candidate]
            case Unsat(evidence):
                self.refuted.append(Refuted(candidate, evidence, answer.seconds))
                why = f"follows from {candidate}: no more rounds, no fewer chunks"
                others = [*self.undecided, *(o.candidate for o in self.open)]
                implied = [c for c in others if c != candidate and candidate.implies_unsat(c)]
                self.refuted += [Refuted(c, why, 0.0) for c in implied]
                self.undecided = [c for c in self.undecided if c not in implied]
                self.open = [o for o in self.open if o.candidate not in implied]
            case Unknown(reason):
                self.open.append(Open(candidate, reason))
        self.undecided = [c for c in self.undecided if c != candidate]

    def left_open(self) -> list[Open]:
        """Return what is not decided and would be cheaper than the best found."""
        tried = [o.candidate for o in self.open]
        rest = [Open(c, "not tried: interrupted") for c in self.undecided if c not in tried]
        every = sorted([*self.open, *rest], key=lambda o: o.candidate)
        return [o for o in every if not self.best or o.candidate.cost < self.best[0].cost]


@dataclass(slots=True)
class _Sweep:
    topology: Topology
    spec: Spec
    dual: Dual
    covered: Range
    bounds: LowerBounds
    last_steps: int
    solve: Solve
    solver: str
    folder: Folder | None
    notify: Callable[[Event], None]
    expect: Expect
    limit_effort: float
    limits_first: bool
    limits: list[StepLimit] = field(default_factory=list)
    packed: Packed | None = None
    points: list[Point] = field(default_factory=list)
    refuted: list[Refuted] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    provisional: Path | None = None

    def run(self) -> str:
        """Sweep all numbers of steps and return why it stopped."""
        for steps in range(self.bounds.steps, self.last_steps + 1, self.dual.phases):
            if not self.run_level(steps):
                return "interrupted"
            if self.points and self.points[-1].candidate.cost == self.bounds.bandwidth:
                return "bandwidth-bound"
        return "max-steps"

    def run_level(self, steps: int) -> bool:
        """Find the point of one number of steps; return False if the user interrupted."""
        best = self.points[-1].candidate.cost if self.points else None
        every = candidates(self.dual, self.bounds.bandwidth, steps, self.covered)
        level = _Level(sorted(c for c in every if best is None or c.cost < best))
        interrupted = False
        self.provisional = None
        try:
            while level.undecided:
                wanted = self.limits_first or level.asked
                if wanted and not level.limited and self.limit_effort > 0:
                    self.take_limit(level, steps)
                    continue
                candidate = level.next()
                self.notify(Asking(candidate, len(level.undecided) - 1))
                question = self.pose(candidate)
                answer: Answer | None = self.refute(question, level)
                if answer is None:
                    self.expect(self.likely(level, steps))
                    answer = self.ask(question)
                level.record(candidate, answer)
                if self.folder and isinstance(answer, Sat):
                    self.keep(answer.algorithm)
                self.notify(Answered(candidate, answer))
        except KeyboardInterrupt:
            interrupted = True
        self.refuted += sorted(level.refuted, key=lambda u: u.candidate)
        self.open += level.left_open()
        if level.limit is not None:
            self.limits.append(level.limit)
        if level.best is not None:
            self.settle(*level.best, level.limit)
        return not interrupted

    def take_limit(self, level: _Level, steps: int) -> None:
        """Let the limit of a number of steps prune its candidates."""
        level.limited = True
        if self.topology.ranks > _LIMIT_RANKS:
            return
        self.notify(Limiting(steps))
        begin = time.perf_counter()
        try:
            self.packed = step_limit(
                self.topology,
                self.spec,
                steps,
                self.bounds,
                earlier=self.packed,
                effort=self.limit_effort,
            )
        except (SolverError, TooLargeError):
            return  # the sweep does without
        level.take(self.packed.limit, time.perf_counter() - begin)
        self.notify(Limited(self.packed.limit))

    def likely(self, level: _Level, steps: int) -> Iterator[Instance]:
        """Yield the instances of the next candidate, then of those that may follow it."""
        for candidate in level.ahead():
            yield from self.pose(candidate).instances
        best = self.points[-1].candidate.cost if self.points else None
        if steps + self.dual.phases <= self.last_steps:
            every = candidates(
                self.dual, self.bounds.bandwidth, steps + self.dual.phases, self.covered
            )
            if cheaper := [c for c in every if best is None or c.cost < best]:
                yield from self.pose(min(cheaper)).instances

    def pose(self, candidate: Candidate) -> Question:
        """Return the question whether a candidate has an algorithm."""
        c = candidate
        return pose(self.topology, self.spec, c.chunks, c.steps, c.rounds)

    def refute(self, question: Question, level: _Level) -> Unsat | None:
        """Return that packing bounds refute a candidate for all its round vectors, if they do.

        At the limit itself they cannot, and where pricing needs a search they take too long.
        """
        limit = level.limit
        cost = Fraction(question.rounds, question.collective.chunks)
        if limit is None or not self.limits_first or cost == limit.lower:
            return None
        begin = time.perf_counter()
        vectors = packing_refutes(question, _PACKING_ROUNDS)
        if not vectors:
            return None
        why = f"each of {vectors} round vectors (up to symmetry) packs fewer chunks (prices)"
        return Unsat(why, "packing", time.perf_counter() - begin)

    def frontier(self, stopped: str, begin: float) -> Frontier:
        """Return what was found until the sweep stopped, for this reason."""
        complete = stopped == "bandwidth-bound" and not self.open
        return Frontier(
            topology=self.topology,
            spec=self.spec,
            covered=self.covered,
            solver=self.solver,
            bounds=self.bounds,
            points=tuple(self.points),
            open=tuple(self.open),
            refuted=tuple(self.refuted),
            limits=tuple(self.limits),
            complete=complete,
            every_k=complete and self.is_whole(),
            stopped=stopped,
            scope=scope_of(self.covered, self.dual.scope),
            seconds=time.perf_counter() - begin,
        )

    def is_whole(self) -> bool:
        """Return whether no k gives more: every number of steps has its limit met, up to the last.

        By a point of as many steps or fewer: also where k left no candidate that would improve.
        """
        lower = {limit.steps: limit.lower for limit in self.limits}
        last = self.points[-1].candidate.steps
        return all(
            any(p.candidate.steps <= s and p.candidate.cost <= lower.get(s, 0) for p in self.points)
            for s in range(self.bounds.steps, last, self.dual.phases)
        )

    def beats_every_k(self, candidate: Candidate) -> bool:
        """Return whether no k and no C gives what dominates a candidate.

        With as many steps its limit or the bandwidth bound says so. With fewer, limits do: that of
        one number of steps holds for every smaller one, too.
        """
        lower = {limit.steps: limit.lower for limit in self.limits}
        if candidate.cost > max(lower.get(candidate.steps, Fraction(0)), self.bounds.bandwidth):
            return False
        before = candidate.steps - self.dual.phases
        return before < self.bounds.steps or lower.get(before, Fraction(0)) > candidate.cost

    def ask(self, question: Question) -> Answer:
        """Return the answer; a solver that breaks decides nothing and ends nothing."""
        try:
            return ask(question, self.solve)
        except SolverError as error:
            return Unknown(f"the solver broke: {error}", self.solver, 0.0)

    def keep(self, algorithm: AnyAlgorithm) -> None:
        """Write an algorithm, in place of the dearer one that this sweep wrote for these steps."""
        assert self.folder is not None
        older = self.provisional
        is_new = not self.folder.file_of(algorithm).exists()
        written = self.folder.save(algorithm)
        self.provisional = written if is_new else None  # what was there before is not ours
        if older and older != written:
            self.folder.discard(older)

    def settle(self, candidate: Candidate, answer: Sat, limit: StepLimit | None) -> None:
        """Record the point of a number of steps, with what is proved of it."""
        proved = not any(o.candidate.may_dominate(candidate) for o in self.open)
        optimal = meets(candidate, self.bounds, limit)
        within = None if self.beats_every_k(candidate) else self.covered
        algorithm = replace(
            answer.algorithm,
            scope=scope_of(within, self.dual.scope),
            proved=(*optimal, *(("pareto",) if proved else ())),
        )
        file = self.folder.save(algorithm) if self.folder else None
        kept = answer.from_store
        point = Point(candidate, algorithm, optimal, proved, answer.seconds, file, kept, within)
        self.points.append(point)
        self.notify(Settled(point))


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
    limit_effort: float = LIMIT_EFFORT,
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
        limit_effort: what the limit of each number of steps may cost, in a unit of one to five
            seconds that no load changes; 0: leave it.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every event, for progress.
        expect: told what is likely to be asked next, to answer that at the same time.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    pose(topology, spec, spec.unit, dual.phases, dual.phases)  # complains before anything runs
    bounds = lower_bounds(topology, spec)
    covered = settled(covered, dual, bounds)
    last_steps = last_step(spec, bounds, covered.max_steps)
    _refuse_empty(spec, covered)
    notify(Bounded(bounds))
    if folder:
        folder.prepare()
    from sccl.synth.limit.pricing import needs_no_search  # noqa: PLC0415 - loads the LP solver

    phases, unit = dual.solved_on(topology), dual.spec.at(dual.spec.unit)
    run = _Sweep(
        topology,
        spec,
        dual,
        covered,
        bounds,
        last_steps,
        solve,
        solver,
        folder,
        notify,
        expect,
        limit_effort,
        limits_first=all(needs_no_search(phase.topology, unit) for phase in phases),
    )
    return run.frontier(run.run(), begin)
