"""TE-CCL: collectives as flows of chunks over time: in epochs, or as intervals on links.

It names its contract alone: NumPy and the solver are loaded when something is planned.
"""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.teccl.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "teccl"
SOURCE = "Liu et al., TE-CCL, SIGCOMM 2024, sections 3 and 4.2; also without epochs"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.UNEQUAL_CHUNKS
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of chunks that is found, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the result would be too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    from sccl.synth.teccl import planner  # noqa: PLC0415 - loads NumPy and CP-SAT

    return planner.plan(request, options, effort, notify)
