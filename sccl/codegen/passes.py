"""Optimization passes over programs.

Every pass is a pure function that preserves results. The tests verify this with the interpreter.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from sccl.codegen.hazards import (
    PartOrder,
    build_happens_before,
    flag_setters,
    program_sites,
    protect_remote_writes,
)
from sccl.codegen.ir import (
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
from sccl.codegen.lowering import lower
from sccl.core.algorithm import Algorithm
from sccl.core.graphs import topological_order
from sccl.errors import JudgeError


def fuse_receive_reduce(program: Program) -> Program:
    """Fuse every RECV and the REDUCE of its chunk that follows into one RECV_REDUCE."""
    return replace(program, ranks=tuple(_fuse_rank(rank_program) for rank_program in program.ranks))


def _fuse_rank(rank_program: RankProgram) -> RankProgram:
    joined: dict[Address, Address] = {}
    changed: dict[Address, Instruction] = {}
    for (b, i), line in rank_program.instructions():
        previous = rank_program.blocks[b].instructions[i - 1] if i else line
        if line.op is Op.REDUCE and previous.op is Op.RECV and previous.dst == line.other:
            joined[b, i] = (b, i - 1)
            after = _union_addresses(previous.after, line.after)
            changed[b, i - 1] = replace(
                line, op=Op.RECV_REDUCE, peer=previous.peer, flag=previous.flag, after=after
            )
    return _merge_instructions(rank_program, joined, changed)


def _union_addresses(*several: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(sorted(set(chain(*several))))


def _merge_instructions(
    rank_program: RankProgram,
    joined: Mapping[Address, Address],
    changed: Mapping[Address, Instruction],
) -> RankProgram:
    """Merge instructions of a rank's program.

    Args:
        joined: Address of the instruction that absorbs each removed one.
    """
    moved: dict[Address, Address] = {}
    for b, block in enumerate(rank_program.blocks):
        stay = [(b, i) for i in range(len(block.instructions)) if (b, i) not in joined]
        moved |= {old: (b, new) for new, old in enumerate(stay)}
    moved |= {old: moved[by] for old, by in joined.items()}
    blocks: list[list[Instruction]] = [[] for _ in rank_program.blocks]
    for at, line in rank_program.instructions():
        if at not in joined:
            line_ = changed.get(at, line)
            home, index = moved[at]
            sources = (moved[a] for a in line_.after)
            after = _union_addresses((b, i) for b, i in sources if b != home or i > index)
            blocks[home].append(line_.with_dependencies(after))
    return replace(
        rank_program,
        blocks=tuple(
            replace(block, instructions=tuple(lines))
            for block, lines in zip(rank_program.blocks, blocks, strict=True)
        ),
    )


def forward_results(program: Program) -> Program:
    """Fuse a RECV_REDUCE and the SEND of its result into one RECV_REDUCE_SEND.

    The fusion requires that nothing else reads the result, that the next step sends it, and that
    the receiver stores it in scratch. A write into an output would have to wait for its owner.

    The SEND happens one step earlier than before, so the slot must be free one step earlier. No
    other arrival uses it at this point, and :func:`reuse_slots` preserves that. Every instruction
    therefore still waits only for earlier steps or turns (see :attr:`Instruction.order`), and waits
    cannot form a cycle.
    """
    ranks = []
    for rank, rank_program in enumerate(program.ranks):
        code = dict(rank_program.instructions())
        joined: dict[Address, Address] = {}
        changed: dict[Address, Instruction] = {}
        for at, users in _readers(program, rank).items():
            line, send = code[at], code[users[0]]
            target = send.sends()
            only = line.op is Op.RECV_REDUCE and len(users) == 1 and send.step == line.step + 1
            if only and target is not None and target[1].buffer is Buffer.SCRATCH:
                joined[users[0]] = at
                changed[at] = replace(
                    line,
                    op=Op.RECV_REDUCE_SEND,
                    dst=send.dst,
                    credit=send.credit,
                    after=_union_addresses(line.after, (a for a in send.after if a != at)),
                    next_peer=send.peer,
                    next_flag=send.flag,
                )
        ranks.append(_merge_instructions(rank_program, joined, changed))
    return protect_remote_writes(replace(program, ranks=tuple(ranks)))


def merge_reductions(program: Program) -> Program:
    """Merge the reductions of several arrivals in one step into one instruction.

    The instruction reads each arrival once and writes the result once, and no thread block waits
    for another one in between. The order of reduction is kept, and with it every rounding. The
    instructions are distributed evenly among the blocks that receive these arrivals. If the waits
    would form a cycle, the program is returned unchanged.
    """
    ranks = []
    for rank, rank_program in enumerate(program.ranks):
        joined: dict[Address, Address] = {}
        changed: dict[Address, Instruction] = {}
        load = [0] * len(rank_program.blocks)
        for row in _reduction_chains(program, rank):
            home = min(row, key=lambda at: (load[at[0]], at))
            load[home[0]] += 1
            joined |= {at: home for at in row if at != home}
            changed[home] = _merge_chain(rank_program, row)
        ranks.append(_merge_instructions(rank_program, joined, changed))
    merged = replace(program, ranks=tuple(ranks))
    try:
        build_happens_before(merged)
    except JudgeError:
        return program
    return protect_remote_writes(merged)


def _reduction_chains(program: Program, rank: int) -> list[list[Address]]:
    """Return the chains of reductions of a step in which each result feeds only the next one."""
    code = dict(program.ranks[rank].instructions())
    following: dict[Address, Address] = {}
    for at, users in _readers(program, rank).items():
        line, user = code[at], code[users[0]]
        reduces = user.op in (Op.RECV_REDUCE, Op.RECV_REDUCE_SEND) and user.src == line.dst
        is_chained = line.op is Op.RECV_REDUCE and len(users) == 1 and user.step == line.step
        if reduces and is_chained:
            following[at] = users[0]
    rows = []
    for first in following.keys() - following.values():
        row = [first]
        while row[-1] in following:
            row.append(following[row[-1]])
        rows.append(row)
    return sorted(rows, key=lambda row: (code[row[0]].order, code[row[0]].chunk, row))


def _merge_chain(rank_program: RankProgram, row: Sequence[Address]) -> Instruction:
    lines = [rank_program.blocks[b].instructions[i] for b, i in row]
    first, *others = [arrival for line in lines for arrival in line.receives()]
    return replace(
        lines[-1],
        src=lines[0].src,
        peer=first.peer,
        flag=first.flag,
        other=first.slot,
        arrivals=tuple(others),
        after=_union_addresses(a for line in lines for a in line.after if a not in row),
    )


def _readers(program: Program, rank: int) -> dict[Address, list[Address]]:
    """Return the readers of every instruction whose result is read and is not an output."""
    code = dict(program.ranks[rank].instructions())
    held: dict[Slot, Address] = {}  # instruction that wrote the current content of each slot
    readers: dict[Address, list[Address]] = defaultdict(list)
    for at in _serial_order(program, rank):
        line, landed = code[at], code[at].lands()
        for slot in line.reads():
            if slot in held and slot not in landed:
                readers[held[slot]].append(at)
        held |= dict.fromkeys((*line.writes(), *landed), at)
    outputs = {at for slot, at in held.items() if slot.buffer is Buffer.OUTPUT}
    return {at: users for at, users in readers.items() if at not in outputs}


def reuse_slots(program: Program) -> Program:
    """Minimize the scratch slots by sharing them between steps.

    A slot is live from the step that sends its content to the last step that uses it. Live ranges
    get the lowest free slot in the order of their starts. This is optimal, because every assignment
    needs as many slots as are live in one step. Credits are added if a sender would otherwise not
    know that a slot is free again.
    """
    renamed = [_color_slots(spans) for spans in _slot_spans(program)]
    ranks = []
    for rank, rank_program in enumerate(program.ranks):
        blocks = tuple(
            replace(
                block,
                instructions=tuple(_rename_slots(i, rank, renamed) for i in block.instructions),
            )
            for block in rank_program.blocks
        )
        slots = 1 + max(renamed[rank].values(), default=-1)
        ranks.append(replace(rank_program, blocks=blocks, scratch_slots=slots))
    return protect_remote_writes(replace(program, ranks=tuple(ranks)))


def _slot_spans(program: Program) -> list[dict[int, tuple[int, int]]]:
    """Return the first and last step that use each scratch slot of every rank."""
    spans: list[dict[int, tuple[int, int]]] = [{} for _ in program.ranks]
    for (rank, _), line in program_sites(program).items():
        target = line.sends()
        accesses = [(rank, slot) for slot in (*line.reads(), *line.writes())]
        for owner, slot in accesses if target is None else [*accesses, target]:
            if slot.buffer is Buffer.SCRATCH:
                first, last = spans[owner].get(slot.index, (line.step, line.step))
                spans[owner][slot.index] = min(first, line.step), max(last, line.step)
    return spans


def _color_slots(spans: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    busy: list[tuple[int, int]] = []  # (last step, new number)
    free: list[int] = []
    colors: dict[int, int] = {}
    for index, (first, last) in sorted(spans.items(), key=lambda item: (item[1][0], item[0])):
        while busy and busy[0][0] < first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        colors[index] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, colors[index]))
    return colors


def _rename_slots(line: Instruction, rank: int, renamed: list[dict[int, int]]) -> Instruction:
    def at(slot: Slot | None, owner: int) -> Slot | None:
        if slot is None or slot.buffer is not Buffer.SCRATCH:
            return slot
        return Slot(Buffer.SCRATCH, renamed[owner][slot.index])

    target = line.sends()
    owner = rank if target is None else target[0]
    new = replace(
        line,
        src=at(line.src, rank),
        other=at(line.other, rank),
        dst=at(line.dst, owner),
        arrivals=tuple(a._replace(slot=at(a.slot, rank) or a.slot) for a in line.arrivals),
    )
    return line if new == line else new


LAG = 4
"""Number of sends between a send of a thread block and its wait for the chunk that the peer sends
in the same turn. The chunk arrives during these sends, so the block does not wait while it could
send."""


def pair_channels(program: Program, *, interleave: bool = True) -> Program:
    """Merge the block that sends to a peer with one that receives, from the same peer if possible.

    Local copies keep their own block, and blocks keep the order of steps. Within a step, the
    receipt of the n-th chunk from a sender follows the block's send with number n + :data:`LAG`, so
    links stay busy. If waits would then form a cycle, all sends of a step come first.

    Args:
        interleave: Whether to mix sends and receipts. A single thread that runs all blocks needs
            all sends of a step first. Otherwise two ranks could wait for later sends of each other.
    """
    all_first = replace(
        program, ranks=tuple(_pair_rank(rank_program, {}) for rank_program in program.ranks)
    )
    if not interleave:
        return all_first
    turns = _instruction_turns(program)
    try:
        interleaved = replace(
            program,
            ranks=tuple(
                _pair_rank(rank_program, turns[r]) for r, rank_program in enumerate(program.ranks)
            ),
        )
        build_happens_before(interleaved)
    except JudgeError:
        return all_first
    return interleaved


def _instruction_turns(program: Program) -> list[dict[Address, int]]:
    """Return the turn within its step of each instruction except credits, which come last.

    The turn of a send is its number in the step. The turn of another instruction is the largest
    number of the sends that it awaits, plus :data:`LAG`. It is at least the turn of the sends of
    this rank that read a slot which the instruction overwrites, and of predecessors in the block.
    """
    turns: list[dict[Address, int]] = [{} for _ in program.ranks]
    for rank, rank_program in enumerate(program.ranks):
        for b, block in enumerate(rank_program.blocks):
            count: Counter[int] = Counter()
            for i, line in enumerate(block.instructions):
                if line.op is Op.SEND:
                    turns[rank][b, i] = count[line.step]
                    count[line.step] += 1
    code, setter = program_sites(program), flag_setters(program)
    for rank, rank_program in enumerate(program.ranks):
        for b, block in enumerate(rank_program.blocks):
            latest: dict[int, int] = defaultdict(lambda: LAG)
            for i, line in enumerate(block.instructions):
                if line.op in (Op.SEND, Op.CREDIT):
                    continue
                for arrival in line.receives():
                    site = setter[rank, arrival.flag]
                    if code[site].op is Op.SEND and code[site].step == line.step:
                        number = turns[site[0]][site[1]] + LAG
                        latest[line.step] = max(number, latest[line.step])
                for before in line.after:
                    sent = code[rank, before]
                    if sent.op is Op.SEND and sent.step == line.step:
                        latest[line.step] = max(turns[rank][before], latest[line.step])
                turns[rank][b, i] = latest[line.step]
    return turns


def _pair_rank(rank_program: RankProgram, turns: Mapping[Address, int]) -> RankProgram:
    sends = {b.send_peer: n for n, b in enumerate(rank_program.blocks) if b.send_peer is not None}
    recvs = {b.recv_peer: n for n, b in enumerate(rank_program.blocks) if b.recv_peer is not None}
    both = [(peer, peer) for peer in sends if peer in recvs]
    lone_sends = [peer for peer in sends if peer not in recvs]
    lone_recvs = [peer for peer in recvs if peer not in sends]
    pairs: list[tuple[int | None, int | None]] = [*both]
    pairs += list(zip_longest(lone_sends, lone_recvs))
    joined = [
        (
            send,
            recv,
            [table[peer] for table, peer in ((sends, send), (recvs, recv)) if peer in table],
        )
        for send, recv in pairs
    ]
    joined += [
        (None, None, [n])
        for n, b in enumerate(rank_program.blocks)
        if b.send_peer is None and b.recv_peer is None
    ]
    return _merge_blocks(rank_program, joined, turns)


def _merge_blocks(
    rank_program: RankProgram,
    joined: Sequence[tuple[int | None, int | None, list[int]]],
    turns: Mapping[Address, int],
) -> RankProgram:
    """Merge the blocks of each entry into one, in the order of steps.

    Args:
        joined: Send peer, receive peer and former blocks of each new block.
        turns: Turns of instructions within their step. Instructions without a turn come last.

    Raises:
        JudgeError: An instruction would precede one of its block that it depends on.
    """
    moved: dict[Address, Address] = {}
    merged: list[list[Instruction]] = []
    for new, (_, _, members) in enumerate(joined):
        lines = [
            ((i.step, turns.get((m, n), math.inf), i.order), m, n, i)
            for m in members
            for n, i in enumerate(rank_program.blocks[m].instructions)
        ]
        lines.sort(key=lambda item: item[:3])
        moved |= {(m, n): (new, at) for at, (_, m, n, _) in enumerate(lines)}
        merged.append([line for *_, line in lines])
    for at, line in rank_program.instructions():
        for before in line.after:
            if moved[before][0] == moved[at][0] and moved[before] > moved[at]:
                raise JudgeError(
                    f"step {line.step}: {line.op} of chunk {line.chunk} comes too early"
                )
    blocks = []
    for new, (send, recv, _) in enumerate(joined):
        lines_ = tuple(
            i.with_dependencies(_union_addresses(moved[a] for a in i.after if moved[a][0] != new))
            for i in merged[new]
        )
        blocks.append(Block(send, recv, lines_))
    return replace(rank_program, blocks=tuple(blocks))


def drop_implied(program: Program) -> Program:
    """Remove the dependencies that follow from others.

    They must follow whichever parts are empty (see :class:`PartOrder`). An eager program may run in
    packets, which do not order memory accesses. So its dependencies must follow from instructions
    of the same rank alone. The exception is a read of a chunk before a result with this chunk
    overwrites it. Exceptions are removed first, so that no other dependency relies on them.
    """
    build_happens_before(program)  # raises on a cycle through other parts
    on_rank = program.landing is Landing.SCRATCH
    reduced = _drop_dependencies(program, contained=True, on_rank=False)
    return _drop_dependencies(reduced, contained=False, on_rank=on_rank)


def _drop_dependencies(program: Program, *, contained: bool, on_rank: bool) -> Program:
    """Remove the dependencies of one kind that follow from the others.

    Args:
        contained: Whether the kind is a read of a chunk before a result that contains it.
        on_rank: Whether the dependencies must follow from instructions of their rank alone.
    """
    order = PartOrder(program)
    ranks = []
    for rank, rank_program in enumerate(program.ranks):
        code = dict(rank_program.instructions())

        def is_implied(
            source: Address,
            at: Address,
            rank: int = rank,
            code: Mapping[Address, Instruction] = code,
        ) -> bool:
            written = {*code[source].writes(), *code[source].lands()}
            touched = {*code[at].reads(), *code[at].writes()}
            same_chunk = code[source].chunk == code[at].chunk
            if contained != (same_chunk and written.isdisjoint(touched)):
                return False
            return order.is_implied((rank, source), (rank, at), on_rank=on_rank)

        blocks = []
        for b, block in enumerate(rank_program.blocks):
            lines = [
                line.with_dependencies(tuple(a for a in line.after if not is_implied(a, (b, i))))
                for i, line in enumerate(block.instructions)
            ]
            blocks.append(replace(block, instructions=tuple(lines)))
        ranks.append(replace(rank_program, blocks=tuple(blocks)))
    return replace(program, ranks=tuple(ranks))


def serialize(program: Program) -> Program:
    """Merge all blocks of every rank into one, for machines with one thread per rank.

    In each step a rank begins with the peer after itself, so that not all ranks send to the same
    peer.
    """
    ranks = []
    for rank, rank_program in enumerate(program.ranks):
        code = dict(rank_program.instructions())
        lines = [code[at].with_dependencies(()) for at in _serial_order(program, rank)]
        ranks.append(replace(rank_program, blocks=(Block(None, None, tuple(lines)),)))
    return replace(program, ranks=tuple(ranks), serial=True)


def _serial_order(program: Program, rank: int) -> list[Address]:
    """Return the addresses of a rank's instructions in the order of a single thread."""
    size = len(program.ranks)
    code = dict(program.ranks[rank].instructions())
    before = {(b, i): [*line.after, *([(b, i - 1)] if i else [])] for (b, i), line in code.items()}

    def urgency(address: Address) -> tuple[object, ...]:
        line = code[address]
        peer = rank if line.peer is None else line.peer
        turn = rank - peer if line.flag is not None and line.op is not Op.SEND else peer - rank
        return (*line.order, turn % size, *address)

    return topological_order(before, key=urgency)


def compile_program(algorithm: Algorithm, landing: Landing, *, serial: bool) -> Program:
    """Lower an algorithm and run all passes.

    Args:
        landing: Buffer into which arrivals are written. Eager programs keep one slot for every
            arrival, because shared slots would make senders wait.
        serial: Whether every rank has a single block.

    Raises:
        JudgeError: The algorithm fails verification.
    """
    program = forward_results(fuse_receive_reduce(lower(algorithm, landing)))
    if not serial:
        program = merge_reductions(program)
    if landing is Landing.OUTPUT:
        program = reuse_slots(program)
    program = drop_implied(pair_channels(program, interleave=not serial))
    return serialize(program) if serial else program
