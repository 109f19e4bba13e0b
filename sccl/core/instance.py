"""Instance: the SYNCOLL tuple (G, S, R, P, B, pre, post) of SCCL section 3.2."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TopologyError


@dataclass(frozen=True, slots=True)
class Instance:
    """One question to a solver: is there an algorithm of S steps and R rounds for this collective?

    G, P, pre and post are the collective's, B is the topology's. Only non-combining collectives
    are instances. The others are asked through their duals (SCCL section 3.5).

    Raises:
        ParameterError: S or R below 1, or R below S (every step has at least one round).
        CollectiveError: the collective is combining, or made for another number of ranks.
        TopologyError: the topology has switch nodes, which SYNCOLL cannot express.
    """

    topology: Topology
    collective: Collective
    steps: int
    rounds: int

    def __post_init__(self) -> None:
        check_steps_and_rounds(self.steps, self.rounds)
        self.collective.check_equal_chunks()
        if self.collective.combining:
            raise CollectiveError(
                f"{self.collective.name} reduces chunks, which SYNCOLL cannot express; ask for "
                "its dual (sccl.transform does this)"
            )
        if self.collective.ranks != self.topology.ranks:
            raise CollectiveError(
                f"collective {self.collective.name!r} is made for {self.collective.ranks} ranks, "
                f"topology {self.topology.name!r} has {self.topology.ranks}"
            )
        check_direct(self.topology)


def check_direct(topology: Topology) -> None:
    """Check that a machine has no switch nodes, which hold nothing and are no ranks.

    Raises:
        TopologyError: it has; :func:`sccl.topo.machine_model` turns them into links with budgets.
    """
    if topology.switches:
        raise TopologyError(
            f"topology {topology.name!r} has switch nodes, which k-synchronous synthesis cannot "
            "express; ask through sccl.topo.machine_model, which makes links with budgets of them"
        )


MAX_ROUNDS = 2**31 - 1
"""A guard against a slip of the finger; solvers count in machine words."""


def check_steps_and_rounds(steps: int, rounds: int) -> None:
    """Check that S >= 1 and R >= S, and that neither is beyond all measure.

    Raises:
        ParameterError: they are not.
    """
    if steps < 1:
        raise ParameterError(f"steps is {steps}, expected at least 1")
    if rounds > MAX_ROUNDS:
        raise ParameterError(f"rounds is {rounds}, expected at most {MAX_ROUNDS}")
    if rounds < steps:
        raise ParameterError(
            f"rounds is {rounds} and steps is {steps}: every step takes at least one round, "
            f"so give at least {steps} rounds"
        )
