"""Program: what every rank does, instruction by instruction, over the slots of its buffers.

Push model (SCCL section 4): a sender writes into a slot of the receiver and then sets a flag there,
one flag for every transfer. A thread block runs its instructions in order; blocks run at any
relative speed, but for flags, credits and the dependencies stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from sccl.codegen.buffer_layout import BufferLayout
from sccl.core.collective import Collective


class Buffer(StrEnum):
    """Where a slot lies."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """Room for one chunk.

    Attributes:
        index: in input and output ``block * parts + part``, in scratch the number of the slot.
    """

    buffer: Buffer
    index: int


class Op(StrEnum):
    """What an instruction does; ``here`` is the rank that runs it."""

    SEND = "send"
    """Await ``credit`` if there is one, write ``src`` into ``dst`` at ``peer``, set ``flag``."""
    RECV = "recv"
    """Await ``flag``: what ``peer`` sent is in ``dst``."""
    RECV_REDUCE = "recv_reduce"
    """Await ``flag``: the data of ``peer`` is in ``other``; and likewise all ``arrivals``. Then
    ``dst = src (op) other (op) arrivals[0] (op) ...``."""
    RECV_REDUCE_SEND = "recv_reduce_send"
    """Await these flags and, if there is one, ``credit``; then as RECV_REDUCE, but ``dst`` is at
    ``next_peer``; set ``next_flag`` there."""
    REDUCE = "reduce"
    """``dst = src (op) other``."""
    COPY = "copy"
    """``dst = src``."""
    CREDIT = "credit"
    """Set ``flag`` at ``peer``: a slot that it will write here is free again."""


class Landing(StrEnum):
    """Where arrivals that belong into the output are written by their senders."""

    OUTPUT = "output"
    """Into the output itself: one copy, but the sender has to know that the receiver is ready."""
    SCRATCH = "scratch"
    """Into scratch, from where the receiver copies them: eager, nobody waits to begin."""


class Arrival(NamedTuple):
    """A chunk that ``peer`` has written into ``slot`` of this rank once ``flag`` is set here."""

    peer: int
    flag: int
    slot: Slot


Address = tuple[int, int]
"""(block, index) of an instruction of the same rank."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; see :class:`Op` for what the fields mean to each.

    Attributes:
        step: the algorithm's step it belongs to.
        chunk: the chunk it is about.
        flag: SEND and CREDIT: set at the peer; the others: awaited here.
        credit: SEND and RECV_REDUCE_SEND: awaited here before the write.
        after: instructions of other blocks of this rank that must be done before it begins.
        next_peer: RECV_REDUCE_SEND: who gets the result.
        next_flag: RECV_REDUCE_SEND: set there.
        arrivals: RECV_REDUCE and RECV_REDUCE_SEND: reduced after ``other``, in this order.
    """

    op: Op
    step: int
    chunk: int
    peer: int | None = None
    src: Slot | None = None
    other: Slot | None = None
    dst: Slot | None = None
    flag: int | None = None
    credit: int | None = None
    after: tuple[Address, ...] = ()
    next_peer: int | None = None
    next_flag: int | None = None
    arrivals: tuple[Arrival, ...] = ()

    def with_dependencies(self, after: tuple[Address, ...]) -> Instruction:
        """Return the instruction with these dependencies: itself, if it has them already."""
        return self if after == self.after else replace(self, after=after)

    @property
    def order(self) -> tuple[int, int]:
        """Return (step, turn): every dependency leads from a lower to a higher or equal one.

        In a step sends come first, for they carry what was there when it began.
        """
        turn = {Op.SEND: 0, Op.CREDIT: 2}.get(self.op, 1)
        return (self.step, turn)

    def reads(self) -> tuple[Slot, ...]:
        """Return the slots of this rank whose content it uses."""
        used = (self.src, self.other) if self.op is not Op.CREDIT else ()
        return (*(slot for slot in used if slot is not None), *(a.slot for a in self.arrivals))

    def writes(self) -> tuple[Slot, ...]:
        """Return the slots of this rank that it fills."""
        local = self.op in (Op.COPY, Op.REDUCE, Op.RECV_REDUCE)
        return (self.dst,) if local and self.dst is not None else ()

    def receives(self) -> tuple[Arrival, ...]:
        """Return the chunks that it awaits, in the order in which they are reduced."""
        slot = {Op.RECV: self.dst, Op.RECV_REDUCE: self.other, Op.RECV_REDUCE_SEND: self.other}
        landed = slot.get(self.op)
        if self.peer is None or self.flag is None or landed is None:
            return ()
        return (Arrival(self.peer, self.flag, landed), *self.arrivals)

    def lands(self) -> tuple[Slot, ...]:
        """Return the slots of this rank that its peers filled, where it awaits some."""
        return tuple(arrival.slot for arrival in self.receives())

    def awaits(self) -> tuple[int, ...]:
        """Return the flags of this rank that it awaits."""
        credit = () if self.credit is None else (self.credit,)
        return (*(arrival.flag for arrival in self.receives()), *credit)

    def sets(self) -> tuple[int, int] | None:
        """Return the rank and the flag there that it sets."""
        if self.op in (Op.SEND, Op.CREDIT):
            rank, flag = self.peer, self.flag
        else:
            rank, flag = self.next_peer, self.next_flag
        return None if rank is None or flag is None else (rank, flag)

    def sends(self) -> tuple[int, Slot] | None:
        """Return the rank and the slot there that it fills."""
        target = self.sets()
        return None if target is None or self.dst is None else (target[0], self.dst)


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block: at most one peer that it sends to and one that it receives from.

    What it receives it may send on to any.
    """

    send_peer: int | None
    recv_peer: int | None
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class RankProgram:
    """What one rank runs.

    Attributes:
        scratch_slots: slots of scratch, each of the size of the largest chunk.
        flags: flags that others set here.
        saves: indices of the input that are copied aside first when the call is in place.
    """

    blocks: tuple[Block, ...]
    scratch_slots: int
    flags: int
    saves: tuple[int, ...] = ()

    def instructions(self) -> Iterator[tuple[Address, Instruction]]:
        """Yield every instruction with its address."""
        for b, block in enumerate(self.blocks):
            for i, instruction in enumerate(block.instructions):
                yield (b, i), instruction


@dataclass(frozen=True, slots=True)
class Program:
    """A lowered algorithm.

    Attributes:
        name: of the topology it was found for.
        steps: S.
        landing: where arrivals are written.
        serial: whether every rank is one thread (one block, any number of peers).
    """

    name: str
    collective: Collective
    layout: BufferLayout
    steps: int
    landing: Landing
    ranks: tuple[RankProgram, ...]
    serial: bool = False

    @property
    def scratch_slots(self) -> int:
        """Return the most scratch slots that a rank needs."""
        return max(rank.scratch_slots for rank in self.ranks)

    @property
    def flags(self) -> int:
        """Return the most flags that are set at a rank."""
        return max(rank.flags for rank in self.ranks)
