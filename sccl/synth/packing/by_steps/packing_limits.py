"""Limits for sweeps, computed by packings."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.instance import Instance
from sccl.core.step_limit import StepLimit, StepPrices
from sccl.core.topology import Topology
from sccl.errors import SolverError
from sccl.synth.common.round_vectors import round_vectors
from sccl.synth.common.step_limits import SWEEP_LIMIT_UNITS
from sccl.synth.packing.by_steps.limits_by_steps import (
    LimitWithPacking,
    has_packing_limits,
    step_bound,
    step_limit,
)
from sccl.transform import Question

if TYPE_CHECKING:
    from sccl.synth.packing.by_steps.packing_problem import PackingProblem

_MAX_ROUNDS = 2000
"""Rounds of column generation, on the packing bounds of a candidate. Not seconds: the argument that
refutes a candidate is part of the result, which must not depend on the load of a machine.
"""


class PackingLimits:
    """The limits of a collective on a machine, each starting from the result for a step less."""

    def __init__(
        self,
        topology: Topology,
        spec: Spec,
        bounds: AlgorithmBounds,
        units: float = SWEEP_LIMIT_UNITS,
    ) -> None:
        self.topology, self.spec, self.bounds, self.units = topology, spec, bounds, units
        self.latest_limit: LimitWithPacking | None = None

    def are_quick(self) -> bool:
        """Return whether all trees are priced without a search."""
        from sccl.synth.packing.by_steps.pricing.pricers import is_priced_without_search  # noqa: PLC0415 - loads the LP solver

        dual = dual_of(self.spec)
        unit = dual.spec.at(dual.spec.unit)
        phases = dual.phases_on(self.topology)
        return all(is_priced_without_search(phase.topology, unit) for phase in phases)

    def quick_bound(self, steps: int) -> StepLimit | None:
        """Return a lower bound for algorithms of S = ``steps``, by cuts through time."""
        return step_bound(self.topology, self.spec, steps, self.bounds)

    def step_limit(self, steps: int) -> StepLimit:
        """Return the limit of R/C for S = ``steps``, or bounds around it."""
        if not has_packing_limits(self.topology, self.spec):
            bound = self.quick_bound(steps)  # trees that are grown say nothing more of it
            if bound is not None:
                return bound
        self.latest_limit = step_limit(
            self.topology,
            self.spec,
            steps,
            self.bounds,
            earlier=self.latest_limit,
            effort=self.units,
        )
        return self.latest_limit.limit

    def count_refuted_vectors(self, question: Question) -> int:
        """Return how many round vectors a packing bound refutes, if it refutes all of an instance.

        With the rounds of each step given, the packing problem bounds C. If every way to spread R
        over the steps packs fewer chunks, there is no algorithm. 0: it could not be shown so.
        """
        return next(
            filter(None, (_count_refuted_vectors(question, i) for i in question.instances)), 0
        )

    def separating_prices(
        self, instance: Instance, rounds: tuple[int, ...], units: float
    ) -> tuple[StepPrices, float]:
        """Return prices at which the trees of all chunks cost more than these rounds buy."""
        from sccl.synth.packing.by_steps.packing_problem import build_packing_problem  # noqa: PLC0415 - loads the LP solver
        from sccl.synth.packing.by_steps.packing_solver import solve_packing  # noqa: PLC0415

        goal = Fraction(1, instance.collective.chunks)
        problem = build_packing_problem(
            instance.topology, instance.collective, instance.steps, rounds=rounds
        )
        limit = solve_packing(problem, target=goal, effort=units)
        return (limit.prices if limit.lower > goal else ()), limit.effort


def _count_refuted_vectors(question: Question, instance: Instance) -> int:
    """Return how many round vectors of an instance bounds refute if it is all of them, else 0."""
    from sccl.synth.packing.by_steps.packing_problem import build_packing_problem  # noqa: PLC0415
    from sccl.synth.packing.by_steps.pricing.pricers import is_priced_without_search  # noqa: PLC0415 - loads the LP solver

    if not is_priced_without_search(instance.topology, instance.collective):
        return 0
    unit = question.dual.spec.at(question.dual.spec.unit)
    goal = Fraction(1, instance.collective.chunks)
    refuted, left = 0, _MAX_ROUNDS
    for number, rounds in enumerate(round_vectors(instance), 1):
        packing = build_packing_problem(instance.topology, unit, instance.steps, rounds=rounds)
        left -= _rounds_to_exceed(packing, goal, left) or left
        if left <= 0:
            return 0
        refuted = number
    return refuted


def _rounds_to_exceed(packing: PackingProblem, goal: Fraction, most_rounds: int) -> int:
    """Return the rounds that prove a packing problem's optimum larger than ``goal``. 0: none do."""
    from sccl.synth.packing.by_steps.packing_solver import solve_packing  # noqa: PLC0415 - loads the LP solver

    try:
        result = solve_packing(packing, target=goal, most_rounds=most_rounds)
    except SolverError:
        return 0
    return result.rounds if result.lower > goal else 0
