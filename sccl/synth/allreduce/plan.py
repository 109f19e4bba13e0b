"""What is looked at of allreduce, by a sweep as by a limit frontier: halves, classes and steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sccl.collectives import Spec
from sccl.core.bounds import Bounds
from sccl.core.candidate import Range
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import any_bounds
from sccl.synth.candidates import EXTRA_STEPS
from sccl.synth.frontier import Frontier
from sccl.synth.limit.allreduce import MAX_RANKS
from sccl.synth.limit.frontier import LimitFrontier

INTERRUPTED = "interrupted"
FEW_CHUNKS = "--max-chunks is given"
"""Why a class is not looked at: its algorithms are not counted in the chunks of an allreduce."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What halves are looked for on a machine, and with how many steps.

    Attributes:
        bounds: what holds for every allreduce there.
        asked: the last S that was asked for; None: a few more than the fewest.
        alike: whether an allgather backwards is a reducescatter there, so that it is both halves.
    """

    topology: Topology
    spec: Spec
    bounds: Bounds
    asked: int | None
    alike: bool

    @classmethod
    def of(cls, topology: Topology, spec: Spec, asked: int | None) -> Plan:
        """Return the plan for an allreduce on a machine.

        Raises:
            InputError: some rank cannot be reached, or no allreduce takes as few steps as asked.
        """
        bounds = any_bounds(topology)
        if asked is not None and asked < bounds.steps:
            raise ParameterError(
                f"max-steps is {asked}, but {spec.name} takes at least {bounds.steps} steps here: "
                "give at least that many"
            )
        return cls(topology, spec, bounds, asked, topology.reversed().carries_like(topology))

    @property
    def fewest(self) -> int:
        """Return the fewest steps of a composition."""
        # Turned round, each chunk goes the same ways: the greatest distance is that of both halves.
        return 2 * self.bounds.steps

    @property
    def last(self) -> int:
        """Return the last S of a composition."""
        return self.fewest + 2 * EXTRA_STEPS if self.asked is None else self.asked

    @property
    def last_scatter(self) -> int | None:
        """Return the last S of a reducescatter: what the shortest allgather leaves."""
        return None if self.asked is None else self.asked - self.bounds.steps

    def wants_scatter(self, gather: Frontier | LimitFrontier) -> bool:
        """Return whether a reducescatter is looked for once the allgather is."""
        reaches = self.last >= self.fewest
        return not self.alike and reaches and gather.stopped != INTERRUPTED

    def why_no_trees(
        self, halves: Iterable[Frontier | LimitFrontier], covered: Range | None
    ) -> str:
        """Return why trees are not looked at; empty: they are."""
        if any(half.stopped == INTERRUPTED for half in halves):
            return INTERRUPTED
        if self.topology.ranks > MAX_RANKS:
            return f"more than {MAX_RANKS} ranks"
        return FEW_CHUNKS if covered and covered.max_chunks is not None else ""
