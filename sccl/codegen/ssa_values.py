"""The values that an algorithm moves: static single assignment over (chunk, rank).

This is the first stage of lowering. It uses the judge's definition of a run: all sends of a step
carry the values that their senders had before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sccl.core.algorithm import Algorithm, Send


@dataclass(frozen=True, slots=True)
class SsaValue:
    """A chunk, or a partial result of it, on one rank.

    Attributes:
        step: Step that creates it, -1 for input.
        arrived_from: Value whose send created it, None if it did not arrive.
        operands: The two values whose reduction created it, the older first, or None.
    """

    rank: int
    chunk: int
    step: int
    arrived_from: int | None = None
    operands: tuple[int, int] | None = None

    def sources(self) -> tuple[int, ...]:
        """Return the values from which it is computed."""
        return self.operands or (() if self.arrived_from is None else (self.arrived_from,))


@dataclass(slots=True)
class ValueTrace:
    """All values of an algorithm, in topological order.

    Attributes:
        final: Value of every (chunk, rank) at the end of the algorithm.
        needed: Whether each value contributes to the postcondition.
    """

    values: list[SsaValue] = field(default_factory=list)
    final: dict[tuple[int, int], int] = field(default_factory=dict)
    needed: list[bool] = field(default_factory=list)

    def add(self, value: SsaValue) -> int:
        """Append a value and return its number."""
        self.values.append(value)
        return len(self.values) - 1


def trace_values(algorithm: Algorithm) -> ValueTrace:
    """Trace the values of a *valid* algorithm. Sends that change nothing create no value.

    Reductions into one place happen in the order of the sends' (step, chunk, src), so floating
    point results are the same in every run.
    """
    collective, traced = algorithm.collective, ValueTrace()
    contributions: list[int] = []  # ranks that contributed to each value, as bits
    for chunk in range(collective.num_chunks):
        for rank in sorted(collective.holders(chunk)):
            traced.final[chunk, rank] = traced.add(SsaValue(rank, chunk, -1))
            contributions.append(1 << rank if collective.combining else 1)
    by_step: dict[int, list[Send]] = defaultdict(list)
    for send in algorithm.sends:
        by_step[send.step].append(send)
    for step in range(algorithm.steps):
        sent = [(send, traced.final[send.chunk, send.src]) for send in by_step[step]]
        for send, value in sorted(sent, key=lambda item: (item[0].reduce, item[0])):
            _trace_receive(traced, contributions, send, value)
    traced.needed = _mark_needed(algorithm, traced)
    return traced


def _trace_receive(traced: ValueTrace, contributions: list[int], send: Send, value: int) -> None:
    place = (send.chunk, send.dst)
    current = traced.final.get(place)
    if not send.reduce and current is not None and contributions[current] == contributions[value]:
        return  # the receiver has it already
    arrival = traced.add(SsaValue(send.dst, send.chunk, send.step, arrived_from=value))
    contributions.append(contributions[value])
    if send.reduce and current is not None:
        arrival = traced.add(SsaValue(send.dst, send.chunk, send.step, operands=(current, arrival)))
        contributions.append(contributions[current] | contributions[value])
    traced.final[place] = arrival


def _mark_needed(algorithm: Algorithm, traced: ValueTrace) -> list[bool]:
    needed = [False] * len(traced.values)
    for (chunk, rank), value in traced.final.items():
        needed[value] = rank in algorithm.collective.destinations(chunk)
    for number in reversed(range(len(traced.values))):
        if needed[number]:
            for source in traced.values[number].sources():
                needed[source] = True
    return needed
