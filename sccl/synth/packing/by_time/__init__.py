"""The time that no chunking beats, and a schedule near it: a fluid packing of timed trees.

It names its contract alone: NumPy, the compiled loops and the LP solver are loaded when something
is planned.
"""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.packing.by_time.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "fluid"
SOURCE = "Edmonds 1973, Fleischer and Tardos 1998, Wentges 1997: trees packed into time"
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
    """Return a schedule near the infimum over all chunkings, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    from sccl.synth.packing.by_time import least_time  # noqa: PLC0415 - loads NumPy, Numba and the LP solver

    return least_time.plan(request, options, effort, notify)
