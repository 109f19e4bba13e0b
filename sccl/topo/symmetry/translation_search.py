"""Find the translations of a machine from its links alone: whether it is a torus, and where.

A machine whose links lead from x to x + g, in an abelian group, has for each g a symmetry that
moves every rank along one of its links: x goes to x + g. The search fixes it rank by rank: the rank
with the fewest possible images is next, and its images farthest from rank 0 are tried first. It
must commute with the symmetries found before, so that one image determines many. On tori and
hypercubes there is almost no backtracking. If the first symmetries block the others, the search
restarts in another order, from a fixed seed. Callers verify the result. A missed symmetry costs
time but never correctness.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from sccl.core.topology import Topology, distances
from sccl.topo.symmetry.permutations import Permutation
from sccl.topo.symmetry.regular_groups import find_regular_group

_MAX_TRIALS_PER_RANK = 30
"""Places that are tried, by rank, before a symmetry is given up."""

_ATTEMPTS = 12

_MAX_LINK_PAIRS = 1_000_000
"""Ranks times pairs of a rank's links: beyond, a machine's links are too many to be compared."""


@lru_cache(maxsize=4)
def find_translations(topology: Topology) -> tuple[Permutation, ...]:
    """Return generators of a regular abelian group of a machine's symmetries, none if not found.

    Budgets are ignored.
    """
    machine = _MachineLinks(topology)
    if not machine.is_uniform() or topology.ranks * len(machine.out[0]) ** 2 > _MAX_LINK_PAIRS:
        return ()
    rng = random.Random(0)  # noqa: S311 - an order, not a secret
    for attempt in range(_ATTEMPTS):
        targets = sorted(machine.out[0])
        if attempt:
            rng.shuffle(targets)
        generators = _attempt_translations(machine, targets, rng if attempt else None)
        if generators and find_regular_group([np.array(image, np.int32) for image in generators]):
            return tuple(generators)
    return ()


def _attempt_translations(
    machine: _MachineLinks, targets: list[int], rng: random.Random | None
) -> list[Permutation]:
    """Return symmetries that commute and together take rank 0 along all of its links, or none.

    Args:
        targets: where its links lead, in the order in which they are tried.
        rng: chooses among places. None: the farthest come first.
    """
    generators: list[Permutation] = []
    reached = {0}
    for g in targets:
        if g not in reached:
            image = _SymmetrySearch(machine, generators, rng).find_moving(g)
            if image is None:
                return []
            generators.append(image)
            reached = _orbit(generators)
    return generators


def _orbit(images: list[Permutation]) -> set[int]:
    """Return where some permutations take rank 0."""
    seen = {0}
    for rank in (queue := [0]):
        for image in images:
            if image[rank] not in seen:
                seen.add(image[rank])
                queue.append(image[rank])
    return seen


class _MachineLinks:
    def __init__(self, topology: Topology) -> None:
        self.ranks = topology.ranks
        nodes = topology.ranks + len(topology.switches)
        self.out: list[dict[int, int]] = [{} for _ in range(nodes)]
        self.into: list[dict[int, int]] = [{} for _ in range(nodes)]
        for link in topology.links:
            self.out[link.src][link.dst] = link.lanes
            self.into[link.dst][link.src] = link.lanes
        self.far = distances(topology.successors(), [0])
        self.has_switches = nodes > topology.ranks

    def is_uniform(self) -> bool:
        """Return whether all ranks have as many links, of as many lanes, both ways."""
        kinds = {
            (tuple(sorted(out.values())), tuple(sorted(into.values())))
            for out, into in zip(self.out, self.into, strict=True)
        }
        return not self.has_switches and len(kinds) == 1


class _SymmetrySearch:
    """A search for a symmetry that moves every rank along a link, and commutes with others.

    Attributes:
        image: of each rank where it goes, -1 as long as that is open.
        order: the ranks whose image is settled, in that order.
    """

    def __init__(
        self, machine: _MachineLinks, others: list[Permutation], rng: random.Random | None
    ) -> None:
        self.machine, self.commuting, self.rng = machine, others, rng
        self.effort = _MAX_TRIALS_PER_RANK * machine.ranks
        self.image = [-1] * machine.ranks
        self.used = [False] * machine.ranks
        self.order: list[int] = []
        self.heap: list[tuple[int, int]] = []

    def find_moving(self, g: int) -> Permutation | None:
        """Return a symmetry that takes rank 0 to g. None: none was found with this effort."""
        if not self.settle(0, g):
            return None
        choices: list[tuple[int, int, Iterator[int]]] = []
        while (rank := self.next_rank()) is not None:
            choices.append((len(self.order), rank, iter(self.places(rank))))
            while choices:
                length, rank, places = choices[-1]
                self.undo(length)
                if self.effort <= 0:
                    return None
                place = next(places, None)
                if place is None:
                    choices.pop()
                elif self.settle(rank, place):
                    break
            if not choices:
                return None
        return tuple(self.image) if len(self.order) == self.machine.ranks else None

    def next_rank(self) -> int | None:
        """Return the rank whose image is to be settled next. None: all that are reached are."""
        while self.heap:
            _, rank = heapq.heappop(self.heap)
            if self.image[rank] < 0:
                return rank
        return None

    def places(self, rank: int) -> list[int]:
        """Return where a rank may go, as far as its neighbours' images tell, in order."""
        far = self.machine.far
        targets = [target for target in self.machine.out[rank] if self.is_consistent(rank, target)]
        targets.sort(key=lambda target: (-far[target], target))
        if self.rng is not None:
            self.rng.shuffle(targets)
        return targets

    def count_places(self, rank: int) -> int:
        """Return how many places a rank has left."""
        return sum(self.is_consistent(rank, target) for target in self.machine.out[rank])

    def is_consistent(self, rank: int, target: int) -> bool:
        """Return whether a rank may go to a place, as far as its neighbours' images tell."""
        if self.used[target]:
            return False
        machine, image = self.machine, self.image
        return _is_neighborhood_preserved(
            machine.out[rank], machine.out[target], image
        ) and _is_neighborhood_preserved(machine.into[rank], machine.into[target], image)

    def settle(self, rank: int, target: int) -> bool:
        """Fix the image of a rank, and all consequences of commuting.

        Return False if impossible.
        """
        todo = [(rank, target)]
        while todo:
            rank, target = todo.pop()
            if self.image[rank] == target:
                continue
            self.effort -= 1
            open_yet = self.image[rank] < 0 and target in self.machine.out[rank]
            if not open_yet or not self.is_consistent(rank, target):
                return False
            self.image[rank] = target
            self.used[target] = True
            self.order.append(rank)
            self.enqueue_neighbors(rank)
            todo += [(symmetry[rank], symmetry[target]) for symmetry in self.commuting]
        return True

    def enqueue_neighbors(self, rank: int) -> None:
        """Put the neighbours of a rank into the queue, by how many places they have left."""
        for near in (*self.machine.out[rank], *self.machine.into[rank]):
            if self.image[near] < 0:
                heapq.heappush(self.heap, (self.count_places(near), near))

    def undo(self, length: int) -> None:
        """Undo all decisions after the first ``length``."""
        if len(self.order) == length:
            return
        while len(self.order) > length:
            rank = self.order.pop()
            self.used[self.image[rank]] = False
            self.image[rank] = -1
        self.heap = []
        for rank in self.order:
            self.enqueue_neighbors(rank)


def _is_neighborhood_preserved(
    near: Mapping[int, int], target_lanes: Mapping[int, int], image: list[int]
) -> bool:
    """Return whether neighbours whose images are settled went to neighbours, by as many lanes."""
    return all(target_lanes.get(image[z]) == lanes for z, lanes in near.items() if image[z] >= 0)
