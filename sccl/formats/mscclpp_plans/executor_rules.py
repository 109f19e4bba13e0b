"""Check the limits of MSCCL++'s executor, and its deviations from plans.

The executor writes into arrays of fixed length without checks. So this module rejects plans that
exceed them, and operations that the kernel executes wrongly. Source: ``executor.cc``,
``execution_plan.cc``, ``execution_common.hpp`` and ``execution_kernel.hpp`` of microsoft/mscclpp,
v0.9.0 and 1f5f065 (2026-08).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sccl.formats.mscclpp_plans.plan_file import (
    ALIGNMENT,
    MOVES,
    PACKETS,
    BlockPart,
    BufferPart,
    GpuPart,
    OpPart,
    PlanPart,
    buffer_and_ranks,
    is_packet,
    operation_name,
)

MAX_OPERATION = 64
"""Largest number of operations of a thread block, including those inside pipelines. The executor
refuses more.
"""
MAX_CHANNEL = 16
"""Largest number of channels of a thread block and of each kind, and of remote buffers of each
kind. The executor does not check it.
"""
MAX_CHANNEL_PER_OPERATION = 8
"""Maximum number of channels of an operation. The executor does not check it."""
MAX_BUFFERS_PER_OPERATION = 10
"""Maximum number of buffers of an operation: two local buffers and one per channel. The executor
does not check it.
"""
MAX_DEVICE_SYNCERS = 16
"""Maximum number of barriers across thread blocks. The executor does not check it."""
MAX_DEVICE_SEMAPHORES = 16
"""Largest number of semaphores of an operation. The executor does not check it. A rank has as many
as its plan lists.
"""
MAX_OFFSET_BYTES = 2**32 - 1
"""Maximum offset, in 32 bits. The executor does not check it."""
MAX_MIN_SIZE = 2**31 - 1
"""Maximum of ``min_message_size``, in 32 bits. The executor does not check it."""
MAX_THREADS = 1024
"""Largest number of threads of a thread block that the kernel is compiled for."""

NAMES = frozenset({"allreduce", "allgather", "reducescatter", "alltoall", "sendrecv"})
"""Collectives that the executor's own test knows."""
_FROM_ONE_BUFFER = frozenset({"put", "pws", "pwsf", "ppkt"})
_PORTED = frozenset({"put", "pws", "pwsf", "ppkt", "rppkt", "flush"})
_PACKET_FACTOR = 2
"""A packet is twice as long as the data in it."""


def find_violations(plan: PlanPart) -> list[str]:
    """Return the limits of the executor that a plan exceeds, each with a remedy."""
    rules = list(_plan_rules(plan))
    for rank, gpu in enumerate(plan.gpus):
        for b, block in enumerate(gpu.threadblocks):
            rules += [f"rank {rank}, thread block {b}: {text}" for text in block_rules(block)]
            for i, op in enumerate(block.all_ops()):
                texts = (*_out_of_bounds(plan, gpu, block, op), *_semaphores(gpu, op))
                rules += [f"{operation_name(rank, b, i, op)} {text}" for text in texts]
    return rules + list(_overlaps(plan))


def find_crashes(plan: PlanPart) -> Iterator[str]:
    """Yield the reasons why the executor would crash at the start."""
    for rank, gpu in enumerate(plan.gpus):
        if not gpu.input_chunks or not gpu.output_chunks:
            yield f"rank {rank}: a buffer without chunks makes the executor divide by zero"


def _plan_rules(plan: PlanPart) -> Iterator[str]:
    if plan.collective not in NAMES:
        yield f"MSCCL++ does not test the collective {plan.collective[:20]!r}"
    if plan.protocol not in {"Simple", "LL"}:
        yield f"the protocol is {plan.protocol[:20]!r}, expected Simple or LL"
    if not 0 <= plan.min_message_size <= MAX_MIN_SIZE:
        yield f"min_message_size is beyond {MAX_MIN_SIZE}, and is read as 32 bits: state less"
    if plan.buffer_alignment <= 0 or plan.buffer_alignment % ALIGNMENT:
        yield f"buffer_alignment {plan.buffer_alignment} is no multiple of {ALIGNMENT}"
    if not 0 < plan.num_threads_per_block <= MAX_THREADS:
        yield (
            f"num_threads_per_block {plan.num_threads_per_block}, and thread blocks have 1 to "
            f"{MAX_THREADS} threads: state {MAX_THREADS}"
        )


def block_rules(block: BlockPart) -> list[str]:
    """Return the limits that a thread block exceeds."""
    ops = sum(1 for _ in block.all_ops())
    counts = [("operations", ops, MAX_OPERATION, "give its chunks to more thread blocks")]
    for kind in ("memory", "port", "switch"):
        have, fix = len(block.channels_of(kind)), "give its peers to more thread blocks"
        counts.append((f"{kind} channels", have, MAX_CHANNEL, fix))
        have, fix = len(block.buffers_of(kind)), "divide its writes among more thread blocks"
        counts.append((f"remote buffers ({kind})", have, MAX_CHANNEL, fix))
    rules = [
        f"{n} {resource}, and there is room for {limit}: {fix}"
        for resource, n, limit, fix in counts
        if n > limit
    ]
    inside = {id(inner) for op in block.ops for inner in op.ops}
    for i, op in enumerate(block.all_ops()):
        texts = [*_op_rules(op), *_kernel_deviations(op, piped=id(op) in inside)]
        rules += [f"operation {i} ({op.name[:20]}): {text}" for text in texts]
    return rules


