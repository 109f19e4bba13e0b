"""Compute the actions of ranks for each chunk and step, and the places of data.

Senders write into receivers' memory. With signals, final outputs are written directly to their
place, which saves a copy through scratch, and operands of reductions get separate places in
scratch. With packets, every chunk gets a separate place in scratch, where the receiver reads it. So
within a call no place is reused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sccl.codegen.buffer_layout import BufferLayout, build_layout
from sccl.codegen.lowering import SsaValue, ValueTrace, trace_values
from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective

At = tuple[str, int]
"""(buffer i, o, s or p, index): a place of a rank. If s contains packets, p is scratch for data."""


@dataclass(frozen=True, slots=True)
class SendAction:
    """A send of one place, or of several adjacent places, to a peer.

    Attributes:
        party: Number of the combined transfer that contains it. None: it is a separate transfer.
    """

    src: At
    dst: At
    peer: int
    party: int | None = None
    size: int = 1

    def places(self) -> set[At]:
        """Return the places that are sent."""
        return {(self.src[0], self.src[1] + i) for i in range(self.size)}


@dataclass(frozen=True, slots=True)
class AddAction:
    """A sum of places, which for one place is a copy."""

    srcs: tuple[At, ...]
    dst: At


@dataclass(slots=True)
class StepActions:
    """The actions of a rank for a chunk in a step: sends, then waits, then reductions and copies.

    Attributes:
        packs: Copies into packets here, which ports send as they are.
        unpacks: Copies from received packets.
    """

    sends: list[SendAction] = field(default_factory=list)
    awaited_peers: set[int] = field(default_factory=set)
    adds: list[AddAction] = field(default_factory=list)
    packs: list[AddAction] = field(default_factory=list)
    unpacks: list[AddAction] = field(default_factory=list)


@dataclass(slots=True)
class RankActions:
    """The actions of ranks.

    Attributes:
        by_step: Actions of each step, by rank and chunk.
        copies: Copies from input to output, by rank and chunk.
        transfers: Transfers of several chunks, by (step, chunk, src, dst) of their sends.
        scratch: Number of scratch places, by rank.
        plain: Number of scratch places with data instead of packets, by rank.
    """

    layout: BufferLayout
    by_step: dict[tuple[int, int], dict[int, StepActions]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(StepActions))
    )
    copies: dict[tuple[int, int], AddAction] = field(default_factory=dict)
    transfers: Mapping[tuple[int, int, int, int], int] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    plain: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def fresh(self, rank: int) -> At:
        """Return an unused place of scratch."""
        self.scratch[rank] += 1
        return ("s", self.scratch[rank] - 1)

    def fresh_plain(self, rank: int) -> At:
        """Return an unused place of scratch for data."""
        self.plain[rank] += 1
        return ("p", self.plain[rank] - 1)

    @property
    def packets(self) -> int:
        """Return the maximum number of scratch places of a rank, without those for plain data."""
        return max(self.scratch.values(), default=0)

    @property
    def scratch_chunks(self) -> int:
        """Return the chunks of scratch. Two places for data are as large as one for packets."""
        return self.packets + -(-max(self.plain.values(), default=0) // 2)

    def add_send(self, value: SsaValue, src: At, landing: At, traced: ValueTrace) -> None:
        """Record the send that delivers a value from a place of another rank."""
        assert value.arrived_from is not None
        source = traced.values[value.arrived_from].rank
        party = self.transfers.get((value.step, value.chunk, source, value.rank))
        sending = SendAction(src, landing, value.rank, party)
        self.by_step[source, value.chunk][value.step].sends.append(sending)
        self.by_step[value.rank, value.chunk][value.step].awaited_peers.add(source)


def signal_actions(algorithm: Algorithm, together: Mapping[Send, int]) -> RankActions:
    """Return the actions of ranks with signals for arrivals.

    Args:
        together: Transfer number of each send of a combined transfer.
    """
    traced, collective = trace_values(algorithm), algorithm.collective
    layout = build_layout(collective)
    script = RankActions(
        layout, transfers={(s.step, s.chunk, s.src, s.dst): n for s, n in together.items()}
    )
    place: list[At] = [("", 0)] * len(traced.values)
    operands = {value.operands[1] for value in traced.values if value.operands}
    for number, value in enumerate(traced.values):
        if not traced.needed[number]:
            continue
        rank, chunk = value.rank, value.chunk
        output = _output_place(traced, layout, collective, number)
        if value.operands is not None:
            older, come = value.operands
            target = output or place[come]
            adding = AddAction((place[older], place[come]), target)
            script.by_step[rank, chunk][value.step].adds.append(adding)
            place[number] = target
        elif value.arrived_from is None:
            place[number] = ("i", layout.input_index(rank, chunk))
            if output:
                script.copies[rank, chunk] = AddAction((place[number],), output)
        else:
            landing = output if output and number not in operands else script.fresh(rank)
            place[number] = landing
            script.add_send(value, place[value.arrived_from], landing, traced)
    return script


def packet_actions(algorithm: Algorithm, home: Sequence[int]) -> RankActions:
    """Return the actions of ranks with packets, which contain flags of their arrival.

    A rank stores its sums of a chunk at the chunk's final place, or else in one place of scratch:
    when the next sum replaces a sum, all sends of the latter are complete.

    Args:
        home: Node of each rank. Packets between nodes are sent from scratch.
    """
    traced, collective = trace_values(algorithm), algorithm.collective
    layout = build_layout(collective)
    script = RankActions(layout)
    place: list[At] = [("", 0)] * len(traced.values)
    sums: dict[tuple[int, int], At] = {}
    packed: dict[int, At] = {}
    for number, value in enumerate(traced.values):
        if not traced.needed[number]:
            continue
        rank, chunk = value.rank, value.chunk
        output = _output_place(traced, layout, collective, number)
        if value.operands is not None:
            older, come = (place[operand] for operand in value.operands)
            if (rank, chunk) not in sums:
                ends = rank in collective.destinations(chunk)
                at = ("o", layout.output_index(rank, chunk)) if ends else script.fresh_plain(rank)
                sums[rank, chunk] = at
            place[number] = target = sums[rank, chunk]
            doing = script.by_step[rank, chunk][value.step]
            if older[0] == "s":  # packets are added to data
                doing.adds.append(AddAction((older,), target))
                older = target
            doing.adds.append(AddAction((older, come), target))
        elif value.arrived_from is None:
            place[number] = ("i", layout.input_index(rank, chunk))
            if output:
                script.copies[rank, chunk] = AddAction((place[number],), output)
        else:
            source, src = traced.values[value.arrived_from].rank, place[value.arrived_from]
            place[number] = script.fresh(rank)
            if home[source] != home[rank] and src[0] != "s":
                if value.arrived_from not in packed:
                    packed[value.arrived_from] = script.fresh(source)
                    pack = AddAction((src,), packed[value.arrived_from])
                    script.by_step[source, chunk][value.step].packs.append(pack)
                src = packed[value.arrived_from]
            script.add_send(value, src, place[number], traced)
            if output:
                unpack = AddAction((place[number],), output)
                script.by_step[rank, chunk][value.step].unpacks.append(unpack)
    return script


def _output_place(
    traced: ValueTrace, layout: BufferLayout, collective: Collective, number: int
) -> At | None:
    """Return the output place of a value, None if it is not part of the result."""
    value = traced.values[number]
    ends = traced.final[value.chunk, value.rank] == number
    if not ends or value.rank not in collective.destinations(value.chunk):
        return None
    return ("o", layout.output_index(value.rank, value.chunk))
