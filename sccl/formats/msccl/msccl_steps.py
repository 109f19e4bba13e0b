"""Convert an algorithm to MSCCL steps of ranks, before the assignment to thread blocks.

In a step of a rank, the sends of a chunk come before its arrivals, chunk by chunk. In this order,
on all ranks, every dependency of a step comes before it, so there are no cyclic waits, even if a
queue holds one message.

Sends of one transfer become one step of several chunks, if these are adjacent at both ends. Its
position in the order is that of its first chunk. So a transfer is not combined if its receiver
sends one of its chunks in the same step, since that send has to come before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sccl.codegen.buffer_layout import build_layout
from sccl.codegen.instances import Instances
from sccl.codegen.lowering import SsaValue, ValueTrace, trace_values
from sccl.core.algorithm import Send
from sccl.formats.msccl.msccl_rules import MAX_COUNT

At = tuple[str, int]
"""(buffer, index): i, o or s."""

_TransferKey = tuple[int, int, int, int]
"""(step, chunk, src, dst) of a send."""

LOCAL = (-1, -1, -1)
"""The thread block of copies within a rank."""


@dataclass(slots=True)
class MscclOp:
    """A step without a thread block.

    Attributes:
        order: (step, chunk, 0 for a send, index): all steps can be executed in this order.
        values: Sent or resulting value of each of its chunks.
        remote: Place at the receiver of a send, or at the sender of a receive.
    """

    kind: str
    order: tuple[int, int, int, int]
    values: tuple[int, ...]
    src: At
    dst: At
    remote: At
    peer: int = -1
    message: int = -1
    count: int = 1
    forward: MscclOp | None = None
    block: tuple[int, int, int] = LOCAL


class StepWriter:
    """Collects the steps of ranks, in an executable order."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self.algorithm = algorithm = instances.algorithm
        self.values = traced = trace_values(algorithm)
        self.layout = build_layout(algorithm.collective)
        self.ops: list[list[MscclOp]] = [[] for _ in range(algorithm.topology.ranks)]
        self.place: list[At] = [("i", -1)] * len(traced.values)
        self.party = _group_transfers(traced, instances.together)
        self.scratch = _assign_scratch(instances, traced, self.party)
        self.transfers: dict[int, list[tuple[MscclOp, MscclOp]]] = defaultdict(list)
        self.read = Counter(
            source
            for n, v in enumerate(traced.values)
            if traced.needed[n]
            for source in v.sources()
        )

        self._write()

    def _write(self) -> None:
        values, final = self.values.values, self.values.final
        consumed = {v.operands[1]: n for n, v in enumerate(values) if v.operands}
        for number, value in enumerate(values):
            if not self.values.needed[number]:
                continue
            if value.arrived_from is not None and number not in consumed:
                self._arrive("r", number, value, number)
            elif value.operands is not None:
                self._arrive("rrc", number, value, value.operands[1])
            elif value.arrived_from is None:
                self._begin(number, value, kept=final[value.chunk, value.rank] == number)
        for transfer in self.transfers.values():
            for sent, come in _merge_adjacent(transfer):
                self.ops[come.peer].append(sent)
                self.ops[sent.peer].append(come)
        for rank_ops in self.ops:
            rank_ops.sort(key=lambda op: op.order)

    def are_only_sent(self, numbers: Sequence[int]) -> bool:
        """Return whether values are read once each, and are not part of the final state."""
        return all(map(self._is_only_sent, numbers))

    def _is_only_sent(self, number: int) -> bool:
        value = self.values.values[number]
        last = self.values.final[value.chunk, value.rank] == number
        return self.read[number] == 1 and not last

    def _begin(self, number: int, value: SsaValue, *, kept: bool) -> None:
        rank, chunk = value.rank, value.chunk
        self.place[number] = ("i", self.layout.input_index(rank, chunk))
        if kept and rank in self.algorithm.collective.destinations(chunk):
            output = ("o", self.layout.output_index(rank, chunk))
            home = self.place[number]
            self.ops[rank].append(
                MscclOp("cpy", (-1, chunk, 1, -1), (number,), home, output, output)
            )

    def _arrive(self, kind: str, number: int, value: SsaValue, arrival: int) -> None:
        source = self.values.values[arrival].arrived_from
        assert source is not None
        rank, chunk, step = value.rank, value.chunk, value.step
        peer = self.values.values[source].rank
        wanted = rank in self.algorithm.collective.destinations(chunk)
        if wanted:
            self.place[number] = ("o", self.layout.output_index(rank, chunk))
        else:
            self.place[number] = ("s", self.scratch[chunk, rank])
        origin, home = self.place[source], self.place[number]
        operand = home if value.operands is None else self.place[value.operands[0]]
        order, kept = (step, chunk, 1, number), (number,)
        sent = MscclOp("s", (step, chunk, 0, rank), (source,), origin, home, home, rank, arrival)
        come = MscclOp(kind, order, kept, operand, home, origin, peer, arrival)
        # A separate transfer gets a negative number, which no combined transfer has.
        self.transfers[self.party.get(arrival, ~arrival)].append((sent, come))


