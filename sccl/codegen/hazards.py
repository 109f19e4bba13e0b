"""Find data hazards: unordered accesses of instructions to one slot.

The instructions may be on one rank or on two. The happens-before order of a program's instructions
holds in every schedule, so an ordered pair of accesses is not a hazard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from sccl.codegen.ir import Address, Block, Buffer, Instruction, Op, Program, RankProgram, Slot
from sccl.errors import JudgeError


def find_dependencies(serial: Sequence[Instruction], aliased: Mapping[int, int]) -> list[list[int]]:
    """Return the earlier instructions that each instruction of one rank must wait for.

    This covers read-after-write, write-after-read, and write-after-write hazards, in place and out
    of place. An arrival counts as written when it is received. :func:`protect_remote_writes` adds
    the waits of senders.

    Args:
        serial: Instructions in an order with a correct result.
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


Site = tuple[int, Address]
"""(rank, (block, index))."""


@dataclass(frozen=True, slots=True)
class HappensBefore:
    """The partial order of a program's instructions.

    Attributes:
        number: Number of every site, in a topological order.
        before: Numbers of all predecessors of each number, as bits.
        needs: Direct predecessors of each site.
    """

    number: dict[Site, int]
    before: list[int]
    needs: dict[Site, list[Site]]

    def precedes(self, first: Site, then: Site) -> bool:
        """Return whether ``first`` ends before ``then`` begins to access its slots."""
        return bool(self.before[self.number[then]] >> self.number[first] & 1)


def program_sites(program: Program) -> dict[Site, Instruction]:
    """Return every instruction of a program by its site."""
    return {
        (rank, address): instruction
        for rank, rank_program in enumerate(program.ranks)
        for address, instruction in rank_program.instructions()
    }


def flag_setters(program: Program) -> dict[tuple[int, int], Site]:
    """Return the site that sets each flag, by (rank, flag)."""
    return {
        target: site
        for site, instruction in program_sites(program).items()
        if (target := instruction.sets()) is not None
    }


def build_happens_before(program: Program) -> HappensBefore:
    """Build the order that blocks, dependencies, flags and credits impose.

    Raises:
        JudgeError: The order has a cycle, so the program would deadlock.
    """
    return _build_order(program, program_sites(program), flag_setters(program))


class PartOrder:
    """The partial order that holds whichever other parts are empty.

    A program sends, awaits, and publishes nothing for a part without bytes. So an order between two
    instructions must follow from the blocks, and from instructions of their own parts alone.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._setter = flag_setters(program)
        self._sites: dict[int, list[tuple[int, Site]]] = defaultdict(list)
        self._part: dict[Site, int] = {}
        for n, (site, line) in enumerate(program_sites(program).items()):
            self._part[site] = program.layout.part(line.chunk)
            self._sites[self._part[site]].append((n, site))
        self._orders: dict[tuple[frozenset[int], int | None], HappensBefore] = {}

    def precedes(self, first: Site, then: Site) -> bool:
        """Return whether ``first`` ends before ``then`` begins, if their parts have bytes."""
        return self._order_between(first, then).precedes(first, then)

    def is_implied(self, source: Site, site: Site, *, on_rank: bool = False) -> bool:
        """Return whether ``site`` would follow ``source`` without its dependency on it.

        Args:
            on_rank: Whether to use only instructions of their own rank.
        """
        order = self._order_between(source, site, site[0] if on_rank else None)
        return any(order.precedes(source, need) for need in order.needs[site])

    def _order_between(self, first: Site, then: Site, rank: int | None = None) -> HappensBefore:
        parts = frozenset((self._part[first], self._part[then]))
        if (parts, rank) not in self._orders:
            members = sorted(s for part in parts for s in self._sites[part])
            sites = [site for _, site in members if rank is None or site[0] == rank]
            self._orders[parts, rank] = _build_order(self._program, sites, self._setter)
        return self._orders[parts, rank]


def _build_order(
    program: Program, subset: Iterable[Site], setter: Mapping[tuple[int, int], Site]
) -> HappensBefore:
    needs = _site_needs(program, subset, setter)
    number: dict[Site, int] = {}
    before: list[int] = []
    try:
        for site in TopologicalSorter(needs).static_order():
            number[site] = len(before)
            mask = 0
            for source in needs[site]:
                mask |= before[number[source]] | 1 << number[source]
            before.append(mask)
    except CycleError as error:
        rank, (block, index) = error.args[1][0]
        raise JudgeError(
            f"the program deadlocks: rank {rank}, block {block}, instruction {index} waits for "
            "itself; this is a defect of a lowering pass, please report it"
        ) from error
    return HappensBefore(number, before, needs)


def _site_needs(
    program: Program, subset: Iterable[Site], setter: Mapping[tuple[int, int], Site]
) -> dict[Site, list[Site]]:
    needs: dict[Site, list[Site]] = {site: [] for site in subset}
    last: dict[tuple[int, int], Site] = {}
    for site, sources in needs.items():
        rank, (block, index) = site
        line = program.ranks[rank].blocks[block].instructions[index]
        before = [(rank, address) for address in line.after]
        before += [setter[rank, flag] for flag in line.awaits()]
        before += [last[rank, block]] if (rank, block) in last else []
        sources += [source for source in before if source in needs]
        last[rank, block] = site
    return needs
