"""Passes: programs to programs that do the same with less.

Every pass is a pure function; the interpreter shows in tests that results stay what they were.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from sccl.core.algorithm import Algorithm
from sccl.lower.happens_before import happens_before, setters
from sccl.lower.hazards import latest, protect
from sccl.lower.lowering import lower
from sccl.lower.program import (
    Address,
    Block,
    Buffer,
    Instruction,
    Landing,
    Op,
    Program,
    RankProgram,
    Slot,
)


def fuse_receive_reduce(program: Program) -> Program:
    """Return the program with every RECV whose chunk is reduced next made one RECV_REDUCE."""
    return replace(program, ranks=tuple(_fused(own) for own in program.ranks))


def _fused(own: RankProgram) -> RankProgram:
    blocks: list[Block] = []
    moved: dict[Address, Address] = {}
    for b, block in enumerate(own.blocks):
        lines: list[Instruction] = []
        for i, line in enumerate(block.instructions):
            previous = lines[-1] if lines else None
            if (
                line.op is Op.REDUCE
                and previous is not None
                and previous.op is Op.RECV
                and previous.dst == line.other
            ):
                after = (*previous.after, *line.after)
                lines[-1] = replace(
                    line,
                    op=Op.RECV_REDUCE,
                    peer=previous.peer,
                    flag=previous.flag,
                    after=latest(after),
                )
            else:
                lines.append(line)
            moved[b, i] = (b, len(lines) - 1)
        blocks.append(replace(block, instructions=tuple(lines)))
    return replace(own, blocks=tuple(_readdressed(block, moved) for block in blocks))


def _readdressed(block: Block, moved: dict[Address, Address]) -> Block:
    return replace(
        block,
        instructions=tuple(
            line.behind(latest(moved[a] for a in line.after)) if line.after else line
            for line in block.instructions
        ),
    )


def reuse_slots(program: Program) -> Program:
    """Return the program with as little scratch as its steps allow.

    A slot is taken from the step in which its content arrives to the last step that uses it.
    Intervals are given the lowest free slot in the order of their beginnings, which is optimal: no
    assignment uses fewer slots than are alive in one step. Credits are added where a sender would
    otherwise not know that a slot is free again.
    """
    renamed = [_colours(own) for own in program.ranks]
    ranks = []
    for rank, own in enumerate(program.ranks):
        blocks = tuple(
            replace(
                block, instructions=tuple(_renamed(i, rank, renamed) for i in block.instructions)
            )
            for block in own.blocks
        )
        slots = 1 + max(renamed[rank].values(), default=-1)
        ranks.append(replace(own, blocks=blocks, scratch_slots=slots))
    return protect(replace(program, ranks=tuple(ranks)))


def _colours(own: RankProgram) -> dict[int, int]:
    """Return the new number of every scratch slot of a rank."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for _, line in own.instructions():
        landed = line.lands()
        for slot in (*line.reads(), *line.writes(), *([landed] if landed else [])):
            if slot.buffer is Buffer.SCRATCH:
                first[slot.index] = min(line.step, first.get(slot.index, line.step))
                last[slot.index] = max(line.step, last.get(slot.index, -1))
    busy: list[tuple[int, int]] = []  # (last step, new number)
    free: list[int] = []
    colours: dict[int, int] = {}
    for index in sorted(first, key=lambda s: (first[s], s)):
        while busy and busy[0][0] < first[index]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        colours[index] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last[index], colours[index]))
    return colours


def _renamed(line: Instruction, rank: int, renamed: list[dict[int, int]]) -> Instruction:
    def at(slot: Slot | None, owner: int) -> Slot | None:
        """Return where a slot of a rank has gone."""
        if slot is None or slot.buffer is not Buffer.SCRATCH:
            return slot
        return Slot(Buffer.SCRATCH, renamed[owner][slot.index])

    there = line.peer if line.op is Op.SEND and line.peer is not None else rank
    slots = at(line.src, rank), at(line.other, rank), at(line.dst, there)
    if slots == (line.src, line.other, line.dst):
        return line
    return replace(line, src=slots[0], other=slots[1], dst=slots[2])


def pair_channels(program: Program) -> Program:
    """Return the program with one block for a peer that is sent to and one that is received from.

    The same peer where there is one. Blocks keep the order of steps, so that no new circle of
    waiting can arise; local copies keep a block of their own.
    """
    return replace(program, ranks=tuple(_paired(own) for own in program.ranks))


