"""The violations that the verifiers report, in algorithms and in schedules."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.ids import Edge

Contributions = int
"""A set of ranks as bits: whose contributions a partial result is the reduction of."""

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
    """Return the ranks of a set in words."""
    members = [str(r) for r in range(bits.bit_length()) if bits >> r & 1]
    return f"rank{'s' if len(members) > 1 else ''} {', '.join(members)}"


def unavailable_text(transfer: str, rank: int, chunk: int) -> str:
    """Return that a rank sends a chunk that it does not hold.

    Args:
        transfer: The transfer in words.
    """
    return f"{transfer}: rank {rank} does not hold chunk {chunk} by then"


def missing_violation(last: str, chunk: int, rank: int) -> Violation:
    """Return that a rank that wants a chunk does not hold it in the end.

    Args:
        last: The last event of the plan: "step" or "transfer".
    """
    text = f"after the last {last} rank {rank} does not hold chunk {chunk}"
    return Violation("postcondition", text, chunk=chunk, rank=rank)
