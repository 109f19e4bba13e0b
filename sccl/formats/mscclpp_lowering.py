"""From an algorithm to an MSCCL++ plan: lanes of chunks, each a thread block on every rank.

All that concerns a chunk is done by one thread block of each rank, over channels that no other
uses. So thread blocks never wait for one another on a rank: there are no barriers and no device
semaphores, of which there are 16, and a chunk moves on as soon as it can, whatever others do.
Where there are fewer lanes than thread blocks are wanted, several do a lane's chunks in slices.

Senders write: what ends in the output goes there at once, which is one copy less than over scratch;
what is still to be added up goes to a place of its own in scratch, so that nobody has to be told
that it is free again. Each call begins by every rank telling its senders that it has entered, since
their writes could come before it has; any one-sided write into a buffer of the user's has to wait
for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sccl.core.algorithm import Algorithm
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.formats.mscclpp_plan import (
    MAX_BUFFERS_PER_OPERATION,
    MAX_CHANNEL_PER_OPERATION,
    MAX_OPERATION,
    BlockPart,
    BufferPart,
    BufferRefPart,
    ChannelPart,
    ChannelRefPart,
    GpuPart,
    GroupPart,
    OpPart,
    RemotePart,
    block_rules,
)
from sccl.lower.layout import BufferLayout, layout_of
from sccl.lower.values import trace

MAX_BLOCKS = 64
"""Thread blocks of a rank: all have to run at once, and the smallest of GPUs has 80 places."""

At = tuple[str, int]
"""(i, o or s; index): a place of a rank."""

KINDS = ("memory", "port")
Spread = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class _Sending:
    src: At
    dst: At
    peer: int


@dataclass(frozen=True, slots=True)
class _Adding:
    srcs: tuple[At, ...]
    dst: At


@dataclass(slots=True)
class _Doing:
    """What a rank does for a chunk in a step: sends, then awaits, then adds up."""

    sends: list[_Sending] = field(default_factory=list)
    froms: set[int] = field(default_factory=set)
    adds: list[_Adding] = field(default_factory=list)


@dataclass(slots=True)
class _Script:
    """What ranks do.

    Attributes:
        doing: by rank and chunk, of each step.
        copies: by rank and chunk, what is only moved from input to output.
        scratch: places of it, by rank.
    """

    layout: BufferLayout
    doing: dict[tuple[int, int], dict[int, _Doing]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_Doing))
    )
    copies: dict[tuple[int, int], _Adding] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def fresh(self, rank: int) -> At:
        """Return a place of scratch that nothing else uses."""
        self.scratch[rank] += 1
        return ("s", self.scratch[rank] - 1)


def gpus_of(algorithm: Algorithm, blocks: int) -> tuple[list[GpuPart], int]:
    """Return what every rank runs, and how many slices each lane has.

    Args:
        blocks: thread blocks of a rank at least, where all memory is reached directly.

    Raises:
        TooLargeError: no number of thread blocks is enough.
    """
    script = _script(algorithm)
    home = nodes_of(algorithm.topology)
    ported = any(home[s.src] != home[s.dst] for s in algorithm.sends)
    chunks = algorithm.collective.num_chunks
    lanes = min(chunks, blocks, MAX_BLOCKS)
    while True:
        for spread in _spreads(lanes):
            slices = 1 if ported else max(1, min(blocks // lanes, 16))
            writer = _Writer(algorithm, script, home, slices)
            gpus = writer.gpus(spread)
            if not any(block_rules(block) for gpu in gpus for block in gpu.threadblocks):
                return gpus, slices
        if lanes >= min(chunks, MAX_BLOCKS):
            raise TooLargeError(_too_large(gpus))
        lanes = min(2 * lanes, chunks, MAX_BLOCKS)


def _spreads(lanes: int) -> tuple[Spread, ...]:
    return (
        lambda chunk: chunk % lanes,
        lambda chunk: (chunk + chunk // lanes) % lanes,
        lambda chunk: chunk * 40503 % 65536 * lanes // 65536,
    )


def _too_large(gpus: Iterable[GpuPart]) -> str:
    blocks = [(gpu.id, block) for gpu in gpus for block in gpu.threadblocks]
    rank, worst = max(blocks, key=lambda item: len(item[1].ops))
    broken = next(text for _, block in blocks for text in block_rules(block))
    return (
        f"a thread block of MSCCL++ does {MAX_OPERATION} operations, and of at most {MAX_BLOCKS} "
        f"thread blocks the fullest, on rank {rank}, would have {len(worst.ops)} ({broken}): give "
        "an algorithm of fewer chunks or steps"
    )


def nodes_of(topology: Topology) -> list[int]:
    """Return the node of each rank: its chassis, if links between chassis have a longer latency.

    The quads of a DGX-1 and the trays of an NVL72 are chassis too, and all of them one node: their
    GPUs reach one another's memory over links that are like those inside.
    """
    home = [-1] * topology.ranks
    for number, ranks in enumerate(topology.chassis):
        for rank in ranks:
            home[rank] = number
    direct = [k for k in topology.links if max(k.edge) < topology.ranks]
    inside = [k.alpha_us for k in direct if home[k.src] == home[k.dst]]
    across = [k.alpha_us for k in direct if home[k.src] != home[k.dst]]
    if inside and across and min(across) <= max(inside):
        return [0] * topology.ranks
    return home


def _script(algorithm: Algorithm) -> _Script:
    found, collective = trace(algorithm), algorithm.collective
    layout = layout_of(collective)
    script = _Script(layout)
    place: dict[int, At] = {}
    operand = {v.operands[1]: n for n, v in enumerate(found.values) if v.operands}
    for number, value in enumerate(found.values):
        if not found.needed[number]:
            continue
        rank, chunk = value.rank, value.chunk
        ends = found.final[chunk, rank] == number and rank in collective.wanted(chunk)
        output: At = ("o", layout.output_index(rank, chunk)) if ends else ("", 0)
        if value.operands is not None:
            older, come = value.operands
            target = output if ends else place[come]
            adding = _Adding((place[older], place[come]), target)
            script.doing[rank, chunk][value.step].adds.append(adding)
            place[number] = target
        elif value.arrived_from is None:
            place[number] = ("i", layout.input_index(rank, chunk))
            if ends:
                script.copies[rank, chunk] = _Adding((place[number],), output)
        else:
            source = found.values[value.arrived_from].rank
            there = output if ends and number not in operand else script.fresh(rank)
            place[number] = there
            sending = _Sending(place[value.arrived_from], there, rank)
            script.doing[source, chunk][value.step].sends.append(sending)
            script.doing[rank, chunk][value.step].froms.add(source)
    return script


class _Writer:
    """Writes plans of lanes."""

    def __init__(
        self, algorithm: Algorithm, script: _Script, home: Sequence[int], slices: int
    ) -> None:
        self.algorithm = algorithm
        self.script = script
        self.home = home
        self.slices = slices
        self.layout = script.layout

    def gpus(self, spread: Spread) -> list[GpuPart]:
        """Return what ranks run if chunks are spread over lanes so."""
        lanes: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, chunk in sorted({*self.script.doing, *self.script.copies}):
            lanes[rank][spread(chunk)].append(chunk)
        return [self._gpu(rank, lanes[rank]) for rank in range(self.algorithm.topology.ranks)]

    def kind(self, rank: int, peer: int) -> str:
        """Return over what kind of channel ranks talk: across nodes a proxy's."""
        return KINDS[self.home[rank] != self.home[peer]]

    def _gpu(self, rank: int, lanes: dict[int, list[int]]) -> GpuPart:
        remotes: dict[tuple[int, str], int] = {}
        peers: dict[str, list[int]] = {kind: [] for kind in KINDS}
        blocks: list[BlockPart] = []
        for _, chunks in sorted(lanes.items()):
            for part in range(self.slices):
                lane = _Lane(self, rank, chunks, part)
                lane.write()
                blocks.append(lane.block(len(blocks), remotes, peers))
        layout = self.layout
        return GpuPart(
            rank,
            len(layout.inputs[rank]) * layout.parts,
            len(layout.outputs[rank]) * layout.parts,
            max(self.script.scratch.values(), default=0),
            [ChannelPart(kind, own) for kind, own in peers.items() if own],
            [RemotePart(peer, type_, [self.kind(rank, peer)]) for peer, type_ in remotes],
            blocks,
        )


