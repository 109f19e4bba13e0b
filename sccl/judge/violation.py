"""What the judge objects to, in algorithms and in schedules."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.ids import Edge

Contributions = int
"""A set of ranks as bits: whose contributions a partial result is the reduction of."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a plan is wrong.

    Attributes:
        kind: ``collective``, ``rounds``, ``range``, ``link``, ``availability``, ``bandwidth``,
            ``conflict``, ``double-count``, ``postcondition`` or ``incomplete``; of schedules also
            ``duration``, ``overlap``, ``switch``, ``buffer`` and ``message``.
        message: the whole finding as a sentence.
        step: the step it happens in, None for the state after the last, and in schedules.
        chunk: the chunk concerned, None where it is not about one.
        rank: the rank concerned, or the switch; None where it is not about one.
        link: (src, dst) of the link concerned, None in algorithms and where it is not about one.
        tick: when it happens in a schedule, None for the state after the last transfer.
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
