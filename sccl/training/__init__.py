"""Plans of training steps: which options collectives take, and when their motifs start.

Source: SYNDICATE (NSDI 2023), section 4: options and order are searched together.
"""

from sccl.training.bounds.period_bounds import PeriodBound, period_lower_bound
from sccl.training.bounds.step_bounds import StepBound, finish_lower_bound
from sccl.training.scheduling.search_strategies import (
    build_fifo_plan,
    search_by_annealing,
    search_by_markov_chain,
)
from sccl.training.scheduling.step_cpsat import solve_step
from sccl.training.scheduling.step_problem import (
    StepMotif,
    StepOp,
    StepOption,
    StepPlan,
    StepProblem,
)
from sccl.training.scheduling.step_search import PlannedStep, search_step_plan
from sccl.training.validate.step_plan_faults import find_step_plan_fault

__all__ = [
    "PeriodBound",
    "PlannedStep",
    "StepBound",
    "StepMotif",
    "StepOp",
    "StepOption",
    "StepPlan",
    "StepProblem",
    "build_fifo_plan",
    "find_step_plan_fault",
    "finish_lower_bound",
    "period_lower_bound",
    "search_by_annealing",
    "search_by_markov_chain",
    "search_step_plan",
    "solve_step",
]
