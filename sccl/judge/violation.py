"""Violations that the verifiers of algorithms and schedules report."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.ids import Edge

Contributions = int
"""The ranks whose contributions a partial result contains, as bits."""

ChunkPlace = tuple[int, int]
"""(chunk, rank)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a rule by a plan.

    Attributes:
        kind: ``collective``, ``rounds``, ``range``, ``link``, ``availability``, ``bandwidth``,
            ``conflict``, ``double-count``, ``postcondition``, or ``incomplete``. Schedules also
            have ``duration``, ``overlap``, ``switch``, ``buffer``, and ``message``.
        message: Sentence that describes the violation.
        step: Step of an algorithm. None: the state after the last step, or a schedule.
        chunk: Chunk. None: several chunks, or none.
        rank: Rank or switch. None: several, or none.
        link: Link of a schedule, as (src, dst). None: several links, none, or an algorithm.
        tick: Tick of a schedule. None: the state after the last transfer, or an algorithm.
    """

    kind: str
    message: str
    step: int | None = None
    chunk: int | None = None
    rank: int | None = None
    link: Edge | None = None
    tick: int | None = None


def ranks_text(bits: Contributions) -> str:
    """Return a set of ranks as text."""
    members = [str(r) for r in range(bits.bit_length()) if bits >> r & 1]
    return f"rank{'s' if len(members) > 1 else ''} {', '.join(members)}"


def unavailable_text(transfer: str, rank: int, chunk: int) -> str:
    """Return the message that a rank sends a chunk that it does not hold.

    Args:
        transfer: Description of the transfer.
        rank: Rank that sends.
        chunk: Chunk.
    """
    return f"{transfer}: rank {rank} does not hold chunk {chunk} by then"


def missing_violation(last: str, chunk: int, rank: int) -> Violation:
    """Return the violation that a destination does not hold a chunk at the end.

    Args:
        last: Kind of the plan's last event: "step" or "transfer".
        chunk: Chunk.
        rank: Destination.
    """
    text = f"after the last {last} rank {rank} does not hold chunk {chunk}"
    return Violation("postcondition", text, chunk=chunk, rank=rank)
