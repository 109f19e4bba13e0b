"""Lower an algorithm to MSCCL++ plans: assign chunks to thread blocks within the limits.

One thread block of each rank processes a chunk, or several process slices of it. So no thread block
waits for another one of its rank. One thread block processes all chunks of a combined transfer
completely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sccl.codegen.instances import Instances
from sccl.core.algorithm import Algorithm, Send
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.formats.mscclpp_plans.block_writer import (
    KINDS,
    Lane,
    write_as_packets,
    write_with_signals,
)
from sccl.formats.mscclpp_plans.executor_rules import MAX_OPERATION, block_rules
from sccl.formats.mscclpp_plans.plan_file import (
    BlockPart,
    ChannelPart,
    GpuPart,
    GroupPart,
    RemotePart,
)
from sccl.formats.mscclpp_plans.rank_actions import RankActions, packet_actions, signal_actions

MAX_BLOCKS = 64
"""Maximum number of thread blocks of a rank: all must run concurrently, and the smallest GPUs have
80 multiprocessors.
"""

Spread = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """Options of lowering.

    Attributes:
        blocks: Minimum number of thread blocks of a rank, if all memory is directly accessible.
        packets: Whether data travels in packets.
        flushes: Whether a separate operation flushes ports.
    """

    blocks: int
    packets: bool
    flushes: bool


def lower_to_gpus(instances: Instances, manner: LoweringOptions) -> tuple[list[GpuPart], int]:
    """Return the programs of all ranks, and the number of slices of each lane.

    As packets, each chunk is sent separately.

    Raises:
        TooLargeError: No number of thread blocks suffices.
    """
    algorithm, together = instances.algorithm, instances.together
    home = rank_nodes(algorithm.topology)
    ported = any(home[s.src] != home[s.dst] for s in algorithm.sends)
    if manner.packets:
        script, together = packet_actions(algorithm, home), {}
    else:
        script = signal_actions(algorithm, together)
    chunks, limit = instances.chunks_per_instance, MAX_BLOCKS // instances.count
    parties = _transfer_groups(together, chunks)
    # Few enough lanes that one holds all chunks of a transfer.
    lanes = min(chunks, manner.blocks, limit, -(-chunks // max(map(len, parties), default=1)))
    while True:
        for spread in (*_spread_groups(parties, chunks, lanes), *_lane_spreads(lanes)):
            # A slice of several chunks is not a slice of each chunk.
            slices = (
                1 if ported or parties else max(1, min(manner.blocks, limit, 16 * lanes) // lanes)
            )
            writer = _PlanWriter(algorithm, script, home, slices, manner)
            gpus = writer.gpus(partial(_instance_lane, instances, lanes, spread))
            if not any(block_rules(block) for gpu in gpus for block in gpu.threadblocks):
                return gpus, slices
        if lanes >= min(chunks, limit):
            raise TooLargeError(_size_message(gpus))
        lanes = min(2 * lanes, chunks, limit)


def _instance_lane(instances: Instances, lanes: int, spread: Spread, chunk: int) -> int:
    instance, local_chunk = instances.locate(chunk)
    return instance * lanes + spread(local_chunk)


def _transfer_groups(together: Mapping[Send, int], chunks: int) -> list[list[int]]:
    """Return the chunks of each transfer of the first instance, the largest transfer first."""
    by_party: dict[int, list[int]] = defaultdict(list)
    for send, party in sorted(together.items()):
        if send.chunk < chunks:
            by_party[party].append(send.chunk)
    return sorted(by_party.values(), key=lambda group: (-len(group), group))


def _spread_groups(parties: Sequence[Sequence[int]], chunks: int, lanes: int) -> Iterator[Spread]:
    """Yield an assignment of combined chunks to one lane, if lanes remain balanced."""
    if not parties:
        return
    max_size = -(-chunks // lanes)
    cluster = {chunk: [chunk] for chunk in range(chunks)}
    for party in parties:
        for chunk in party:
            mine, first = cluster[chunk], cluster[party[0]]
            if mine is not first and len(mine) + len(first) <= max_size:
                first += mine
                cluster |= dict.fromkeys(mine, first)
    load = [0] * lanes
    lane: dict[int, int] = {}
    for group in sorted({id(c): c for c in cluster.values()}.values(), key=lambda c: (-len(c), c)):
        lightest = load.index(min(load))
        load[lightest] += len(group)
        lane |= dict.fromkeys(group, lightest)
    yield lane.__getitem__


def _lane_spreads(lanes: int) -> tuple[Spread, ...]:
    return (
        lambda chunk: chunk % lanes,
        lambda chunk: (chunk + chunk // lanes) % lanes,
        lambda chunk: chunk * 40503 % 65536 * lanes // 65536,
    )


def _size_message(gpus: Iterable[GpuPart]) -> str:
    blocks = [(gpu.id, block) for gpu in gpus for block in gpu.threadblocks]
    rank, worst = max(blocks, key=lambda item: len(item[1].ops))
    broken = next(text for _, block in blocks for text in block_rules(block))
    return (
        f"a thread block of MSCCL++ does {MAX_OPERATION} operations, and of at most {MAX_BLOCKS} "
        f"thread blocks the fullest, on rank {rank}, would have {len(worst.ops)} ({broken}): give "
        "an algorithm of fewer chunks or steps, or fewer instances"
    )


def rank_nodes(topology: Topology) -> list[int]:
    """Return the node of each rank: its chassis, if links between chassis have a longer latency.

    The quads of a DGX-1 and the trays of an NVL72 are chassis, too, but together one node: links
    between them are like those inside, so GPUs access each other's memory.
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


