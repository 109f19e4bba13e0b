"""What verbs of synthesisers of schedules share: the machine as it is, options, and the best."""

from __future__ import annotations

import msgspec

from sccl.collectives import Spec
from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth import registry
from sccl.synth.contract import Options
from sccl.tasks.subject import Subject, spec_of


def plain_subject(machine: Topology, collective: str | Spec, root: str | int | None) -> Subject:
    """Return what is asked, on the machine as it is.

    Raises:
        InputError: there is no such collective or root.
    """
    return Subject(machine, spec_of(machine, collective, root), ())


def options_of(synthesizer: str, **chosen: object) -> Options:
    """Return what a synthesiser is told.

    Raises:
        ParameterError: an option is out of its range.
    """
    try:
        options: Options = msgspec.convert(chosen, registry.load(synthesizer).Options)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        for kind in ("int", "float", "str"):
            what = what.replace(f" `{kind}`", "")
        name, expected = where.rstrip("`"), what.removeprefix("Expected")
        raise ParameterError(f"{name} is {chosen.get(name)}, expected{expected}") from error
    return options


def best_of(outcome: Outcome) -> tuple[Found | None, str]:
    """Return the best that was found, None if nothing was, and why it ended; empty: it is done."""
    match outcome:
        case Found():
            return outcome, ""
        case GaveUp(reason=reason, best=best):
            return best, reason
    return None, "impossible"
