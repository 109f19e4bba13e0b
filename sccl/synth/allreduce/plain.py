"""Frontiers and limits as plain JSON values; fractions are strings like ``"7/6"``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sccl.collectives import Spec
from sccl.core.candidate import Candidate
from sccl.core.cost import Costs
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology, constraint_name
from sccl.prove.bounds import any_bounds_json, bounds_json
from sccl.synth.allreduce.classes import GATHERED, ClassFrontier
from sccl.synth.allreduce.every_class import AllreduceFrontier
from sccl.synth.frontier import Frontier
from sccl.synth.frontier import Point as SweptPoint
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint


def frontier_json(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values; fractions are strings like ``"7/6"``."""
    return {
        **_head(frontier.topology, frontier.spec),
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
        "points": [_swept(p) for p in frontier.points],
        "limits": _limits(frontier.limits),
        "open": [{**_candidate(o.candidate), "reason": o.reason} for o in frontier.open],
        "unsat": [
            {**_candidate(u.candidate), "evidence": u.evidence, "seconds": round(u.seconds, 3)}
            for u in frontier.refuted
        ],
    }


def limit_frontier_json(frontier: LimitFrontier) -> dict[str, Any]:
    """Return a limit frontier as plain JSON values; fractions are strings like ``"9/22"``."""
    return {
        **_head(frontier.topology, frontier.spec),
        "scope": frontier.scope,
        "bounds": bounds_json(frontier.bounds),
        "complete": frontier.complete,
        "stopped": frontier.stopped,
        "seconds": round(frontier.seconds, 3),
        "limits": _limits(frontier.limits),
        "points": [_point(p) for p in frontier.points],
    }


def plain_of(found: Frontier | LimitFrontier | AllreduceFrontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values."""
    if isinstance(found, AllreduceFrontier):
        return allreduce_json(found)
    return frontier_json(found) if isinstance(found, Frontier) else limit_frontier_json(found)


def allreduce_json(frontier: AllreduceFrontier) -> dict[str, Any]:
    """Return what is known of allreduce as plain JSON values, class by class.

    ``points`` are those that none of any class dominates, and ``bounds`` hold for all algorithms.
    """
    covered = frontier.covered
    swept = {} if covered is None else {
        "k": covered.k,
        "max_steps": covered.max_steps,
        "max_chunks": covered.max_chunks,
        "solver": frontier.solver,
    }  # fmt: skip
    return {
        **_head(frontier.topology, frontier.spec),
        **swept,
        "scope": frontier.scope,
        "bounds": any_bounds_json(frontier.bounds),
        "complete": frontier.complete,
        "every_k": frontier.every_k,
        "stopped": frontier.stopped,
        "seconds": round(frontier.seconds, 3),
        "points": [{"class": name, **_of_class(p)} for name, p in frontier.stairs],
        "limits": [],
        "open": [{**_candidate(o.candidate), "reason": o.reason} for o in frontier.open],
        "unsat": [],
        "classes": [_class(one) for one in frontier.classes],
        "unswept": [{"class": name, "why": why} for name, why in frontier.unswept],
        "halves": [frontier_json(half) for half in frontier.swept],
    }


def _class(one: ClassFrontier) -> dict[str, Any]:
    return {
        "class": one.name,
        "collective": "allgather" if one.name == GATHERED else "allreduce",
        "scope": one.scope,
        "steps": one.steps,
        "bandwidth": str(one.bandwidth),
        "complete": one.complete,
        "every_k": one.complete and one.within is None,
        "seconds": round(one.seconds, 3),
        "limits": [
            {"steps": x.steps, "lower": str(x.lower), "upper": str(x.upper)} for x in one.limits
        ],
        "points": [_of_class(p) for p in one.points],
    }


def _of_class(point: SweptPoint | LimitPoint) -> dict[str, Any]:
    return _swept(point) if isinstance(point, SweptPoint) else _point(point)


def _swept(p: SweptPoint) -> dict[str, Any]:
    return {
        **_candidate(p.candidate),
        "rounds_per_step": list(p.algorithm.rounds_per_step),
        "optimal": list(p.optimal),
        "proved": p.proved,
        "every_k": p.proved and p.within is None,
        "seconds": round(p.seconds, 3),
        "from_store": p.from_store,
        "file": str(p.file) if p.file else None,
    }


def limit_json(limit: StepLimit) -> dict[str, Any]:
    """Return a limit and its proofs as plain JSON values."""
    return {
        "steps": limit.steps,
        "lower": str(limit.lower),
        "upper": str(limit.upper),
        "certificates": [
            {
                "problem": proof.problem,
                "topology": proof.topology,
                "bound": str(proof.bound),
                "prices": [
                    [constraint_name(key), step, str(price)] for key, step, price in proof.prices
                ]
                or "bandwidth bound",
            }
            for proof in limit.proofs
        ],
    }


def _limits(limits: tuple[StepLimit, ...]) -> list[dict[str, Any]]:
    """Return limits as plain JSON values."""
    return [{"steps": x.steps, "lower": str(x.lower), "upper": str(x.upper)} for x in limits]


def _point(point: LimitPoint) -> dict[str, Any]:
    """Return a point of a limit frontier as plain JSON values."""
    found = point.algorithm
    return {
        "steps": point.limit.steps,
        "limit": str(point.limit.upper),
        "proved": point.proved,
        "optimal": list(point.optimal),
        "attained": point.attains,
        "chunks": found.collective.chunks if found else None,
        "rounds": found.rounds if found else None,
        "bandwidth_cost": str(found.bandwidth_cost) if found else None,
        "seconds": round(point.seconds, 3),
        "file": point.file,
    }


def _head(topology: Topology, spec: Spec) -> dict[str, Any]:
    """Return what was asked for, and the costs by which points are compared."""
    return {
        "schema": 1,
        "kind": "frontier",
        "topology": topology.name,
        "collective": spec.name,
        "root": spec.root,
        **asdict(Costs.of(topology)),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "chunks": candidate.chunks,
        "steps": candidate.steps,
        "rounds": candidate.rounds,
        "bandwidth_cost": str(candidate.cost),
    }