class _PlanWriter:
    def __init__(
        self,
        algorithm: Algorithm,
        script: RankActions,
        home: Sequence[int],
        slices: int,
        manner: LoweringOptions,
    ) -> None:
        self.ranks = algorithm.topology.ranks
        self.script = script
        self.home = home
        self.slices = slices
        self.manner = manner

    def gpus(self, spread: Spread) -> list[GpuPart]:
        """Return the programs of ranks for a distribution of chunks among lanes."""
        lanes: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, chunk in sorted({*self.script.by_step, *self.script.copies}):
            lanes[rank][spread(chunk)].append(chunk)
        return [self._gpu(rank, lanes[rank]) for rank in range(self.ranks)]

    def _channel_kind(self, rank: int, peer: int) -> str:
        """Return the kind of channel between ranks: port across nodes, else memory."""
        return KINDS[self.home[rank] != self.home[peer]]

    def _gpu(self, rank: int, lanes: dict[int, list[int]]) -> GpuPart:
        remotes: dict[tuple[int, str], int] = {}
        peers: dict[str, list[int]] = {kind: [] for kind in KINDS}
        blocks: list[BlockPart] = []
        for _, chunks in sorted(lanes.items()):
            for part in range(self.slices):
                lane = self._lane(rank, chunks, part)
                blocks.append(lane.out.block(len(blocks), remotes, peers))
        layout = self.script.layout
        return GpuPart(
            rank,
            len(layout.inputs[rank]) * layout.parts,
            len(layout.outputs[rank]) * layout.parts,
            self.script.scratch_chunks,
            [ChannelPart(kind, kind_peers) for kind, kind_peers in peers.items() if kind_peers],
            [RemotePart(peer, type_, [self._channel_kind(rank, peer)]) for peer, type_ in remotes],
            blocks,
        )

    def _lane(self, rank: int, chunks: Sequence[int], part: int) -> Lane:
        group = GroupPart(part, self.slices) if self.slices > 1 else None
        lane = Lane(self.script, rank, chunks, partial(self._channel_kind, rank), group)
        if self.manner.packets:
            write_as_packets(lane)
        else:
            write_with_signals(lane, flushes=self.manner.flushes)
        return lane
