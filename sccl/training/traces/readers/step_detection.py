"""Which events of a recording are a step: as the job says, or as optimizers and repeats do."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from sccl.core.files.recording_shapes import AnyRecord, CallRecord, MarkRecord, WaitRecord
from sccl.errors import InputError

_MAX_PIECES = 4000
"""Largest number of pieces, from the end, that are searched for repeats. Comparisons grow with half
its square.
"""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """Events of a step, from one up to another."""

    start: int
    stop: int


def find_steps(events: Sequence[AnyRecord], where: str) -> list[RecordedStep]:
    """Return consecutive equal steps. The first of many is left out.

    With ``sccl.torch.step()``, a step goes from one mark to the next. Otherwise repeating pieces
    between optimizer steps are steps, and without an optimizer repeating events. Events before and
    after, such as the set-up of a job, are no part of them.

    Raises:
        InputError: Nothing is called, or nothing repeats.
    """
    if not any(isinstance(event, CallRecord) for event in events):
        raise InputError(f"{where}: there are no calls in it: record a job of several ranks")
    pieces = _split_pieces(events)
    keys = _number_keys([_piece_key(events, piece) for piece in pieces])
    if any(isinstance(event, MarkRecord) and event.what == "step" for event in events):
        first, period, many = _longest_repetition(keys, [1])
    else:
        first, period, many = _longest_repetition(keys, range(1, len(keys) // 2 + 1))
    if many < 2:
        raise InputError(
            f"{where}: nothing in it repeats: record several steps, or mark their beginnings with "
            "sccl.torch.step()"
        )
    starts = range(first, first + many * period, period)
    steps = [RecordedStep(pieces[k].start, pieces[k + period - 1].stop) for k in starts]
    return steps[1:] if len(steps) > 2 else steps


def _split_pieces(events: Sequence[AnyRecord]) -> list[RecordedStep]:
    steps = [k for k, e in enumerate(events) if isinstance(e, MarkRecord) and e.what == "step"]
    ends = [k + 1 for k, e in enumerate(events) if isinstance(e, MarkRecord)]
    bounds = steps if len(steps) > 1 else [0, *ends]
    if len(bounds) < 3 and len(steps) < 2:
        bounds = list(range(len(events) + 1))
    bounds = bounds[-_MAX_PIECES - 1 :]
    return [RecordedStep(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def _piece_key(events: Sequence[AnyRecord], piece: RecordedStep) -> Hashable:
    number = 0  # of the next call, as waits are for those of so many calls ago
    for event in reversed(events[: piece.start]):
        if isinstance(event, CallRecord):
            number = event.number + 1
            break
    parts: list[Hashable] = []
    for event in events[piece.start : piece.stop]:
        match event:
            case CallRecord():
                number = event.number + 1
                sizes = (event.given, event.got, event.gives, event.gets)
                operation = (event.collective, event.dtype, event.group, event.root, event.reduce)
                parts.append((event.thread, *operation, *sizes, event.peer, event.sends))
            case WaitRecord():
                parts.append((event.thread, number - event.call))
            case MarkRecord():
                parts.append((event.thread, event.what))
    return tuple(parts)


def _number_keys(keys: Sequence[Hashable]) -> list[int]:
    number: dict[Hashable, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]


def _longest_repetition(keys: Sequence[int], periods: Sequence[int]) -> tuple[int, int, int]:
    """Return where something repeats for longest, how long it is, and how often it is there.

    A longer period has to be there for a tenth longer: else it is the shorter one several times.
    """
    best = (0, 0, 0)
    for period in periods:
        run = 0
        for at in range(len(keys) - period):
            run = run + 1 if keys[at] == keys[at + period] else 0
            many = run // period + 1
            longer = many > 1 and many * period > 1.1 * best[1] * best[2]
            if longer or (period == best[1] and many > best[2]):
                best = (at - run + 1, period, many)
    return best
