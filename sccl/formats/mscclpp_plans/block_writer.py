"""Write the operations of an MSCCL++ thread block for its chunks, over signals or as packets.

With signals, each call begins with a signal from every rank to its senders that it has entered the
call. Any one-sided write into a user's buffer must wait for this signal. Packets go to scratch
only, and calls alternate between its two halves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sccl.formats.mscclpp_plans.executor_rules import (
    MAX_BUFFERS_PER_OPERATION,
    MAX_CHANNEL_PER_OPERATION,
)
from sccl.formats.mscclpp_plans.plan_file import (
    BlockPart,
    BufferPart,
    BufferRefPart,
    ChannelRefPart,
    GroupPart,
    OpPart,
)
from sccl.formats.mscclpp_plans.rank_actions import (
    AddAction,
    At,
    RankActions,
    SendAction,
    StepActions,
)

KINDS = ("memory", "port")
T = TypeVar("T")
REDUCING = frozenset({"re", "res", "repkt", "respkt"})


def batch_channels(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield batches of items with at most one item per channel of an operation."""
    for begin in range(0, len(items), MAX_CHANNEL_PER_OPERATION):
        yield items[begin : begin + MAX_CHANNEL_PER_OPERATION]


class BlockWriter:
    """Writes the operations of a thread block.

    Args:
        kind: Kind of channel to a peer.
        first_plain: First scratch place for data without packets, in chunks.
    """

    def __init__(
        self,
        peers: Sequence[int],
        kind: Callable[[int], str],
        group: GroupPart | None,
        first_plain: int,
    ) -> None:
        self.ops: list[OpPart] = []
        self.kind = kind
        self.channels = {k: [p for p in peers if kind(p) == k] for k in KINDS}
        self.buffers: dict[str, dict[tuple[int, str], int]] = {k: {} for k in KINDS}
        self.group = group
        self.first_plain = first_plain
        self.loose = False  # data accessed since the last thread sync
        self.waited = False
        self.touched: set[At] = set()

    def packets(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], sends: Sequence[SendAction]
    ) -> None:
        """Write an operation on packets, in all of which a thread processes the same words."""
        self._write(name, srcs, dsts, sends)
        self.touched |= {*srcs, *dsts}
        self.loose = True

    def data(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], sends: Sequence[SendAction]
    ) -> None:
        """Write an operation whose words any thread may process, after a sync if necessary."""
        if self.waited or self.touched & {*srcs, *dsts}:
            self.sync_threads()
        self._write(name, srcs, dsts, sends)
        self.touched |= set(dsts)
        self.loose = True

    def put(self, name: str, sends: Sequence[SendAction]) -> None:
        """Write a send. If necessary, threads synchronize before it."""
        if self.waited or any(self.touched & s.places() for s in sends):
            self.sync_threads()
        self._write(name, [s.src for s in sends], [], sends)
        self.loose = True

    def signal(self, name: str, peers: Sequence[int]) -> None:
        """Write signals to peers, or waits for peers."""
        waits = name in {"wait", "rlxwait"}
        for kind in KINDS:
            for batch in batch_channels([p for p in peers if self.kind(p) == kind]):
                if self.loose and not waits:
                    self.sync_threads()
                relaxed = name if kind == "memory" else name.removeprefix("rlx")
                ids = [self.channels[kind].index(p) for p in batch]
                self.ops.append(OpPart(relaxed, channel_type=kind, channel_ids=ids))
                self.waited |= waits

    def flush(self, sends: Sequence[SendAction]) -> None:
        """Write flushes of ports, one per destination."""
        for batch in batch_channels(sends):
            self._write("flush", [], [], batch)

    def sync_threads(self) -> None:
        """Write a barrier for the threads of the block."""
        self.ops.append(OpPart("nop"))
        self.loose, self.waited = False, False
        self.touched.clear()

    def _write(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], sends: Sequence[SendAction]
    ) -> None:
        kinds = [self.kind(s.peer) for s in sends]
        kind = kinds[0] if kinds else None
        outs = [self._buffer_part(at) for at in dsts]
        sizes = [s.size for s in sends] if len(sends) == len(srcs) else [1] * len(srcs)
        for send in sends:
            buffer_ids = self.buffers[kind or ""]
            number = buffer_ids.setdefault((send.peer, send.dst[0]), len(buffer_ids))
            outs.append(BufferPart(send.dst[1], send.size, buffer_id=number))
        self.ops.append(
            OpPart(
                name,
                channel_type=kind,
                channel_ids=[self.channels[kind or ""].index(s.peer) for s in sends],
                src_buff=[self._buffer_part(*source) for source in zip(srcs, sizes, strict=True)],
                dst_buff=outs,
                tbg_info=self.group,
                reduce_op="sum" if name in REDUCING else None,
            )
        )

    def _buffer_part(self, at: At, size: int = 1) -> BufferPart:
        if at[0] == "p":
            return BufferPart(self.first_plain + at[1], size, type="s")
        return BufferPart(at[1], size, type=at[0])

    def block(
        self, number: int, remotes: dict[tuple[int, str], int], peers: dict[str, list[int]]
    ) -> BlockPart:
        """Return the thread block, and add its channels and remote buffers to its rank."""
        channels, refs = [], []
        for kind in KINDS:
            kind_peers = self.channels[kind]
            if kind_peers:
                ids = list(range(len(peers[kind]), len(peers[kind]) + len(kind_peers)))
                channels.append(ChannelRefPart(kind, ids))
                peers[kind] += kind_peers
            if self.buffers[kind]:
                buffer_ids = [remotes.setdefault(key, len(remotes)) for key in self.buffers[kind]]
                refs.append(BufferRefPart(kind, buffer_ids))
        return BlockPart(number, self.ops, channels, refs)


