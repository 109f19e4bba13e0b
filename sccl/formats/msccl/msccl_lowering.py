"""Lower an algorithm to an MSCCL program: the sends and receives of each thread block, in order.

Steps are in the order of :mod:`sccl.formats.msccl.msccl_steps`, which has no cyclic waits.
Receiving a message and forwarding it immediately is one step (``rcs``, ``rrcs``, ``rrs``). It needs
two slots of a queue, which all protocols have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sccl.codegen.instances import Instances
from sccl.errors import TooLargeError
from sccl.formats.msccl.msccl_program import MscclBlock, MscclGpu, MscclStep
from sccl.formats.msccl.msccl_rules import BLOCKS_PER_CHANNEL, MAX_COUNT, MAX_DEP_BLOCK, Runtime
from sccl.formats.msccl.msccl_steps import LOCAL, At, MscclOp, StepWriter

_NOP = MscclStep("nop", ("i", -1), ("o", -1), count=0, dep=None, signals=False)

Alias = Callable[[int, At], At]
"""Function from a rank and a place to its memory, for one mode of calling the program."""


def lower_to_gpus(
    writer: StepWriter, runtime: Runtime, aliases: Sequence[Alias], channels: int, *, fuse: bool
) -> tuple[MscclGpu, ...]:
    """Return the programs of all ranks, within a runtime's limits.

    Args:
        aliases: Memory of places, for each mode of calling the program.
        channels: Smallest number of channels per instance, if there are messages for them.

    Raises:
        TooLargeError: No supported number of channels suffices.
    """
    rank_parts = enumerate(writer.ops)
    links = Counter((src, op.peer) for src, ops in rank_parts for op in ops if op.message >= 0)
    instances = writer.instances
    max_messages = -(-max(links.values(), default=1) // instances.count)
    needed = -(-max_messages // (2 * runtime.steps))  # a link's two directions
    for count in range(max(channels, needed), runtime.channels // instances.count + 1):
        for spread in (_spread_by_chunk(instances, count), _spread_in_turn(instances, count)):
            ranks = _build_blocks(writer, spread, fuse=fuse)
            if all(_fits_limits(rank_parts, runtime) for rank_parts in ranks):
                gpus = tuple(
                    _build_gpu(writer, r, rank_parts, aliases) for r, rank_parts in enumerate(ranks)
                )
                if all(len(b.steps) <= runtime.steps for gpu in gpus for b in gpu.blocks):
                    return gpus
    raise TooLargeError(_size_message(writer, runtime))


def _size_message(writer: StepWriter, runtime: Runtime) -> str:
    blocks, steps = min(runtime.blocks, MAX_DEP_BLOCK + 1), runtime.steps
    peak, count = max(len(rank_ops) for rank_ops in writer.ops), writer.instances.count
    in_all, fewer = (f", in {count} instances", "fewer instances, ") if count > 1 else ("", "")
    return (
        f"{runtime.about} runs {blocks} thread blocks of {steps} steps over {runtime.channels} "
        f"channels on a rank, and some rank has {peak} steps to do{in_all}, among peers that need "
        f"blocks of their own: give {fewer}an algorithm of fewer chunks, or another --set dialect"
    )


Spread = Callable[[int, int], int]
"""Function from a message's chunk and its number on its link to its class of channels."""


def _spread_by_chunk(instances: Instances, count: int) -> Spread:
    def spread(chunk: int, _: int) -> int:
        """Return the class of a chunk among those of its instance."""
        instance, local_chunk = instances.locate(chunk)
        return instance * count + local_chunk % count

    return spread


def _spread_in_turn(instances: Instances, count: int) -> Spread:
    def spread(chunk: int, number: int) -> int:
        """Return the next class of its instance, cyclically."""
        return instances.locate(chunk)[0] * count + number % count

    return spread


Blocks = dict[tuple[int, int, int], list[MscclOp]]
"""Steps of each thread block in order, by (channel, send, recv)."""


def _build_blocks(writer: StepWriter, spread: Spread, *, fuse: bool) -> list[Blocks]:
    channel = _assign_channels(writer.ops, spread)
    all_blocks = []
    for rank_ops in writer.ops:
        copies = [
            replace(op, block=(channel[op.message], -1, -1) if op.message >= 0 else LOCAL)
            for op in rank_ops
        ]
        pairs = _blocks_by_peer(copies)
        blocks: Blocks = defaultdict(list)
        for op in _merge_copies(copies):
            if op.message >= 0:
                op.block = pairs[op.block[0], op.kind == "s", op.peer]
            blocks[op.block].append(op)
        if fuse:
            blocks = {key: _fuse_receive_send(lines, writer) for key, lines in blocks.items()}
        all_blocks.append({key: blocks[key] for key in sorted(blocks)})
    return all_blocks


