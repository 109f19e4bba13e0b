"""The limit frontier of allreduce: those of its halves, then of the families."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from sccl.collectives import Spec
from sccl.core.frontier import TREES, SkippedClass, StepLimitFrontier
from sccl.core.topology import Topology
from sccl.synth.allreduce.search_space import AllreduceSpace
from sccl.synth.common.algorithm_folder import AlgorithmFolder


class HalfLimitSolver(Protocol):
    """Computes the limits of a collective on a fixed machine with fixed settings."""

    def __call__(
        self, spec: Spec, *, max_steps: int | None, folder: AlgorithmFolder | None
    ) -> StepLimitFrontier:
        """Return the limit frontier, as far as it was found."""
        ...


def allreduce_limit_frontier(  # noqa: PLR0913 - a question, who answers it, and where results go
    topology: Topology,
    spec: Spec,
    limits: HalfLimitSolver,
    trees: Callable[[int | None], StepLimitFrontier],
    *,
    max_steps: int | None = None,
    folder: AlgorithmFolder | None = None,
) -> StepLimitFrontier:
    """Return the limit frontier of allreduce over its families.

    Args:
        topology: The machine.
        spec: The allreduce.
        limits: Function that computes the limits of a half.
        trees: Function that computes the limits of trees, up to a number of steps.
        max_steps: Largest S. None: a few more than the latency bound.
        folder: Folder for the algorithms of halves and compositions. None: none.

    Raises:
        InputError: A rank cannot be reached.
    """
    begin = time.perf_counter()
    space = AllreduceSpace.of(topology, spec, max_steps)
    if folder:
        folder.prepare()
    halves = _half_frontiers(space, limits, folder)
    both = space.compose_halves(halves, folder)
    classes = [both.frontier_of_limits()] if both else []
    classes += space.exchange_families(folder)
    classes += space.gathered_families(halves[-1])
    unswept = space.gathered_exclusions()
    why = space.tree_exclusion_reason(halves, None)
    if why:
        return space.frontier(
            StepLimitFrontier, classes, [SkippedClass(TREES, why), *unswept], begin
        )
    by_trees = trees(max_steps)
    classes = [classes[0], *by_trees.classes, *classes[1:]]
    return space.frontier(
        StepLimitFrontier, classes, unswept, begin, interrupted=by_trees.is_interrupted
    )


def _half_frontiers(
    space: AllreduceSpace, limits: HalfLimitSolver, folder: AlgorithmFolder | None
) -> tuple[StepLimitFrontier, ...]:
    """Return the limits of the halves. With symmetric links, only those of the allgather."""
    dual = space.dual
    allgather = limits(dual.spec, max_steps=space.requested_steps, folder=folder)
    if not space.needs_scatter(allgather):
        return (allgather,)
    return (limits(dual.first_phase, max_steps=space.max_scatter_steps, folder=None), allgather)
