"""Share code of verbs for synthesizers of schedules: the machine, options, and the best plan."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sccl.collectives import Spec
from sccl.core.files.sketches import load_sketch
from sccl.core.sketch import Sketch
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth.common import registry
from sccl.synth.common.contract import Options, Synthesizer
from sccl.tasks.subject import CollectiveProblem, build_spec


def unmodified_problem(
    machine: Topology, collective: str | Spec, root: str | int | None
) -> CollectiveProblem:
    """Return the problem on the unmodified machine.

    Raises:
        InputError: There is no such collective or root.
    """
    return CollectiveProblem(machine, build_spec(machine, collective, root), ())


def parse_options(synthesizer: str, **chosen: object) -> Options:
    """Return the options of a synthesizer.

    Raises:
        ParameterError: An option is out of range.
    """
    try:
        options: Options = msgspec.convert(chosen, registry.load(synthesizer).Options)
    except msgspec.ValidationError as error:
        detail, _, where = str(error).partition(" - at `$.")
        for kind in ("int", "float", "str"):
            detail = detail.replace(f" `{kind}`", "")
        name, expected = where.rstrip("`"), detail.removeprefix("Expected")
        raise ParameterError(f"{name} is {chosen.get(name)}, expected{expected}") from error
    return options


def load_sketch_chunks(file: str | Path | None, chunks: int | None) -> tuple[Sketch | None, int]:
    """Return the sketch of a file, if one is given, and into how many chunks parts are cut.

    Args:
        chunks: that are asked for. None: as many as the sketch says, else one.

    Raises:
        InputError: the file cannot be read, is no sketch, or contradicts itself.
    """
    sketch = None if file is None else load_sketch(Path(file))
    usual = 1 if sketch is None else sketch.chunks
    return sketch, usual if chunks is None else chunks


def within_sketch(sketch: Sketch | None, synthesizer: str) -> Synthesizer:
    """Return a synthesiser of schedules, which plans within a sketch, if one is given."""
    by = registry.load(synthesizer)
    if sketch is None:
        return by
    from sccl.synth.taccl.sketch_restriction import SketchRestriction  # noqa: PLC0415 - loads NumPy

    return SketchRestriction(by, sketch)


def sketch_notes(sketch: Sketch | None) -> tuple[str, ...]:
    """Return notes on parts of a sketch that only TACCL obeys. Empty: none."""
    if sketch is None or not sketch.rotations:
        return ()
    note = "symmetry_offsets are ignored: they narrow TACCL's search, and remove no link"
    return (f"sketch {sketch.name}: {note}",)


def no_result_reason(ended: StopReason) -> str:
    """Return a message that there is no schedule, with the limit to raise.

    Args:
        ended: Reason why the search ended, from :func:`~sccl.core.outcome.best_plan`.
    """
    if ended.kind in {StopKind.INTERRUPTED, StopKind.INFEASIBLE}:
        return f"{ended}, before any schedule was found"
    more = "time" if ended.kind is StopKind.TIMEOUT else "effort"
    return f"{ended}, before any schedule was found: give it more {more}"
