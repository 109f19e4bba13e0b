"""TACOS: links are matched with chunks, span by span of a time-expanded network, at any size.

It names its contract alone: NumPy and the compiled loops are loaded when something is planned.
"""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.tacos.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "tacos"
SOURCE = "Won et al., TACOS, MICRO 2024, section IV"
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
    """Return the earliest schedule of several seeds, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the result would be too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    from sccl.synth.tacos import planner  # noqa: PLC0415 - loads NumPy and Numba

    return planner.plan(request, options, effort, notify)
