"""The Pareto procedure (SCCL section 3.7, Algorithm 1), with the proofs it rests on kept apart.

For each number of steps S, from the latency bound up, the cheapest satisfiable candidate (R, C) is
sought among those that would improve on fewer steps; the sweep ends where R/C meets the bandwidth
bound. The paper tries candidates by ascending R/C until one is satisfiable, which refutes all
cheaper ones one by one. The same point is found, and the same candidates refuted, with far fewer
queries: the cheapest is tried first (it ends the sweep if it meets the bound), then the middle of
what is left. A refutation carries to every candidate with no more rounds and no fewer chunks
(:meth:`Candidate.implies_unsat`), and a solution makes everything dearer irrelevant.

A candidate on which the solver gives up stays open. It never closes anything: a point that it might
dominate is reported as the best found, not as proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sccl.bounds import LowerBounds, lower_bounds
from sccl.collectives import Dual, Spec, dual
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.topology import Topology
from sccl.errors import ParameterError, SolverError
from sccl.pareto.ask import Solve, ask
from sccl.pareto.candidates import Candidate, Range, candidates
from sccl.pareto.folder import Folder
from sccl.pareto.frontier import Frontier, Open, Point, Refuted, meets, scope_of
from sccl.transform import Question, pose

EXTRA_STEPS = 3
"""How far beyond the latency bound a sweep goes if the user names no last step."""


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


Event = Bounded | Asking | Answered | Settled


@dataclass(slots=True)
class _Level:
    """The candidates of one number of steps: undecided, refuted, open, and the best found."""

    undecided: list[Candidate]
    refuted: list[Refuted] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    best: tuple[Candidate, Sat] | None = None

    def next(self) -> Candidate:
        """Return the cheapest candidate at first, then the middle one."""
        untouched = not (self.refuted or self.open or self.best)
        return self.undecided[0 if untouched else len(self.undecided) // 2]

    def record(self, candidate: Candidate, answer: Answer) -> None:
        """Take in an answer and all that follows from it."""
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
    other: Dual
    covered: Range
    bounds: LowerBounds
    last_steps: int
    solve: Solve
    solver: str
    folder: Folder | None
    notify: Callable[[Event], None]
    points: list[Point] = field(default_factory=list)
    refuted: list[Refuted] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    provisional: Path | None = None

    def run(self) -> str:
        """Sweep all numbers of steps and return why it stopped."""
        for steps in range(self.bounds.steps, self.last_steps + 1, self.other.phases):
            if not self.run_level(steps):
                return "interrupted"
            if self.points and self.points[-1].candidate.cost == self.bounds.bandwidth:
                return "bandwidth-bound"
        return "max-steps"

    def run_level(self, steps: int) -> bool:
        """Find the point of one number of steps; return False if the user interrupted."""
        best = self.points[-1].candidate.cost if self.points else None
        every = candidates(self.other, self.bounds.bandwidth, steps, self.covered)
        level = _Level(sorted(c for c in every if best is None or c.cost < best))
        interrupted = False
        self.provisional = None
        try:
            while level.undecided:
                candidate = level.next()
                self.notify(Asking(candidate, len(level.undecided) - 1))
                question = pose(self.topology, self.spec, candidate.chunks, steps, candidate.rounds)
                answer = self.ask(question)
                level.record(candidate, answer)
                if self.folder and isinstance(answer, Sat):
                    self.keep(answer.algorithm)
                self.notify(Answered(candidate, answer))
        except KeyboardInterrupt:
            interrupted = True
        self.refuted += sorted(level.refuted, key=lambda u: u.candidate)
        self.open += level.left_open()
        if level.best is not None:
            self.settle(*level.best)
        return not interrupted

    def ask(self, question: Question) -> Answer:
        """Return the answer; a solver that breaks decides nothing and ends nothing."""
        try:
            return ask(question, self.solve)
        except SolverError as error:
            return Unknown(f"the solver broke: {error}", self.solver, 0.0)

    def keep(self, algorithm: Algorithm) -> None:
        """Write an algorithm, in place of the dearer one that this sweep wrote for these steps."""
        assert self.folder is not None
        older = self.provisional
        is_new = not self.folder.file_of(algorithm).exists()
        written = self.folder.save(algorithm)
        self.provisional = written if is_new else None  # what was there before is not ours
        if older and older != written:
            self.folder.discard(older)

    def settle(self, candidate: Candidate, answer: Sat) -> None:
        """Record the point of a number of steps, with what is proved of it."""
        proved = not any(o.candidate.may_dominate(candidate) for o in self.open)
        optimal = meets(candidate, self.bounds.steps, self.bounds.bandwidth)
        algorithm = replace(
            answer.algorithm,
            scope=scope_of(self.covered, self.other.scope),
            proved=(*optimal, *(("pareto",) if proved else ())),
        )
        file = self.folder.save(algorithm) if self.folder else None
        point = Point(candidate, algorithm, optimal, proved, answer.seconds, file)
        self.points.append(point)
        self.notify(Settled(point))


def _refuse_empty(spec: Spec, bounds: LowerBounds, covered: Range) -> None:
    """Complain of a range in which there is nothing to try."""
    if covered.max_steps is not None and covered.max_steps < bounds.steps:
        raise ParameterError(
            f"max-steps is {covered.max_steps}, but {spec.name} takes at least {bounds.steps} "
            "steps here: give at least that many"
        )
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
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
) -> Frontier:
    """Return the frontier of a collective on a topology, as far as it was found.

    Args:
        spec: the collective.
        solve: answers an instance.
        solver: its name, for the record.
        covered: k, last S, largest C.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every event, for progress.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    other = dual(spec)
    pose(topology, spec, spec.unit, other.phases, other.phases)  # complains before anything runs
    bounds = lower_bounds(topology, spec)
    last_steps = covered.max_steps or bounds.steps + EXTRA_STEPS * other.phases
    _refuse_empty(spec, bounds, covered)
    notify(Bounded(bounds))
    if folder:
        folder.prepare()
    run = _Sweep(topology, spec, other, covered, bounds, last_steps, solve, solver, folder, notify)
    stopped = run.run()
    return Frontier(
        topology=topology,
        spec=spec,
        covered=covered,
        solver=solver,
        bounds=bounds,
        points=tuple(run.points),
        open=tuple(run.open),
        refuted=tuple(run.refuted),
        complete=stopped == "bandwidth-bound" and not run.open,
        stopped=stopped,
        scope=scope_of(covered, other.scope),
        seconds=time.perf_counter() - begin,
    )
