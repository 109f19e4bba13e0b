"""Verify the lower bound of a training plan by proving it again.

Options are derived again with the plan's settings, and must include those of the plan. The stated
bound must not exceed the proved bound for all options. The proof is checked in integer arithmetic.
"""

from __future__ import annotations

from sccl.training.bounds.merge_relaxation import groups_with_options, relax_merges
from sccl.training.bounds.period_bounds import find_bound_fault, period_lower_bound
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.motif_costs import MotifPlanner
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.validate.plan_costs import plan_catalog


def find_plan_bound_fault(
    plan: TrainingPlan, planner: MotifPlanner | None = None, measured: CostTable | None = None
) -> str:
    """Return a violation of a plan's bound. Empty: none.

    Args:
        plan: Plan with valid options.
        planner: Planner of motifs, if one was used.
        measured: Table of measured costs, if the plan names one.

    Raises:
        InputError: No options can be derived.
    """
    book = plan_catalog(plan, planner, measured)
    offered = book.job_options(plan.workload.collectives())
    for name, option in plan.options:
        if option not in offered.by_collective[name]:
            return (
                f"operation {name!r:.60} takes {option.recipe}, which is none of its "
                f"{len(offered.by_collective[name])} options with at most {plan.max_motifs} "
                "motifs: the "
                "bound does not cover such plans"
            )
    if not plan.bound_ns:
        return ""
    if rows := groups_with_options(plan.input_workload, plan.merge_bytes, book):
        job = relax_merges(plan.input_workload, rows, book)
    else:
        job = PlanningJob(plan.workload, offered.by_collective, plan.memory_bytes)
    problem = job.problem
    bound = period_lower_bound(problem)
    if wrong := find_bound_fault(problem, bound):
        return f"the proof does not hold: {wrong}"
    if plan.bound_ns > bound.value:
        return (
            f"{bound.value} ns are proved ({bound.proof.kind}), and the plan states {plan.bound_ns}"
        )
    return ""