ChannelKind = Callable[[int], str]


class Lane:
    """A thread block and its chunks.

    Args:
        kind: Kind of channel from the rank to a peer.
        group: Slice of each chunk. None: all.
    """

    def __init__(
        self,
        script: RankActions,
        rank: int,
        chunks: Sequence[int],
        kind: ChannelKind,
        group: GroupPart | None,
    ) -> None:
        self.kind = kind
        self.steps: dict[int, dict[int, StepActions]] = defaultdict(dict)
        for chunk in chunks:
            for step, doing in sorted(script.by_step.get((rank, chunk), {}).items()):
                self.steps[step][chunk] = doing
        self.copies = [script.copies[rank, c] for c in chunks if (rank, c) in script.copies]
        everything = [doing for by_chunk in self.steps.values() for doing in by_chunk.values()]
        self.to = sorted({s.peer for doing in everything for s in doing.sends})
        self.froms = sorted({peer for doing in everything for peer in doing.awaited_peers})
        peers = sorted({*self.to, *self.froms})
        self.out = BlockWriter(peers, kind, group, 2 * script.packets)
        self.forwarded: set[SendAction] = set()

    def forwarded_sends(self, step: int, chunk: int) -> Sequence[SendAction]:
        """Return the sends of a chunk in the following step."""
        return self.steps[step + 1][chunk].sends if chunk in self.steps.get(step + 1, {}) else ()

    def sends(self, step: int) -> list[SendAction]:
        """Return the sends of a step."""
        return [s for doing in self.steps[step].values() for s in doing.sends]

    def add(self, name: str, adds: Sequence[AddAction], onward: Sequence[SendAction]) -> None:
        """Write reductions of arrivals, with as few operations as possible per place.

        If the next step sends the last sum within the node, the same operation sends it.
        """
        srcs: list[At] = []
        dst: At | None = None
        for adding in adds:
            goes_on = len(srcs) > 1 and adding.srcs[0] == dst
            if goes_on and len(srcs) < MAX_BUFFERS_PER_OPERATION:
                srcs += adding.srcs[1:]
            else:
                self._sum(name, srcs, dst, ())
                srcs = list(adding.srcs)
            dst = adding.dst
        near = [s for s in onward if s.src == dst and self.kind(s.peer) == "memory"]
        self._sum(name, srcs, dst, near[:MAX_CHANNEL_PER_OPERATION])

    def _sum(
        self, name: str, srcs: Sequence[At], dst: At | None, sends: Sequence[SendAction]
    ) -> None:
        if dst is None:
            return
        operation = self.out.data if name == "re" else self.out.packets
        if len(srcs) == 1:
            operation("upkt", srcs, [dst], ())
            return
        operation(name.replace("re", "res") if sends else name, srcs, [dst], sends)
        self.forwarded.update(sends)


