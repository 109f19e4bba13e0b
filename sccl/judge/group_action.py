"""Groups as the judge of symmetric algorithms takes them: translations, and turns about rank 0.

Nothing is believed: that permutations are such, preserve links, budgets and demand, and that turns
normalise translations.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import Int32Array, IntArray
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.topo.symmetry.permutations import Orbits
from sccl.topo.symmetry.regular_groups import (
    CayleyMachine,
    RegularGroup,
    as_cayley_machine,
    find_regular_group,
    split_commuting,
)

_MAX_ROUTES = 2**26  # chunks of a rank times ranks: ways between them take four times as many bytes


@dataclass(frozen=True, slots=True, eq=False)
class RootStabilizer:
    """A symmetry that keeps rank 0: its image of each rank, and of each chunk of rank 0."""

    ranks: Int32Array
    chunk_images: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class GroupAction:
    """A group as this judge takes it: translations, and turns about rank 0 that normalise them.

    Chunk k * P + h starts on rank h alone. It is the k-th of that rank.

    Attributes:
        targets: of each chunk of rank 0 the rank that wants it. None: all do.
        chunks_per_rank: how many chunks rank 0 has.
    """

    machine: CayleyMachine
    stabilizers: tuple[RootStabilizer, ...]
    targets: IntArray | None
    chunks_per_rank: int

    @property
    def group(self) -> RegularGroup:
        """Return the translations."""
        return self.machine.group


def find_group_action(algorithm: SymmetricAlgorithm) -> GroupAction | None:
    """Return the group of an algorithm once (i) and (ii) are checked. None: not for this judge."""
    topology, collective = algorithm.topology, algorithm.collective
    single = collective.is_alltoall
    if not is_supported(algorithm):
        return None
    kept, others = split_commuting(algorithm.symmetries)
    group = find_regular_group([np.array(symmetry.ranks, np.int32) for symmetry in kept])
    machine = as_cayley_machine(topology, group) if group else None
    if machine is None or not is_budget_preserving(topology, algorithm.symmetries):
        return None
    rank_chunks = collective.num_chunks // topology.ranks
    targets = np.arange(rank_chunks, dtype=np.int64) % topology.ranks if single else None
    turns = [
        _root_stabilizer(machine, symmetry, collective.class_size_divisor, single=single)
        for symmetry in others
    ]
    if None in turns or (turns and rank_chunks * topology.ranks > _MAX_ROUTES):
        return None
    return GroupAction(machine, tuple(turn for turn in turns if turn), targets, rank_chunks)


def is_supported(algorithm: SymmetricAlgorithm) -> bool:
    """Return whether each rank has chunks of its own, and symmetries are permutations that fit."""
    topology, collective = algorithm.topology, algorithm.collective
    if topology.switches or collective.combining or topology.ranks != collective.ranks:
        return False
    if not (collective.is_allgather or collective.is_alltoall):
        return False
    everyone = np.arange(topology.ranks)
    return all(
        collective.class_size_divisor % symmetry.period == 0
        and len(symmetry.ranks) == topology.ranks
        and np.array_equal(np.sort(np.array(symmetry.ranks)), everyone)
        for symmetry in algorithm.symmetries
    )


def is_budget_preserving(topology: Topology, symmetries: tuple[Symmetry, ...]) -> bool:
    """Return whether all symmetries take budgets to budgets of as many chunks."""
    all_budgets = Counter((frozenset(b.edges), b.chunks_per_round) for b in topology.budgets)
    for symmetry in symmetries if all_budgets else ():
        image = symmetry.ranks
        moved = Counter(
            (frozenset((image[u], image[v]) for u, v in b.edges), b.chunks_per_round)
            for b in topology.budgets
        )
        if moved != all_budgets:
            return False
    return True


def _root_stabilizer(
    machine: CayleyMachine, symmetry: Symmetry, each: int, *, single: bool
) -> RootStabilizer | None:
    """Return a symmetry followed by the translation that brings rank 0 back. None: it is none.

    It has to preserve links, and to take translations to translations when they are conjugated.

    Args:
        each: how many chunks are alike.
        single: whether each chunk is wanted by one rank.
    """
    group = machine.group
    image = np.array(symmetry.ranks, np.int32)
    if not machine.links.is_preserved(image):
        return None
    ranks = np.argsort(group.element_taking(int(image[0])))[image].astype(np.int32)
    back = np.argsort(ranks)
    for generator in group.generators:
        conjugate = ranks[generator[back]]
        if not np.array_equal(conjugate, group.element_taking(int(conjugate[0]))):
            return None
    index = np.arange(each, dtype=np.int64)
    place = index % symmetry.period
    index = index - place + (place + symmetry.chunk_shift) % symmetry.period
    if not single:
        return RootStabilizer(ranks, index)
    images = (index[:, None] * group.ranks + ranks[None, :]).ravel()
    return RootStabilizer(ranks, images)


def kinds_by_orbit(machine: CayleyMachine, turns: tuple[RootStabilizer, ...]) -> list[int]:
    """Return, for each of the links that leave rank 0, the first that turns make of it."""
    orbits = Orbits(machine.steps)
    for turn in turns:
        for g in machine.steps:
            orbits.join(g, int(turn.ranks[g]))
    number = {g: i for i, g in enumerate(machine.steps)}
    return [number[orbits.representative(g)] for g in machine.steps]


def budget_orbits(algorithm: SymmetricAlgorithm) -> list[list[int]]:
    """Return the numbers of budgets that are images of one another."""
    budgets = algorithm.topology.budgets
    orbits = Orbits(range(len(budgets)))
    by_edges: dict[tuple[frozenset[tuple[int, int]], int], list[int]] = {}
    for number, budget in enumerate(budgets):
        key = (frozenset((int(u), int(v)) for u, v in budget.edges), budget.chunks_per_round)
        by_edges.setdefault(key, []).append(number)
    for numbers in by_edges.values():
        for number in numbers:
            orbits.join(numbers[0], number)
    for symmetry in algorithm.symmetries:
        image = symmetry.ranks
        for (edges, width), numbers in by_edges.items():
            targets = by_edges[frozenset((image[u], image[v]) for u, v in edges), width]
            orbits.join(numbers[0], targets[0])
    return list(orbits.members().values())
