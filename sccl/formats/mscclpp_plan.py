"""MSCCL++ execution plans as their file has them, and the rules of who runs them.

Source: ``src/core/executor/execution_plan.cc``, ``executor.cc``, ``execution_common.hpp`` and
``execution_kernel.hpp`` of microsoft/mscclpp, v0.9.0 and 1f5f065 (2026-08), whose plan has the same
fields. The executor writes into arrays of fixed length without looking: what is longer than these
has to be refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from sccl.errors import FormatError, TooLargeError

MAX_OPERATION = 64
"""Of a thread block, those inside pipelines too; the executor refuses more."""
MAX_CHANNEL = 16
"""Of a thread block and of each kind, and as many remote buffers of each kind; not checked there.
"""
MAX_CHANNEL_PER_OPERATION = 8
"""Not checked there."""
MAX_BUFFERS_PER_OPERATION = 10
"""Two local ones and as many as there are channels; not checked there."""
MAX_DEVICE_SYNCERS = 16
"""Barriers across thread blocks; not checked there."""
MAX_DEVICE_SEMAPHORES = 16
"""Not checked there."""
MAX_OFFSET_BYTES = 2**32 - 1
"""Offsets are of 32 bits; not checked there."""
MAX_MIN_SIZE = 2**31 - 1
"""``min_message_size`` is read as a number of 32 bits; not checked there."""
ALIGNMENT = 16
"""``buffer_alignment`` where none is stated; what is left over of a word of 16 bytes is added up
wrongly by the kernel, so that no other is written."""

NAMES = frozenset({"allreduce", "allgather", "reducescatter", "alltoall", "sendrecv"})
"""Collectives that its own test knows."""

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
"""Of a plan that is read."""
_MOST = 2**40


class BufferPart(msgspec.Struct, omit_defaults=True):
    """A part of a buffer, in chunks: here, at a peer, or at all ranks of a switch channel."""

    index: int
    size: int
    type: str | None = None
    buffer_id: int | None = None
    switch_channel_id: int | None = None


class GroupPart(msgspec.Struct):
    """Which slice of what an operation is about its thread block does."""

    tb_id: int
    tbg_size: int


class IterPart(msgspec.Struct):
    """In what pieces a pipeline goes."""

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
    """What one rank runs."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    channels: list[ChannelPart]
    remote_buffers: list[RemotePart]
    threadblocks: list[BlockPart]
    semaphores: list[SemaphorePart] = []

    def peers(self, kind: str) -> list[int]:
        """Return who is at the other end of each channel of a kind."""
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
    """A plan."""

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


def plan_of(content: bytes, where: str) -> PlanPart:
    """Return the plan that a file holds.

    Raises:
        FormatError: it is none, or names what it does not have.
        TooLargeError: it is larger than is read.
    """
    if b'"inputChunks"' in content:
        raise FormatError(
            f"{where}: a plan of MSCCL++ of 2024 or before (inputChunks, chunkGroups), which the "
            "executor has not read since 2025: write it anew with a later MSCCL++"
        )
    try:
        plan = msgspec.json.decode(content, type=PlanPart)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise FormatError(f"{where}: no MSCCL++ plan: {text}; give one as MSCCL++ writes") from None
    ops = sum(1 for gpu in plan.gpus for block in gpu.threadblocks for _ in block.all_ops())
    if len(plan.gpus) > MAX_RANKS or ops > MAX_OPERATIONS:
        raise TooLargeError(
            f"{where}: {len(plan.gpus)} ranks and {ops} operations, and plans of up to {MAX_RANKS} "
            f"and {MAX_OPERATIONS} are read: give a smaller one"
        )
    for wrong in _not_there(plan):
        raise FormatError(f"{where}: {wrong}: the plan cannot be loaded")
    return plan


def text_of(plan: PlanPart) -> bytes:
    """Return the file of a plan."""
    return msgspec.json.encode(plan) + b"\n"


def name_of(rank: int, block: int, index: int, op: OpPart) -> str:
    """Return where an operation stands."""
    return f"rank {rank}, thread block {block}, operation {index} ({op.name[:20]})"


def _not_there(plan: PlanPart) -> Iterator[str]:
    """Yield what a plan names and does not have."""
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
            yield from _block_not_there(rank, b, gpu, block)


def _block_not_there(rank: int, number: int, gpu: GpuPart, block: BlockPart) -> Iterator[str]:
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
        for text in _op_not_there(block, op):
            yield f"{name_of(rank, number, i, op)} {text}"


