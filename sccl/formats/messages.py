"""What ranks tell one another in an algorithm, and what each message waits for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from sccl.core.algorithm import Algorithm


class Awaiting(StrEnum):
    """What a message waits for."""

    DATA = "data"
    """All that has come to its sender of its chunk in earlier steps."""
    STEP = "step"
    """All that has come to its sender in earlier steps."""


@dataclass(frozen=True, slots=True)
class Message:
    """A send, and what has to have come to its sender before.

    Attributes:
        number: its place in the order of steps, chunks, sources and destinations.
        after: numbers of messages to its sender.
    """

    number: int
    step: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    after: tuple[int, ...]


def messages_of(algorithm: Algorithm, awaiting: Awaiting) -> list[Message]:
    """Return the sends of an algorithm, in the order of steps, chunks, sources and destinations.

    A chunk that is stored at a rank takes the place of what was there: nothing before it counts.
    """
    come: dict[tuple[int, int], list[int]] = defaultdict(list)  # by rank, and chunk if it matters
    found: list[Message] = []
    told = 0
    by_chunk = awaiting is Awaiting.DATA
    sends = sorted(algorithm.sends)
    for number, send in enumerate(sends):
        while sends[told].step < send.step:
            before = sends[told]
            at = come[before.dst, before.chunk if by_chunk else 0]
            if by_chunk and not before.reduce:
                at.clear()
            at.append(told)
            told += 1
        after = tuple(come[send.src, send.chunk if by_chunk else 0])
        found.append(Message(number, send.step, send.chunk, send.src, send.dst, send.reduce, after))
    return found
