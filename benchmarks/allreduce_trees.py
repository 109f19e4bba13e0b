"""Allreduce by trees, up to 64 ranks, beside what no allreduce of any class beats."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import named_spec
from sccl.prove.bounds import any_class_bounds
from sccl.solvers import lp
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds, tree_frontier
from sccl.topo import resolve_topology


@dataclass(frozen=True, slots=True)
class TreesSpec:
    """A machine, and how many numbers of steps trees are looked at for, from the fewest on."""

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
    """The limit of trees for a number of steps, and what it took.

    Attributes:
        steps: S.
        every: R/C of no allreduce of as many steps is below this,
        lower: nor that of trees below this;
        upper: and some packing of trees has this.
        written: (C, R) of an algorithm at it, or near it; none: it would be too large.
        seconds: of this S and those before.
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
    lp.solve(lp.Model())  # what loads once is not the first row's time
    for spec in specs:
        topology = resolve_topology(spec.topology)
        every = named_spec("allreduce", topology.ranks)
        bounds = any_class_bounds(topology, every)
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
            proof = any_family_proof(topology, every, bounds, limit.steps, limit.upper)
            at = points.get(limit.steps)
            written = (at.chunks, at.rounds) if at and at.chunks and at.rounds else None
            values = (proof.bound, limit.lower, limit.upper)
            yield TreesResult(spec, limit.steps, *values, written, seconds)
