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

from sccl.bounds import LowerBounds, lower_bounds
from sccl.collectives import Dual, Spec, dual
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.topology import Topology
from sccl.pareto.ask import Solve, ask
from sccl.pareto.candidates import Candidate, Range, candidates
from sccl.pareto.folder import Folder
from sccl.pareto.frontier import Frontier, Open, Point, Refuted, meets, scope_of
from sccl.transform import machines, pose

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
        self.undecided.remove(candidate)
        match answer:
            case Sat():
                self.best = (candidate, answer)
                self.undecided = [c for c in self.undecided if c < candidate]
                self.open = [o for o in self.open if o.candidate.cost < candidate.cost]
            case Unsat(evidence):
                self.refuted.append(Refuted(candidate, evidence, answer.seconds))
                why = f"follows from {candidate}: no more rounds, no fewer chunks"
                implied = [c for c in self.undecided if candidate.implies_unsat(c)]
                implied += [o.candidate for o in self.open if candidate.implies_unsat(o.candidate)]
                self.refuted += [Refuted(c, why, 0.0) for c in implied]
                self.undecided = [c for c in self.undecided if c not in implied]
                self.open = [o for o in self.open if o.candidate not in implied]
            case Unknown(reason):
                self.open.append(Open(candidate, reason))


@dataclass(slots=True)
class _Sweep:
    topology: Topology
    spec: Spec
    other: Dual
    covered: Range
    bounds: LowerBounds
    last_steps: int
    solve: Solve
    folder: Folder | None
    notify: Callable[[Event], None]
    points: list[Point] = field(default_factory=list)
    refuted: list[Refuted] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)

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
        written = None
        interrupted = False
        try:
            while level.undecided:
                candidate = level.next()
                self.notify(Asking(candidate, len(level.undecided) - 1))
                question = pose(self.topology, self.spec, candidate.chunks, steps, candidate.rounds)
                answer = ask(question, self.solve)
                level.record(candidate, answer)
                if self.folder and isinstance(answer, Sat):
                    older, written = written, self.folder.save(answer.algorithm)
                    if older and older != written:
                        self.folder.discard(older)
                self.notify(Answered(candidate, answer))
        except KeyboardInterrupt:
            interrupted = True
            level.open += [Open(c, "not tried: interrupted") for c in level.undecided]
        self.refuted += sorted(level.refuted, key=lambda u: u.candidate)
        self.open += sorted(level.open, key=lambda o: o.candidate)
        if level.best is not None:
            self.settle(*level.best)
        return not interrupted

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
    bounds = lower_bounds(machines(topology, other), other)
    last_steps = covered.max_steps or bounds.steps + EXTRA_STEPS * other.phases
    notify(Bounded(bounds))
    if folder:
        folder.prepare()
    run = _Sweep(topology, spec, other, covered, bounds, last_steps, solve, folder, notify)
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
