"""Happens-before order of a program's instructions, which holds in every schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from sccl.codegen.ir import Address, Instruction, Program
from sccl.errors import JudgeError

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
    """The partial order that holds no matter which other parts have bytes.

    A program sends, awaits and publishes nothing for a part without bytes. So an order between two
    instructions has to follow from the blocks and from instructions of their own parts alone.
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
        """Return whether ``first`` ends before ``then`` begins, if both have bytes."""
        return self._order_between(first, then).precedes(first, then)

    def is_implied(self, source: Site, site: Site, *, on_rank: bool = False) -> bool:
        """Return whether ``site`` would follow ``source`` without its dependency on it.

        Args:
            source: Site of the dependency.
            site: Site that depends on ``source``.
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
