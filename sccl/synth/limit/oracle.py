"""Limits for sweeps, computed by packings."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.instance import Instance
from sccl.core.limit import Prices, StepLimit
from sccl.core.topology import Topology
from sccl.errors import SolverError
from sccl.synth.limit.steps import Packed, is_packed, step_bound, step_limit
from sccl.synth.oracle import SWEEP_LIMIT_UNITS
from sccl.synth.round_vectors import round_vectors
from sccl.transform import Question

if TYPE_CHECKING:
    from sccl.synth.limit.problem import Problem

_ROUNDS = 2000
"""Rounds of column generation, on the packing bounds of a candidate. Not seconds: the argument that
refutes a candidate is part of the result, which must not depend on the load of a machine.
"""


class PackingLimits:
    """The limits of a collective on a machine, each starting from the result for a step less."""

    def __init__(
        self, topology: Topology, spec: Spec, bounds: Bounds, units: float = SWEEP_LIMIT_UNITS
    ) -> None:
        self.topology, self.spec, self.bounds, self.units = topology, spec, bounds, units
        self.latest: Packed | None = None

    def are_quick(self) -> bool:
        """Return whether all trees are priced without a search."""
        from sccl.synth.limit.pricing import needs_no_search  # noqa: PLC0415 - loads the LP solver

        dual = dual_of(self.spec)
        unit = dual.spec.at(dual.spec.unit)
        phases = dual.solved_on(self.topology)
        return all(needs_no_search(phase.topology, unit) for phase in phases)

    def bound_of_steps(self, steps: int) -> StepLimit | None:
        """Return a lower bound for algorithms of S = ``steps``, by cuts through time."""
        return step_bound(self.topology, self.spec, steps, self.bounds)

    def of_steps(self, steps: int) -> StepLimit:
        """Return the limit of R/C for S = ``steps``, or bounds around it."""
        if not is_packed(self.topology, self.spec):
            bound = self.bound_of_steps(steps)  # trees that are grown say nothing more of it
            if bound is not None:
                return bound
        self.latest = step_limit(
            self.topology, self.spec, steps, self.bounds, earlier=self.latest, effort=self.units
        )
        return self.latest.limit

    def refuting(self, question: Question) -> int:
        """Return how many round vectors a packing bound refutes, if it refutes all of an instance.

        With the rounds of each step given, the packing problem bounds C. If every way to spread R
        over the steps packs fewer chunks, there is no algorithm. 0: it could not be shown so.
        """
        return next(filter(None, (_refuting(question, i) for i in question.instances)), 0)

    def priced(
        self, instance: Instance, rounds: tuple[int, ...], units: float
    ) -> tuple[Prices, float]:
        """Return prices at which the trees of all chunks cost more than these rounds buy."""
        from sccl.synth.limit.problem import pose_packing  # noqa: PLC0415 - loads the LP solver
        from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415

        goal = Fraction(1, instance.collective.chunks)
        problem = pose_packing(
            instance.topology, instance.collective, instance.steps, rounds=rounds
        )
        limit = solve_packing(problem, enough=goal, effort=units)
        return (limit.prices if limit.lower > goal else ()), limit.effort


def _refuting(question: Question, instance: Instance) -> int:
    """Return how many round vectors of an instance bounds refute if it is all of them, else 0."""
    from sccl.synth.limit.pricing import needs_no_search  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.limit.problem import pose_packing  # noqa: PLC0415

    if not needs_no_search(instance.topology, instance.collective):
        return 0
    unit = question.dual.spec.at(question.dual.spec.unit)
    goal = Fraction(1, instance.collective.chunks)
    refuted, left = 0, _ROUNDS
    for number, rounds in enumerate(round_vectors(instance), 1):
        packing = pose_packing(instance.topology, unit, instance.steps, rounds=rounds)
        left -= _exceeds(packing, goal, left) or left
        if left <= 0:
            return 0
        refuted = number
    return refuted


def _exceeds(packing: Problem, goal: Fraction, most_rounds: int) -> int:
    """Return the rounds that prove a packing problem's optimum larger than ``goal``. 0: none do."""
    from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415 - loads the LP solver

    try:
        found = solve_packing(packing, enough=goal, most_rounds=most_rounds)
    except SolverError:
        return 0
    return found.rounds if found.lower > goal else 0
