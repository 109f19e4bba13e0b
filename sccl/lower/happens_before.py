"""Which instruction is certainly done before which other begins, whatever the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from sccl.errors import JudgeError
from sccl.lower.program import Address, Instruction, Program

Site = tuple[int, Address]
"""(rank, (block, index))."""


@dataclass(frozen=True, slots=True)
class Order:
    """The partial order of a program's instructions.

    Attributes:
        number: a number for every site, in an order that the partial order allows.
        before: per number, the numbers of those certainly done before, as bits.
    """

    number: dict[Site, int]
    before: list[int]

    def precedes(self, first: Site, then: Site) -> bool:
        """Return whether ``first`` is done before ``then`` begins to touch its slots."""
        return bool(self.before[self.number[then]] >> self.number[first] & 1)


def sites(program: Program) -> dict[Site, Instruction]:
    """Return every instruction of a program by where it stands."""
    return {
        (rank, address): instruction
        for rank, own in enumerate(program.ranks)
        for address, instruction in own.instructions()
    }


def setters(program: Program) -> dict[tuple[int, int], Site]:
    """Return, for every (rank, flag), the instruction that sets it."""
    return {
        told: site
        for site, instruction in sites(program).items()
        if (told := instruction.sets()) is not None
    }


def happens_before(program: Program) -> Order:
    """Return the order that blocks, dependencies, flags and credits impose.

    Raises:
        JudgeError: it is circular, so that the program would deadlock.
    """
    needs = _needs(program)
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
    return Order(number, before)


def _needs(program: Program) -> dict[Site, list[Site]]:
    setter = setters(program)
    needs: dict[Site, list[Site]] = {}
    for site, instruction in sites(program).items():
        rank, (block, index) = site
        sources = [(rank, address) for address in instruction.after]
        if index:
            sources.append((rank, (block, index - 1)))
        sources += [setter[rank, flag] for flag in instruction.awaits()]
        needs[site] = sources
    return needs
