"""Convert an algorithm to MSCCL steps of ranks, before the assignment to thread blocks.

In a step of a rank, the sends of a chunk come before its arrivals, chunk by chunk. In this order,
on all ranks, every dependency of a step comes before it, so there are no cyclic waits, even if a
queue holds one message.

Sends of one transfer are one step of several chunks, as far as these are adjacent at both ends. It
has the place of its first chunk in the order. It is therefore not used if its receiver sends one of
its chunks in the same step, which has to come before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.core.algorithm import Send
from sccl.formats.msccl_rules import MAX_COUNT
from sccl.lower import layout_of
from sccl.lower.instances import Instances
from sccl.lower.values import Trace, Value, trace

At = tuple[str, int]
"""(buffer, index): i, o or s."""

_Way = tuple[int, int, int, int]
"""(step, chunk, src, dst) of a send."""

LOCAL = (-1, -1, -1)
"""The thread block of copies within a rank."""


@dataclass(slots=True)
class MscclOp:
    """A step without a thread block.

    Attributes:
        order: (step, chunk, 0 for a send, index): all steps can be executed in this order.
        values: Value that it sends, or that it leaves, for each of its chunks.
        far: Place at the receiver of a send, or at the sender of a receive.
    """

    kind: str
    order: tuple[int, int, int, int]
    values: tuple[int, ...]
    src: At
    dst: At
    far: At
    peer: int = -1
    message: int = -1
    count: int = 1
    onward: MscclOp | None = None
    block: tuple[int, int, int] = LOCAL


class Writer:
    """Collects the steps of ranks, in an executable order."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self.algorithm = algorithm = instances.algorithm
        self.found = found = trace(algorithm)
        self.layout = layout_of(algorithm.collective)
        self.ops: list[list[MscclOp]] = [[] for _ in range(algorithm.topology.ranks)]
        self.place: list[At] = [("i", -1)] * len(found.values)
        self.party = _parties(found, instances.together)
        self.scratch = _scratch(instances, found, self.party)
        self.transfers: dict[int, list[tuple[MscclOp, MscclOp]]] = defaultdict(list)
        self.read = Counter(
            source for n, v in enumerate(found.values) if found.needed[n] for source in v.sources()
        )

        self._write()

    def _write(self) -> None:
        values, final = self.found.values, self.found.final
        consumed = {v.operands[1]: n for n, v in enumerate(values) if v.operands}
        for number, value in enumerate(values):
            if not self.found.needed[number]:
                continue
            if value.arrived_from is not None and number not in consumed:
                self._arrive("r", number, value, number)
            elif value.operands is not None:
                self._arrive("rrc", number, value, value.operands[1])
            elif value.arrived_from is None:
                self._begin(number, value, kept=final[value.chunk, value.rank] == number)
        for transfer in self.transfers.values():
            for sent, come in _beside(transfer):
                self.ops[come.peer].append(sent)
                self.ops[sent.peer].append(come)
        for own in self.ops:
            own.sort(key=lambda op: op.order)

    def are_only_sent(self, numbers: Sequence[int]) -> bool:
        """Return whether values are read once each, and are not part of the final state."""
        return all(map(self._is_only_sent, numbers))

    def _is_only_sent(self, number: int) -> bool:
        value = self.found.values[number]
        last = self.found.final[value.chunk, value.rank] == number
        return self.read[number] == 1 and not last

    def _begin(self, number: int, value: Value, *, kept: bool) -> None:
        rank, chunk = value.rank, value.chunk
        self.place[number] = ("i", self.layout.input_index(rank, chunk))
        if kept and rank in self.algorithm.collective.wanted(chunk):
            there = ("o", self.layout.output_index(rank, chunk))
            here = self.place[number]
            self.ops[rank].append(MscclOp("cpy", (-1, chunk, 1, -1), (number,), here, there, there))

    def _arrive(self, kind: str, number: int, value: Value, arrival: int) -> None:
        source = self.found.values[arrival].arrived_from
        assert source is not None
        rank, chunk, step = value.rank, value.chunk, value.step
        peer = self.found.values[source].rank
        wanted = rank in self.algorithm.collective.wanted(chunk)
        if wanted:
            self.place[number] = ("o", self.layout.output_index(rank, chunk))
        else:
            self.place[number] = ("s", self.scratch[chunk, rank])
        there, home = self.place[source], self.place[number]
        own = home if value.operands is None else self.place[value.operands[0]]
        order, kept = (step, chunk, 1, number), (number,)
        sent = MscclOp("s", (step, chunk, 0, rank), (source,), there, home, home, rank, arrival)
        come = MscclOp(kind, order, kept, own, home, there, peer, arrival)
        # What is a transfer by itself has a number that no party has.
        self.transfers[self.party.get(arrival, ~arrival)].append((sent, come))


