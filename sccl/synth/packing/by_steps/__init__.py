"""The limit of R/C for a number of steps, over all k and all C, with proofs.

Only its contract is imported here, so that users of its points need not load the solvers.
"""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.packing.by_steps.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "limit"
SOURCE = "Cai et al., PPoPP 2021, section 3, with Edmonds 1973 and Wentges 1997 for the packing"
FEATURES = Feature.COMBINES | Feature.CUSTOM | Feature.PROVES | Feature.STEPS


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return an algorithm of S steps at the infimum of R/C, or near it with its gap.

    Raises:
        InputError: the options do not fit the request.
        KeyboardInterrupt: the user interrupted.
    """
    from sccl.synth.packing.by_steps import limit_plan  # noqa: PLC0415 - loads the LP solver

    return limit_plan.plan_at_limit(request, options, effort, notify)