def _op_not_there(block: BlockPart, op: OpPart) -> Iterator[str]:
    if op.name not in OPERATIONS:
        yield "is no operation that the executor knows"
    if any(inner.ops for inner in op.ops) or (op.ops and op.iter_context is None):
        yield "holds operations that hold others, or does not say in what pieces they go"
    kind = op.channel_type or "none"
    if kind not in KINDS:
        yield f"is over a channel of kind {kind[:20]!r}"
    have = len(block.channels_of(kind))
    if any(not 0 <= i < have for i in op.channel_ids):
        yield f"names a channel that its thread block has not: it has {have} ({kind})"
    buffers, switches = len(block.buffers_of(kind)), len(block.channels_of("switch"))
    for part in (*op.src_buff, *op.dst_buff):
        named = (part.type, part.buffer_id, part.switch_channel_id)
        if sum(one is not None for one in named) != 1 or part.type not in {None, "i", "o", "s"}:
            yield "has a buffer that is neither here (i, o, s) nor at one peer"
        if part.buffer_id is not None and not 0 <= part.buffer_id < buffers:
            yield f"names remote buffer {part.buffer_id}, and its thread block has {buffers}"
        if part.switch_channel_id is not None and not 0 <= part.switch_channel_id < switches:
            yield f"names switch channel {part.switch_channel_id}, and its block has {switches}"
        if not (0 <= part.index < _MOST and 0 < part.size < 2**24):
            yield f"is about {part.size} chunks from {part.index}"
    told = op.tbg_info
    if told is not None and not 0 <= told.tb_id < told.tbg_size <= MAX_RANKS:
        yield f"is slice {told.tb_id} of {told.tbg_size}"


def broken_rules(plan: PlanPart) -> list[str]:
    """Return the limits of the executor that a plan is beyond, each with what to do."""
    found = []
    if plan.collective not in NAMES:
        found.append(f"the collective {plan.collective[:20]!r} is none that MSCCL++ tests")
    if plan.protocol not in {"Simple", "LL"}:
        found.append(f"the protocol {plan.protocol[:20]!r} is neither Simple nor LL")
    if not 0 <= plan.min_message_size <= MAX_MIN_SIZE:
        found.append(f"min_message_size is beyond {MAX_MIN_SIZE}, and is read as 32 bits")
    if plan.buffer_alignment <= 0 or plan.buffer_alignment % ALIGNMENT:
        found.append(f"buffer_alignment {plan.buffer_alignment} is no multiple of {ALIGNMENT}")
    for rank, gpu in enumerate(plan.gpus):
        if not gpu.input_chunks or not gpu.output_chunks:
            found.append(f"rank {rank}: a buffer of no chunks, by which the executor divides")
        if len(gpu.semaphores) > MAX_DEVICE_SEMAPHORES:
            found.append(
                f"rank {rank}: {len(gpu.semaphores)} semaphores of {MAX_DEVICE_SEMAPHORES}"
            )
        for b, block in enumerate(gpu.threadblocks):
            found += [f"rank {rank}, thread block {b}: {text}" for text in block_rules(block)]
    return found


def block_rules(block: BlockPart) -> list[str]:
    """Return the limits that a thread block is beyond."""
    counts = [("operations", sum(1 for _ in block.all_ops()), MAX_OPERATION)]
    for kind in ("memory", "port", "switch"):
        counts.append((f"{kind} channels", len(block.channels_of(kind)), MAX_CHANNEL))
        counts.append((f"remote buffers ({kind})", len(block.buffers_of(kind)), MAX_CHANNEL))
    found = [f"{n} {what}, and there is room for {most}" for what, n, most in counts if n > most]
    for i, op in enumerate(block.all_ops()):
        found += [f"operation {i} ({op.name[:20]}): {text}" for text in _op_rules(op)]
    return found


def _op_rules(op: OpPart) -> list[str]:
    most = MAX_CHANNEL_PER_OPERATION
    counts: Sequence[tuple[str, int, int]] = (
        ("channels", len(op.channel_ids), most),
        ("sources", len(op.src_buff), MAX_BUFFERS_PER_OPERATION),
        ("destinations", len(op.dst_buff), MAX_BUFFERS_PER_OPERATION),
        ("semaphores", len(op.semaphore_ids), MAX_DEVICE_SEMAPHORES),
    )
    found = [f"{n} {what}, and there is room for {limit}" for what, n, limit in counts if n > limit]
    if op.barrier_id is not None and not 0 <= op.barrier_id < MAX_DEVICE_SYNCERS:
        found.append(f"barrier {op.barrier_id}, and there are {MAX_DEVICE_SYNCERS}")
    if op.name == "pws" and op.channel_type == "memory":
        found.append("over a memory channel it puts and does not signal: write put, nop, signal")
    if op.name == "flush" and not op.dst_buff:
        found.append("it flushes as many channels as it has destinations, none: write pwsf")
    return found
