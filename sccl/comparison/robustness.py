"""Compute the costs of a collective after each single failure (``sccl topo robust``).

A failure removes a link (both directions, if there are two), one of its lanes, or a rank. Failures
that are equivalent under symmetries of the machine and the collective are computed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Literal

import msgspec

from sccl.collectives import Spec, collective_names, remove_rank
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, FractionText, NonNegative, Part, Seconds
from sccl.core.frontier import Point
from sccl.core.graphs import connected_components
from sccl.core.ids import Edge
from sccl.core.instance import SweepRange
from sccl.core.stop import INTERRUPTED, NOT_STOPPED
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError, TopologyError
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.problem import CollectiveProblem, build_problem
from sccl.synth.common.settings import Settings
from sccl.topo.degrade import remove_parts
from sccl.topo.measures import unreachable_pair
from sccl.topo.symmetry.automorphisms import automorphisms


class FailingPart(StrEnum):
    """The kind of part that fails."""

    LINKS = "links"
    LANES = "lanes"
    RANKS = "ranks"


@dataclass(frozen=True, slots=True)
class PartFailure:
    """A failed part: a rank, a link, or a lane.

    Attributes:
        rank: Failed rank. None: a link or a lane fails.
        edges: Failed link, in one direction or both. Empty if a rank fails.
        lane: Whether only one lane of the link fails.
    """

    rank: int | None = None
    edges: tuple[Edge, ...] = ()
    lane: bool = False

    def name(self, machine: Topology) -> str:
        """Return the description of the failed part."""
        if self.rank is not None:
            return f"rank {machine.label(self.rank)}"
        (src, dst), *back = self.edges
        link = f"link {src}{'-' if back else '->'}{dst}"
        return f"a lane of {link}" if self.lane else link

    def apply_to(self, machine: Topology) -> Topology:
        """Return the machine without the failed part.

        Raises:
            InputError: Too little of the machine would remain.
        """
        if self.rank is not None:
            return remove_parts(machine, ranks=[self.rank])
        if self.lane:
            return remove_parts(machine, lanes=dict.fromkeys(self.edges, 1))
        return remove_parts(machine, links=self.edges)

    def map_by(self, image: tuple[int, ...]) -> PartFailure | None:
        """Return the image under a symmetry, or None for links of switches."""
        if self.rank is not None:
            return PartFailure(image[self.rank])
        if any(node >= len(image) for edge in self.edges for node in edge):
            return None
        edges = ((image[u], image[v]) for u, v in self.edges)
        return PartFailure(None, tuple(sorted(edges)), self.lane)


class ReachedPart(Part, frozen=True, kw_only=True):
    """A point of the frontier, after a failure or before any."""

    steps: NonNegative
    bandwidth: Annotated[FractionText, "R/C, or the limit that it approaches."]
    chunks: Annotated[int | None, "C; null: unknown."]
    rounds: int | None
    proved: Annotated[bool, "Whether no algorithm of its family dominates it."]
    rests_on: Annotated[
        tuple[str, ...], "Origins, other than this process, of the refutations in its proof."
    ] = ()


class SurvivedPart(Part, frozen=True, kw_only=True):
    """The result after a failure, or of the intact machine."""

    failed: Annotated[str, "Failed links or ranks; empty: none."]
    alike: Annotated[tuple[str, ...], "Other failures with the same result, by symmetry."]
    points: Annotated[tuple[ReachedPart, ...], "The frontier, by ascending S; empty: none."] = ()
    slowdown: Annotated[float | None, "Lowest R/C divided by that of the whole machine."] = None
    undecided: Annotated[bool, "Whether some candidate stayed open."] = False
    why: Annotated[str, "Reason why there is no algorithm; or empty."]
    seconds: Seconds


class RobustOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo robust'."""

    kind: Literal["robust"] = "robust"
    topology: str
    collective: str
    cases: Annotated[tuple[SurvivedPart, ...], "The whole machine, then failures, worst first."]
    ended: Annotated[str, "Reason why it ended early; or empty."]
    file: Annotated[FileText | None, "The picture, if any."] = None


@dataclass(frozen=True, slots=True)
class RobustnessProblem:
    """The problem: a collective on a machine with failing parts.

    Attributes:
        machine: Machine as the user gave it.
        subject: Modeled machine, with the collective.
        collective: Collective as the user gave it.
        root: Root as the user gave it: a rank or its label.
        parts: Kinds of parts that fail.
        covered: Range of the sweeps.
        settings: Settings of the sweeps.
    """

    machine: Topology
    subject: CollectiveProblem
    collective: str | Spec
    root: str | None
    parts: tuple[FailingPart, ...]
    covered: SweepRange
    settings: Settings


def failure_classes(problem: RobustnessProblem) -> dict[PartFailure, list[PartFailure]]:
    """Return the classes of failures that are equivalent under symmetries.

    Each class is a list of failures, and its key is the first of them.
    """
    machine, spec = problem.machine, problem.subject.spec
    failures = list(_all_failures(machine, problem.parts))
    failure_set = set(failures)
    images = (
        (failure, moved)
        for image in automorphisms(machine, spec.at(spec.unit), costs=True)
        for failure in failures
        if (moved := failure.map_by(image)) in failure_set and moved is not None
    )
    return connected_components(failures, images)