def _paired(own: RankProgram) -> RankProgram:
    sends = {b.send_peer: n for n, b in enumerate(own.blocks) if b.send_peer is not None}
    recvs = {b.recv_peer: n for n, b in enumerate(own.blocks) if b.recv_peer is not None}
    both = [(peer, peer) for peer in sends if peer in recvs]
    lone_sends = [peer for peer in sends if peer not in recvs]
    lone_recvs = [peer for peer in recvs if peer not in sends]
    pairs: list[tuple[int | None, int | None]] = [*both]
    pairs += list(zip_longest(lone_sends, lone_recvs))
    joined = [
        (
            send,
            recv,
            [found[peer] for found, peer in ((sends, send), (recvs, recv)) if peer in found],
        )
        for send, recv in pairs
    ]
    joined += [
        (None, None, [n])
        for n, b in enumerate(own.blocks)
        if b.send_peer is None and b.recv_peer is None
    ]
    return _merged(own, joined)


def _merged(
    own: RankProgram, joined: Sequence[tuple[int | None, int | None, list[int]]]
) -> RankProgram:
    """Return the rank's program with the blocks of each entry made one, in the order of steps."""
    moved: dict[Address, Address] = {}
    merged: list[list[Instruction]] = []
    for new, (_, _, members) in enumerate(joined):
        lines = [
            (i.order, m, n, i) for m in members for n, i in enumerate(own.blocks[m].instructions)
        ]
        lines.sort(key=lambda item: item[:3])
        moved |= {(m, n): (new, at) for at, (_, m, n, _) in enumerate(lines)}
        merged.append([line for *_, line in lines])
    blocks = []
    for new, (send, recv, _) in enumerate(joined):
        lines_ = tuple(
            i.behind(latest(moved[a] for a in i.after if moved[a][0] != new)) for i in merged[new]
        )
        blocks.append(Block(send, recv, lines_))
    return replace(own, blocks=tuple(blocks))


def drop_implied(program: Program) -> Program:
    """Return the program without the dependencies that follow from the others."""
    order = happens_before(program)
    setter = setters(program)
    ranks = []
    for rank, own in enumerate(program.ranks):
        blocks = []
        for b, block in enumerate(own.blocks):
            lines = []
            for i, line in enumerate(block.instructions):
                others = [(rank, (b, i - 1))] if i else []
                awaited = line.credit if line.op is Op.SEND else line.flag
                if awaited is not None and line.op is not Op.CREDIT:
                    others.append(setter[rank, awaited])
                sources = [*others, *((rank, a) for a in line.after)]
                after = tuple(
                    a
                    for a in line.after
                    if not any(order.precedes((rank, a), s) for s in sources if s != (rank, a))
                )
                lines.append(line.behind(after))
            blocks.append(replace(block, instructions=tuple(lines)))
        ranks.append(replace(own, blocks=tuple(blocks)))
    return replace(program, ranks=tuple(ranks))


def serialise(program: Program) -> Program:
    """Return the program with one block for every rank, for machines where a rank is one thread.

    In a step every rank begins with the peer after itself, so that not all send to the same one.
    """
    ranks = []
    for rank, own in enumerate(program.ranks):
        lines = [line.behind(()) for line in _serial(program, rank)]
        ranks.append(replace(own, blocks=(Block(None, None, tuple(lines)),)))
    return replace(program, ranks=tuple(ranks), serial=True)


def _serial(program: Program, rank: int) -> list[Instruction]:
    size = len(program.ranks)
    code = dict(program.ranks[rank].instructions())
    users: dict[Address, list[Address]] = defaultdict(list)
    waiting: dict[Address, int] = {}
    for (b, i), line in code.items():
        sources = [*line.after, *([(b, i - 1)] if i else [])]
        waiting[b, i] = len(sources)
        for source in sources:
            users[source].append((b, i))

    def urgency(address: Address) -> tuple[object, ...]:
        """Return by what the instructions that are ready are put in order."""
        line = code[address]
        peer = rank if line.peer is None else line.peer
        turn = rank - peer if line.flag is not None and line.op is not Op.SEND else peer - rank
        return (*line.order, turn % size, *address)

    ready = [(urgency(a), a) for a, count in waiting.items() if not count]
    heapq.heapify(ready)
    serial = []
    while ready:
        _, address = heapq.heappop(ready)
        serial.append(code[address])
        for user in users[address]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (urgency(user), user))
    return serial


def compiled(algorithm: Algorithm, landing: Landing, *, serial: bool) -> Program:
    """Return the program of an algorithm after all passes.

    Args:
        landing: where arrivals are written. Eager programs keep a slot for every arrival, for
            sharing slots would make their senders wait.
        serial: one block for every rank.

    Raises:
        JudgeError: the judge rejects the algorithm.
    """
    program = fuse_receive_reduce(lower(algorithm, landing))
    if landing is Landing.OUTPUT:
        program = reuse_slots(program)
    program = drop_implied(pair_channels(program))
    return serialise(program) if serial else program
