"""The shapes of MSCCL++ execution plan files.

Source: ``src/core/executor/execution_plan.cc`` of microsoft/mscclpp, v0.8.0 (2025-10, the first
with these fields), v0.9.0 and 1f5f065 (2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from sccl.errors import FormatError, TooLargeError

ALIGNMENT = 16
"""Default of ``buffer_alignment``."""

PACKETS = frozenset(
    {"ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt", "gstorepkt"}
)
MOVES = frozenset({"put", "pws", "pwsf", "get", "copy", "re", "res", "rre", "rres"})
SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
WAITS = frozenset({"wait", "rlxwait"})
SWITCHED = frozenset({"glres", "gstore", "gstorepkt"})
OPERATIONS = frozenset(
    {"nop", "barrier", "flush", "pipeline", "sem_acquire", "sem_release"}
    | (MOVES | PACKETS | SIGNALS | WAITS | SWITCHED)
)
KINDS = frozenset({"memory", "port", "switch", "none"})

MAX_RANKS = 1024
MAX_OPERATIONS = 2**20
"""Maximum number of operations of a plan."""
_MAX_BYTES = 2**40


class BufferPart(msgspec.Struct, omit_defaults=True):
    """A part of a buffer, in chunks: here, at a peer, or at all ranks of a switch channel."""

    index: int
    size: int
    type: str | None = None
    buffer_id: int | None = None
    switch_channel_id: int | None = None


class GroupPart(msgspec.Struct):
    """The slice of an operation's data that its thread block processes."""

    tb_id: int
    tbg_size: int


class IterPart(msgspec.Struct):
    """The pieces of a pipeline."""

    unit_size: int
    num_chunks: int


class OpPart(msgspec.Struct, omit_defaults=True):
    """An operation."""

    name: str
    channel_type: str | None = None
    channel_ids: list[int] = []
    src_buff: list[BufferPart] = []
    dst_buff: list[BufferPart] = []
    tbg_info: GroupPart | None = None
    reduce_op: str | None = None
    barrier_id: int | None = None
    num_threadblocks: int | None = None
    semaphore_ids: list[int] = []
    iter_context: IterPart | None = None
    ops: list[OpPart] = []


class ChannelRefPart(msgspec.Struct):
    """The channels of a thread block, of one kind."""

    channel_type: str
    channel_ids: list[int]


class BufferRefPart(msgspec.Struct):
    """The remote buffers of a thread block, by how they are reached."""

    access_channel_type: str
    remote_buffer_ids: list[int]


class BlockPart(msgspec.Struct):
    """A thread block."""

    id: int
    ops: list[OpPart]
    channels: list[ChannelRefPart]
    remote_buffer_refs: list[BufferRefPart] = []

    def channels_of(self, kind: str) -> list[int]:
        """Return the numbers of the rank's channels of a kind, in the block's own order."""
        return [i for ref in self.channels if ref.channel_type == kind for i in ref.channel_ids]

    def buffers_of(self, kind: str) -> list[int]:
        """Return the numbers of the rank's remote buffers, in the block's own order."""
        refs = self.remote_buffer_refs
        return [i for ref in refs if ref.access_channel_type == kind for i in ref.remote_buffer_ids]

    def all_ops(self) -> Iterator[OpPart]:
        """Yield the operations as the executor counts them."""
        for op in self.ops:
            yield op
            yield from op.ops


class RankGroupPart(msgspec.Struct):
    """Ranks that a switch joins."""

    size: int
    ranks: list[int]


class ChannelPart(msgspec.Struct, omit_defaults=True):
    """Channels of a rank, of one kind: one for every entry."""

    channel_type: str
    connected_to: list[int] = []
    buffer_type: str | None = None
    buff: str | None = None
    rank_groups: list[RankGroupPart] = []


class RemotePart(msgspec.Struct):
    """A buffer of a peer."""

    rank: int
    type: str
    access_channel_types: list[str]


class SemaphorePart(msgspec.Struct):
    """A counter of a rank's thread blocks."""

    init_value: int


