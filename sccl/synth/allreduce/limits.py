"""The limit frontier of allreduce: that of its halves, then of the classes that they make."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from sccl.collectives import Spec, named
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import TREES, ClassFrontier, gathered, why_stopped
from sccl.synth.allreduce.composed import LimitHalf, composed_limits
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.allreduce.plan import INTERRUPTED, Plan
from sccl.synth.ask import Solve
from sccl.synth.folder import Folder
from sccl.synth.limit.allreduce import TreeFrontier, fewest_tree_steps, tree_frontier
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint
from sccl.synth.limit.sweep import limit_frontier


def limit_allreduce(  # noqa: PLR0913 - what is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: Callable[[StepLimit | LimitPoint], None] = lambda _: None,
) -> AllreduceFrontier:
    """Return the limit frontier of allreduce over its classes.

    Args:
        spec: allreduce.
        solve: answers an instance within little time; asked for algorithms of few chunks.
        max_steps: last S; None: a few more than the latency bound.
        seconds: for each limit; by default effort alone ends them.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: some rank cannot be reached.
    """
    begin = time.perf_counter()
    plan = Plan.of(topology, spec, max_steps)
    if folder:
        folder.prepare()
    run = _Run(plan, solve, seconds, folder, notify)
    return run.frontier(run.halves(), begin)


@dataclass(frozen=True, slots=True)
class _Run:
    """A limit frontier of allreduce: what is looked at, and what it is given."""

    plan: Plan
    solve: Solve
    seconds: float
    folder: Folder | None
    notify: Callable[[StepLimit | LimitPoint], None]

    def halves(self) -> tuple[LimitFrontier, ...]:
        """Return the limits of the halves; where links carry alike, of the allgather alone."""
        gather = self.half("allgather", self.plan.asked, self.folder)
        if not self.plan.wants_scatter(gather):
            return (gather,)
        return (self.half("reducescatter", self.plan.last_scatter, None), gather)

    def half(self, name: str, max_steps: int | None, folder: Folder | None) -> LimitFrontier:
        """Return the limits of a half."""
        return limit_frontier(
            self.plan.topology,
            named(name, self.plan.topology.ranks),
            self.solve,
            max_steps=max_steps,
            seconds=self.seconds,
            folder=folder,
            notify=self.notify,
        )

    def frontier(self, halves: tuple[LimitFrontier, ...], begin: float) -> AllreduceFrontier:
        """Return the frontier over the classes that halves make, and trees.

        Args:
            begin: when the first half did, by ``time.perf_counter``.
        """
        plan = self.plan
        classes = self.of_halves(halves)
        why = plan.why_no_trees(halves, None)
        trees = None if why else self.trees()
        if trees:
            classes.insert(1, _class_of(plan.topology, trees))
        interrupted = INTERRUPTED in (why, trees.stopped if trees else "")
        return AllreduceFrontier(
            plan.topology,
            plan.spec,
            None,
            "",
            plan.bounds,
            tuple(one.bounded(plan.bounds) for one in classes),
            ((TREES, why),) if why else (),
            halves,
            trees,
            INTERRUPTED if interrupted else why_stopped(classes),
            time.perf_counter() - begin,
        )

    def of_halves(self, halves: tuple[LimitFrontier, ...]) -> list[ClassFrontier]:
        """Return the classes that halves make: composed, if both are there, and gathered."""
        plan, gather = self.plan, halves[-1]
        if not plan.alike and len(halves) == 1:
            return [gathered(gather)]
        ranks = plan.topology.ranks
        first = LimitHalf(halves[0], ranks if plan.alike else 1, backwards=plan.alike)
        then = LimitHalf(gather, ranks, backwards=False)
        together = composed_limits(plan.spec, first, then, plan.last, self.folder)
        return [together, gathered(gather)]

    def trees(self) -> TreeFrontier:
        """Return the limits of trees."""
        return tree_frontier(
            self.plan.topology,
            max_steps=self.plan.asked,
            seconds=self.seconds,
            folder=self.folder,
            notify=self.notify,
        )


def _class_of(topology: Topology, found: TreeFrontier) -> ClassFrontier:
    return ClassFrontier(
        TREES,
        found.scope,
        fewest_tree_steps(topology),
        found.floor,
        found.points,
        found.limits,
        found.complete,
        None,
        found.seconds,
    )
