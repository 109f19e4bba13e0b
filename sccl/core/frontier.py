"""Frontiers: the best known algorithms for a collective on a machine, limits, and open candidates.

A frontier has a part for every class of algorithms that was searched. Most collectives have one
class. Allreduce has up to four, called families, and charts overlay their points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, Self

from sccl.core.answer import Origin
from sccl.core.bound import AlgorithmBounds, require_at_least_bound
from sccl.core.cost import Costs
from sccl.core.formatting import describe_proof_scope
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm

COMPOSED, TREES, EXCHANGED, GATHERED = "composed", "trees", "exchanged", "gathered"
"""The names of the allreduce families. Each family is a class of algorithms."""

PointState = Literal["proved", "best found", "approached"]
"""State of a point: proved optimal, best found (not proved), or a proved limit of R/C that no known
algorithm attains.
"""


_COST_TEXT = {"latency": "S", "bandwidth": "R/C", "limit": "R/C for this S"}


def format_optimal(optimal: Iterable[str]) -> str:
    """Return the costs that attain their lower bounds, such as ``"S, R/C for this S"``.

    Args:
        optimal: attained bounds: ``"latency"``, ``"bandwidth"``, ``"limit"``.
    """
    return ", ".join(_COST_TEXT[name] for name in optimal)


def describe_state(state: PointState, within: str, rests_on: Iterable[Origin]) -> str:
    """Return the state of a point in words, such as ``"proved (stored) for k = 2"``.

    Args:
        state: state of the point.
        within: Range of k and C that its proof covers. Empty: all.
        rests_on: Origins of the verdicts that its proof uses, or would use if they were verified.
    """
    if state == "proved":
        origins = (origin if origin.is_verified else f"trusted {origin}" for origin in rests_on)
        return describe_proof_scope(within, ", ".join(origins))
    origins = (origin for origin in rests_on if not origin.is_verified)
    doubts = ", ".join(origins)
    return f"{state} (not verified: {doubts})" if doubts else state


@dataclass(frozen=True, slots=True)
class RefutedCandidate:
    """A candidate without an algorithm, and the evidence.

    Attributes:
        evidence: Evidence of the refutation, in words.
        seconds: Time of the refutation. None: missing in its file.
        origin: Origin of the refutation.
        refuted_by: ``"distance"``, ``"cut"``, ``"packing"``, or a solver, such as ``"cp-sat"``.
            Empty: its file does not say.
    """

    candidate: Candidate
    evidence: str
    seconds: float | None
    origin: Origin = Origin.THIS_PROCESS
    refuted_by: str = ""

    @property
    def evidence_text(self) -> str:
        """Return the method and the evidence, with the origin if it is another process."""
        by = f"by {self.refuted_by}: " if self.refuted_by else ""
        is_local = self.origin is Origin.THIS_PROCESS
        return f"{by}{self.evidence}" if is_local else f"{by}{self.evidence} ({self.origin.value})"


@dataclass(frozen=True, slots=True)
class OpenCandidate:
    """An undecided candidate that would improve the frontier, and the reason.

    Attributes:
        origin: Origin of an unverified claim that it has no algorithm. None: no such claim.
    """

    candidate: Candidate
    reason: StopReason
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a frontier: (S, R/C) of an algorithm.

    Attributes:
        steps: S.
        cost: R/C.
        chunks: C of the algorithm. None: missing in its file.
        rounds: R of the algorithm. None: missing in its file.
        optimal: Lower bounds that it attains: ``"latency"``, ``"bandwidth"``, ``"limit"``.
        is_proved: Whether a proof shows that no algorithm of its class dominates it. Otherwise it
            is the best found.
        within: Range of k and C to which the proof is restricted. None: no restriction.
        algorithm: The algorithm. None: it is too large to write, or only in its file.
        file: Name of its file. None: it was not written.
        rounds_per_step: rounds per step of the algorithm, if the frontier contains them.
        seconds: Time to find it. None: missing in its file.
        from_store: Whether ``seconds`` is the time of an earlier search, from the store.
        proof_origins: Origins, other than this process, of the refutations that the proof needs. If
            the point is not proved, the origins that would prove it if they were verified.
        found_by: Method that generated its algorithm: ``"greedy"``, ``"construction"``,
            ``"packing"``, ``"composition"``, or a solver, such as ``"cp-sat"``. Empty: its file
            does not say.
    """

    steps: int
    cost: Fraction
    chunks: int | None
    rounds: int | None
    optimal: tuple[str, ...] = ()
    is_proved: bool = False
    within: SweepRange | None = None
    algorithm: AnyAlgorithm | None = None
    file: Path | None = None
    rounds_per_step: tuple[int, ...] = ()
    seconds: float | None = None
    from_store: bool = False
    proof_origins: tuple[Origin, ...] = ()
    found_by: str = ""

    @classmethod
    def from_algorithm(cls, algorithm: AnyAlgorithm) -> Point:
        """Return the point of an algorithm without further information."""
        a = algorithm
        return cls(
            a.steps,
            a.bandwidth_cost,
            a.collective.chunks,
            a.rounds,
            algorithm=a,
            rounds_per_step=a.rounds_per_step,
        )

    def with_algorithm(
        self, algorithm: AnyAlgorithm, file: Path | None, found_by: str = ""
    ) -> Self:
        """Return the point with an algorithm."""
        return replace(
            self,
            chunks=algorithm.collective.chunks,
            rounds=algorithm.rounds,
            algorithm=algorithm,
            file=file,
            found_by=found_by,
        )

    @property
    def is_attained(self) -> bool:
        """Return whether an algorithm has this R/C."""
        return True

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """Return its R/C, and the R/C of its algorithm if it has one."""
        if self.chunks is None or self.rounds is None:
            return (self.cost,)
        return (self.cost, Fraction(self.rounds, self.chunks))

    @property
    def candidate(self) -> Candidate:
        """Return the (C, S, R) of its algorithm, which must exist."""
        assert self.chunks is not None
        assert self.rounds is not None
        return Candidate(Fraction(self.rounds, self.chunks), self.chunks, self.steps, self.rounds)

    @property
    def state(self) -> PointState:
        """Return the state of its proof."""
        if not self.is_proved:
            return "best found"
        return "proved" if self.is_attained else "approached"

    @property
    def state_text(self) -> str:
        """Return its state, the origin of its proof, and the range that the proof covers."""
        within = self.within.description if self.within else ""
        return describe_state(self.state, within, self.proof_origins)

    @property
    def text(self) -> str:
        """Return its algorithm as text, or its costs if no algorithm attains them."""
        if self.chunks is None or not self.is_attained:
            return f"S={self.steps} R/C={self.cost}"
        return f"C={self.chunks} S={self.steps} R={self.rounds}"


