"""Share code of verbs for synthesizers of schedules: the machine, options, and the best plan."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sccl.collectives import Spec
from sccl.core.files.sketches import load_sketch
from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.core.sketch import Sketch
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import LATE
from sccl.synth import registry
from sccl.synth.contract import Options, Synthesizer
from sccl.tasks.subject import Subject, spec_of


def plain_subject(machine: Topology, collective: str | Spec, root: str | int | None) -> Subject:
    """Return the problem on the unmodified machine.

    Raises:
        InputError: There is no such collective or root.
    """
    return Subject(machine, spec_of(machine, collective, root), ())


def options_of(synthesizer: str, **chosen: object) -> Options:
    """Return the options of a synthesizer.

    Raises:
        ParameterError: An option is out of range.
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


def sketch_for(file: str | Path | None, chunks: int | None) -> tuple[Sketch | None, int]:
    """Return the sketch of a file, if one is given, and into how many chunks parts are cut.

    Args:
        chunks: that are asked for. None: as many as the sketch says, else one.

    Raises:
        InputError: the file cannot be read, is no sketch, or contradicts itself.
    """
    sketch = None if file is None else load_sketch(Path(file))
    usual = 1 if sketch is None else sketch.chunks
    return sketch, usual if chunks is None else chunks


def keeping_to(sketch: Sketch | None, synthesizer: str) -> Synthesizer:
    """Return a synthesiser of schedules, which plans within a sketch, if one is given."""
    by = registry.load(synthesizer)
    if sketch is None:
        return by
    from sccl.synth.intervals.restricted import Within  # noqa: PLC0415 - loads NumPy

    return Within(by, sketch)


def notes_on(sketch: Sketch | None) -> tuple[str, ...]:
    """Return notes on parts of a sketch that only TACCL obeys. Empty: none."""
    if sketch is None or not sketch.rotations:
        return ()
    what = "symmetry_offsets are not imposed: they narrow TACCL's search, and leave no link out"
    return (f"sketch {sketch.name}: {what}",)


def best_of(outcome: Outcome) -> tuple[Found | None, str]:
    """Return the best that was found, None if nothing was, and why it ended. Empty: it is done."""
    match outcome:
        case Found():
            return outcome, ""
        case GaveUp(reason=reason, best=best):
            return best, reason
    return None, "impossible"


def nothing_by_then(ended: str) -> str:
    """Return a message that there is no schedule, with the limit to raise.

    Args:
        ended: Reason why the search ended, from :func:`best_of`.
    """
    if ended in {"interrupted", "impossible"}:
        return f"{ended}, and no schedule by then"
    more = "time" if ended.startswith(LATE) else "effort"
    return f"{ended}, and no schedule by then: give it more {more}"
