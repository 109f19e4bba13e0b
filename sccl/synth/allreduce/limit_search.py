"""Compute the frontier of limits of a collective on a machine, over all k and all C."""

from __future__ import annotations

from functools import partial

from sccl.collectives import Spec, dual_of
from sccl.core.frontier import StepLimitFrontier
from sccl.core.topology import Topology
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.settings import Settings
from sccl.synth.packing.by_steps.limit_sweep import NotifyLimit, limit_frontier
from sccl.synth.syncoll.oracle import few_chunk_solver


def find_limits(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None,
    settings: Settings,
    *,
    folder: AlgorithmFolder | None = None,
    notify: NotifyLimit = lambda _: None,
    few_chunks: bool = True,
) -> StepLimitFrontier:
    """Return the limit frontier of a collective on a topology, as far as it is known in time.

    Args:
        topology: The machine.
        spec: The collective.
        max_steps: Largest S. None: a few more than the latency bound.
        settings: Solver, and the time for each S. Without a time there is a fixed budget, so that
            the result does not depend on the load.
        folder: Folder for the algorithms. None: none.
        notify: Called with every limit and every point.
        few_chunks: Whether to search for algorithms with few chunks.

    Raises:
        InputError: The collective does not fit the topology, or a rank cannot be reached.
    """
    seconds = settings.effort.seconds
    solve = few_chunk_solver(topology, spec, settings)
    of = partial(
        limit_frontier,
        topology,
        solve=solve,
        seconds=seconds,
        notify=notify,
        few_chunks=few_chunks,
    )
    if dual_of(spec).phases == 1:
        return of(spec, max_steps=max_steps, folder=folder)
    from sccl.synth.allreduce.limit_frontier import allreduce_limit_frontier  # noqa: PLC0415 - of allreduce alone
    from sccl.synth.packing.by_steps.allreduce_trees import tree_frontier  # noqa: PLC0415

    trees = partial(
        tree_frontier,
        topology,
        spec,
        seconds=seconds,
        folder=folder,
        notify=notify,
        few_chunks=few_chunks,
    )
    return allreduce_limit_frontier(topology, spec, of, trees, max_steps=max_steps, folder=folder)


def limits_of_equal_halves(
    topology: Topology, spec: Spec, max_steps: int | None, settings: Settings
) -> StepLimitFrontier:
    """Return the limits of compositions of equal halves, for a certificate.

    Args:
        topology: The machine.
        spec: The allreduce.
        max_steps: Largest S.
        settings: Solver, and the time for each S.

    Raises:
        InputError: Compositions take more steps than requested.
    """
    return limit_frontier(
        topology,
        spec,
        few_chunk_solver(topology, spec, settings),
        max_steps=max_steps,
        seconds=settings.effort.seconds,
    )
