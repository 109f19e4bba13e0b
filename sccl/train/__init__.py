"""Plans of training steps: which options collectives take, and when their motifs start.

Source: SYNDICATE (NSDI 2023), section 4: options and order are searched together.
"""

from sccl.train.bounds import StepBound, least_finish
from sccl.train.exact import exact
from sccl.train.joint import PlannedStep, planned
from sccl.train.judge import wrong_in_plan
from sccl.train.periods import PeriodBound, least_period
from sccl.train.problem import StepMotif, StepOp, StepOption, StepPlan, StepProblem
from sccl.train.searches import first_in_first_out, published, serial

__all__ = [
    "PeriodBound",
    "PlannedStep",
    "StepBound",
    "StepMotif",
    "StepOp",
    "StepOption",
    "StepPlan",
    "StepProblem",
    "exact",
    "first_in_first_out",
    "least_finish",
    "least_period",
    "planned",
    "published",
    "serial",
    "wrong_in_plan",
]
