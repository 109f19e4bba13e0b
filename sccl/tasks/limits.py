"""Limits: the frontier of a collective on a machine over all k and all C."""

from __future__ import annotations

from functools import partial

from sccl.collectives import Spec
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.allreduce.limits import limit_allreduce
from sccl.synth.folder import Folder
from sccl.synth.ksync.queries import few_chunks
from sccl.synth.limit.sweep import NotifyLimit, limit_frontier
from sccl.synth.limit.trees import tree_frontier
from sccl.synth.settings import Settings


def find_limits(  # noqa: PLR0913 - a question, how to answer it, and where results go
    topology: Topology,
    spec: Spec,
    max_steps: int | None,
    settings: Settings,
    *,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of a collective on a topology, as far as it was found.

    Args:
        max_steps: last S. None: a few more than the latency bound.
        settings: the solver, and the time for each S. None: what effort allows, so that the same
            is found under any load.
        folder: where to keep the algorithms. None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    seconds = settings.effort.seconds
    solve = few_chunks(topology, spec, settings)
    of = partial(limit_frontier, topology, solve=solve, seconds=seconds, notify=notify)
    if not has_classes(spec):
        return of(spec, max_steps=max_steps, folder=folder)
    trees = partial(tree_frontier, topology, spec, seconds=seconds, folder=folder, notify=notify)
    return limit_allreduce(topology, spec, of, trees, max_steps=max_steps, folder=folder)


def limits_of_equal_halves(
    topology: Topology, spec: Spec, max_steps: int | None, settings: Settings
) -> Frontier:
    """Return the limits of the compositions of equal halves: what a certificate is about.

    Args:
        spec: allreduce.

    Raises:
        InputError: compositions take more steps than were asked for.
    """
    return limit_frontier(
        topology,
        spec,
        few_chunks(topology, spec, settings),
        max_steps=max_steps,
        seconds=settings.effort.seconds,
    )