@dataclass(frozen=True, slots=True)
class LimitPoint(Point):
    """A point of a limit frontier: a limit of R/C, with an algorithm at or near it.

    ``cost`` is the limit. ``chunks`` and ``rounds`` are None without an algorithm.

    Attributes:
        is_attained: Whether the algorithm has this R/C. Otherwise its R/C is larger.
        missing_reason: Why there is no algorithm. Unknown for points from files.
    """

    is_attained: bool = False
    missing_reason: StopReason = NOT_STOPPED

    @classmethod
    def from_limit(cls, limit: StepLimit, bounds: AlgorithmBounds) -> LimitPoint:
        """Return the point of a limit of R/C, without an algorithm.

        Args:
            limit: The limit.
            bounds: Bounds of its class.
        """
        optimal = bounds.bounds_met(limit.steps, limit.required_upper)
        return cls(limit.steps, limit.required_upper, None, None, optimal, is_proved=limit.is_exact)

    def with_algorithm(
        self, algorithm: AnyAlgorithm, file: Path | None, found_by: str = ""
    ) -> LimitPoint:
        """Return the point with an algorithm that attains or approximates the limit."""
        return replace(
            Point.with_algorithm(self, algorithm, file, found_by),
            is_attained=algorithm.bandwidth_cost == self.cost,
            missing_reason=NOT_STOPPED,
        )


