"""The SYNCOLL tuple (G, S, R, P, B, pre, post), SCCL section 3.2, and candidates of a sweep.

From a command to a solver, a problem has these forms. A
:class:`~sccl.synth.common.problem.CollectiveProblem` is a collective, for any number of chunks, on
a machine. With C, S, and R, which are a :class:`Candidate` of a sweep, it is a
:class:`~sccl.transform.question.Question`. A question has one :class:`Instance` per phase: a
combining collective is solved as its dual, and an allreduce as two collectives. Planners in time
get a :class:`~sccl.synth.common.contract.Request` instead: a problem with a buffer size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TopologyError

MAX_K = 1_000_000
"""Maximum k: a guard against typing errors."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A decision problem: is there an algorithm of S steps and R rounds for this collective?

    G, P, pre and post are those of the collective, and B is that of the topology. The collective
    must be non-combining. Combining collectives are solved through their duals (SCCL section 3.5).

    Raises:
        ParameterError: S or R is below 1, or R is below S (every step has at least one round).
        CollectiveError: The collective is combining, or has another number of ranks.
        TopologyError: The topology has switch nodes, which SYNCOLL cannot express.
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
                f"{self.collective.name} reduces chunks, which SYNCOLL cannot express; solve "
                "its dual (sccl.transform does this)"
            )
        if self.collective.ranks != self.topology.ranks:
            raise CollectiveError(
                f"collective {self.collective.name!r} is made for {self.collective.ranks} ranks, "
                f"topology {self.topology.name!r} has {self.topology.ranks}"
            )
        check_direct(self.topology)


def check_direct(topology: Topology) -> None:
    """Check that a machine has no switch nodes, which are not ranks and store nothing.

    Raises:
        TopologyError: It has. :func:`sccl.topo.machine_model.machine_model` replaces them by links
            with budgets.
    """
    if topology.switches:
        raise TopologyError(
            f"topology {topology.name!r} has switch nodes, which k-synchronous synthesis cannot "
            "express; convert it with sccl.topo.machine_model, which replaces them by links with "
            "budgets"
        )


MAX_ROUNDS = 2**31 - 1
"""Maximum number of rounds: a guard against typing errors, since solvers count in machine words."""


def check_steps_and_rounds(steps: int, rounds: int) -> None:
    """Check that S >= 1, R >= S, and R <= :data:`MAX_ROUNDS`.

    Raises:
        ParameterError: They are not.
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


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A (C, S, R) of the requested collective, ordered by cost, then chunks."""

    cost: Fraction
    chunks: int
    steps: int
    rounds: int

    def __str__(self) -> str:
        return f"C={self.chunks} S={self.steps} R={self.rounds}"

    def implies_unsat(self, peer: Candidate) -> bool:
        """Return whether ``peer`` must be unsat if this candidate of the same steps is.

        An algorithm stays valid with an additional round in a step, and without the chunks of the
        last pattern. So if ``peer`` with R' <= R and C' >= C had an algorithm, this candidate would
        have one. (C counts whole patterns: both are multiples of the collective's unit.)
        """
        return (
            self.steps == peer.steps and peer.rounds <= self.rounds and peer.chunks >= self.chunks
        )

    def may_dominate(self, point: Candidate) -> bool:
        """Return whether an algorithm for this candidate would dominate ``point``."""
        if self.steps == point.steps:
            return self.cost < point.cost
        return self.steps < point.steps and self.cost <= point.cost


@dataclass(frozen=True, slots=True)
class SweepRange:
    """The range of a sweep, with user options as fields (:mod:`sccl.api.option_fields`).

    For reductions and allreduce the numbers are those of the solved dual.
    """

    k: Annotated[
        int | None,
        "Largest number of extra rounds: R <= S + k.",
        "5, or more if the bandwidth bound needs more",
    ] = None
    max_steps: Annotated[
        int | None,
        "Largest S.",
        "3 above the latency bound; for allreduce, 3 above that of each half",
    ] = None
    max_chunks: Annotated[
        int | None,
        "Largest C. An allreduce is then searched as two halves only.",
        "any that the bandwidth bound allows",
    ] = None

    def __post_init__(self) -> None:
        if self.k is not None and not 0 <= self.k <= MAX_K:
            raise ParameterError(f"k is {self.k}, expected 0 to {MAX_K} (R is at most S + k)")
        for name, value in (("max-steps", self.max_steps), ("max-chunks", self.max_chunks)):
            if value is not None and value < 1:
                raise ParameterError(f"{name} is {value}, expected at least 1")

    @property
    def description(self) -> str:
        """Return the restriction of a sweep's claims, such as ``"k = 2"``."""
        range_text = "the k searched" if self.k is None else f"k = {self.k}"
        return range_text + (f" and C <= {self.max_chunks}" if self.max_chunks is not None else "")
