"""Define the intermediate representation: instructions of each rank over slots of its buffers.

In the push model (SCCL section 4), a sender writes into a slot of the receiver and then sets a flag
there, one flag for each transfer. A thread block runs its instructions in order. Different blocks
are ordered only by flags, credits, and dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from sccl.codegen.buffer_layout import BufferLayout
from sccl.core.collective import Collective


class Buffer(StrEnum):
    """Buffer of a slot."""

    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """Memory for one chunk.

    Attributes:
        index: ``block * parts + part`` in input and output, the number of the slot in scratch.
    """

    buffer: Buffer
    index: int


class Op(StrEnum):
    """Operation of an instruction."""

    SEND = "send"
    """Await ``credit`` if there is one, write ``src`` into ``dst`` at ``peer``, set ``flag``."""
    RECV = "recv"
    """Await ``flag``, after which the data of ``peer`` is in ``dst``."""
    RECV_REDUCE = "recv_reduce"
    """Await ``flag``, after which the data of ``peer`` is in ``other``, and all ``arrivals``. Then
    ``dst = src (op) other (op) arrivals[0] (op) ...``."""
    RECV_REDUCE_SEND = "recv_reduce_send"
    """Await the flags of RECV_REDUCE and ``credit`` if there is one. Then reduce into ``dst`` at
    ``next_peer`` and set ``next_flag`` there."""
    REDUCE = "reduce"
    """``dst = src (op) other``."""
    COPY = "copy"
    """``dst = src``."""
    CREDIT = "credit"
    """Set ``flag`` at ``peer``: the slot of this rank that the peer writes is free again."""


class Landing(StrEnum):
    """Buffer into which senders write arrivals for the output."""

    OUTPUT = "output"
    """Direct: into the output. This needs one copy, but senders must wait until the receiver is
    ready."""
    SCRATCH = "scratch"
    """Eager: into scratch, from which the receiver copies. Senders do not wait to begin."""


class Arrival(NamedTuple):
    """A chunk from ``peer``, which is complete in ``slot`` of this rank when ``flag`` is set."""

    peer: int
    flag: int
    slot: Slot


Address = tuple[int, int]
"""(block, index) of an instruction of the same rank."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. :class:`Op` describes the use of the fields by each operation.

    Attributes:
        chunk: Chunk that it moves or reduces.
        flag: Flag that SEND and CREDIT set at the peer, and that the others await.
        credit: Flag that SEND and RECV_REDUCE_SEND await before they write.
        after: Instructions of other blocks of this rank that must end before it begins.
        next_peer: Rank that gets the result of a RECV_REDUCE_SEND.
        next_flag: Flag that a RECV_REDUCE_SEND sets there.
        arrivals: Chunks that RECV_REDUCE and RECV_REDUCE_SEND reduce after ``other``, in order.
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
        """Return the instruction with these dependencies, itself if they are unchanged."""
        return self if after == self.after else replace(self, after=after)

    @property
    def order(self) -> tuple[int, int]:
        """Return (step, turn), a key that never decreases along a dependency.

        In a step sends come first, because they carry the values from before the step.
        """
        turn = {Op.SEND: 0, Op.CREDIT: 2}.get(self.op, 1)
        return (self.step, turn)

    def reads(self) -> tuple[Slot, ...]:
        """Return the slots of this rank that it reads."""
        used = (self.src, self.other) if self.op is not Op.CREDIT else ()
        return (*(slot for slot in used if slot is not None), *(a.slot for a in self.arrivals))

    def writes(self) -> tuple[Slot, ...]:
        """Return the slots of this rank that it writes."""
        local = self.op in (Op.COPY, Op.REDUCE, Op.RECV_REDUCE)
        return (self.dst,) if local and self.dst is not None else ()

    def receives(self) -> tuple[Arrival, ...]:
        """Return the arrivals that it awaits, in the order of their reduction."""
        slot = {Op.RECV: self.dst, Op.RECV_REDUCE: self.other, Op.RECV_REDUCE_SEND: self.other}
        landed = slot.get(self.op)
        if self.peer is None or self.flag is None or landed is None:
            return ()
        return (Arrival(self.peer, self.flag, landed), *self.arrivals)

    def lands(self) -> tuple[Slot, ...]:
        """Return the slots of the arrivals that it awaits."""
        return tuple(arrival.slot for arrival in self.receives())

    def awaits(self) -> tuple[int, ...]:
        """Return the flags of this rank that it awaits."""
        credit = () if self.credit is None else (self.credit,)
        return (*(arrival.flag for arrival in self.receives()), *credit)

    def sets(self) -> tuple[int, int] | None:
        """Return the rank and the flag that it sets on that rank. None: it sets no flag."""
        if self.op in (Op.SEND, Op.CREDIT):
            rank, flag = self.peer, self.flag
        else:
            rank, flag = self.next_peer, self.next_flag
        return None if rank is None or flag is None else (rank, flag)

    def sends(self) -> tuple[int, Slot] | None:
        """Return the rank and the slot that it writes on that rank. None: it writes none."""
        target = self.sets()
        return None if target is None or self.dst is None else (target[0], self.dst)


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block with at most one send peer and one receive peer.

    A RECV_REDUCE_SEND may forward its result to any rank.
    """

    send_peer: int | None
    recv_peer: int | None
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class RankProgram:
    """Program of one rank.

    Attributes:
        scratch_slots: Number of scratch slots, each as large as the largest chunk.
        flags: Number of flags that peers set on this rank.
        saves: Input indices that an in-place call copies to other memory first.
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
        name: Name of the topology.
        landing: Buffer into which arrivals are written.
        serial: Whether every rank is one thread (one block, any number of peers).
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
        """Return the maximum number of scratch slots of a rank."""
        return max(rank.scratch_slots for rank in self.ranks)

    @property
    def flags(self) -> int:
        """Return the maximum number of flags of a rank."""
        return max(rank.flags for rank in self.ranks)