class _Lane:
    """A thread block while it is written."""

    def __init__(self, writer: _Writer, rank: int, chunks: Sequence[int], part: int) -> None:
        self.writer = writer
        self.rank = rank
        self.ops: list[OpPart] = []
        doing = [(c, writer.script.doing.get((rank, c), {})) for c in chunks]
        self.steps: dict[int, list[_Doing]] = defaultdict(list)
        for _, steps in doing:
            for step, one in sorted(steps.items()):
                self.steps[step].append(one)
        self.copies = [
            writer.script.copies[rank, c] for c in chunks if (rank, c) in writer.script.copies
        ]
        everything = [one for found in self.steps.values() for one in found]
        self.to = sorted({s.peer for one in everything for s in one.sends})
        self.froms = sorted({peer for one in everything for peer in one.froms})
        everyone = sorted({*self.to, *self.froms})
        self.channels = {k: [p for p in everyone if writer.kind(rank, p) == k] for k in KINDS}
        self.buffers: dict[str, dict[tuple[int, str], int]] = {kind: {} for kind in KINDS}
        self.group = GroupPart(part, writer.slices) if writer.slices > 1 else None
        self.loose = False  # whether threads have touched data since they met
        self.waited = False
        self.touched: set[At] = set()

    def write(self) -> None:
        """Write the operations."""
        self._tell("rlxsignal", self.froms)
        for copy in self.copies:
            self._do("copy", copy.srcs, [copy.dst], [])
        self._tell("rlxwait", self.to)
        last = {s.peer: t for t in sorted(self.steps) for one in self.steps[t] for s in one.sends}
        for step in sorted(self.steps):
            found = self.steps[step]
            self._send([s for one in found for s in one.sends], step, last)
            self._tell("wait", sorted({peer for one in found for peer in one.froms}))
            for one in found:
                self._add(one.adds)

    def _send(self, sends: Sequence[_Sending], step: int, last: dict[int, int]) -> None:
        near = [s for s in sends if self.writer.kind(self.rank, s.peer) == "memory"]
        far = [s for s in sends if self.writer.kind(self.rank, s.peer) == "port"]
        self._put("put", near)
        closing = {s.peer: s for s in far}
        self._put("put", [s for s in far if closing[s.peer] is not s])
        self._put("pwsf", [s for s in closing.values() if last[s.peer] == step])
        self._put("pws", [s for s in closing.values() if last[s.peer] != step])
        self._tell("signal", sorted({s.peer for s in near}))

    def _put(self, name: str, sends: Sequence[_Sending]) -> None:
        for kind in sorted({s.src[0] for s in sends}):
            of_kind = [s for s in sends if s.src[0] == kind]
            for begin in range(0, len(of_kind), MAX_CHANNEL_PER_OPERATION):
                some = of_kind[begin : begin + MAX_CHANNEL_PER_OPERATION]
                self._do(name, [s.src for s in some], [], [(s.peer, s.dst) for s in some])

    def _add(self, adds: Sequence[_Adding]) -> None:
        """Add up what has come: all to one place in as few operations as there is room for."""
        srcs: list[At] = []
        dst: At | None = None
        for add in adds:
            if dst is not None and add.srcs[0] == dst and len(srcs) < MAX_BUFFERS_PER_OPERATION:
                srcs.append(add.srcs[1])
            else:
                self._re(srcs, dst)
                srcs = list(add.srcs)
            dst = add.dst
        self._re(srcs, dst)

    def _re(self, srcs: Sequence[At], dst: At | None) -> None:
        if dst is not None:
            self._do("re", srcs, [dst], [])

    def _do(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], far: Sequence[tuple[int, At]]
    ) -> None:
        if self.waited or self.touched & {*srcs, *dsts}:
            self._meet()
        kinds = [self.writer.kind(self.rank, peer) for peer, _ in far]
        kind = kinds[0] if kinds else None
        outs = [BufferPart(at[1], 1, type=at[0]) for at in dsts]
        for peer, at in far:
            own = self.buffers[kind or ""]
            number = own.setdefault((peer, at[0]), len(own))
            outs.append(BufferPart(at[1], 1, buffer_id=number))
        self.ops.append(
            OpPart(
                name,
                channel_type=kind,
                channel_ids=[self.channels[kind or ""].index(peer) for peer, _ in far],
                src_buff=[BufferPart(at[1], 1, type=at[0]) for at in srcs],
                dst_buff=outs,
                tbg_info=self.group,
                reduce_op="sum" if name == "re" else None,
            )
        )
        self.touched |= set(dsts)
        self.loose = True

    def _tell(self, name: str, peers: Sequence[int]) -> None:
        """Signal to some, or wait for some."""
        waits = name in {"wait", "rlxwait"}
        for kind in KINDS:
            own = [p for p in peers if self.writer.kind(self.rank, p) == kind]
            for begin in range(0, len(own), MAX_CHANNEL_PER_OPERATION):
                some = own[begin : begin + MAX_CHANNEL_PER_OPERATION]
                if self.loose and not waits:
                    self._meet()
                relaxed = name if kind == "memory" else name.removeprefix("rlx")
                ids = [self.channels[kind].index(p) for p in some]
                self.ops.append(OpPart(relaxed, channel_type=kind, channel_ids=ids))
                self.waited |= waits

    def _meet(self) -> None:
        self.ops.append(OpPart("nop"))
        self.loose, self.waited = False, False
        self.touched.clear()

    def block(
        self, number: int, remotes: dict[tuple[int, str], int], peers: dict[str, list[int]]
    ) -> BlockPart:
        """Return the thread block; its rank's channels and remote buffers are added to."""
        channels, refs = [], []
        for kind in KINDS:
            own = self.channels[kind]
            if own:
                ids = list(range(len(peers[kind]), len(peers[kind]) + len(own)))
                channels.append(ChannelRefPart(kind, ids))
                peers[kind] += own
            if self.buffers[kind]:
                known = [remotes.setdefault(key, len(remotes)) for key in self.buffers[kind]]
                refs.append(BufferRefPart(kind, known))
        return BlockPart(number, self.ops, channels, refs)