def _parties(found: Trace, together: Mapping[Send, int]) -> dict[int, int]:
    """Return the transfers of arrivals that come together, where nothing else meets them there."""
    arrivals: dict[int, _Way] = {}
    meets: Counter[tuple[int, int, int]] = Counter()
    for number, value in enumerate(found.values):
        if found.needed[number] and value.arrived_from is not None:
            src = found.values[value.arrived_from].rank
            arrivals[number] = (value.step, value.chunk, src, value.rank)
            meets.update((value.step, value.chunk, rank) for rank in (src, value.rank))
    ways: dict[_Way, int] = {(s.step, s.chunk, s.src, s.dst): n for s, n in together.items()}
    return {
        number: ways[way]
        for number, way in arrivals.items()
        if way in ways and meets[way[0], way[1], way[3]] == 1
    }


def _beside(transfer: Sequence[tuple[MscclOp, MscclOp]]) -> Iterator[tuple[MscclOp, MscclOp]]:
    """Yield the steps of a transfer, those of chunks that lie beside one another as one."""
    last: tuple[MscclOp, MscclOp] | None = None
    for pair in sorted(transfer, key=lambda ops: (ops[0].src, ops[0].dst)):
        if last is not None and last[0].count < MAX_COUNT and _follow(last, pair):
            last = _as_one(last[0], pair[0]), _as_one(last[1], pair[1])
            continue
        if last is not None:
            yield last
        last = pair
    if last is not None:
        yield last


def _follow(first: tuple[MscclOp, MscclOp], then: tuple[MscclOp, MscclOp]) -> bool:
    """Return whether the data of two steps are adjacent at both ends."""
    return first[1].kind == then[1].kind and all(
        b == (a[0], a[1] + one.count)
        for one, other in zip(first, then, strict=True)
        for a, b in ((one.src, other.src), (one.dst, other.dst))
    )


def _as_one(first: MscclOp, then: MscclOp) -> MscclOp:
    values, order = first.values + then.values, min(first.order, then.order)
    return replace(first, order=order, values=values, count=first.count + then.count)


def _scratch(
    instances: Instances, found: Trace, party: Mapping[int, int]
) -> dict[tuple[int, int], int]:
    """Return the scratch place of (chunk, rank), with as little memory as is alive in a step.

    Data that arrive together are adjacent if possible. Each instance has its own memory.
    """
    algorithm = instances.algorithm
    spans: list[dict[int, list[int]]] = [{} for _ in range(algorithm.topology.ranks)]
    for number, value in enumerate(found.values):
        for source in value.sources() if found.needed[number] else ():
            earlier = found.values[source]
            for one in (value, earlier):
                if one.step >= 0 and one.rank not in algorithm.collective.wanted(one.chunk):
                    span = spans[one.rank].setdefault(one.chunk, [one.step, one.step])
                    span[0], span[1] = min(span[0], one.step), max(span[1], value.step)
    comes: dict[tuple[int, int], int] = {}
    for number, transfer in party.items():
        value = found.values[number]
        comes.setdefault((value.chunk, value.rank), transfer)
    each = instances.each
    slots: dict[tuple[int, int], int] = {}
    for rank, own in enumerate(spans):
        free_from: list[int] = []
        for first, _, chunk in sorted(
            (span[0], comes.get((chunk, rank), -1), chunk)
            for chunk, span in own.items()
            if chunk < each
        ):
            free = [slot for slot, until in enumerate(free_from) if until < first]
            slot = free[0] if free else len(free_from)
            free_from[slot : slot + 1] = [own[chunk][1]]
            slots[chunk, rank] = slot
        for chunk in own:
            instance, same = instances.of(chunk)
            slots[chunk, rank] = slots[same, rank] + instance * len(free_from)
    return slots
