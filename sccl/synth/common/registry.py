"""List the synthesizers by name, and run any of them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from sccl.core.algorithm import Algorithm
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import StopKind, StopReason
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import JudgeError, UnreachableError, unknown_name
from sccl.judge import require_valid
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import (
    Feature,
    Notify,
    Options,
    Request,
    Synthesizer,
    VerificationProgress,
    check_request,
)
from sccl.synth.common.reachability import unreachable_error
from sccl.synth.sketches.sketch import Sketch

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule

_PLANNERS = {
    "limits-time": "sccl.synth.packing.by_time.least_time",
    "pareto": "sccl.synth.syncoll.planner",
    "limits": "sccl.synth.packing.by_steps.planner",
    "taccl": "sccl.synth.taccl.planner",
    "tacos": "sccl.synth.tacos.planner",
    "teccl": "sccl.synth.teccl.planner",
}
"""Modules with the function ``plan`` of each synthesizer. Its ``options.py`` lies next to it."""


@dataclass(slots=True)
class _Member:
    """A synthesizer of this package. Its planner is loaded on first use."""

    NAME: str
    SOURCE: str
    FEATURES: Feature
    Options: type[Options]

    def plan(self, request: Request, options: Any, effort: Effort, notify: Notify) -> Outcome:
        """Return the outcome of its planner (see :class:`Synthesizer`)."""
        planner = importlib.import_module(_PLANNERS[self.NAME])
        outcome: Outcome = planner.plan(request, options, effort, notify)
        return outcome


def names() -> tuple[str, ...]:
    """Return the names of the synthesizers, without loading any."""
    return tuple(_PLANNERS)


@cache
def load(name: str) -> Synthesizer:
    """Return a synthesizer.

    Raises:
        UnknownNameError: There is no synthesizer of that name.
    """
    if name not in names():
        hint = f"the synthesizers are {', '.join(names())}"
        raise unknown_name("synthesizer", name, names(), hint)
    package = _PLANNERS[name].rpartition(".")[0]
    options = importlib.import_module(f"{package}.options")
    return _Member(options.NAME, options.SOURCE, options.FEATURES, options.Options)


def restrict_to_sketch(synthesizer: Synthesizer, sketch: Sketch) -> Synthesizer:
    """Return a synthesizer that plans on the part of a machine that a sketch allows."""
    module = importlib.import_module("sccl.synth.taccl.sketch_restriction")
    restricted: Synthesizer = module.SketchRestriction(synthesizer, sketch)
    return restricted


def plan(
    synthesizer: Synthesizer,
    request: Request,
    options: Options | None = None,
    effort: Effort | None = None,
    notify: Notify = lambda _: None,
) -> Outcome:
    """Return the outcome of a synthesizer for a request. A plan has passed verification.

    Raises:
        InputError: The synthesizer does not support the request, or the options do not fit it.
        JudgeError: Its plan is not valid, or is for another topology or collective.
        ContradictionError: Its plan is below the lower bound that it proved.
        KeyboardInterrupt: The user interrupted before there was a plan.
    """
    check_request(synthesizer, request)
    effort = effort or Effort()
    if effort.units is not None and effort.units <= 0:
        return Inconclusive(StopReason(StopKind.BUDGET, "no effort is allowed"))
    try:
        outcome = synthesizer.plan(request, options or synthesizer.Options(), effort, notify)
    except UnreachableError as error:  # on the machine, or its part that an option allows
        raise unreachable_error(request.topology, request.spec) or error from error
    match outcome:
        case Solution():
            return _verified_result(synthesizer, request, outcome, notify)
        case Inconclusive(best=Solution() as best):
            return replace(outcome, best=_verified_result(synthesizer, request, best, notify))
        case _:
            return outcome


def _verified_result(
    synthesizer: Synthesizer, request: Request, result: Solution, notify: Notify
) -> Solution:
    """Return a result if it is a valid plan for the request.

    Raises:
        JudgeError: It is not.
        ContradictionError: It takes less time than the lower bound of the synthesizer.
    """
    made, made_by = result.plan, f"synthesizer {synthesizer.NAME!r}"
    asked = request.spec.at(made.collective.chunks)
    if made.topology != request.topology or made.collective != asked:
        raise JudgeError(f"{made_by} gave a plan of another topology or collective")
    if not isinstance(made, Algorithm | SymmetricAlgorithm) and not _has_requested_bytes(
        made, request
    ):
        raise JudgeError(f"{made_by} gave a schedule of fewer bytes than asked for")
    plan = require_valid(made, made_by, lambda done, of: notify(VerificationProgress(done, of)))
    return replace(result.require_consistent(), plan=plan)


def _has_requested_bytes(made: AnySchedule, request: Request) -> bool:
    """Return whether the chunks have at least the requested bytes."""
    return made.collective.served_bytes(made.chunk_bytes) >= request.size_bytes
