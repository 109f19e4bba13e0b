"""All synthesisers, found by their folders, and the one door to them."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import sccl.synth
from sccl.core.algorithm import Algorithm
from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import JudgeError, UnreachableError, unknown_name
from sccl.judge import require_valid
from sccl.solvers.effort import Effort
from sccl.synth.contract import Notify, Options, Rejudged, Request, Synthesizer, check_request
from sccl.synth.unreached import unreached

if TYPE_CHECKING:
    from sccl.core.packed import AnySchedule

NO_SYNTHESISERS = frozenset({"allreduce", "baselines", "direct", "flows", "intervals", "network"})
"""Folders that are no synthesisers: they combine results of others, are shared by them, or search
nothing, like classical algorithms, and sends between ranks without links.
"""


def names() -> tuple[str, ...]:
    """Return the names of the synthesisers. None is loaded."""
    folders = (m.name for m in pkgutil.iter_modules(sccl.synth.__path__) if m.ispkg)
    return tuple(sorted(set(folders) - NO_SYNTHESISERS))


def load(name: str) -> Synthesizer:
    """Return a synthesiser.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in names():
        hint = f"the synthesisers are {', '.join(names())}"
        raise unknown_name("synthesiser", name, names(), hint)
    return cast("Synthesizer", importlib.import_module(f"sccl.synth.{name}"))


def plan(
    synthesizer: Synthesizer,
    request: Request,
    options: Options | None = None,
    effort: Effort | None = None,
    notify: Notify = lambda _: None,
) -> Outcome:
    """Return the outcome of a synthesiser for a request. A plan has passed verification.

    Raises:
        InputError: it does not take the request, or the options do not fit it.
        JudgeError: it gave a plan that is not valid, or for another topology or collective.
        ContradictionError: it gave a plan below the lower bound that it proved.
        KeyboardInterrupt: the user interrupted before anything was found.
    """
    check_request(synthesizer, request)
    effort = effort or Effort()
    if effort.units is not None and effort.units <= 0:
        return GaveUp("no effort is allowed")
    try:
        outcome = synthesizer.plan(request, options or synthesizer.Options(), effort, notify)
    except UnreachableError as error:  # of the machine, or of what an option leaves of it
        raise unreached(request.topology, request.spec) or error from error
    match outcome:
        case Found():
            return _judged(synthesizer, request, outcome, notify)
        case GaveUp(best=Found() as best):
            return replace(outcome, best=_judged(synthesizer, request, best, notify))
        case _:
            return outcome


def _judged(synthesizer: Synthesizer, request: Request, found: Found, notify: Notify) -> Found:
    """Return a result if it is a valid plan for the request.

    Raises:
        JudgeError: it is not.
        ContradictionError: it takes less time than the lower bound that the synthesiser states.
    """
    made, made_by = found.plan, f"synthesiser {synthesizer.NAME!r}"
    asked = request.spec.at(made.collective.chunks)
    if made.topology != request.topology or made.collective != asked:
        raise JudgeError(f"{made_by} gave a plan of another topology or collective")
    if not isinstance(made, Algorithm | SymmetricAlgorithm) and not _whole(made, request):
        raise JudgeError(f"{made_by} gave a schedule of fewer bytes than asked for")
    plan = require_valid(made, made_by, lambda done, of: notify(Rejudged(done, of)))
    found.bound.require_holds()
    return replace(found, plan=plan)


def _whole(made: AnySchedule, request: Request) -> bool:
    """Return whether chunks of each class have the bytes that are asked for."""
    return made.collective.served(made.chunk_bytes) >= request.size_bytes