def write_with_signals(lane: Lane, *, flushes: bool) -> None:
    """Write the operations of a thread block over signals.

    Args:
        flushes: Whether ports are flushed by a separate operation.
    """
    out = lane.out
    out.signal("rlxsignal", lane.froms)
    for copy in lane.copies:
        out.data("copy", copy.srcs, [copy.dst], ())
    out.signal("rlxwait", lane.to)
    last = {s.peer: step for step in sorted(lane.steps) for s in lane.sends(step)}
    for step in sorted(lane.steps):
        by_chunk = lane.steps[step]
        sends = lane.sends(step)
        near = [s for s in sends if lane.kind(s.peer) == "memory"]
        _put(out, "put", list(_merge_adjacent([s for s in near if s not in lane.forwarded])))
        far = _merge_adjacent([s for s in sends if lane.kind(s.peer) == "port"])
        _send_over_ports(out, list(far), step, last, flushes)
        out.signal("signal", sorted({s.peer for s in near}))
        out.signal(
            "wait", sorted({peer for doing in by_chunk.values() for peer in doing.awaited_peers})
        )
        for chunk, doing in by_chunk.items():
            lane.add("re", doing.adds, lane.forwarded_sends(step, chunk))


def _merge_adjacent(sends: Sequence[SendAction]) -> Iterator[SendAction]:
    """Yield the sends of a step, with adjacent data of one transfer merged."""
    yield from (s for s in sends if s.party is None)
    last: SendAction | None = None
    for send in sorted((s for s in sends if s.party is not None), key=_transfer_key):
        if last is not None:
            behind = [(at[0], at[1] + last.size) for at in (last.src, last.dst)]
            if _transfer_key(last)[:2] == _transfer_key(send)[:2] and behind == [
                send.src,
                send.dst,
            ]:
                last = replace(last, size=last.size + 1)
                continue
            yield last
        last = send
    if last is not None:
        yield last


def _transfer_key(send: SendAction) -> tuple[int, int, At, At]:
    return (send.peer, -1 if send.party is None else send.party, send.src, send.dst)


def _send_over_ports(
    out: BlockWriter, sends: Sequence[SendAction], step: int, last: Mapping[int, int], flushes: bool
) -> None:
    """Send over ports: the last send to each peer signals, and the very last one flushes."""
    closing = {s.peer: s for s in sends}
    _put(out, "put", [s for s in sends if closing[s.peer] is not s])
    ends = [s for s in closing.values() if last[s.peer] == step]
    _put(out, "pws" if flushes else "pwsf", ends)
    _put(out, "pws", [s for s in closing.values() if last[s.peer] != step])
    if flushes:
        out.flush(ends)


def _put(out: BlockWriter, name: str, sends: Sequence[SendAction]) -> None:
    for kind in sorted({s.src[0] for s in sends}):
        for batch in batch_channels([s for s in sends if s.src[0] == kind]):
            out.put(name, batch)


def write_as_packets(lane: Lane) -> None:
    """Write the operations of a thread block as packets.

    Arrivals are forwarded before they are unpacked, because receivers wait for them.
    """
    out = lane.out
    left: list[AddAction] = []
    last: dict[int, SendAction] = {}
    for step in sorted(lane.steps):
        by_chunk = lane.steps[step]
        _move_packets(out, "cpkt", [pack for doing in by_chunk.values() for pack in doing.packs])
        sends = lane.sends(step)
        last |= {s.peer: s for s in sends if lane.kind(s.peer) == "port"}
        _put_packets(out, [s for s in sends if s not in lane.forwarded])
        _move_packets(out, "upkt", left)
        for chunk, doing in by_chunk.items():
            lane.add("repkt", doing.adds, lane.forwarded_sends(step, chunk))
        left = [unpack for doing in by_chunk.values() for unpack in doing.unpacks]
    _move_packets(out, "upkt", left)
    for copy in lane.copies:
        out.data("copy", copy.srcs, [copy.dst], ())
    out.flush(list(last.values()))


def _put_packets(out: BlockWriter, sends: Sequence[SendAction]) -> None:
    for kind in sorted({s.src[0] for s in sends} - {"s"}):
        for batch in batch_channels([s for s in sends if s.src[0] == kind]):
            out.packets("ppkt", [s.src for s in batch], [], batch)
    for src in sorted({s.src for s in sends if s.src[0] == "s"}):
        for kind in KINDS:
            for batch in batch_channels(
                [s for s in sends if s.src == src and out.kind(s.peer) == kind]
            ):
                out.packets("rppkt", [src], [], batch)


def _move_packets(out: BlockWriter, name: str, moves: Sequence[AddAction]) -> None:
    for move in moves:
        out.packets(name, move.srcs, [move.dst], ())
