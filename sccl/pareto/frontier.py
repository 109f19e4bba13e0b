"""What a sweep found, what it proved, and what it left open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sccl.bounds import LowerBounds, bounds_json
from sccl.collectives import Spec
from sccl.core.cost import alpha_us, lane_gb_per_s
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.pareto.candidates import Candidate, Range
from sccl.pareto.limits import StepLimit, limits_json


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the frontier with its algorithm.

    Attributes:
        optimal: ``"latency"`` and ``"bandwidth"``, as far as it meets the lower bounds; ``"limit"``
            if it does not meet that of R/C, but no k and no C gives less with as many steps.
        proved: whether every candidate that would dominate it has been refuted. If not, it is the
            best found; the open candidates of the frontier say what is missing.
        seconds: for the query that found it.
        from_store: whether that was earlier, and its answer was kept.
    """

    candidate: Candidate
    algorithm: AnyAlgorithm
    optimal: tuple[str, ...]
    proved: bool
    seconds: float
    file: Path | None
    from_store: bool = False


@dataclass(frozen=True, slots=True)
class Refuted:
    """A candidate that has no algorithm, and why."""

    candidate: Candidate
    evidence: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Open:
    """A candidate that would improve the frontier and was not decided, and why."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True)
class Frontier:
    """The result of a sweep.

    Attributes:
        points: by ascending S, each with a smaller R/C than the one before.
        complete: whether this is the whole frontier of the class: the bandwidth bound is met and
            nothing is open.
        limits: what no k and no C can beat, by number of steps, as far as that was computed.
        every_k: whether it is so for every k, not only the one that was searched.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``.
        scope: the class within which points are optimal.
        seconds: of the whole sweep.
    """

    topology: Topology
    spec: Spec
    covered: Range
    solver: str
    bounds: LowerBounds
    points: tuple[Point, ...]
    open: tuple[Open, ...]
    refuted: tuple[Refuted, ...]
    limits: tuple[StepLimit, ...]
    complete: bool
    every_k: bool
    stopped: str
    scope: str
    seconds: float


def frontier_json(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values; fractions are strings like ``"7/6"``."""
    return {
        "schema": 1,
        "kind": "frontier",
        "topology": frontier.topology.name,
        "collective": frontier.spec.name,
        "root": frontier.spec.root,
        "alpha_us": alpha_us(frontier.topology),
        "gb_per_s": lane_gb_per_s(frontier.topology),
        "k": frontier.covered.k,
        "max_steps": frontier.covered.max_steps,
        "max_chunks": frontier.covered.max_chunks,
        "solver": frontier.solver,
        "scope": frontier.scope,
        "bounds": bounds_json(frontier.bounds),
        "complete": frontier.complete,
        "every_k": frontier.every_k,
        "stopped": frontier.stopped,
        "seconds": round(frontier.seconds, 3),
        "points": [
            {
                **_candidate_json(p.candidate),
                "rounds_per_step": list(p.algorithm.rounds_per_step),
                "optimal": list(p.optimal),
                "proved": p.proved,
                "seconds": round(p.seconds, 3),
                "from_store": p.from_store,
                "file": str(p.file) if p.file else None,
            }
            for p in frontier.points
        ],
        "limits": limits_json(frontier.limits),
        "open": [{**_candidate_json(o.candidate), "reason": o.reason} for o in frontier.open],
        "unsat": [
            {**_candidate_json(u.candidate), "evidence": u.evidence, "seconds": round(u.seconds, 3)}
            for u in frontier.refuted
        ],
    }


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "chunks": candidate.chunks,
        "steps": candidate.steps,
        "rounds": candidate.rounds,
        "bandwidth_cost": str(candidate.cost),
    }


def scope_of(covered: Range, composition: str) -> str:
    """Return the class that a sweep's claims are about, as words.

    The last S of a sweep is no part of it: only algorithms with no more steps can dominate a point.
    """
    limit = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    if composition:
        return f"{composition}, each half {covered.k}-synchronous{limit}"
    return f"{covered.k}-synchronous algorithms{limit}"


def meets(candidate: Candidate, bounds: LowerBounds, limit: StepLimit | None) -> tuple[str, ...]:
    """Return which of the lower bounds a candidate meets, of S, of R/C, and of R/C for its S."""
    met = []
    if candidate.steps == bounds.steps:
        met.append("latency")
    if candidate.cost == bounds.bandwidth:
        met.append("bandwidth")
    elif limit and candidate.cost == limit.lower:
        met.append("limit")
    return tuple(met)