class GpuPart(msgspec.Struct):
    """The program of one rank."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    channels: list[ChannelPart]
    remote_buffers: list[RemotePart]
    threadblocks: list[BlockPart]
    semaphores: list[SemaphorePart] = []

    def peers(self, kind: str) -> list[int]:
        """Return the peer of each channel of a kind."""
        parts = [c for c in self.channels if c.channel_type == kind]
        return [peer for part in parts for peer in part.connected_to]

    def switches(self) -> list[tuple[str, list[int]]]:
        """Return the buffer and the ranks of each switch channel."""
        return [
            (c.buffer_type or c.buff or "", group.ranks)
            for c in self.channels
            if c.channel_type == "switch"
            for group in c.rank_groups
        ]


class PlanPart(msgspec.Struct):
    """A plan. MSCCL++ has no field for its version, so ``written_for`` is a field of sccl."""

    name: str
    collective: str
    protocol: str
    inplace: bool
    gpus: list[GpuPart]
    reuse_resources: bool = False
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = ALIGNMENT
    num_threads_per_block: int = 1024
    min_message_size: int = 0
    max_message_size: int = 2**64 - 1
    written_for: str = ""


_TEMPLATE = re.compile(rb'"(is_)?dynamic"\s*:\s*true|\$\{[A-Za-z_]')
_TRANSITION = re.compile(
    rb'"(connectedTo|ctype|cids|remoteBufferIds|accessChannelType|channel_access)"\s*:'
)


def is_other_form(content: bytes) -> bool:
    """Return whether content looks like a dynamic template, or like a transitional plan of 2025."""
    return bool(_TEMPLATE.search(content) or _TRANSITION.search(content))


def parse_plan(content: bytes, where: str) -> PlanPart:
    """Return the plan in a file.

    Raises:
        FormatError: It is no plan, or names missing parts.
        TooLargeError: It exceeds a limit.
    """
    if b'"inputChunks"' in content:
        raise FormatError(
            f"{where}: a plan in the older format (inputChunks, chunkGroups) of MSCCL++ 0.5 to "
            "0.7, which sccl and MSCCL++ 0.8 (2025) do not read: write it anew with a later "
            "MSCCL++"
        )
    if _TEMPLATE.search(content):
        raise FormatError(
            f"{where}: a dynamic template of MSCCL++, which gets its sizes and chunks when a job "
            "runs: give a plan that was made from it"
        )
    try:
        plan = msgspec.json.decode(content, type=PlanPart)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if _TRANSITION.search(content):
            raise FormatError(
                f"{where}: a plan in a transition format of MSCCL++ (spring 2025, between 0.7 and "
                "0.8), which neither sccl nor any release reads: write it anew with MSCCL++ 0.8 "
                "or later"
            ) from None
        text = " ".join(str(error).split())
        raise FormatError(f"{where}: no MSCCL++ plan: {text}; give one as MSCCL++ writes") from None
    ops = sum(1 for gpu in plan.gpus for block in gpu.threadblocks for _ in block.all_ops())
    if len(plan.gpus) > MAX_RANKS or ops > MAX_OPERATIONS:
        raise TooLargeError(
            f"{where}: {len(plan.gpus)} ranks and {ops} operations, and plans of up to {MAX_RANKS} "
            f"and {MAX_OPERATIONS} are read: give a smaller one"
        )
    for wrong in _missing_parts(plan):
        raise FormatError(f"{where}: {wrong}: the plan cannot be loaded")
    return plan


def format_plan(plan: PlanPart) -> bytes:
    """Return the file of a plan."""
    return msgspec.json.encode(plan) + b"\n"


def operation_name(rank: int, block: int, index: int, op: OpPart) -> str:
    """Return the position of an operation as text."""
    return f"rank {rank}, thread block {block}, operation {index} ({op.name[:20]})"


def buffer_and_ranks(
    gpu: GpuPart, block: BlockPart, op: OpPart, part: BufferPart
) -> tuple[str, tuple[int, ...]]:
    """Return the kind of the buffer of an operation's part, and the ranks that have it."""
    if part.buffer_id is not None:
        remote = gpu.remote_buffers[block.buffers_of(op.channel_type or "")[part.buffer_id]]
        return remote.type, (remote.rank,)
    if part.switch_channel_id is not None:
        kind, ranks = gpu.switches()[block.channels_of("switch")[part.switch_channel_id]]
        return kind, tuple(ranks)
    return part.type or "", (gpu.id,)


