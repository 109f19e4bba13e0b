"""The rules of a collective: senders hold their chunks, receivers store or reduce, demand is met.

The verifiers of algorithms (steps) and of schedules (times) share these rules and their messages. A
value is represented by the set of its contributions. In collectives that copy, there is only one
value.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, Protocol, TypeVar

from sccl.core.collective import Collective
from sccl.judge.violation import (
    ChunkPlace,
    Contributions,
    Violation,
    missing_violation,
    ranks_text,
    unavailable_text,
)

COMPILED_TRANSFERS = 2**17
"""Number of transfers whose execution in Python takes as long as loading compiled code."""

LOADED_TRANSFERS = 2**15
"""As :data:`COMPILED_TRANSFERS`, for a process that has already loaded Numba."""

_uncompiled_transfers: Counter[str] = Counter()
"""Number of transfers that each verifier executed in this process without compiled code."""


def is_compiled_worthwhile(engine: str, transfers: int) -> bool:
    """Return whether to use compiled code for ``transfers`` more transfers; count them if not.

    Compiled code is loaded as soon as the execution without it has taken as long as loading takes.
    So the total time is at most twice that of the better choice.
    """
    long = LOADED_TRANSFERS if "numba" in sys.modules else COMPILED_TRANSFERS
    if _uncompiled_transfers[engine] + transfers >= long:
        return True
    _uncompiled_transfers[engine] += transfers
    return False


class RankTransfer(Protocol):
    """A transfer of a chunk, which the destination stores or reduces."""

    @property
    def chunk(self) -> int: ...  # noqa: D102
    @property
    def src(self) -> int: ...  # noqa: D102
    @property
    def dst(self) -> int: ...  # noqa: D102
    @property
    def reduce(self) -> bool: ...  # noqa: D102


T = TypeVar("T", bound=RankTransfer)


class Execution(ABC, Generic[T]):
    """The values of some chunks on all ranks, as transfers are executed.

    Attributes:
        collective: the collective.
        chunks: the executed chunks.
        value: contributions in the value of a chunk on a rank. Missing: the rank has no value.
    """

    UNIT: ClassVar[str]
    """The last event of a plan: "step" or "transfer"."""

    def __init__(self, collective: Collective, chunks: Iterable[int]) -> None:
        self.collective, self.chunks = collective, chunks
        self.value: dict[ChunkPlace, Contributions] = {
            (c, r): 1 << r if collective.combining else 1
            for c in chunks
            for r in collective.holders(c)
        }

    @abstractmethod
    def describe(self, transfer: T) -> str:
        """Return a description of a transfer."""

    @abstractmethod
    def arrival(self, transfer: T) -> str:
        """Return a description of the time at which a transfer arrives."""

    @abstractmethod
    def violation(
        self, transfer: T, kind: str, text: str, node: int, *, arriving: bool = False
    ) -> Violation:
        """Return a violation with the chunk and the time of a transfer.

        Args:
            transfer: the transfer.
            kind: kind of violation.
            text: sentence that describes it.
            node: rank or switch at fault.
            arriving: whether it occurs at the arrival of the transfer. Otherwise: at its start.
        """

    def misuse_violations(self, transfer: T) -> Iterator[Violation]:
        """Yield a violation if a transfer reduces in a collective that copies.

        The execution then treats it as a copy.
        """
        if transfer.reduce and not self.collective.combining:
            text = f"{self.describe(transfer)} reduces, but {self.collective.name} does not"
            yield self.violation(transfer, "conflict", text, transfer.dst)

    def unavailable_violation(self, transfer: T) -> Violation:
        """Return the violation that a rank sends a chunk that it does not hold."""
        text = unavailable_text(self.describe(transfer), transfer.src, transfer.chunk)
        return self.violation(transfer, "availability", text, transfer.src)

    def receive(
        self, place: ChunkPlace, incoming: list[tuple[T, Contributions]]
    ) -> Iterator[Violation]:
        """Store or reduce all values of one chunk that one rank receives at the same time.

        If the rank has no value of the chunk, as a relay without a contribution, reducing stores.

        Args:
            place: chunk and rank.
            incoming: transfers that arrive, with the contributions that they carry.
        """
        chunk, rank = place
        combining = self.collective.combining
        copies = [item for item in incoming if not (item[0].reduce and combining)]
        if copies and (len(copies) < len(incoming) or len({sent for _, sent in copies}) > 1):
            first = copies[0][0]
            text = (
                f"{self.arrival(first)}: rank {rank} receives different values of chunk {chunk} "
                "and at least one overwrites, so the result depends on their order"
            )
            yield self.violation(first, "conflict", text, rank, arriving=True)
        for _, sent in copies:
            self.value[place] = sent
        if len(copies) == len(incoming):
            return
        for transfer, sent in incoming:
            if not transfer.reduce:
                continue
            held = self.value.get(place, 0)
            if both := held & sent:
                text = (
                    f"{self.describe(transfer)} counts the contribution of {ranks_text(both)} twice"
                )
                yield self.violation(transfer, "double-count", text, rank, arriving=True)
            self.value[place] = held | sent

    def final_violations(self) -> Iterator[Violation]:
        """Yield the destinations that lack a chunk, or contributions to it, at the end."""
        for chunk in self.chunks:
            if self.collective.combining:
                everyone = sum(1 << r for r in self.collective.holders(chunk))
            else:
                everyone = 1
            for rank in sorted(self.collective.destinations(chunk)):
                got = self.value.get((chunk, rank))
                if got is None:
                    yield missing_violation(self.UNIT, chunk, rank)
                elif missing := everyone & ~got:
                    lacks = f"lacks the contribution of {ranks_text(missing)}"
                    text = (
                        f"after the last {self.UNIT} rank {rank} has chunk {chunk}, which {lacks}"
                    )
                    yield Violation("incomplete", text, chunk=chunk, rank=rank)
