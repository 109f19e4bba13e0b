"""The shape of recordings: the calls and waits of one rank of a running job, with times.

Jobs write them, and :mod:`sccl.training.traces` reads them. Times are microseconds of one clock of
the rank; ``cpu`` times are of the thread's CPU clock, which stops while the thread sleeps.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_Number = Annotated[int, Meta(ge=0)]
_Time = Annotated[float, Meta(ge=0, le=1e15)]


class _Recorded(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class _Timed(_Recorded, frozen=True, kw_only=True):
    """An action of a host thread.

    Attributes:
        begin: start time.
        end: end time.
        cpu_begin: start time by the thread's CPU clock.
        cpu_end: end time by the thread's CPU clock.
    """

    thread: _Number
    begin: _Time
    end: _Time
    cpu_begin: _Time
    cpu_end: _Time


class CallRecord(_Timed, frozen=True, kw_only=True, tag_field="was", tag="call"):
    """A collective, or one end of a send.

    Attributes:
        number: of the calls of this rank, from 0 on.
        group: global ranks, in the order of the group.
        root: its place in the group.
        peer: of a send the place of the other. None: it is a collective.
        done: when its results were there. None: unknown.
        in_future: whether a future was asked for: who waits for that is not always seen.
    """

    number: _Number
    collective: str
    dtype: str
    given: _Number
    got: _Number
    group: tuple[_Number, ...]
    root: _Number | None = None
    reduce: str = ""
    gives: tuple[_Number, ...] = ()
    gets: tuple[_Number, ...] = ()
    peer: _Number | None = None
    sends: bool = False
    done: _Time | None = None
    in_future: bool = False


class WaitRecord(_Timed, frozen=True, kw_only=True, tag_field="was", tag="wait"):
    """A wait for a call, by its number."""

    call: _Number


class MarkRecord(_Timed, frozen=True, kw_only=True, tag_field="was", tag="mark"):
    """A mark of the job: a step begins, or an optimizer steps."""

    what: Literal["step", "optimizer"]


AnyRecord = CallRecord | WaitRecord | MarkRecord


class RecordingWire(_Recorded, frozen=True, kw_only=True):
    """The recording of one rank.

    Attributes:
        sccl_recording: the version of this shape.
        torch: its release.
        left_out: calls without a corresponding collective, or of types without a name.
    """

    sccl_recording: Literal[1]
    rank: _Number
    world: Annotated[int, Meta(ge=1)]
    torch: str
    events: tuple[AnyRecord, ...]
    left_out: _Number = 0
