"""The shape of recordings: what one rank of a running job called and waited for, and when.

Jobs write them, and :mod:`sccl.workloads` reads them. Times are microseconds of one clock of the
rank, those of ``cpu`` of the thread's own, which stands while it sleeps.
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
    """What a thread of the host did.

    Attributes:
        begin: and ``end``: when it came to it, and when it went on.
        cpu_begin: and ``cpu_end``: likewise by the thread's own clock.
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
    """Where the job says that a step begins, or that an optimizer steps."""

    what: Literal["step", "optimizer"]


AnyRecord = CallRecord | WaitRecord | MarkRecord


class RecordingWire(_Recorded, frozen=True, kw_only=True):
    """What one rank did.

    Attributes:
        sccl_recording: the version of this shape.
        torch: its release.
        left_out: calls that no collective stands for, or of types without a name.
    """

    sccl_recording: Literal[1]
    rank: _Number
    world: Annotated[int, Meta(ge=1)]
    torch: str
    events: tuple[AnyRecord, ...]
    left_out: _Number = 0
