"""The values that an algorithm moves: static single assignment over (chunk, rank).

The first stage of lowering. It follows the same definition of a run as the judge: all sends of a
step carry what their senders had when it began.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sccl.core.algorithm import Algorithm, Send


@dataclass(frozen=True, slots=True)
class Value:
    """A chunk, or a partial result of it, on one rank.

    Attributes:
        step: the step it comes into being in, -1 for input.
        arrived_from: the value that was sent to make it, None if it did not arrive.
        operands: the two values that were reduced to make it, the older first; None if none were.
    """

    rank: int
    chunk: int
    step: int
    arrived_from: int | None = None
    operands: tuple[int, int] | None = None

    def sources(self) -> tuple[int, ...]:
        """Return the values it is made of."""
        return self.operands or (() if self.arrived_from is None else (self.arrived_from,))


@dataclass(slots=True)
class Trace:
    """All values of an algorithm, those they are made of before themselves.

    Attributes:
        final: the value of every (chunk, rank) when the algorithm ends.
        needed: per value, whether it contributes to what the postcondition asks for.
    """

    values: list[Value] = field(default_factory=list)
    final: dict[tuple[int, int], int] = field(default_factory=dict)
    needed: list[bool] = field(default_factory=list)

    def add(self, value: Value) -> int:
        """Append a value and return its number."""
        self.values.append(value)
        return len(self.values) - 1


def trace(algorithm: Algorithm) -> Trace:
    """Return the values of a *valid* algorithm; sends that change nothing make none.

    Reductions into one place happen in the order of the sends' (step, chunk, src), so that floating
    point results are the same in every run.
    """
    collective, found = algorithm.collective, Trace()
    contributions: list[int] = []  # per value, the ranks it is made of as bits
    for chunk in range(collective.num_chunks):
        for rank in sorted(collective.holders(chunk)):
            found.final[chunk, rank] = found.add(Value(rank, chunk, -1))
            contributions.append(1 << rank if collective.combining else 1)
    by_step: dict[int, list[Send]] = defaultdict(list)
    for send in algorithm.sends:
        by_step[send.step].append(send)
    for step in range(algorithm.steps):
        sent = [(send, found.final[send.chunk, send.src]) for send in by_step[step]]
        for send, value in sorted(sent, key=lambda item: (item[0].reduce, item[0])):
            _receive(found, contributions, send, value)
    found.needed = _needed(algorithm, found)
    return found


def _receive(found: Trace, contributions: list[int], send: Send, value: int) -> None:
    place = (send.chunk, send.dst)
    here = found.final.get(place)
    if not send.reduce and here is not None and contributions[here] == contributions[value]:
        return  # the receiver has it already
    arrival = found.add(Value(send.dst, send.chunk, send.step, arrived_from=value))
    contributions.append(contributions[value])
    if send.reduce and here is not None:
        arrival = found.add(Value(send.dst, send.chunk, send.step, operands=(here, arrival)))
        contributions.append(contributions[here] | contributions[value])
    found.final[place] = arrival


def _needed(algorithm: Algorithm, found: Trace) -> list[bool]:
    needed = [False] * len(found.values)
    for (chunk, rank), value in found.final.items():
        needed[value] = rank in algorithm.collective.wanted(chunk)
    for number in reversed(range(len(found.values))):
        if needed[number]:
            for source in found.values[number].sources():
                needed[source] = True
    return needed
