"""Limits of tree allreduce on up to 64 ranks, with lower bounds for every allreduce."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import named_spec
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.solvers import lp
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds, tree_frontier
from sccl.topo import resolve_topology


@dataclass(frozen=True, slots=True)
class TreesSpec:
    """A machine, and the number of step counts to examine beyond the fewest."""

    topology: str
    more: int = 0


SPECS = (
    TreesSpec("dgx1", 2),
    TreesSpec("z52"),
    TreesSpec("ndv2x2", 3),
    TreesSpec("torus:4x4"),
    TreesSpec("hypercube:4"),
    TreesSpec("hypercube:5"),
    TreesSpec("hypercube:6"),
    TreesSpec("torus:8x8"),
    TreesSpec("mesh:4x4", 2),
    TreesSpec("dragonfly:4x5", 2),
)
SMOKE = (TreesSpec("z52"), TreesSpec("torus:4x4"))


@dataclass(frozen=True, slots=True)
class TreesResult:
    """The limit of trees for a number of steps, and its time.

    Attributes:
        steps: Number of steps S.
        every: Lower bound on R/C of every allreduce with S steps.
        lower: Lower bound on R/C of trees with S steps.
        upper: R/C of the best tree packing.
        written: (C, R) of an algorithm at or near the limit. None: it would be too large.
        seconds: Time for this S and all smaller ones.
    """

    spec: TreesSpec
    steps: int
    every: Fraction
    lower: Fraction
    upper: Fraction
    written: tuple[int, int] | None
    seconds: float


def run(specs: Sequence[TreesSpec]) -> Iterator[TreesResult]:
    """Yield the results."""
    lp.solve(lp.Model())  # loads the solver, so that the first row's time excludes it
    for spec in specs:
        topology = resolve_topology(spec.topology)
        allreduce = named_spec("allreduce", topology.ranks)
        bounds = any_class_bounds(topology, allreduce)
        begin = time.perf_counter()
        (trees,) = tree_frontier(
            topology,
            named_spec("allreduce", topology.ranks),
            tree_bounds(topology, named_spec("allreduce", topology.ranks)).steps + spec.more,
        ).classes
        seconds = time.perf_counter() - begin
        points = {point.steps: point for point in trees.points}
        for limit in trees.limits:
            assert limit.upper is not None
            proof = any_family_proof(topology, allreduce, bounds, limit.steps, limit.upper)
            point = points.get(limit.steps)
            written = (
                (point.chunks, point.rounds) if point and point.chunks and point.rounds else None
            )
            values = (proof.bound, limit.lower, limit.upper)
            yield TreesResult(spec, limit.steps, *values, written, seconds)
