"""TACCL: routes, then orders, then exact times, within a communication sketch.

Only its contract is imported here: NumPy and the solver are loaded when a plan is made.
"""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.taccl.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "taccl"
SOURCE = "Shah et al., TACCL, NSDI 2023, section 5 and appendix B"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of chunks within a sketch that is found, with a lower bound.

    Raises:
        InputError: the sketch or the options do not fit the request.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    from sccl.synth.taccl import planner  # noqa: PLC0415 - loads NumPy and CP-SAT

    return planner.plan(request, options, effort, notify)
