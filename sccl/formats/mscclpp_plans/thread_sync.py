"""Find data races between the threads of an MSCCL++ thread block.

Most operations assign words to threads freely, and threads do not wait for each other before
``nop`` or ``barrier``. Packet operations assign the same words to the same threads. Source:
``execution_kernel.hpp`` of microsoft/mscclpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from sccl.formats.mscclpp_plans.plan_file import PACKETS, WAITS, OpPart
from sccl.formats.program_graph import Move, Place

PACKET = "packets of scratch"
"""The buffer of packets, which lies where the data of scratch does."""


class ThreadSync:
    """The accesses of a thread block's threads since they last synchronized."""

    def __init__(self) -> None:
        self.waited = False
        self.read: set[Place] = set()
        self.written: set[Place] = set()
        self.by_packets: set[Place] = set()

    def take_operation(self, op: OpPart, moves: Sequence[Move]) -> str:
        """Process the next operation, and return its race. Empty: none."""
        if op.name in {"nop", "barrier"}:
            self.waited = False
            for touched in (self.read, self.written, self.by_packets):
                touched.clear()
            return ""
        text = ""
        reads = {p for move in moves for p in move.srcs if p[1] != PACKET}
        writes = {move.dst for move in moves if move.dst[1] != PACKET}
        if op.name in {"signal", "rlxsignal", "sem_release"} and (
            self.written or self.read or self.by_packets
        ):
            text = (
                "comes before all threads have finished the work that it signals: put nop before it"
            )
        elif moves and (reads or writes) and self.waited:
            text = "comes before all threads know that the wait is over: put nop before it"
        elif (reads & self.written or writes & (self.read | self.written)) or (
            op.name not in PACKETS and (reads | writes) & self.by_packets
        ):
            text = "touches data that other threads of the block may still use: put nop before"
        self.waited |= op.name in WAITS or op.name == "sem_acquire"
        if op.name in PACKETS:  # of these a thread does the same words
            self.by_packets |= reads | writes
            return text
        self.read |= reads
        self.written |= writes
        return text
