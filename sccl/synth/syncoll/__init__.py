"""SCCL: k-synchronous algorithms, by models of SYNCOLL, several solvers, and a sweep."""

from __future__ import annotations

from sccl.core.outcome import Outcome
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request
from sccl.synth.syncoll.options import Options

__all__ = ["FEATURES", "NAME", "SOURCE", "Options", "plan"]

NAME = "ksync"
SOURCE = "Cai et al., Synthesizing Optimal Collective Algorithms, PPoPP 2021, section 3"
FEATURES = (
    Feature.COMBINES | Feature.CUSTOM | Feature.ANYTIME | Feature.PROVES | Feature.STEPS
)  # fmt: skip


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the fastest algorithm that is found for the size, or that of (C, S, R).

    Raises:
        InputError: the options do not fit the request.
        KeyboardInterrupt: the user interrupted before anything was found.
    """
    from sccl.synth.syncoll import planner  # noqa: PLC0415 - loads the models

    if (options.chunks, options.steps, options.rounds) == (None, None, None):
        return planner.find_fastest(request, options, effort, notify)
    return planner.solve_candidate(request, options, effort)
