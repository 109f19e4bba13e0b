"""How ranks keep out of each other's way from call to call: the table behind generated code.

A call, or a piece of a long one, is an epoch, numbered from 1. A program says what must wait for
what within one epoch (see :mod:`sccl.codegen.interpreter`); this says what keeps epochs apart.
Templates take their numbers and the order of stages from here, and
``tests/codegen/test_protocol.py`` shows of programs in a row that nothing goes wrong in any
interleaving, and that each part is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sccl.codegen.ir import Program


class Mode(StrEnum):
    """How chunks travel in an epoch."""

    EAGER = "eager"
    """Into a slot of scratch of the receiver, then a flag."""
    DIRECT = "direct"
    """As EAGER, but what belongs into the output is written there."""
    PACKETS = "packets"
    """Eager, each word of a chunk beside the number of its epoch, in one store: no flag."""


class Stage(StrEnum):
    """What a rank does when it enters an epoch, in this order."""

    LEAVE = "leave"
    """All its thread blocks, of all slices, have ended the epoch before."""
    CLEAR = "clear"
    """The slots of packets of the *next* epoch forget epochs whose numbers come again."""
    OFFER = "offer"
    """Where its output lies, if calls are direct, is written into the neighbours' windows."""
    ANNOUNCE = "tell"
    """The neighbours are told that it has entered."""


class SendStage(StrEnum):
    """What a thread block does to send a chunk, in this order."""

    OPEN = "open"
    """Wait for the peer to be in an epoch in which it may be written to."""
    CREDIT = "credit"
    """Wait for the slot to be free again, where the program says so."""
    WRITE = "write"
    """Write the chunk."""
    FLAG = "flag"
    """Set its flag."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The table.

    Attributes:
        copies: of flags, slots and slots of packets; epoch e uses number ``e % copies``.
        behind: how many epochs a peer may be behind when its window is written.
        entry: what a rank does at the beginning of an epoch, in order.
        send: what a thread block does for a transfer, in order; the receiver awaits the flag.
        heeded: where a rank clears packets, its other thread blocks wait until it has entered: else
            one that is ahead would take an old packet in the next epoch.
        last: a kernel's last thread block to end moves the number of the next epoch on, so that a
            captured graph can replay calls; all have read it by then.
    """

    copies: int = 2
    behind: Mapping[Mode, int] = field(
        default_factory=lambda: {Mode.EAGER: 1, Mode.DIRECT: 0, Mode.PACKETS: 1}
    )
    entry: tuple[Stage, ...] = tuple(Stage)
    send: tuple[SendStage, ...] = (
        SendStage.OPEN,
        SendStage.CREDIT,
        SendStage.WRITE,
        SendStage.FLAG,
    )
    heeded: bool = True
    last: bool = True


PROTOCOL = Protocol()


def find_neighbors(programs: Iterable[Program], ranks: int) -> tuple[frozenset[int], ...]:
    """Return, for every rank, those that it sends to or receives from in some program.

    Who writes into a window must hear from its owner, so the relation goes both ways; and nobody
    else writes there, so nobody else needs to be told.
    """
    peers: list[set[int]] = [set() for _ in range(ranks)]
    for program in programs:
        for rank, rank_program in enumerate(program.ranks):
            for _, line in rank_program.instructions():
                if line.peer is not None:
                    peers[rank].add(line.peer)
                    peers[line.peer].add(rank)
    return tuple(map(frozenset, peers))