def is_packet(op: OpPart, index: int, *, source: bool) -> bool:
    """Return whether a source or a destination contains packets, whose readers wait for them."""
    if source:
        reads = {"rppkt", "upkt", "gstorepkt"}
        adds = {"respkt", "repkt", "recpkt", "recspkt"}
        ported = op.name == "ppkt" and op.channel_type == "port"
        return op.name in reads or ported or (op.name in adds and index > 0)
    puts = {"ppkt", "rppkt", "cpkt", "gstorepkt"}
    return op.name in puts or (op.name in {"respkt", "recpkt", "recspkt"} and index > 0)


def _missing_parts(plan: PlanPart) -> Iterator[str]:
    ranks = range(len(plan.gpus))
    if not plan.gpus:
        yield "it has no ranks"
    for rank, gpu in enumerate(plan.gpus):
        if gpu.id != rank:
            yield f"gpus[{rank}] has id {gpu.id}, expected {rank}"
        for peer in (
            *(peer for kind in ("memory", "port") for peer in gpu.peers(kind)),
            *(peer for _, group in gpu.switches() for peer in group),
            *(remote.rank for remote in gpu.remote_buffers),
        ):
            if peer not in ranks:
                yield f"rank {rank} names rank {peer}, and there are {len(ranks)}"
        kinds = [r.type for r in gpu.remote_buffers] + [kind for kind, _ in gpu.switches()]
        for kind in kinds:
            if kind not in {"i", "o", "s"}:
                yield f"rank {rank} names a buffer {kind[:20]!r}, expected i, o or s"
        if not all(0 <= c < 2**24 for c in (gpu.input_chunks, gpu.output_chunks)):
            yield f"rank {rank} has {gpu.input_chunks} and {gpu.output_chunks} chunks"
        for b, block in enumerate(gpu.threadblocks):
            yield from _missing_in_block(rank, b, gpu, block)


def _missing_in_block(rank: int, number: int, gpu: GpuPart, block: BlockPart) -> Iterator[str]:
    where = f"rank {rank}, thread block {number}"
    if block.id != number:
        yield f"{where} has id {block.id}"
    have = {kind: len(gpu.peers(kind)) for kind in ("memory", "port")}
    have["switch"] = len(gpu.switches())
    for ref in block.channels:
        if any(not 0 <= i < have.get(ref.channel_type, 0) for i in ref.channel_ids):
            yield f"{where} names a channel ({ref.channel_type[:20]}) that its rank has not"
    for bufs in block.remote_buffer_refs:
        if any(not 0 <= i < len(gpu.remote_buffers) for i in bufs.remote_buffer_ids):
            yield f"{where} names a remote buffer that its rank has not"
    for i, op in enumerate(block.all_ops()):
        for text in _missing_in_op(block, op):
            yield f"{operation_name(rank, number, i, op)} {text}"


def _missing_in_op(block: BlockPart, op: OpPart) -> Iterator[str]:
    if op.name not in OPERATIONS:
        yield "is no operation that the executor knows"
    if any(inner.ops for inner in op.ops) or (op.ops and op.iter_context is None):
        yield "contains operations with operations inside, or lacks the sizes of their pieces"
    kind = op.channel_type or "none"
    if kind not in KINDS:
        yield f"is over a channel of kind {kind[:20]!r}"
    have = len(block.channels_of(kind))
    if any(not 0 <= i < have for i in op.channel_ids):
        yield f"names a channel that its thread block has not: it has {have} ({kind})"
    buffers, switches = len(block.buffers_of(kind)), len(block.channels_of("switch"))
    for part in (*op.src_buff, *op.dst_buff):
        named = (part.type, part.buffer_id, part.switch_channel_id)
        if sum(ref is not None for ref in named) != 1 or part.type not in {None, "i", "o", "s"}:
            yield "has a buffer that is neither local (i, o, s) nor of one peer"
        if part.buffer_id is not None and not 0 <= part.buffer_id < buffers:
            yield f"names remote buffer {part.buffer_id}, and its thread block has {buffers}"
        if part.switch_channel_id is not None and not 0 <= part.switch_channel_id < switches:
            yield f"names switch channel {part.switch_channel_id}, and its block has {switches}"
        if not (0 <= part.index < _MAX_BYTES and 0 < part.size < 2**24):
            yield f"is about {part.size} chunks from {part.index}"
    group = op.tbg_info
    if group is not None and not 0 <= group.tb_id < group.tbg_size <= MAX_RANKS:
        yield f"is slice {group.tb_id} of {group.tbg_size}"
