"""Convert frontiers to the data of charts: one line for each class of algorithms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, count

from sccl.core.frontier import ClassFrontier, Frontier, Point, StepLimitFrontier
from sccl.core.instance import Candidate

Cost = tuple[int, Fraction]
"""(S, R/C)."""


@dataclass(frozen=True, slots=True)
class FrontierData:
    """A frontier with its bounds and candidates.

    Attributes:
        name: title, such as ``"allgather on dgx1"``.
        min_steps: lower bound on S. None: unknown.
        bandwidth: lower bound on R/C. None: unknown.
        limits: lower bounds on R/C for S steps.
        refuted: candidates without an algorithm.
        open: candidates that were not decided.
        scope: class of algorithms for which bounds and limits hold. Empty: all algorithms.
        question: name of the frontier over several classes to which this class belongs. Empty:
            the frontier has a single class.
        alpha_us: latency of a step in microseconds. None: unknown.
        gb_per_s: bandwidth of a lane in 10^9 bytes per second. None: unknown.
        slowest_link: whether these costs are those of the slowest link, and others are faster.
    """

    name: str
    points: tuple[Point, ...]
    min_steps: int | None = None
    bandwidth: Fraction | None = None
    limits: tuple[Cost, ...] = ()
    refuted: tuple[Cost, ...] = ()
    open: tuple[Cost, ...] = ()
    scope: str = ""
    question: str = ""
    of_class: str = ""
    alpha_us: float | None = None
    gb_per_s: float | None = None
    slowest_link: bool = False


def frontier_lines(frontiers: Iterable[Frontier]) -> list[FrontierData]:
    """Return the chart data of frontiers: a line for each class."""
    return [_line(frontier, part) for frontier in frontiers for part in frontier.classes]


def _line(frontier: Frontier, part: ClassFrontier) -> FrontierData:
    costs, bounds, several = frontier.costs, frontier.bounds, frontier.is_multiclass
    lower_bounds = (bounds.steps, bounds.bandwidth) if bounds else (part.steps, part.bandwidth)
    return FrontierData(
        name=_line_name(frontier, part),
        points=part.points,
        min_steps=None if frontier.class_without_bounds else lower_bounds[0],
        bandwidth=None if frontier.class_without_bounds else lower_bounds[1],
        limits=tuple((limit.steps, limit.lower) for limit in part.limits),
        refuted=() if several else _costs(entry.candidate for entry in frontier.refuted),
        open=() if several else _costs(entry.candidate for entry in frontier.open),
        scope=part.scope if several or bounds is None else bounds.scope,
        question=frontier.name if several else "",
        of_class=part.name,
        alpha_us=costs.alpha_us if costs else None,
        gb_per_s=costs.gb_per_s if costs else None,
        slowest_link=costs is not None and costs.slowest_link,
    )


def _line_name(frontier: Frontier, part: ClassFrontier) -> str:
    """Return the name of a line, which distinguishes limits from a sweep."""
    if frontier.is_multiclass or frontier.class_without_bounds:
        return f"{frontier.name}, {part.name or part.scope}"
    is_limits = isinstance(frontier, StepLimitFrontier)
    return f"{frontier.name}, limits" if is_limits else frontier.name


def _costs(candidates: Iterable[Candidate]) -> tuple[Cost, ...]:
    return tuple((candidate.steps, candidate.cost) for candidate in candidates)


def common_question(frontiers: Sequence[FrontierData]) -> str:
    """Return the question to which all frontiers belong as classes, or an empty text."""
    questions = {frontier.question for frontier in frontiers}
    return questions.pop() if len(questions) == 1 else ""


def name_by_class(frontiers: Sequence[FrontierData]) -> list[FrontierData]:
    """Return frontiers with distinct names: those of their classes if all share a question."""
    if not common_question(frontiers):
        return make_names_distinct(frontiers)
    return make_names_distinct(
        [replace(frontier, name=frontier.of_class) for frontier in frontiers]
    )


def make_names_distinct(frontiers: Sequence[FrontierData]) -> list[FrontierData]:
    """Return frontiers with distinct names, by which charts distinguish them."""
    named: dict[str, FrontierData] = {}
    for frontier in frontiers:
        numbered = (f"{frontier.name} ({i})" for i in count(2))
        name = next(n for n in chain([frontier.name], numbered) if n not in named)
        named[name] = replace(frontier, name=name)
    return list(named.values())
