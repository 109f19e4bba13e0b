"""Broadcast by timed trees with congestion prices, without search, for any machine.

The rounds of the steps are those of the linear program of cuts through time. Each chunk has a tree,
and the trees are grown one after the other. A tree may overload a constraint in a step, at a price
that rises with the overload and with the number of passes in which it occurred. Each pass grows all
trees again. If overloads remain, steps get more rounds. (This is the negotiated congestion of
PathFinder, McMurchie and Ebeling 1995, which routes wires.) Every result is an algorithm: its
rounds are those that its fullest constraint needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.answer import Sat, Unknown, Unsat
from sccl.core.arrays import IntArray
from sccl.core.collective import Collective, RelationKind
from sccl.core.graphs import distances
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.prove.bounds.lower_bounds import farthest_pair
from sccl.prove.bounds.timed_cuts import TimedRelaxation, timed_bound
from sccl.synth.limits import MAX_REFINED_SENDS, MAX_SEARCH_RANKS, MAX_SMALL_MODEL, MAX_WORK

NAME = "construction (trees)"

_MIN_CHUNKS = 8
"""Fewest chunks of an approximation: with fewer, whole rounds are far from the ratio."""

_MAX_PASSES = 60
"""Passes over all trees. Prices grow by 1.3 per pass up to the eleventh, so late passes gain
little."""

_MIN_AFFORDABLE_PASSES = 20
"""Passes for which chunks are chosen so few that they fit in ``MAX_WORK``."""

_MIN_PASSES = 4
"""Passes before steps get more rounds. Loads of the first ones depend on the order of trees."""

_MIN_ROUNDS_PER_STEP = 5
"""Mean rounds of a step. Rounding fewer to whole rounds costs more than 10 %."""


@dataclass(frozen=True, slots=True, eq=False)
class _TreeSet:
    """Trees, and the rounds that they need.

    Attributes:
        rounds: Rounds of each step.
        in_link: Link by which each chunk enters each rank, shape (chunks, ranks). -1: none.
        arrival: Time from which each rank has each chunk, shape (chunks, ranks).
    """

    rounds: list[int]
    in_link: IntArray
    arrival: IntArray


class _TreeMachine:
    """A machine's links and constraints as arrays, and a demand with one class of chunks."""

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        ((holders, wanted),) = collective.chunk_classes()
        self.topology, self.ranks, self.steps = topology, topology.ranks, steps
        self.holders = [int(rank) for rank in sorted(holders)]
        self.missing = [int(rank) for rank in sorted(wanted - holders)]
        edges = [link.edge for link in topology.links]
        self.src, self.dst = (np.array(ends, np.int64) for ends in zip(*edges, strict=True))
        self.out_link = np.argsort(self.src, kind="stable").astype(np.int64)
        ends = np.arange(self.ranks + 1)
        self.out_start = np.searchsorted(self.src[self.out_link], ends).astype(np.int64)
        constraints = topology.constraints()
        self.width = np.array([c.chunks_per_round for c in constraints], np.int64)
        place = {edge: i for i, edge in enumerate(edges)}
        each: list[list[int]] = [[] for _ in edges]
        for number, constraint in enumerate(constraints):
            for edge in constraint.edges:
                each[place[edge]].append(number)
        self.link_constraints = np.array(
            [number for numbers in each for number in numbers], np.int64
        )
        self.constraint_start = np.cumsum([0, *map(len, each)]).astype(np.int64)
        self.distance = np.array(distances(topology.successors(), self.holders))

    def join_orders(self, chunks: int) -> Iterator[IntArray]:
        """Yield, for each chunk, the ranks to attach: farthest first, in random order if equal."""
        shuffled = np.random.default_rng(0)
        missing = np.array(self.missing, np.int64)
        for _ in range(chunks):
            shuffled_missing = shuffled.permutation(missing)
            yield shuffled_missing[np.argsort(-self.distance[shuffled_missing], kind="stable")]

    def grow_trees(self, rho: tuple[Fraction, ...], chunks: int, total: int | None) -> _TreeSet:
        """Return the trees with the fewest rounds of all passes.

        Args:
            rho: Proportions of the rounds of each step, over C.
            chunks: Number of trees.
            total: Available rounds, at which the passes end. None: as few as possible.
        """
        from sccl.synth.constructions import rip_up_tree_loops  # noqa: PLC0415 - Numba is slow to load

        shape = (len(self.width), self.steps)
        load, past = np.zeros(shape, np.int64), np.zeros(shape)
        rounds = _apportion_rounds(rho, chunks, total)
        in_link = np.full((chunks, self.ranks), -1, np.int64)
        since = np.full((chunks, self.ranks), self.steps + 1, np.int64)
        since[:, self.holders] = 0
        cost = np.zeros((len(self.src), self.steps))
        far = np.zeros((self.steps + 1, self.ranks))
        through, fresh = np.zeros(far.shape, np.int64), np.zeros(far.shape, np.bool_)
        orders = list(self.join_orders(chunks))
        best, sharp = None, 0.5
        for done in range(self._num_passes(chunks)):
            room = self.width[:, None] * rounds[None, :]
            for i, order in enumerate(orders):
                rip_up_tree_loops.add_tree_load(
                    in_link[i], since[i], self.constraint_start, self.link_constraints, load, -1
                )
                rip_up_tree_loops.price_links(
                    self.constraint_start, self.link_constraints, load, room, past, sharp, cost
                )
                graph = (self.out_start, self.out_link, self.src, self.dst, cost)
                is_grown = rip_up_tree_loops.grow_tree(
                    order, *graph, far, through, fresh, in_link[i], since[i]
                )
                assert is_grown, "every rank can be reached in time"
                rip_up_tree_loops.add_tree_load(
                    in_link[i], since[i], self.constraint_start, self.link_constraints, load, 1
                )
            needs = np.maximum(1, ((load + self.width[:, None] - 1) // self.width[:, None]).max(0))
            if best is None or needs.sum() < sum(best.rounds):
                best = _TreeSet(needs.tolist(), in_link.copy(), since.copy())
            if (needs <= rounds).all() or (total is not None and needs.sum() <= total):
                break
            over = np.maximum(load - room, 0)
            past += 0.4 * over / room
            sharp = min(1.3 * sharp, 20.0)
            if total is None and done >= _MIN_PASSES and done % 2:
                rounds[int(over.sum(axis=0).argmax())] += 1
        assert best is not None
        return best

    @property
    def work_per_tree(self) -> float:
        """Return the approximate number of operations to grow a tree."""
        return self.steps * (self.ranks * len(self.missing) / 2 + 4 * len(self.src))

    def _num_passes(self, chunks: int) -> int:
        """Return the maximum number of passes."""
        return max(_MIN_PASSES, min(_MAX_PASSES, int(MAX_WORK / (chunks * self.work_per_tree))))

    def algorithm(self, collective: Collective, grown: _TreeSet) -> Algorithm:
        """Return the verified algorithm of trees.

        Args:
            collective: The collective, with one chunk per tree.
            grown: The trees.
        """
        sends = tuple(
            make_send(chunk, int(self.src[link]), int(self.dst[link]), int(when) - 1)
            for chunk, (links, since) in enumerate(zip(grown.in_link, grown.arrival, strict=True))
            for link, when in zip(links.tolist(), since.tolist(), strict=True)
            if link >= 0
        )
        made = Algorithm(self.topology, collective, tuple(grown.rounds), sends)
        return require_valid(made, "growing trees")


def _apportion_rounds(rho: tuple[Fraction, ...], chunks: int, total: int | None) -> IntArray:
    """Return integral rounds of each step in given proportions, with the sum ``total`` if given."""
    if total is None:
        return np.array([max(1, round(r * chunks)) for r in rho], np.int64)
    total_rho = sum(rho) or Fraction(1)
    exact = [r * (total - len(rho)) / total_rho for r in rho]
    rounds = [1 + int(x) for x in exact]
    order = sorted(range(len(rho)), key=lambda s: (int(exact[s]) - exact[s], s))
    for step in order[: total - sum(rounds)]:
        rounds[step] += 1
    return np.array(rounds, np.int64)


def has_single_class(collective: Collective) -> bool:
    """Return whether all chunks have the same sources and the same destinations."""
    if RelationKind.SCATTERED in (collective.pre.kind, collective.post.kind):
        return False  # each rank has its own class: saves building all classes
    return not collective.combining and len(collective.chunk_classes()) == 1


def approach_bound(
    topology: Topology, collective: Collective, relaxation: TimedRelaxation
) -> Algorithm:
    """Return a verified algorithm by trees, with as small an R/C as they attain.

    Args:
        topology: The machine.
        collective: Collective for which :func:`has_single_class` holds.
        relaxation: Bound for the number of steps. Its rounds are tried first.
    """
    machine = _TreeMachine(topology, collective, relaxation.steps)
    rho = relaxation.rho or (relaxation.bound.value / relaxation.steps,) * relaxation.steps
    chunks = ceil(
        _MIN_ROUNDS_PER_STEP * relaxation.steps / (relaxation.bound.value * collective.chunks)
    )
    at_most = min(
        MAX_REFINED_SENDS // len(machine.missing),
        int(MAX_WORK / (_MIN_AFFORDABLE_PASSES * machine.work_per_tree)),
    )
    chunks = max(_MIN_CHUNKS, min(chunks, at_most))
    grown = machine.grow_trees(rho, chunks, None)
    full_collective = replace(collective, chunks=collective.chunks * chunks, num_chunks=chunks)
    return machine.algorithm(full_collective, grown)


def answer(instance: Instance) -> Sat | Unsat | Unknown | None:
    """Return an algorithm by trees, or Unsat by cuts. None: a solver may do better.

    Unknown: no trees were found, and a search would take too long.
    """
    begin = time.perf_counter()
    topology, collective, steps = instance.topology, instance.collective, instance.steps
    asked = topology.ranks > MAX_SEARCH_RANKS and has_single_class(collective)
    if not asked or farthest_pair(topology, collective).steps > steps:
        return None
    unit = replace(collective, chunks=1, num_chunks=1)
    relaxation = timed_bound(topology, unit, steps)
    machine = _TreeMachine(topology, unit, steps)
    chunks = collective.num_chunks
    if relaxation is not None and instance.rounds < relaxation.bound.value * chunks:
        why = f"with {steps} steps R/C is at least {relaxation.bound.value} (cuts through time)"
        return Unsat(why, NAME, time.perf_counter() - begin)
    if (
        relaxation is None
        or not relaxation.rho
        or chunks * len(machine.missing) > MAX_REFINED_SENDS
    ):
        return None
    grown = machine.grow_trees(relaxation.rho, chunks, instance.rounds)
    seconds = time.perf_counter() - begin
    if sum(grown.rounds) <= instance.rounds:
        grown.rounds[0] += instance.rounds - sum(grown.rounds)
        return Sat(machine.algorithm(collective, grown), NAME, seconds)
    if chunks * len(topology.links) * steps <= MAX_SMALL_MODEL:
        return None
    best = Fraction(sum(grown.rounds), chunks)
    why = f"rerouted trees reach R/C {best}, and a search would take too long"
    return Unknown(StopReason(StopKind.OTHER, why), NAME, seconds, best=best)
