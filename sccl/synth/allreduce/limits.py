"""The limit frontier of allreduce: that of its halves, then of the classes that they make."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from sccl.collectives import Spec, named
from sccl.core.frontier import TREES, Frontier, Unswept
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import gathered
from sccl.synth.allreduce.space import INTERRUPTED, AllreduceSpace
from sccl.synth.ask import Solve
from sccl.synth.folder import Folder
from sccl.synth.limit.sweep import NotifyLimit, limit_frontier
from sccl.synth.limit.trees import tree_frontier


def limit_allreduce(  # noqa: PLR0913 - what is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of allreduce over its classes.

    Args:
        spec: allreduce; the rest is as for :func:`sccl.synth.limit.sweep.limit_frontier`.

    Raises:
        InputError: some rank cannot be reached.
    """
    begin = time.perf_counter()
    space = AllreduceSpace.of(topology, spec, max_steps)
    if folder:
        folder.prepare()
    run = _Run(space, solve, seconds, folder, notify)
    return run.frontier(run.halves(), begin)


@dataclass(frozen=True, slots=True)
class _Run:
    """A limit frontier of allreduce: what is looked at, and what it is given."""

    space: AllreduceSpace
    solve: Solve
    seconds: float
    folder: Folder | None
    notify: NotifyLimit

    def halves(self) -> tuple[Frontier, ...]:
        """Return the limits of the halves; where links carry alike, of the allgather alone."""
        gather = self.half("allgather", self.space.asked, self.folder)
        if not self.space.wants_scatter(gather):
            return (gather,)
        return (self.half("reducescatter", self.space.last_scatter, None), gather)

    def half(self, name: str, max_steps: int | None, folder: Folder | None) -> Frontier:
        """Return the limits of a half."""
        return limit_frontier(
            self.space.topology,
            named(name, self.space.topology.ranks),
            self.solve,
            max_steps=max_steps,
            seconds=self.seconds,
            folder=folder,
            notify=self.notify,
        )

    def frontier(self, halves: tuple[Frontier, ...], begin: float) -> Frontier:
        """Return the frontier over the classes that halves make, and trees.

        Args:
            begin: when the first half did, by ``time.perf_counter``.
        """
        both = self.space.composed(halves, self.folder)
        classes = [both.at_limits()] if both else []
        classes.append(gathered(halves[-1]))
        why = self.space.why_no_trees(halves, None)
        if why:
            return self.space.frontier(classes, [Unswept(TREES, why)], begin)
        trees = self.trees()
        found = self.space.frontier([classes[0], *trees.classes, *classes[1:]], [], begin)
        return replace(found, stopped=INTERRUPTED) if trees.stopped == INTERRUPTED else found

    def trees(self) -> Frontier:
        """Return the limits of trees."""
        return tree_frontier(
            self.space.topology,
            max_steps=self.space.asked,
            seconds=self.seconds,
            folder=self.folder,
            notify=self.notify,
        )
