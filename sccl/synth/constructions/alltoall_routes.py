"""Alltoall by paths through time with congestion prices, without search, for any machine.

The chunks of one rank per orbit are rerouted again and again, a batch at a time, over the cheapest
paths. A link is expensive in a step if its constraint is among the fullest ones, because these
determine the step's rounds. Prices get steeper and batches smaller. So the sum over steps of the
maximum load, which is R, approaches its minimum. The prices are its smoothed gradient (Frank and
Wolfe 1956, with whole chunks). Compare the all-to-all of Basu et al., arXiv 2309.13541, a much
larger linear program.

Only groups of symmetries are used in which the identity alone fixes a rank. Then all constraints of
an orbit have equal loads, and chunks need not be split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Send, make_send
from sccl.core.arrays import IntArray
from sccl.core.topology import Topology
from sccl.synth.constructions.bfb_costs import all_distances
from sccl.synth.limits import MAX_TABLE_ROWS, MAX_WORK, REPEATS
from sccl.topo.symmetry.permutations import Permutation, capacity_orbits
from sccl.topo.symmetry.regular_groups import SemiregularGroup, find_semiregular_group

_PASSES = ((4, 1), (8, 2), (8, 3), (16, 4), (32, 5), (32, 6), (64, 7), (64, 8))
"""(batches of a rank's chunks, squarings of shares): each so many times as follows."""

_RESTART_PASS = 4
"""Index in ``_PASSES`` from which passes repeat. Earlier ones would lose good routes."""

_MIN_WORK = 5e7
"""Elementary operations that a small machine may take: 50 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class AlltoallRoutes:
    """The paths of all chunks, given by those of representative ranks.

    Attributes:
        rounds: Fewest rounds of each step that carry all chunks.
        representatives: Source ranks of the given chunks.
        link_of_step: Link of each chunk in each step, shape (representatives, chunks, steps). Chunk
            numbers are piece * ranks + destination. -1: none.
    """

    rounds: tuple[int, ...]
    representatives: tuple[int, ...]
    link_of_step: NDArray[np.int32]


@lru_cache(maxsize=8)
def find_routes(
    topology: Topology, symmetries: tuple[Permutation, ...], pieces: int, steps: int
) -> AlltoallRoutes | None:
    """Return paths of all chunks of an alltoall. None: too few steps, or the problem is too large.

    Args:
        topology: The machine.
        symmetries: Generators of a group in which only the identity fixes a rank. Empty: none.
        pieces: Number of chunks per pair of ranks.
        steps: Number of steps.

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    ranks = topology.ranks
    group = find_semiregular_group(symmetries, ranks) if symmetries else None
    firsts = group.representatives if group else tuple(range(ranks))
    work = steps * len(topology.links) * len(firsts)
    if (
        len(firsts) * ranks * pieces * steps > 8 * MAX_TABLE_ROWS
        or 4 * _PASSES[0][0] * work > MAX_WORK
    ):
        return None
    far = all_distances(topology)
    if int(far.max()) > steps:
        return None
    machine = _RoutingMachine(topology, symmetries, group, firsts, steps)
    return machine.optimize(pieces, machine.min_rounds(far, pieces), work)


class _RoutingMachine:
    """A machine as arrays for compiled loops, with the load units of its constraints.

    Attributes:
        scale: Capacity of each constraint in one round.
        fill: Load of a send over a link of each constraint, in the same units.
    """

    def __init__(
        self,
        topology: Topology,
        symmetries: Sequence[Permutation],
        group: SemiregularGroup | None,
        firsts: tuple[int, ...],
        steps: int,
    ) -> None:
        self.topology, self.representatives, self.steps = topology, firsts, steps
        constraints = topology.constraints()
        orbit = _constraint_orbits(topology, symmetries)
        members = np.bincount(orbit)
        images = group.size if group else 1
        each = [
            Fraction(images, int(members[number]) * constraint.chunks_per_round)
            for number, constraint in zip(orbit.tolist(), constraints, strict=True)
        ]
        self.scale = lcm(*(share.denominator for share in each))
        self.fill = np.zeros(len(members), np.int64)
        self.fill[orbit] = [int(share * self.scale) for share in each]
        place = {link.edge: i for i, link in enumerate(topology.links)}
        of: list[list[int]] = [[] for _ in topology.links]
        for number, constraint in zip(orbit.tolist(), constraints, strict=True):
            for edge in constraint.edges:
                of[place[edge]].append(number)
        ends = np.array([link.edge for link in topology.links], np.int64)
        in_link = np.argsort(ends[:, 1], kind="stable")
        self.arrays = (
            np.searchsorted(ends[in_link, 1], np.arange(topology.ranks + 1)),
            in_link,
            np.ascontiguousarray(ends[:, 0]),
            np.cumsum([0, *map(len, of)]),
            np.array([number for numbers in of for number in numbers], np.int64),
            self.fill,
            all_distances(topology)[list(firsts)].astype(np.int64),
            np.array(firsts, np.int64),
        )

    def min_rounds(self, far: NDArray[np.int16], pieces: int) -> int:
        """Return a lower bound on the rounds: the hops of all chunks, divided by the lanes."""
        lanes = sum(link.lanes for link in self.topology.links)
        hops = int(far.sum(dtype=np.int64)) * pieces
        return max(self.steps, -(-hops // lanes))

    def optimize(self, pieces: int, target: int, work: int) -> AlltoallRoutes:
        """Return the best paths of all passes. Passes end early if the target is attained."""
        from sccl.synth.constructions.alltoall_route_loops import reroute  # noqa: PLC0415 - Numba is slow to load

        ranks, steps, links = self.topology.ranks, self.steps, len(self.topology.links)
        drawn = np.random.default_rng(0)
        noise = drawn.integers(0, 1 << 10, 65_537)  # a prime, so passes differ
        paths = np.full((len(self.representatives), ranks * pieces, steps), -1, np.int32)
        load = np.zeros((steps, len(self.fill)), np.int64)
        scratch = (
            np.zeros((steps, links), np.int64),
            np.zeros(len(self.fill), np.int64),
            np.zeros((steps + 1, ranks), np.int64),
            np.zeros((steps + 1, ranks), np.int32),
            np.zeros(1, np.int64),
        )
        best, spent = None, 0.0
        until = min(
            MAX_WORK, max(_MIN_WORK, work * REPEATS * sum(batches for batches, _ in _PASSES))
        )
        for batches, squarings in _pass_schedule():
            spent += batches * work
            if best is not None and (spent > until or sum(best.rounds) <= target):
                break
            batch, shake = -(-ranks * pieces // batches), max(1, 32 >> squarings)
            for source in range(len(self.representatives)):
                order = drawn.permutation(ranks * pieces)
                reroute(
                    self.arrays, source, order, batch, squarings, noise, shake, paths, load, scratch
                )
            rounds = np.maximum(1, -(-load.max(axis=1) // self.scale))
            if best is None or rounds.sum() < sum(best.rounds):
                best = AlltoallRoutes(tuple(rounds.tolist()), self.representatives, paths.copy())
        assert best is not None
        return best


def _pass_schedule() -> Iterator[tuple[int, int]]:
    """Yield (batches, squarings) of one pass after the other, without end."""
    yield from (each for each in _PASSES for _ in range(REPEATS))
    while True:
        yield from (each for each in _PASSES[_RESTART_PASS:] for _ in range(REPEATS))


def _constraint_orbits(topology: Topology, symmetries: Sequence[Permutation]) -> IntArray:
    """Return the number of the orbit of each constraint."""
    keys = [(frozenset(c.edges), c.chunks_per_round) for c in topology.constraints()]
    orbits = capacity_orbits(keys, symmetries).values()
    number = {key: i for i, orbit in enumerate(orbits) for key in orbit}
    return np.array([number[key] for key in keys], np.int64)


def build_sends(topology: Topology, routing: AlltoallRoutes) -> list[Send]:
    """Return the sends of the given chunks, sorted by step and chunk."""
    ranks = topology.ranks
    edges = np.array([link.edge for link in topology.links], np.int64)
    row, index, step = np.nonzero(routing.link_of_step >= 0)
    src, dst = edges[routing.link_of_step[row, index, step]].T
    chunk = index * ranks + np.array(routing.representatives, np.int64)[row]
    order = np.lexsort((dst, src, chunk, step))
    columns = (each[order].tolist() for each in (chunk, src, dst, step))
    return [make_send(c, u, v, s) for c, u, v, s in zip(*columns, strict=True)]