def _all_failures(machine: Topology, parts: Iterable[FailingPart]) -> Iterator[PartFailure]:
    """Yield each part that may fail. The two directions of a link fail together."""
    pairs = [
        ((u, v), (v, u)) if (v, u) in machine.edges else ((u, v),)
        for u, v in sorted(machine.edges)
        if u < v or (v, u) not in machine.edges
    ]
    lanes = machine.lanes()
    for part in dict.fromkeys(parts):
        if part is FailingPart.RANKS:
            yield from (PartFailure(rank) for rank in range(machine.ranks))
        elif part is FailingPart.LINKS:
            yield from (PartFailure(None, edges) for edges in pairs)
        else:
            wide = (edges for edges in pairs if all(lanes[edge] > 1 for edge in edges))
            yield from (PartFailure(None, edges, lane=True) for edges in wide)


def _severity(case: SurvivedPart) -> tuple[bool, float, int]:
    """Return a sort key of failures: first those without any algorithm, then the slowest."""
    return bool(case.points), -(case.slowdown or 0), -(case.points[0].steps if case.points else 0)


def analyze_robustness(
    problem: RobustnessProblem, on_progress: Callable[[str], None] = lambda _: None
) -> RobustOutput:
    """Return the costs of the collective on the intact machine, and after each failure.

    Args:
        problem: Problem.
        on_progress: Progress callback: description of the current case.

    Raises:
        InputError: The settings do not fit the machine.
        KeyboardInterrupt: The user interrupted before the intact machine was solved.
    """
    machine, subject = problem.machine, problem.subject
    on_progress("the whole machine")
    intact, stopped = _solve_case(problem, subject, "", (), None)
    best = _time_per_byte(subject, intact)
    cases, classes = list[SurvivedPart](), failure_classes(problem)
    for number, (failure, alike) in enumerate(classes.items(), 1):
        if stopped:
            break
        name = failure.name(machine)
        names = tuple(other_failure.name(machine) for other_failure in alike[1:])
        try:
            on_progress(f"without {name} ({number} of {len(classes)})")
            outcome, stopped = _case_after_failure(problem, failure, name, names, best)
        except KeyboardInterrupt:
            stopped = True
            break
        cases.append(outcome)
    return RobustOutput(
        inputs=question_digests(machine, subject.spec),
        topology=machine.name,
        collective=subject.spec.name,
        cases=(intact, *sorted(cases, key=_severity)),
        ended=str(INTERRUPTED if stopped else NOT_STOPPED),
    )


def _case_after_failure(
    problem: RobustnessProblem,
    failure: PartFailure,
    name: str,
    alike: tuple[str, ...],
    best: Fraction | None,
) -> tuple[SurvivedPart, bool]:
    """Return the result after a failure, and whether the user interrupted."""
    began = time.perf_counter()
    try:
        remaining = failure.apply_to(problem.machine)
    except TopologyError:
        return _failed_case(name, alike, "no two remaining ranks are connected", began), False
    if cut := unreachable_pair(remaining):
        a, b = map(remaining.label, cut)
        return _failed_case(name, alike, f"rank {a} does not reach rank {b}", began), False
    try:
        return _solve_case(
            problem, _remaining_problem(problem, failure, remaining), name, alike, best
        )
    except InputError as error:
        return _failed_case(name, alike, str(error), began), False


def _remaining_problem(
    problem: RobustnessProblem, failure: PartFailure, remaining: Topology
) -> CollectiveProblem:
    """Return the collective on the remaining machine.

    Raises:
        InputError: The collective does not fit, for example because its root failed.
    """
    spec, root = problem.subject.spec, problem.subject.spec.root
    if failure.rank is not None and spec.parts:
        text = remove_rank(spec.name, spec.ranks, failure.rank)
        return build_problem(remaining, text).require_steps()
    collective = (
        spec.name if spec.name in collective_names() else problem.collective
    )  # one group is by its name
    if root is None or failure.rank is None:
        return build_problem(remaining, collective, problem.root).require_steps()
    if root == failure.rank:
        raise ParameterError("it is the root")
    return build_problem(remaining, collective, root - (failure.rank < root)).require_steps()


def _solve_case(
    problem: RobustnessProblem,
    subject: CollectiveProblem,
    name: str,
    alike: tuple[str, ...],
    best: Fraction | None,
) -> tuple[SurvivedPart, bool]:
    """Return the costs on a machine, and whether the user interrupted.

    Args:
        problem: Problem.
        subject: Machine to solve, with the collective.
        name: Description of the failure. Empty: the intact machine.
        alike: Descriptions of the equivalent failures.
        best: :func:`_time_per_byte` of the intact machine. None: unknown.
    """
    began = time.perf_counter()
    frontier = find_frontier(subject.topology, subject.spec, problem.covered, problem.settings)
    part = SurvivedPart(
        failed=name,
        alike=alike,
        points=tuple(map(_reached_part, frontier.points)),
        undecided=bool(frontier.open),
        why="" if frontier.points else "no algorithm was found",
        seconds=round(time.perf_counter() - began, 3),
    )
    time_per_byte = _time_per_byte(subject, part)
    if best and time_per_byte is not None:
        part = msgspec.structs.replace(part, slowdown=float(time_per_byte / best))
    return part, frontier.is_interrupted


def _time_per_byte(subject: CollectiveProblem, case: SurvivedPart) -> Fraction | None:
    """Return the lowest R/C divided by the speed of a lane, which a failure may change."""
    if not case.points:
        return None
    return Fraction(case.points[-1].bandwidth) / Fraction(subject.topology.gb_per_s)


def _reached_part(point: Point) -> ReachedPart:
    origins = point.proof_origins
    return build_output(
        ReachedPart, point, bandwidth=point.cost, proved=point.is_proved, rests_on=origins
    )


def _failed_case(name: str, alike: tuple[str, ...], why: str, began: float) -> SurvivedPart:
    seconds = time.perf_counter() - began
    return build_output(SurvivedPart, failed=name, alike=alike, why=why, seconds=seconds)