def _assign_channels(ops: Sequence[Sequence[MscclOp]], spread: Spread) -> dict[int, int]:
    """Return the channel of every message: the lowest with free blocks at both ranks."""
    chosen: dict[tuple[int, int, int], int] = {}
    sending: Counter[tuple[int, int]] = Counter()
    receiving: Counter[tuple[int, int]] = Counter()
    taken: dict[tuple[int, int], set[int]] = defaultdict(set)
    channels: dict[int, int] = {}
    for src, rank_ops in enumerate(ops):
        numbers: Counter[int] = Counter()
        for op in rank_ops:
            if op.kind != "s":
                continue
            key = (src, op.peer, spread(op.order[1], numbers[op.peer]))
            numbers[op.peer] += 1
            if key not in chosen:
                c = key[2]
                while (
                    c in taken[src, op.peer]
                    or sending[src, c] >= BLOCKS_PER_CHANNEL
                    or receiving[op.peer, c] >= BLOCKS_PER_CHANNEL
                ):
                    c += 1
                chosen[key] = c
                taken[src, op.peer].add(c)
                sending[src, c] += 1
                receiving[op.peer, c] += 1
            channels[op.message] = chosen[key]
    return channels


def _blocks_by_peer(ops: Sequence[MscclOp]) -> dict[tuple[int, bool, int], tuple[int, int, int]]:
    """Return the thread block of each (channel, whether it sends, peer).

    A sending half is combined with the half that receives its data, else with that of the same
    peer, else with any.
    """
    brings = {v: op for op in ops if op.message >= 0 and op.kind != "s" for v in op.values}
    weight: Counter[tuple[int, int, int]] = Counter()  # (channel, send, recv)
    ends: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for op in ops:
        if op.message < 0:
            continue
        channel = op.block[0]
        ends[channel][op.kind != "s"].add(op.peer)
        before = brings.get(op.values[0]) if op.kind == "s" else None
        if before is not None and before.block[0] == channel:
            weight[channel, op.peer, before.peer] += 1
    pairs: dict[tuple[int, bool, int], tuple[int, int, int]] = {}
    for channel, (sends, recvs) in sorted(ends.items()):
        wishes = [(-w, s, r) for (c, s, r), w in weight.items() if c == channel]
        wishes += [(0, peer, peer) for peer in sends & recvs]
        for _, s, r in sorted(wishes):
            if s in sends and r in recvs:
                pairs[channel, True, s] = pairs[channel, False, r] = (channel, s, r)
                sends.remove(s)
                recvs.remove(r)
        for s in sorted(sends):
            r = min(recvs, default=-1)
            recvs.discard(r)
            pairs[channel, True, s] = pairs[channel, False, r] = (channel, s, r)
        for r in sorted(recvs):
            pairs[channel, False, r] = (channel, -1, r)
    return pairs


def _merge_copies(ops: Sequence[MscclOp]) -> Iterator[MscclOp]:
    """Yield steps, with copies of adjacent chunks merged."""
    last: MscclOp | None = None
    for op in ops:
        if last is not None:
            is_adjacent = op.kind == "cpy" and (op.src[1], op.dst[1]) == (
                last.src[1] + last.count,
                last.dst[1] + last.count,
            )
            if is_adjacent and last.count < MAX_COUNT:
                last.count += 1
                continue
        last = op if op.kind == "cpy" else None
        yield op


def _fuse_receive_send(lines: Sequence[MscclOp], writer: StepWriter) -> list[MscclOp]:
    """Return a thread block's steps, with receives fused with sends of the same data."""
    fused: list[MscclOp] = []
    for op in lines:
        before = fused[-1] if fused else op
        if op.kind != "s" or before.kind not in {"r", "rrc"} or before.values != op.values:
            fused.append(op)
            continue
        kind = "rcs" if before.kind == "r" else "rrcs"
        if kind == "rrcs" and writer.are_only_sent(op.values):
            kind = "rrs"
        fused[-1] = replace(before, kind=kind, forward=op)
    return fused


def _fits_limits(blocks: Blocks, runtime: Runtime) -> bool:
    """Return whether a rank's thread blocks fit the limits, before dependencies are known."""
    few = len(blocks) <= min(runtime.blocks, MAX_DEP_BLOCK + 1)
    return (
        few
        and all(len(lines) <= runtime.steps for lines in blocks.values())
        and all(0 <= key[0] < runtime.channels for key in blocks if key != LOCAL)
    )


