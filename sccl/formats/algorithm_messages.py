"""Convert algorithms to messages between ranks, with their dependencies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.errors import ParameterError, TooLargeError
from sccl.formats.format_contract import FormatOptions, SizedPlan


class Awaiting(StrEnum):
    """The dependencies of a message."""

    DATA = "data"
    """All that has come to its sender of its chunk in earlier steps."""
    STEP = "step"
    """All that has come to its sender in earlier steps."""


class MessageOptions(FormatOptions, frozen=True, kw_only=True):
    """The options of formats of messages."""

    awaiting: Annotated[
        Awaiting,
        Meta(
            description="Dependency of a send: data (all arrivals of its chunk) or step (all "
            "arrivals of earlier steps)."
        ),
    ] = Awaiting.DATA


@dataclass(frozen=True, slots=True)
class Message:
    """A send, with the messages that must arrive at its sender before.

    Attributes:
        number: Its place in the order of steps, chunks, sources, and destinations.
        reduce: Whether the receiver reduces it, or one of several chunks, into its own value.
        after: Numbers of messages to its sender.
        with_chunks: Further chunks that it carries, ascending, as transfers of schedules may.
    """

    number: int
    step: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    after: tuple[int, ...]
    with_chunks: tuple[int, ...] = ()

    @property
    def chunks(self) -> tuple[int, ...]:
        """Return all chunks that it carries."""
        return (self.chunk, *self.with_chunks)


def sized_algorithm(plan: SizedPlan, limit: int) -> tuple[Algorithm, int]:
    """Return the algorithm of a plan, and the bytes of its chunks.

    Args:
        limit: messages that the format takes.

    Raises:
        ParameterError: chunks are of no whole bytes.
        TooLargeError: there are more messages.
    """
    algorithm, size = plan.plan, plan.size_bytes
    assert isinstance(algorithm, Algorithm)
    assert size is not None
    chunks = algorithm.collective.chunks
    if size % chunks:
        raise ParameterError(
            f"{plan.name}: {size} bytes do not divide into C={chunks} chunks: give a size that does"
        )
    if algorithm.num_sends > limit:
        raise TooLargeError(
            f"{plan.name}: {algorithm.num_sends} sends, and up to {limit} are written: give an "
            "algorithm of fewer chunks"
        )
    return algorithm, size // chunks


def algorithm_messages(algorithm: Algorithm, awaiting: Awaiting) -> list[Message]:
    """Return the sends of an algorithm, in the order of steps, chunks, sources, and destinations.

    A chunk that is stored at a rank replaces its earlier value, so earlier messages do not count.
    """
    come: dict[tuple[int, int], list[int]] = defaultdict(list)  # by rank, and chunk if it matters
    messages: list[Message] = []
    delivered = 0
    by_chunk = awaiting is Awaiting.DATA
    sends = sorted(algorithm.sends)
    for number, send in enumerate(sends):
        while sends[delivered].step < send.step:
            before = sends[delivered]
            at = come[before.dst, before.chunk if by_chunk else 0]
            if by_chunk and not before.reduce:
                at.clear()
            at.append(delivered)
            delivered += 1
        after = tuple(come[send.src, send.chunk if by_chunk else 0])
        messages.append(
            Message(number, send.step, send.chunk, send.src, send.dst, send.reduce, after)
        )
    return messages