def _group_transfers(traced: ValueTrace, together: Mapping[Send, int]) -> dict[int, int]:
    """Return the combined transfer of each arrival, if no other send or arrival meets it there."""
    arrivals: dict[int, _TransferKey] = {}
    meets: Counter[tuple[int, int, int]] = Counter()
    for number, value in enumerate(traced.values):
        if traced.needed[number] and value.arrived_from is not None:
            src = traced.values[value.arrived_from].rank
            arrivals[number] = (value.step, value.chunk, src, value.rank)
            meets.update((value.step, value.chunk, rank) for rank in (src, value.rank))
    transfers: dict[_TransferKey, int] = {
        (s.step, s.chunk, s.src, s.dst): n for s, n in together.items()
    }
    return {
        number: transfers[move]
        for number, move in arrivals.items()
        if move in transfers and meets[move[0], move[1], move[3]] == 1
    }


def _merge_adjacent(
    transfer: Sequence[tuple[MscclOp, MscclOp]],
) -> Iterator[tuple[MscclOp, MscclOp]]:
    """Yield the steps of a transfer, with those of adjacent chunks merged."""
    last: tuple[MscclOp, MscclOp] | None = None
    for pair in sorted(transfer, key=lambda ops: (ops[0].src, ops[0].dst)):
        if last is not None and last[0].count < MAX_COUNT and _are_adjacent(last, pair):
            last = _merge_pair(last[0], pair[0]), _merge_pair(last[1], pair[1])
            continue
        if last is not None:
            yield last
        last = pair
    if last is not None:
        yield last


def _are_adjacent(first: tuple[MscclOp, MscclOp], then: tuple[MscclOp, MscclOp]) -> bool:
    """Return whether the data of two steps are adjacent at both ends."""
    return first[1].kind == then[1].kind and all(
        b == (a[0], a[1] + earlier.count)
        for earlier, later in zip(first, then, strict=True)
        for a, b in ((earlier.src, later.src), (earlier.dst, later.dst))
    )


def _merge_pair(first: MscclOp, then: MscclOp) -> MscclOp:
    values, order = first.values + then.values, min(first.order, then.order)
    return replace(first, order=order, values=values, count=first.count + then.count)


def _assign_scratch(
    instances: Instances, traced: ValueTrace, party: Mapping[int, int]
) -> dict[tuple[int, int], int]:
    """Assign scratch places to (chunk, rank), reusing the memory of dead values.

    Data that arrive together are adjacent if possible. Each instance has its own memory.
    """
    algorithm = instances.algorithm
    spans: list[dict[int, list[int]]] = [{} for _ in range(algorithm.topology.ranks)]
    for number, value in enumerate(traced.values):
        for source in value.sources() if traced.needed[number] else ():
            earlier = traced.values[source]
            for item in (value, earlier):
                if item.step >= 0 and item.rank not in algorithm.collective.destinations(
                    item.chunk
                ):
                    span = spans[item.rank].setdefault(item.chunk, [item.step, item.step])
                    span[0], span[1] = min(span[0], item.step), max(span[1], value.step)
    comes: dict[tuple[int, int], int] = {}
    for number, transfer in party.items():
        value = traced.values[number]
        comes.setdefault((value.chunk, value.rank), transfer)
    each = instances.chunks_per_instance
    slots: dict[tuple[int, int], int] = {}
    for rank, rank_spans in enumerate(spans):
        free_from: list[int] = []
        for first, _, chunk in sorted(
            (span[0], comes.get((chunk, rank), -1), chunk)
            for chunk, span in rank_spans.items()
            if chunk < each
        ):
            free = [slot for slot, until in enumerate(free_from) if until < first]
            slot = free[0] if free else len(free_from)
            free_from[slot : slot + 1] = [rank_spans[chunk][1]]
            slots[chunk, rank] = slot
        for chunk in rank_spans:
            instance, local_chunk = instances.locate(chunk)
            slots[chunk, rank] = slots[local_chunk, rank] + instance * len(free_from)
    return slots
