"""Groups as the judge of symmetric algorithms takes them: translations, and turns about rank 0.

Nothing is believed: that permutations are such, preserve links, budgets and demand, and that turns
normalise translations.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.topo.symmetry.orbits import Orbits
from sccl.topo.symmetry.regular import Cayley, RankArray, Regular, cayley, commuting, regular

Ints = NDArray[np.int64]

_MOST_WAYS = 2**26  # chunks of a rank times ranks: ways between them take four times as many bytes


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A symmetry that keeps rank 0: its image of each rank, and of each chunk of rank 0."""

    ranks: RankArray
    own: Ints


@dataclass(frozen=True, slots=True, eq=False)
class GroupAction:
    """A group as this judge takes it: translations, and turns about rank 0 that normalise them.

    Chunk k * P + h starts on rank h alone. It is the k-th of that rank.

    Attributes:
        targets: of each chunk of rank 0 the rank that wants it. None: all do.
        own: how many chunks rank 0 has.
    """

    machine: Cayley
    turns: tuple[Turn, ...]
    targets: Ints | None
    own: int

    @property
    def group(self) -> Regular:
        """Return the translations."""
        return self.machine.group


def action_of(algorithm: SymmetricAlgorithm) -> GroupAction | None:
    """Return the group of an algorithm once (i) and (ii) are checked. None: not for this judge."""
    topology, collective = algorithm.topology, algorithm.collective
    single = collective.is_transpose
    if not is_taken(algorithm):
        return None
    kept, others = commuting(algorithm.symmetries)
    group = regular([np.array(one.ranks, np.int32) for one in kept])
    machine = cayley(topology, group) if group else None
    if machine is None or not keep_budgets(topology, algorithm.symmetries):
        return None
    own = collective.num_chunks // topology.ranks
    targets = np.arange(own, dtype=np.int64) % topology.ranks if single else None
    turns = [_turn(machine, one, collective.alike, single=single) for one in others]
    if None in turns or (turns and own * topology.ranks > _MOST_WAYS):
        return None
    return GroupAction(machine, tuple(turn for turn in turns if turn), targets, own)


def is_taken(algorithm: SymmetricAlgorithm) -> bool:
    """Return whether each rank has chunks of its own, and symmetries are permutations that fit."""
    topology, collective = algorithm.topology, algorithm.collective
    if topology.switches or collective.combining or topology.ranks != collective.ranks:
        return False
    if not (collective.is_gathered or collective.is_transpose):
        return False
    everyone = np.arange(topology.ranks)
    return all(
        collective.alike % one.period == 0
        and len(one.ranks) == topology.ranks
        and np.array_equal(np.sort(np.array(one.ranks)), everyone)
        for one in algorithm.symmetries
    )


def keep_budgets(topology: Topology, symmetries: tuple[Symmetry, ...]) -> bool:
    """Return whether all symmetries take budgets to budgets of as many chunks."""
    every = Counter((frozenset(b.edges), b.chunks_per_round) for b in topology.budgets)
    for one in symmetries if every else ():
        image = one.ranks
        moved = Counter(
            (frozenset((image[u], image[v]) for u, v in b.edges), b.chunks_per_round)
            for b in topology.budgets
        )
        if moved != every:
            return False
    return True


def _turn(machine: Cayley, symmetry: Symmetry, each: int, *, single: bool) -> Turn | None:
    """Return a symmetry followed by the translation that brings rank 0 back. None: it is none.

    It has to preserve links, and to take translations to translations when they are conjugated.

    Args:
        each: how many chunks are alike.
        single: whether each chunk is wanted by one rank.
    """
    group = machine.group
    image = np.array(symmetry.ranks, np.int32)
    if not machine.links.preserved(image):
        return None
    ranks = np.argsort(group.taking(int(image[0])))[image].astype(np.int32)
    back = np.argsort(ranks)
    for generator in group.generators:
        conjugate = ranks[generator[back]]
        if not np.array_equal(conjugate, group.taking(int(conjugate[0]))):
            return None
    index = np.arange(each, dtype=np.int64)
    place = index % symmetry.period
    index = index - place + (place + symmetry.turn) % symmetry.period
    if not single:
        return Turn(ranks, index)
    own = (index[:, None] * group.ranks + ranks[None, :]).ravel()
    return Turn(ranks, own)


def kinds_by_orbit(machine: Cayley, turns: tuple[Turn, ...]) -> list[int]:
    """Return, for each of the links that leave rank 0, the first that turns make of it."""
    orbits = Orbits(machine.steps)
    for turn in turns:
        for g in machine.steps:
            orbits.join(g, int(turn.ranks[g]))
    number = {g: i for i, g in enumerate(machine.steps)}
    return [number[orbits.first(g)] for g in machine.steps]


def budget_orbits(algorithm: SymmetricAlgorithm) -> list[list[int]]:
    """Return the numbers of budgets that are images of one another."""
    budgets = algorithm.topology.budgets
    orbits = Orbits(range(len(budgets)))
    by_edges: dict[tuple[frozenset[tuple[int, int]], int], list[int]] = {}
    for number, budget in enumerate(budgets):
        key = (frozenset((int(u), int(v)) for u, v in budget.edges), budget.chunks_per_round)
        by_edges.setdefault(key, []).append(number)
    for same in by_edges.values():
        for number in same:
            orbits.join(same[0], number)
    for one in algorithm.symmetries:
        image = one.ranks
        for (edges, width), same in by_edges.items():
            there = by_edges[frozenset((image[u], image[v]) for u, v in edges), width]
            orbits.join(same[0], there[0])
    return list(orbits.members().values())
