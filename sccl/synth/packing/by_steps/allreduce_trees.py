"""Allreduce by trees: a larger class than reducescatter followed by allgather, with its limits.

Each chunk is reduced along timed trees to a root rank and broadcast from it, within S steps in
total. It may also be reduced to two ranks that exchange their sums in a step and both broadcast.
The root and the step of the change may differ from chunk to chunk, so no chunk waits between two
phases. In process groups, trees contain the ranks of a group, and other ranks that forward.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import TREES, StepLimitFrontier
from sccl.core.graphs import UNREACHED
from sccl.core.step_limit import LimitProof, StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import EXTRA_STEPS
from sccl.synth.limits import FEW_CHUNKS, LIMIT_EFFORT, MAX_SUBSET, SWEEP_EFFORT
from sccl.synth.packing.by_steps.limit_sweep import NotifyLimit, PackingClass, compute_limits
from sccl.synth.packing.by_steps.limits_by_steps import LimitWithPacking, packing_proof
from sccl.synth.packing.by_steps.rounding import round_approximately
from sccl.synth.packing.problem import farthest_distance, root_choices

TREE_SCOPE = "allreduce by timed trees up to a rank, or two that exchange, and down for each chunk"


def tree_bounds(topology: Topology, spec: Spec) -> AlgorithmBounds:
    """Return lower bounds for every allreduce by trees.

    S: steps of trees to a root rank, or to two ranks that exchange, and back. R/C: the bound for
    every allreduce.

    Args:
        spec: Allreduce of all ranks or in process groups.
    """
    machines = (topology.reversed(), topology)
    turns = root_choices(sorted(topology.edges), range(topology.ranks))
    groups = {frozenset(map(int, held)) for held, _ in spec.at(spec.unit).chunk_classes()}
    steps = 0
    for group in groups:
        turn_legs = (
            [t.steps, *(farthest_distance(m, t.ranks, group) for m in machines)] for t in turns
        )
        steps = max(steps, min(sum(legs) for legs in turn_legs if UNREACHED not in legs))
    return AlgorithmBounds(steps, any_class_bounds(topology, spec).bandwidth, TREE_SCOPE)


def tree_frontier(  # noqa: PLR0913 - a question, how long, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None = None,
    *,
    seconds: float = math.inf,
    folder: AlgorithmFolder | None = None,
    notify: NotifyLimit = lambda _: None,
    few_chunks: bool = True,
) -> StepLimitFrontier:
    """Return the limit frontier of allreduce by trees, with its one class.

    Args:
        topology: Machine of at most :data:`MAX_CUT_RANKS` ranks.
        spec: Allreduce of all ranks or in process groups.
        max_steps: Last S. None: six more than the smallest S.
        seconds: Time limit for each S. By default only effort ends the search. Once time has run
            out, no algorithm is written from a packing, for this S or a larger one.
        few_chunks: Whether to search for algorithms with few chunks.
    """
    begin = time.perf_counter()
    trees = _TreeClass(
        topology,
        tree_bounds(topology, spec),
        seconds,
        TREES,
        TREE_SCOPE,
        1,
        (),
        few_chunks,
        spec,
    )
    last = max_steps or trees.bounds.steps + 2 * EXTRA_STEPS
    return compute_limits(last, trees, folder, notify, begin)


@dataclass(frozen=True, slots=True)
class _TreeClass(PackingClass):
    """Allreduces by trees."""

    def limit_with_packing(self, steps: int, earlier: LimitWithPacking | None) -> LimitWithPacking:
        """Return the limit of a number of steps, started from that of one step less."""
        from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415 - loads the LP solver
        from sccl.synth.packing.problem import build_allreduce_problem  # noqa: PLC0415

        unit = self.spec.at(self.spec.unit)
        before = earlier.packings[0] if earlier else None
        problem = build_allreduce_problem(self.topology, unit, steps)
        few = self.topology.ranks <= MAX_SUBSET
        cuts = None if few else any_class_proof(self.topology, self.spec, steps, self.bounds)
        packing = solve_packing(
            problem,
            cuts.bound if cuts else self.bounds.bandwidth,
            self.seconds,
            earlier=before,
            effort=LIMIT_EFFORT if few else SWEEP_EFFORT,
        )
        proof = packing_proof(packing, cuts=cuts)
        return LimitWithPacking(
            StepLimit(steps, packing.lower, packing.upper, (proof,)), (packing,)
        )

    def algorithm(
        self,
        packed: LimitWithPacking,
        *,
        is_known: bool,  # noqa: ARG002
        is_late: bool,
    ) -> tuple[Algorithm, str] | None:
        """Return the packing's algorithm, or one with fewer chunks if it has many."""
        from sccl.synth.packing.by_steps.round_steps import (  # noqa: PLC0415
            REDUCED_EFFORT_UNITS,
            TOTAL_EFFORT_UNITS,
            multiply_out,
            round_to_few_chunks,
            round_to_palindrome,
        )

        if is_late:
            return None
        (packing,) = packed.packings
        algorithm = multiply_out(packing)
        few = self.topology.ranks <= MAX_SUBSET
        if algorithm is None or algorithm.collective.chunks > FEW_CHUNKS:
            units = REDUCED_EFFORT_UNITS if algorithm else TOTAL_EFFORT_UNITS
            fewer = (
                round_to_few_chunks(packing, packed.limit.proofs[0], units)
                if self.few_chunks
                else None
            )
            if few and fewer is None:
                fewer = round_to_palindrome(packing)
            algorithm = fewer or algorithm or round_approximately(packing)
        if algorithm is None:
            return None
        return replace(algorithm, scope=self.scope), "packing"


def any_class_proof(
    topology: Topology, spec: Spec, steps: int, bounds: AlgorithmBounds
) -> LimitProof | None:
    """Return a proof by cuts through time for all allreduces. None: no better than ``bounds``.

    If trees attain this bound, no tree needs to be priced, and otherwise few trees.
    """
    from sccl.prove.bounds.timed_cuts import allreduce_bound  # noqa: PLC0415 - loads solvers

    relaxation = allreduce_bound(topology, spec, steps)
    if relaxation is None or relaxation.bound.value <= bounds.bandwidth:
        return None
    of = (spec.name, False, topology.name, steps)
    return LimitProof(
        *of, relaxation.bound.value, relaxation.bound.proof.prices, relaxation.bound.proof.cuts
    )