def _op_rules(op: OpPart) -> Iterator[str]:
    for resource, have, limit in (
        ("channels", len(op.channel_ids), MAX_CHANNEL_PER_OPERATION),
        ("sources", len(op.src_buff), MAX_BUFFERS_PER_OPERATION),
        ("destinations", len(op.dst_buff), MAX_BUFFERS_PER_OPERATION),
        ("semaphores", len(op.semaphore_ids), MAX_DEVICE_SEMAPHORES),
    ):
        if have > limit:
            yield f"{have} {resource}, and there is room for {limit}: write several operations"
    if op.barrier_id is not None and not 0 <= op.barrier_id < MAX_DEVICE_SYNCERS:
        yield (
            f"barrier {op.barrier_id}, and there are {MAX_DEVICE_SYNCERS}: use one of them "
            "several times"
        )


def _kernel_deviations(op: OpPart, *, piped: bool) -> Iterator[str]:
    memory, ported = op.channel_type == "memory", op.channel_type == "port"
    if op.name == "pws" and memory:
        yield "over a memory channel it puts and does not signal: write put, nop, signal"
    if op.name == "flush" and not op.dst_buff:
        yield "it flushes as many channels as it has destinations, none: write pwsf"
    if ported and op.name in _PORTED and len(op.channel_ids) < len(op.dst_buff):
        yield f"{len(op.dst_buff)} destinations over {len(op.channel_ids)} ports: name one for each"
    if memory and op.name in _FROM_ONE_BUFFER and len({part.type for part in op.src_buff}) > 1:
        yield "all its sources are read from the buffer of the first: write one for each buffer"
    if op.name == "get" and [p.index for p in op.src_buff] != [p.index for p in op.dst_buff]:
        yield "it reads at the index of its destination and writes at that of its source: write put"
    if op.name == "ppkt" and ported:
        yield "it sends the packet that the first plan of the process has there: write rppkt"
    if piped and op.name in PACKETS:
        yield "in a pipeline packets go whole each time: write it outside"


def _semaphores(gpu: GpuPart, op: OpPart) -> Iterator[str]:
    if any(not 0 <= i < len(gpu.semaphores) for i in op.semaphore_ids):
        yield (
            f"names a semaphore beyond the {len(gpu.semaphores)} of its rank: add it to the "
            "rank's list"
        )


def _out_of_bounds(plan: PlanPart, gpu: GpuPart, block: BlockPart, op: OpPart) -> Iterator[str]:
    """Describe an operation's places beyond their buffers."""
    for part, kind, ranks, packets in _accessed_parts(gpu, block, op):
        for rank in ranks:
            room = _data_capacity(plan, plan.gpus[rank], kind)
            end = (part.index + part.size) * (_PACKET_FACTOR if packets and kind == "s" else 1)
            if end > room:
                form = "packets" if packets and kind == "s" else "data"
                yield (
                    f"is about chunks {part.index} to {part.index + part.size - 1} ({kind}, "
                    f"{form}) of rank {rank}, beyond the end of the buffer: give it more chunks"
                )


def _accessed_parts(
    gpu: GpuPart, block: BlockPart, op: OpPart
) -> Iterator[tuple[BufferPart, str, tuple[int, ...], bool]]:
    """Yield each accessed part, its kind of buffer, its ranks, and whether it has packets."""
    for source, parts in ((True, op.src_buff), (False, op.dst_buff)):
        for i, part in enumerate(parts):
            yield part, *buffer_and_ranks(gpu, block, op, part), is_packet(op, i, source=source)


def _overlaps(plan: PlanPart) -> Iterator[str]:
    """Describe overlaps of packets and data in scratch."""
    packets: dict[int, set[int]] = defaultdict(set)
    data: dict[int, set[int]] = defaultdict(set)
    for gpu in plan.gpus:
        for block in gpu.threadblocks:
            for op in (op for op in block.all_ops() if op.name in MOVES | PACKETS):
                for part, kind, ranks, has_packets in _accessed_parts(gpu, block, op):
                    times, touched = (_PACKET_FACTOR, packets) if has_packets else (1, data)
                    room = range(times * part.index, times * (part.index + part.size))
                    for rank in ranks if kind == "s" else ():
                        touched[rank].update(room)
    for rank, held in packets.items():
        if both := held & data[rank]:
            yield (
                f"rank {rank}: packets and data overlap {min(both)} chunks into scratch, as a "
                "packet is twice as long as its data: keep them apart"
            )


def _data_capacity(plan: PlanPart, gpu: GpuPart, kind: str) -> int:
    """Return the capacity of a buffer in chunks of data."""
    if kind == "s":
        return gpu.scratch_chunks * (_PACKET_FACTOR if plan.protocol == "LL" else 1)
    if plan.inplace:
        return max(gpu.input_chunks, gpu.output_chunks)
    return gpu.input_chunks if kind == "i" else gpu.output_chunks
