"""Allreduce by trees: beyond reducescatter followed by allgather, with limits of its own.

Each chunk goes up one timed tree to some rank and down another, within S steps in all; where it
turns may differ from chunk to chunk, so that nothing waits between two phases.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from fractions import Fraction

from sccl.collectives import named
from sccl.core.algorithm import Algorithm
from sccl.core.bounds import Bounds
from sccl.core.cost import Costs
from sccl.core.frontier import TREES, Frontier
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology, distances
from sccl.synth.candidates import EXTRA_STEPS
from sccl.synth.folder import Folder
from sccl.synth.limit.attain import near
from sccl.synth.limit.steps import Packed, proof_of
from sccl.synth.limit.sweep import NotifyLimit, PackedClass, limits_until

SCOPE = "allreduce by a timed tree up and one down for each chunk"
MAX_RANKS = 10
"""For trees: they are priced by dynamic programming over sets of ranks, too many beyond."""

_FEW_CHUNKS = 64  # beyond, an algorithm with fewer is worth a search


def tree_bounds(topology: Topology) -> Bounds:
    """Return what no allreduce by trees beats.

    S: a tree goes up to some rank and another down from it. R/C: each chunk takes 2 (P - 1) sends.
    """
    successors = topology.successors()
    predecessors = topology.reversed().successors()
    steps = min(
        max(distances(predecessors, [r])) + max(distances(successors, [r]))
        for r in range(topology.ranks)
    )
    sends = 2 * (topology.ranks - 1)
    return Bounds(steps, Fraction(sends, sum(topology.lanes().values())), SCOPE)


def tree_frontier(
    topology: Topology,
    max_steps: int | None = None,
    *,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of allreduce by trees, of its one class.

    Args:
        topology: of at most :data:`MAX_RANKS` ranks.
        max_steps: last S; None: six more than the fewest.
        seconds: for each limit; by default effort alone ends them. Where time has run out, nothing
            is written from a packing, there or for more steps.
    """
    begin = time.perf_counter()
    trees = _Trees(topology, tree_bounds(topology), seconds, TREES, SCOPE, 1, ())
    last = max_steps or trees.bounds.steps + 2 * EXTRA_STEPS
    stopped, part = limits_until(last, trees, folder, notify, begin)
    return Frontier(
        topology.name,
        "allreduce",
        None,
        Costs.of(topology),
        None,
        (part,),
        stopped=stopped,
        seconds=part.seconds,
    )


class _Trees(PackedClass):
    """Allreduces by trees."""

    __slots__ = ()

    def packed(self, steps: int, earlier: Packed | None) -> Packed:
        """Return the limit of a number of steps, begun with that of a step less."""
        from sccl.synth.limit.problem import pose_allreduce  # noqa: PLC0415 - loads the LP solver
        from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415

        unit = named("allreduce", self.topology.ranks).at(self.topology.ranks)
        before = earlier.packings[0] if earlier else None
        problem = pose_allreduce(self.topology, unit, steps)
        packing = solve_packing(problem, self.bounds.bandwidth, self.seconds, earlier=before)
        limit = StepLimit(steps, packing.lower, packing.upper, (proof_of(packing),))
        return Packed(limit, (packing,))

    def algorithm(self, packed: Packed, *, known: bool, late: bool) -> Algorithm | None:  # noqa: ARG002 - it is made of packings alone
        """Return the packing's; if it has many chunks, rather one that is the same backwards."""
        from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415 - loads solvers
        from sccl.synth.limit.palindrome import palindrome  # noqa: PLC0415

        if late:
            return None
        (packing,) = packed.packings
        found = multiply_out(packing)
        if found is None or found.collective.chunks > _FEW_CHUNKS:
            found = palindrome(packing) or found or near(packing)
        return found and replace(found, scope=self.scope)