def _build_gpu(writer: StepWriter, rank: int, blocks: Blocks, aliases: Sequence[Alias]) -> MscclGpu:
    """Return a rank's program with dependencies, including steps that only wait."""
    number = {key: n for n, key in enumerate(blocks)}
    lines = sorted(
        ((op, number[key], i) for key, ops in blocks.items() for i, op in enumerate(ops)),
        key=lambda item: item[0].order,
    )
    needs = _step_needs(rank, lines, aliases, len(blocks))
    waits = {(b, i): needs[n] for n, (_, b, i) in enumerate(lines)}
    stands: dict[tuple[int, int], int] = {}
    for key, ops in blocks.items():
        position = -1
        for i in range(len(ops)):
            position += max(1, len(waits[number[key], i]))
            stands[number[key], i] = position
    awaited = {target for targets in waits.values() for target in targets}
    gpu_blocks = []
    for key, ops in blocks.items():
        steps: list[MscclStep] = []
        for i, op in enumerate(ops):
            deps = [(b, stands[b, j]) for b, j in waits[number[key], i]]
            steps += [replace(_NOP, dep=dep) for dep in deps[:-1]]
            tells = (number[key], i) in awaited
            steps.append(_build_step(op, deps[-1] if deps else None, tells=tells))
        channel, send, recv = key
        gpu_blocks.append(MscclBlock(send, recv, max(0, channel), tuple(steps)))
    collective, layout = writer.algorithm.collective, writer.layout
    each = len(layout.inputs[rank]), len(layout.outputs[rank])
    places = (at for op, *_ in lines for at in (*_reads(op), *_writes(op)))
    scratch = max((index + 1 for buffer, index in places if buffer == "s"), default=0)
    inputs, outputs = (blocks_ * layout.parts for blocks_ in each)
    if collective.root is not None:  # every rank has both buffers, used or not
        inputs = outputs = layout.parts
    return MscclGpu(inputs, outputs, scratch, tuple(gpu_blocks))


def _reads(op: MscclOp) -> list[At]:
    if op.kind in {"r", "rcs"}:
        return []
    return [(op.src[0], op.src[1] + j) for j in range(op.count)]


def _writes(op: MscclOp) -> list[At]:
    if op.kind in {"s", "rrs"}:
        return []
    return [(op.dst[0], op.dst[1] + j) for j in range(op.count)]


def _step_needs(
    rank: int,
    lines: Sequence[tuple[MscclOp, int, int]],
    aliases: Sequence[Alias],
    blocks: int,
) -> list[list[tuple[int, int]]]:
    """Return the minimal dependencies of every step as (thread block, step).

    They cover read after write, write after read, and write after write of memory in each call
    mode.
    """
    sources: list[set[int]] = [set() for _ in lines]
    for alias in aliases:
        writer: dict[At, int] = {}
        readers: dict[At, list[int]] = defaultdict(list)
        for n, (op, *_) in enumerate(lines):
            reads = [alias(rank, at) for at in _reads(op)]
            writes = [alias(rank, at) for at in _writes(op)]
            if op.kind == "cpy" and reads == writes:
                continue  # in place, nothing is copied
            for at in reads:
                sources[n].update([writer[at]] if at in writer else [])
                readers[at].append(n)
            for at in writes:
                sources[n].update(readers.pop(at, ()))
                sources[n].update([writer[at]] if at in writer else [])
                writer[at] = n
    return _reduce_needs(sources, lines, blocks)


def _reduce_needs(
    sources: Sequence[set[int]], lines: Sequence[tuple[MscclOp, int, int]], blocks: int
) -> list[list[tuple[int, int]]]:
    """Return the dependencies of steps without those that others imply."""
    done: list[list[int]] = []  # per step: last completed step of each thread block
    last: list[int | None] = [None] * blocks
    fewest = []
    for n, (_, block, index) in enumerate(lines):
        before = last[block]
        row = [-1] * blocks if before is None else list(done[before])
        kept = []
        for source in sorted(sources[n] - {n}, reverse=True):  # the latest imply the most
            _, b, i = lines[source]
            if row[b] < i:
                kept.append((b, i))
                row = [max(pair) for pair in zip(row, done[source], strict=True)]
        row[block] = index
        done.append(row)
        last[block] = n
        fewest.append(sorted(kept))
    return fewest


def _build_step(op: MscclOp, dep: tuple[int, int] | None, *, tells: bool) -> MscclStep:
    src, dst = op.src, op.dst
    if op.kind == "r":
        src = op.remote
    if op.kind == "rcs":
        src = op.dst
    if op.kind == "rrs":
        assert op.forward is not None
        dst = op.forward.remote
    return MscclStep(op.kind, src, dst, op.count, dep, tells)


def alias_of(name: str, chunks: int, *, in_place: bool) -> Alias:
    """Return the memory of places if input and output share a buffer, as in NCCL.

    Args:
        chunks: Chunks of a rank's own block: of its input for allgather, of its output for
            reducescatter.
    """

    def memory(rank: int, at: At) -> At:
        """Return the place itself, or that of the output."""
        buffer, index = at
        if not in_place or buffer != "i":
            return at
        if name == "allgather":
            return ("o", rank * chunks + index)
        if name == "reducescatter":
            inside = rank * chunks <= index < (rank + 1) * chunks
            return ("o", index - rank * chunks) if inside else at
        return ("o", index)

    return memory