@dataclass(frozen=True, slots=True)
class ClassFrontier:
    """The frontier of one class of algorithms.

    Attributes:
        name: Name such as ``"trees"``. Empty: the only class.
        scope: The class, as text.
        steps: lower bound on S in the class. None: unknown.
        bandwidth: lower bound on R/C in the class. None: unknown.
        points: Points by ascending S, with descending R/C.
        limits: lower bounds for every k and C, by number of steps.
        is_complete: whether this is the whole frontier of the class within ``within``.
        within: range of k and C that was searched. None: all.
        collective: Collective of the algorithms if it differs, such as allgather for an allreduce.
    """

    name: str
    scope: str
    steps: int | None
    bandwidth: Fraction | None
    points: tuple[Point, ...]
    limits: tuple[StepLimit, ...] = ()
    is_complete: bool = False
    within: SweepRange | None = None
    collective: str = ""
    seconds: float | None = None

    @property
    def covers_all_k(self) -> bool:
        """Return whether this is the whole frontier of the class for all k and C."""
        return self.is_complete and self.within is None

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the files of its points."""
        return tuple(point.file.name for point in self.points if point.file)

    @property
    def without_transient(self) -> ClassFrontier:
        """Return the frontier of the class without times and folders."""
        points = (
            replace(point, file=point.file and Path(point.file.name), seconds=None)
            for point in self.points
        )
        return replace(self, points=tuple(points), seconds=None)

    @property
    def asymptotic_costs(self) -> tuple[tuple[int, Fraction], ...]:
        """Return (S, R/C) of the limits that algorithms approximate but do not attain."""
        return tuple((point.steps, point.cost) for point in self.points if not point.is_attained)


@dataclass(frozen=True, slots=True)
class SkippedClass:
    """A class that was not searched, and the reason."""

    name: str
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Frontier:
    """The best known algorithms for a collective on a machine.

    A search returns a :class:`SweepFrontier` or a :class:`StepLimitFrontier`. Algorithms without a
    known search form a plain :class:`Frontier`.

    Attributes:
        topology: Name of the machine.
        collective: Name of the collective.
        root: Root of the collective, if it has one.
        costs: Costs for comparing points. None: unknown.
        bounds: lower bounds for all of its classes. None: unknown.
        classes: the frontier of each class. If there are several, each has a name.
        skipped: classes that were not searched.
        any_class_limits: Lower bounds for all classes of allreduce, at the S of points and one step
            less.
        stop_reason: Reason why the search ended: bandwidth bound, largest S, or interrupt.
        seconds: Total time. None: missing in its file.
    """

    topology: str
    collective: str
    root: int | None
    costs: Costs | None
    bounds: AlgorithmBounds | None
    classes: tuple[ClassFrontier, ...]
    skipped: tuple[SkippedClass, ...] = ()
    any_class_limits: tuple[StepLimit, ...] = ()
    stop_reason: StopReason = NOT_STOPPED
    seconds: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the problem: ``"allgather on dgx1"``."""
        root = f" (root {self.root})" if self.root else ""
        return f"{self.collective}{root} on {self.topology}"

    @property
    def open(self) -> tuple[OpenCandidate, ...]:
        """Return the undecided candidates, which only a sweep has."""
        return ()

    @property
    def refuted(self) -> tuple[RefutedCandidate, ...]:
        """Return the refuted candidates, which only a sweep has."""
        return ()

    @property
    def halves(self) -> tuple[SweepFrontier, ...]:
        """Return the frontiers of the two halves of compositions, which only a sweep has."""
        return ()

    @property
    def is_interrupted(self) -> bool:
        """Return whether the user interrupted the search."""
        return self.stop_reason.kind is StopKind.INTERRUPTED

    @property
    def is_multiclass(self) -> bool:
        """Return whether it has named classes."""
        return not (len(self.classes) == 1 and not self.classes[0].name)

    @property
    def scope(self) -> str:
        """Return its classes as text."""
        return "; ".join(part.scope for part in self.classes)

    @property
    def class_without_bounds(self) -> str | None:
        """Return its class if the bounds of the collective do not apply to it, else None."""
        return self.scope or None if self.bounds is None else None

    @property
    def non_dominated(self) -> tuple[tuple[str, Point], ...]:
        """Return the points that no point of any class dominates, with the names of classes.

        Among equal points, the first class with an algorithm counts. In the results, ``optimal``
        refers to all algorithms, but ``is_proved`` still refers to the point's class.
        """
        if not self.is_multiclass:
            return tuple(("", point) for point in self.classes[0].points)
        all_points = [
            ((point.steps, point.cost), (point.chunks is None, i), part.name, point)
            for i, part in enumerate(self.classes)
            for point in part.points
        ]
        stairs: list[tuple[str, Point]] = []
        for (_, cost), _, name, point in sorted(all_points, key=lambda item: item[:2]):
            if not stairs or cost < stairs[-1][1].cost:
                stairs.append((name, replace(point, optimal=self._optimal_bounds(point))))
        return tuple(stairs)

    def require_consistent(self) -> Self:
        """Return the frontier after checking that no point is below its bounds and limits.

        Raises:
            ContradictionError: A point is.
        """
        for part in self.classes:
            for limit in part.limits:
                limit.require_consistent()
            for point in part.points:
                self._require_above(point, part)
        return self

    def _require_above(self, point: Point, part: ClassFrontier) -> None:
        """Check that a point of a class is not below any bound or limit.

        Raises:
            ContradictionError: It is.
        """
        point_text = f"of {point.text} for {self.name} ({part.scope})"
        steps, lower_bounds = [part.steps or 0], [part.bandwidth or Fraction(0)]
        if self.bounds is not None:
            steps.append(self.bounds.steps)
            lower_bounds.append(self.bounds.bandwidth)
        lower_bounds += [
            x.lower for x in (*part.limits, *self.any_class_limits) if x.steps >= point.steps
        ]
        require_at_least_bound(
            point.steps, max(steps), result=f"the S {point_text}", limit="the lower bound on S"
        )
        for cost in point.costs:
            require_at_least_bound(
                cost,
                max(lower_bounds),
                result=f"the R/C {point_text}",
                limit="the lower bound on R/C",
            )

    def is_undominated(self, point: Point) -> bool:
        """Return whether no algorithm of any class dominates a point."""
        fewer = [limit.lower for limit in self.any_class_limits if limit.steps == point.steps - 1]
        first = self.bounds is not None and point.steps == self.bounds.steps
        return self.gap_to_any_class(point) == 0 and (first or point.cost < max(fewer, default=0))

    def gap_to_any_class(self, point: Point) -> Fraction | None:
        """Return the relative gap of R/C to the lower bound for all classes with the same steps.

        0: no algorithm with the same number of steps has a smaller R/C. None: unknown.
        """
        lower = [limit.lower for limit in self.any_class_limits if limit.steps >= point.steps]
        return point.cost / max(lower) - 1 if lower else None

    def _optimal_bounds(self, point: Point) -> tuple[str, ...]:
        """Return the bounds for all classes that a point attains."""
        return () if self.bounds is None else self.bounds.bounds_met(point.steps, point.cost)

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points that no point of any class dominates, by ascending S."""
        return tuple(point for _, point in self.non_dominated)

    @property
    def is_complete(self) -> bool:
        """Return whether every class was searched completely."""
        return not self.skipped and all(part.is_complete for part in self.classes)

    @property
    def covers_all_k(self) -> bool:
        """Return whether every class was searched completely for all k and C."""
        return self.is_complete and all(part.within is None for part in self.classes)

    @property
    def without_transient(self) -> Self:
        """Return the frontier without times and folders: the reproducible part of a search."""
        classes = tuple(entry.without_transient for entry in self.classes)
        return replace(self, classes=classes, seconds=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFrontier(Frontier):
    """The frontier of a sweep over candidates (S, R, C) within a range of k and C.

    Attributes:
        covered: The range.
        solver: The solver.
        open: candidates that may contain a better algorithm.
        refuted: candidates that have no algorithm.
        halves: Frontiers of the two halves of which composed algorithms consist.
    """

    covered: SweepRange
    solver: str = ""
    open: tuple[OpenCandidate, ...] = ()
    refuted: tuple[RefutedCandidate, ...] = ()
    halves: tuple[SweepFrontier, ...] = ()

    @property
    def without_transient(self) -> Self:
        """Return the frontier without times and folders: the reproducible part of a search."""
        return replace(
            self,
            classes=tuple(entry.without_transient for entry in self.classes),
            refuted=tuple(replace(entry, seconds=None) for entry in self.refuted),
            halves=tuple(half.without_transient for half in self.halves),
            seconds=None,
        )


@dataclass(frozen=True, slots=True)
class StepLimitFrontier(Frontier):
    """The frontier of limits of R/C by S, over all k and C. Its points are limit points."""
