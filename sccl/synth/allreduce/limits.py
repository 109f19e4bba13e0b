"""The limit frontier of allreduce: that of its halves, then of the classes that they make."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sccl.collectives import Spec
from sccl.core.frontier import TREES, Frontier, Unswept
from sccl.core.topology import Topology
from sccl.synth.allreduce.space import INTERRUPTED, AllreduceSpace
from sccl.synth.folder import Folder


class LimitHalf(Protocol):
    """Finds the limits of a collective on the machine: all else is settled."""

    def __call__(self, spec: Spec, *, max_steps: int | None, folder: Folder | None) -> Frontier:
        """Return its limit frontier, as far as it was found."""
        ...


def limit_allreduce(  # noqa: PLR0913 - a question, who answers it, and where results go
    topology: Topology,
    spec: Spec,
    limits: LimitHalf,
    trees: Callable[[int | None], Frontier],
    *,
    max_steps: int | None = None,
    folder: Folder | None = None,
) -> Frontier:
    """Return the limit frontier of allreduce over its classes.

    Args:
        spec: allreduce.
        limits: finds those of the halves.
        trees: finds those of trees, up to a number of steps.
        max_steps: last S. None: a few more than the latency bound.
        folder: where to keep the algorithms of the halves and compositions. None: nowhere.

    Raises:
        InputError: some rank cannot be reached.
    """
    begin = time.perf_counter()
    space = AllreduceSpace.of(topology, spec, max_steps)
    if folder:
        folder.prepare()
    halves = _halves(space, limits, folder)
    both = space.composed(halves, folder)
    classes = [both.at_limits()] if both else []
    classes += space.exchanged(folder)
    classes += space.gathered(halves[-1])
    unswept = space.why_not_gathered()
    why = space.why_no_trees(halves, None)
    if why:
        return space.frontier(classes, [Unswept(TREES, why), *unswept], begin)
    by_trees = trees(max_steps)
    found = space.frontier([classes[0], *by_trees.classes, *classes[1:]], unswept, begin)
    return replace(found, stopped=INTERRUPTED) if by_trees.stopped == INTERRUPTED else found


def _halves(
    space: AllreduceSpace, limits: LimitHalf, folder: Folder | None
) -> tuple[Frontier, ...]:
    """Return the limits of the halves; where links carry alike, of the allgather alone."""
    dual = space.dual
    found = limits(dual.spec, max_steps=space.asked, folder=folder)
    if not space.wants_scatter(found):
        return (found,)
    return (limits(dual.scattered, max_steps=space.last_scatter, folder=None), found)
