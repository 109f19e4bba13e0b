"""Allreduce by trees: a larger class than reducescatter followed by allgather, with its limits.

Each chunk goes up timed trees to some rank and down from it, within S steps in total, or up to two
ranks that exchange their sums in a step, and down from both. The place and time of the turn may
differ from chunk to chunk, so that nothing waits between two phases. In process groups trees
contain the ranks of a group, and other ranks that forward.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.bounds import Bounds
from sccl.core.cost import Costs
from sccl.core.frontier import TREES, Frontier
from sccl.core.limit import LimitProof, StepLimit
from sccl.core.topology import UNREACHED, Topology
from sccl.prove.bounds import any_bounds
from sccl.synth.candidates import EXTRA_STEPS
from sccl.synth.folder import Folder
from sccl.synth.limit.attain import near
from sccl.synth.limit.options import LIMIT_UNITS
from sccl.synth.limit.steps import Packed, proof_of
from sccl.synth.limit.sweep import NotifyLimit, PackedClass, limits_until
from sccl.synth.limit.turns import farthest, turns_of

SCOPE = "allreduce by timed trees up to a rank, or two that exchange, and down for each chunk"
FEW_RANKS = 10
"""Up to so many, trees are priced by dynamic programming over sets of ranks. Then by a search."""

MAX_RANKS = 64
"""For limits of trees: beyond, a single one is long in coming."""

_MANY_UNITS = 10.0  # of effort, for a limit where each tree is searched for

_FEW_CHUNKS = 64  # beyond, an algorithm with fewer is worth a search
_FEW_OF_MANY = 16  # likewise where each tree is searched for: trees that come first are others


def tree_bounds(topology: Topology, spec: Spec) -> Bounds:
    """Return lower bounds for every allreduce by trees.

    S: trees go up to some rank, or two that exchange, and down from there. R/C: the bound for every
    allreduce.

    Args:
        spec: an allreduce, of all ranks or in process groups.
    """
    machines = (topology.reversed(), topology)
    turns = turns_of(sorted(topology.edges), range(topology.ranks))
    groups = {frozenset(map(int, held)) for held, _ in spec.at(spec.unit).classes()}
    steps = 0
    for group in groups:
        ways = ([t.steps, *(farthest(m, t.ranks, group) for m in machines)] for t in turns)
        steps = max(steps, min(sum(way) for way in ways if UNREACHED not in way))
    return Bounds(steps, any_bounds(topology, spec).bandwidth, SCOPE)


def tree_frontier(  # noqa: PLR0913 - a question, how long, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None = None,
    *,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of allreduce by trees, of its one class.

    Args:
        topology: of at most :data:`MAX_RANKS` ranks.
        spec: an allreduce, of all ranks or in process groups.
        max_steps: last S. None: six more than the fewest.
        seconds: limit for each. By default only effort ends them. If time has run out, nothing is
            written from a packing, there or for more steps.
    """
    begin = time.perf_counter()
    trees = _Trees(topology, tree_bounds(topology, spec), seconds, TREES, SCOPE, 1, (), spec)
    last = max_steps or trees.bounds.steps + 2 * EXTRA_STEPS
    stopped, part = limits_until(last, trees, folder, notify, begin)
    return Frontier(
        topology.name,
        spec.name,
        None,
        Costs.of(topology),
        None,
        (part,),
        stopped=stopped,
        seconds=part.seconds,
    ).require_consistent()


@dataclass(frozen=True, slots=True)
class _Trees(PackedClass):
    """Allreduces by trees.

    Attributes:
        spec: of all ranks or in process groups.
    """

    spec: Spec

    def packed(self, steps: int, earlier: Packed | None) -> Packed:
        """Return the limit of a number of steps, begun with that of a step less."""
        from sccl.synth.limit.problem import pose_allreduce  # noqa: PLC0415
        from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415 - loads the LP solver

        unit = self.spec.at(self.spec.unit)
        before = earlier.packings[0] if earlier else None
        problem = pose_allreduce(self.topology, unit, steps)
        few = self.topology.ranks <= FEW_RANKS
        cuts = None if few else allreduce_proof(self.topology, self.spec, steps, self.bounds)
        packing = solve_packing(
            problem,
            cuts.bound if cuts else self.bounds.bandwidth,
            self.seconds,
            earlier=before,
            effort=LIMIT_UNITS if few else _MANY_UNITS,
        )
        proof = proof_of(packing, cuts=cuts)
        return Packed(StepLimit(steps, packing.lower, packing.upper, (proof,)), (packing,))

    def algorithm(self, packed: Packed, *, known: bool, late: bool) -> Algorithm | None:  # noqa: ARG002 - it is made of packings alone
        """Return the packing's. If it has many chunks, rather of whole trees, or a palindrome."""
        from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415 - loads solvers
        from sccl.synth.limit.palindrome import palindrome  # noqa: PLC0415
        from sccl.synth.limit.whole import ALL_UNITS, FEW_UNITS, few_whole  # noqa: PLC0415

        if late:
            return None
        (packing,) = packed.packings
        found = multiply_out(packing)
        few = self.topology.ranks <= FEW_RANKS
        enough = _FEW_CHUNKS if few else _FEW_OF_MANY
        if found is None or found.collective.chunks > enough:
            units = FEW_UNITS if found else ALL_UNITS
            fewer = few_whole(packing, packed.limit.proofs[0], units)
            if few and fewer is None:
                fewer = palindrome(packing)
            found = fewer or found or near(packing)
        return found and replace(found, scope=self.scope)


def allreduce_proof(
    topology: Topology, spec: Spec, steps: int, bounds: Bounds
) -> LimitProof | None:
    """Return a proof by cuts through time for all allreduces. None: it is no better than bounds.

    If trees attain it, no tree needs to be priced, and otherwise few.
    """
    from sccl.prove.bounds.timed_cuts import allreduce_bound  # noqa: PLC0415 - loads solvers

    found = allreduce_bound(topology, spec, steps)
    if found is None or found.value <= bounds.bandwidth:
        return None
    of = (spec.name, False, topology.name, steps)
    return LimitProof(*of, found.value, found.prices, found.cuts)
