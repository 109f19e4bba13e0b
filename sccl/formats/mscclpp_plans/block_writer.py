"""Thread blocks of MSCCL++ while they are written: their operations, channels and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sccl.formats.mscclpp_plans.executor_rules import MAX_CHANNEL_PER_OPERATION
from sccl.formats.mscclpp_plans.plan_file import (
    BlockPart,
    BufferPart,
    BufferRefPart,
    ChannelRefPart,
    GroupPart,
    OpPart,
)
from sccl.formats.mscclpp_plans.rank_actions import At, SendAction

KINDS = ("memory", "port")
T = TypeVar("T")
REDUCING = frozenset({"re", "res", "repkt", "respkt"})


def batch_channels(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield as many as an operation has channels for."""
    for begin in range(0, len(items), MAX_CHANNEL_PER_OPERATION):
        yield items[begin : begin + MAX_CHANNEL_PER_OPERATION]


class BlockWriter:
    """Writes the operations of a thread block.

    Args:
        kind: Kind of channel to a peer.
        first_plain: First place of data without packets in scratch, in chunks.
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
        self.loose = False  # whether threads have touched data since they met
        self.waited = False
        self.touched: set[At] = set()

    def packets(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], sends: Sequence[SendAction]
    ) -> None:
        """Write an operation of packets: each thread does the same words in all of them."""
        self._write(name, srcs, dsts, sends)
        self.touched |= {*srcs, *dsts}
        self.loose = True

    def data(
        self, name: str, srcs: Sequence[At], dsts: Sequence[At], sends: Sequence[SendAction]
    ) -> None:
        """Write an operation whose words any thread may do, before which threads meet if needed."""
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
        """Signal to some, or wait for some."""
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
        """Let threads wait for one another."""
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
        """Return the thread block. Its rank's channels and remote buffers are added to."""
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
