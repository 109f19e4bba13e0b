"""Data hazards: dependencies between instructions that access one slot, on one rank or two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sccl.codegen.happens_before import PartOrder, Site, flag_setters, program_sites
from sccl.codegen.ir import Address, Block, Buffer, Instruction, Op, Program, RankProgram, Slot


def find_dependencies(serial: Sequence[Instruction], aliased: Mapping[int, int]) -> list[list[int]]:
    """Return the earlier instructions that each instruction of one rank must wait for.

    Covers read-after-write, write-after-read and write-after-write hazards, in place and out of
    place. An arrival counts as written at its receipt. :func:`protect_remote_writes` adds the waits
    of senders.

    Args:
        serial: Instructions in an order that gives the right result.
        aliased: Output index that shares memory with each input index in place.
    """
    separate = _dependencies(serial, {})
    in_place = _dependencies(serial, aliased) if aliased else separate
    return [sorted(a | b) for a, b in zip(separate, in_place, strict=True)]


def _dependencies(serial: Sequence[Instruction], aliased: Mapping[int, int]) -> list[set[int]]:
    writer: dict[Slot, int] = {}
    readers: dict[Slot, list[int]] = defaultdict(list)
    needs: list[set[int]] = []
    for number, instruction in enumerate(serial):
        sources: set[int] = set()
        landed = instruction.lands()
        read = [_memory_place(slot, aliased) for slot in instruction.reads()]
        written = [_memory_place(slot, aliased) for slot in instruction.writes()]
        if instruction.op is Op.COPY and read == written:
            read, written = [], []  # a copy onto itself accesses nothing
        for slot in read:
            if slot in writer and slot not in landed:
                sources.add(writer[slot])
            readers[slot].append(number)
        for slot in written:
            sources.update(readers[slot])
            sources.update([writer[slot]] if slot in writer else [])
            writer[slot], readers[slot] = number, []
        for slot in landed:
            writer[slot], readers[slot] = number, []
        needs.append(sources - {number})
    return needs


def _memory_place(slot: Slot, aliased: Mapping[int, int]) -> Slot:
    if slot.buffer is Buffer.INPUT and slot.index in aliased:
        return Slot(Buffer.OUTPUT, aliased[slot.index])
    return slot


def protect_remote_writes(program: Program) -> Program:
    """Return the program with credits that make every write into another rank's slot safe.

    A sender may overwrite a slot only after its owner has finished with the former content. If
    flags and dependencies do not already imply this, the owner gives a credit. Inputs that an
    in-place call would lose are listed in ``saves``.
    """
    order = PartOrder(program)
    unsafe = [
        (send, pending)
        for send, former in _conflicting_uses(program).items()
        if (pending := [site for site in former if not order.precedes(site, send)])
    ]
    credited = _with_credits(program, unsafe) if unsafe else program
    setter = flag_setters(program)
    ranks = tuple(
        replace(rank_program, saves=_inputs_to_save(program, order, setter, rank))
        for rank, rank_program in enumerate(credited.ranks)
    )
    return replace(credited, ranks=ranks)


def _conflicting_uses(program: Program) -> dict[Site, list[Site]]:
    """Return the receiver's uses of a slot's earlier content, by the send that overwrites it."""
    touches: dict[tuple[int, Slot], list[tuple[int, Site]]] = defaultdict(list)
    code = program_sites(program)
    for site, instruction in code.items():
        for slot in {*instruction.reads(), *instruction.writes(), *instruction.lands()}:
            touches[site[0], slot].append((instruction.step, site))
    overwrites: dict[Site, list[Site]] = {}
    for site, instruction in code.items():
        target = instruction.sends()
        before = touches[target] if target is not None else []
        if former := [s for step, s in before if step < instruction.step]:
            overwrites[site] = former
    return overwrites


def _with_credits(program: Program, unsafe: list[tuple[Site, list[Site]]]) -> Program:
    code = program_sites(program)
    ranks = list(program.ranks)
    for (sender, address), pending in unsafe:
        send = code[sender, address]
        target = send.sends()
        assert target is not None
        owner, _ = target
        flag = ranks[sender].flags
        b, i = address
        block = ranks[sender].blocks[b]
        lines = list(block.instructions)
        lines[i] = replace(lines[i], credit=flag)
        ranks[sender] = replace(_with_block(ranks[sender], b, lines), flags=ranks[sender].flags + 1)
        step = max(code[site].step for site in pending)
        home = next(n for n, k in enumerate(ranks[owner].blocks) if k.recv_peer == sender)
        credit = Instruction(
            Op.CREDIT,
            step,
            send.chunk,
            peer=sender,
            flag=flag,
            after=tuple(sorted(a for _, a in pending if a[0] != home)),
        )
        lines = [*ranks[owner].blocks[home].instructions, credit]
        ranks[owner] = _with_block(ranks[owner], home, lines)
    return replace(program, ranks=tuple(sort_blocks(rank_program) for rank_program in ranks))


def _with_block(rank_program: RankProgram, number: int, lines: list[Instruction]) -> RankProgram:
    block = replace(rank_program.blocks[number], instructions=tuple(lines))
    return replace(
        rank_program,
        blocks=(*rank_program.blocks[:number], block, *rank_program.blocks[number + 1 :]),
    )


def sort_blocks(rank_program: RankProgram) -> RankProgram:
    """Sort the blocks of a rank's program by steps and renumber the addresses."""
    moved: dict[Address, Address] = {}
    blocks: list[list[Instruction]] = []
    for b, block in enumerate(rank_program.blocks):
        order = sorted(enumerate(block.instructions), key=lambda item: item[1].order)
        moved |= {(b, old): (b, new) for new, (old, _) in enumerate(order)}
        blocks.append([line for _, line in order])
    return replace(
        rank_program,
        blocks=tuple(
            Block(
                old.send_peer,
                old.recv_peer,
                tuple(i.with_dependencies(tuple(sorted(moved[a] for a in i.after))) for i in lines),
            )
            for old, lines in zip(rank_program.blocks, blocks, strict=True)
        ),
    )


def _inputs_to_save(
    program: Program, order: PartOrder, setter: Mapping[tuple[int, int], Site], rank: int
) -> tuple[int, ...]:
    """Return the input indices that an in-place call would overwrite too early.

    Either input and output share memory for different chunks, or a peer may write the same chunk
    before its last read on this rank.
    """
    layout = program.layout
    reads: dict[int, list[Site]] = defaultdict(list)
    written: dict[int, list[Site]] = defaultdict(list)
    for address, instruction in program.ranks[rank].instructions():
        for slot in instruction.reads():
            if slot.buffer is Buffer.INPUT:
                reads[slot.index].append((rank, address))
        for arrival in instruction.receives():
            if arrival.slot.buffer is Buffer.OUTPUT:
                written[arrival.slot.index].append(setter[rank, arrival.flag])
    saves = []
    kept = layout.unmoved_in_place(rank)
    for index, output in sorted(layout.aliased(rank).items()):
        early = any(not order.precedes(r, w) for r in reads[index] for w in written[output])
        if reads[index] and (early or index not in kept):
            saves.append(index)
    return tuple(saves)
