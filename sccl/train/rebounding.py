"""Prove the bound of a training plan again, because the verifier trusts no bound.

Options are derived again with the plan's settings. The plan uses some of these. Its bound must not
exceed the proved bound for all of them, which is checked from the proof in integer arithmetic.
"""

from __future__ import annotations

from sccl.core.training_plan import TrainingPlan
from sccl.train.costs import MotifPlanner
from sccl.train.jobs import Job
from sccl.train.merge_bounds import loosened, offerable
from sccl.train.options import OptionBook, OptionSettings
from sccl.train.periods import least_period, wrong_in_bound
from sccl.train.tables import CostTable


def wrong_bound(
    plan: TrainingPlan, planner: MotifPlanner | None = None, measured: CostTable | None = None
) -> str:
    """Return a violation of a plan's bound. Empty: none.

    Args:
        plan: Plan with valid options.
        planner: Planner of motifs, if one was used.
        measured: Table of costs that it names, if it does.

    Raises:
        InputError: No options can be derived.
    """
    asked = OptionSettings(
        max_motifs=plan.max_motifs, bitwise=plan.bitwise, planner=planner, measured=measured
    )
    book = OptionBook(plan.given, plan.fabric, asked)
    offered = book.options(plan.workload.collectives())
    for name, option in plan.options:
        if option not in offered.of[name]:
            return (
                f"operation {name!r:.60} takes {option.recipe}, which is none of its "
                f"{len(offered.of[name])} options with at most {plan.max_motifs} motifs: the "
                "bound does not cover such plans"
            )
    if not plan.bound_ns:
        return ""
    if rows := offerable(plan.given, plan.merge_bytes, book):
        job = loosened(plan.given, rows, book)
    else:
        job = Job(plan.workload, offered.of, plan.memory_bytes)
    problem = job.problem
    least = least_period(problem)
    if wrong := wrong_in_bound(problem, least):
        return f"the proof does not hold: {wrong}"
    if plan.bound_ns > least.ticks:
        return f"{least.ticks} ns are proved ({least.binds}), claimed are {plan.bound_ns}"
    return ""
