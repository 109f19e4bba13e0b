"""Define the protocol that separates consecutive calls in generated code.

A call, or a piece of a long call, is an epoch, with numbers from 1. A program orders the
instructions of one epoch (see :mod:`sccl.codegen.interpreter`), and this protocol separates epochs.
The templates use the parameters and the order of stages defined here.
``tests/codegen/test_protocol.py`` verifies that consecutive programs are correct in every
interleaving, and that each part of the protocol is necessary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sccl.codegen.hazards import program_sites
from sccl.codegen.ir import Program


class Mode(StrEnum):
    """Transport of the chunks of an epoch."""

    EAGER = "eager"
    """The sender writes into a scratch slot of the receiver, and then sets a flag."""
    DIRECT = "direct"
    """As EAGER, but the sender writes chunks of the output into the output."""
    PACKETS = "packets"
    """As EAGER without flags: one store writes a word of a chunk and the number of the epoch."""


class Stage(StrEnum):
    """Stages of a rank's entry into an epoch, in this order."""

    LEAVE = "leave"
    """Wait until all thread blocks of the rank, of all slices, have ended the previous epoch."""
    CLEAR = "clear"
    """Clear the packet slots of the *next* epoch, because epoch numbers wrap around."""
    OFFER = "offer"
    """Write the address of the rank's output into the neighbors' windows, if calls are direct."""
    ANNOUNCE = "tell"
    """Notify the neighbors of the entry."""


class SendStage(StrEnum):
    """Stages of a thread block's send, in this order."""

    OPEN = "open"
    """Wait until the peer is in an epoch that allows writes."""
    CREDIT = "credit"
    """Wait until the slot is free again, if the program has a credit for it."""
    WRITE = "write"
    """Write the chunk."""
    FLAG = "flag"
    """Set the flag of the chunk."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Parameters of the protocol.

    Attributes:
        copies: Number of copies of flags, slots and packet slots. Epoch e uses number
            ``e % copies``.
        behind: Number of epochs that a peer may be behind when its window is written, by mode.
        entry: Stages of a rank's entry into an epoch, in order.
        send: Stages of a thread block's transfer, in order. The receiver awaits the flag.
        heeded: Whether thread blocks wait for the entry of a rank that clears packets. Otherwise a
            thread block that is ahead would accept an old packet in the next epoch.
        last: Whether the last thread block of a kernel advances the number of the next epoch, after
            all blocks have read it, so that a captured graph can replay calls.
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
    """Return the ranks that each rank sends to or receives from in some program.

    The owner of a window must notify its writers, so the relation is symmetric. Other ranks do not
    write into the window, so they need no notification.
    """
    peers: list[set[int]] = [set() for _ in range(ranks)]
    for program in programs:
        for (rank, _), line in program_sites(program).items():
            if line.peer is not None:
                peers[rank].add(line.peer)
                peers[line.peer].add(rank)
    return tuple(map(frozenset, peers))
