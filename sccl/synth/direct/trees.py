"""Broadcast by timed trees with congestion prices: no search, machines of any kind.

Rounds are spread over the steps as in the program of cuts through time. Trees, one for each chunk,
are grown one after the other. One may overload a constraint in a step, at a price that rises with
the overload and with the number of passes in which it occurred. After each pass all are grown
again, and if that does not end, steps get more rounds. (Negotiated congestion, McMurchie and
Ebeling, PathFinder, 1995, which routes wires.) Every result is an algorithm: its rounds are those
that its fullest constraint needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm, send
from sccl.core.answer import Sat, Unknown, Unsat
from sccl.core.collective import Collective, RelationKind
from sccl.core.instance import Instance
from sccl.core.topology import Topology, distances
from sccl.judge import require_valid
from sccl.prove.bounds.steps import farthest_pair
from sccl.prove.bounds.timed_cuts import timed_bound
from sccl.prove.bounds.timed_program import TimedBound

NAME = "trees"

SEARCHED = 32
"""Ranks up to which packings and solvers do better, in their time."""

_FEWEST = 8  # chunks
_PASSES = 60
_ENOUGH = 20  # passes: of so few chunks that there are these
_FIRM = 4  # passes before steps get more rounds
_WORK = 1.5e10  # elementary operations, of about a nanosecond
_SENDS = 200_000  # of an algorithm at most
_PER_STEP = 5  # rounds: with fewer, rounding makes much of a difference
_TRUSTED = 30_000  # chunks times links times steps, up to which a solver may do better

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Grown:
    """Trees, and the rounds that they need.

    Attributes:
        rounds: by step.
        in_link: by chunk and rank, the link by which it comes. -1: it is there, or does not.
        since: by chunk and rank, when it is there.
    """

    rounds: list[int]
    in_link: Whole
    since: Whole


class _Machine:
    """A machine's links and constraints as arrays, and a demand of one class of chunks."""

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        ((holders, wanted),) = collective.classes()
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
        self.of = np.array([number for own in each for number in own], np.int64)
        self.of_start = np.cumsum([0, *map(len, each)]).astype(np.int64)
        self.far = np.array(distances(topology.successors(), self.holders))

    def orders(self, chunks: int) -> Iterator[Whole]:
        """Yield, for each chunk, the ranks to join: the farthest first, those alike shuffled."""
        shuffled = np.random.default_rng(0)
        missing = np.array(self.missing, np.int64)
        for _ in range(chunks):
            some = shuffled.permutation(missing)
            yield some[np.argsort(-self.far[some], kind="stable")]

    def grown(self, rho: tuple[Fraction, ...], chunks: int, total: int | None) -> _Grown:
        """Return the trees of so many chunks that need the fewest rounds, of all passes.

        Args:
            rho: by step, in which ratio rounds are shared out, over C.
            total: rounds that are enough, and that there are. None: as few as can be.
        """
        from sccl.synth.direct import growing  # noqa: PLC0415 - Numba is slow to load

        shape = (len(self.width), self.steps)
        load, past = np.zeros(shape, np.int64), np.zeros(shape)
        rounds = _shared_out(rho, chunks, total)
        in_link = np.full((chunks, self.ranks), -1, np.int64)
        since = np.full((chunks, self.ranks), self.steps + 1, np.int64)
        since[:, self.holders] = 0
        cost = np.zeros((len(self.src), self.steps))
        far = np.zeros((self.steps + 1, self.ranks))
        through, fresh = np.zeros(far.shape, np.int64), np.zeros(far.shape, np.bool_)
        orders = list(self.orders(chunks))
        best, sharp = None, 0.5
        for done in range(self._passes(chunks)):
            room = self.width[:, None] * rounds[None, :]
            for i, order in enumerate(orders):
                growing.count(in_link[i], since[i], self.of_start, self.of, load, -1)
                growing.price(self.of_start, self.of, load, room, past, sharp, cost)
                ways = (self.out_start, self.out_link, self.src, self.dst, cost)
                found = growing.grow(order, *ways, far, through, fresh, in_link[i], since[i])
                assert found, "every rank can be reached in time"
                growing.count(in_link[i], since[i], self.of_start, self.of, load, 1)
            needs = np.maximum(1, ((load + self.width[:, None] - 1) // self.width[:, None]).max(0))
            if best is None or needs.sum() < sum(best.rounds):
                best = _Grown(needs.tolist(), in_link.copy(), since.copy())
            if (needs <= rounds).all() or (total is not None and needs.sum() <= total):
                break
            over = np.maximum(load - room, 0)
            past += 0.4 * over / room
            sharp = min(1.3 * sharp, 20.0)
            if total is None and done >= _FIRM and done % 2:
                rounds[int(over.sum(axis=0).argmax())] += 1
        assert best is not None
        return best

    @property
    def work(self) -> float:
        """Return about how much growing a tree takes."""
        return self.steps * (self.ranks * len(self.missing) / 2 + 4 * len(self.src))

    def _passes(self, chunks: int) -> int:
        """Return how often all trees may be grown."""
        return max(_FIRM, min(_PASSES, int(_WORK / (chunks * self.work))))

    def algorithm(self, collective: Collective, grown: _Grown) -> Algorithm:
        """Return the algorithm of trees, judged.

        Args:
            collective: with as many chunks.
        """
        sends = tuple(
            send(chunk, int(self.src[link]), int(self.dst[link]), int(when) - 1)
            for chunk, (links, since) in enumerate(zip(grown.in_link, grown.since, strict=True))
            for link, when in zip(links.tolist(), since.tolist(), strict=True)
            if link >= 0
        )
        made = Algorithm(self.topology, collective, tuple(grown.rounds), sends)
        return require_valid(made, "growing trees")


def _shared_out(rho: tuple[Fraction, ...], chunks: int, total: int | None) -> Whole:
    """Return whole rounds by step near a ratio; ``total`` in all, if that is given."""
    if total is None:
        return np.array([max(1, round(r * chunks)) for r in rho], np.int64)
    whole = sum(rho) or Fraction(1)
    exact = [r * (total - len(rho)) / whole for r in rho]
    found = [1 + int(x) for x in exact]
    order = sorted(range(len(rho)), key=lambda s: (int(exact[s]) - exact[s], s))
    for step in order[: total - sum(found)]:
        found[step] += 1
    return np.array(found, np.int64)


def is_served(collective: Collective) -> bool:
    """Return whether all chunks go from the same ranks to the same others."""
    if RelationKind.SCATTERED in (collective.pre.kind, collective.post.kind):
        return False  # each rank's own: known without a look at all chunks
    return not collective.combining and len(collective.classes()) == 1


def near_bound(topology: Topology, collective: Collective, bound: TimedBound) -> Algorithm:
    """Return an algorithm by trees with as small an R/C as they come to, judged.

    Args:
        collective: one that :func:`is_served`.
        bound: of the number of steps, whose rounds are the first to be tried.
    """
    machine = _Machine(topology, collective, bound.steps)
    rho = bound.rho or (bound.value / bound.steps,) * bound.steps
    chunks = ceil(_PER_STEP * bound.steps / (bound.value * collective.chunks))
    at_most = min(_SENDS // len(machine.missing), int(_WORK / (_ENOUGH * machine.work)))
    chunks = max(_FEWEST, min(chunks, at_most))
    grown = machine.grown(rho, chunks, None)
    whole = replace(collective, chunks=collective.chunks * chunks, num_chunks=chunks)
    return machine.algorithm(whole, grown)


def answer(instance: Instance) -> Sat | Unsat | Unknown | None:
    """Return an algorithm by trees, or that cuts leave none. None: a solver may do better.

    Unknown: no trees were found, and a search would take too long.
    """
    begin = time.perf_counter()
    topology, collective, steps = instance.topology, instance.collective, instance.steps
    asked = topology.ranks > SEARCHED and is_served(collective)
    if not asked or farthest_pair(topology, collective).steps > steps:
        return None
    unit = replace(collective, chunks=1, num_chunks=1)
    bound = timed_bound(topology, unit, steps)
    machine = _Machine(topology, unit, steps)
    chunks = collective.num_chunks
    if bound is not None and instance.rounds < bound.value * chunks:
        why = f"with {steps} steps R/C is at least {bound.value} (cuts through time)"
        return Unsat(why, NAME, time.perf_counter() - begin)
    if bound is None or not bound.rho or chunks * len(machine.missing) > _SENDS:
        return None
    grown = machine.grown(bound.rho, chunks, instance.rounds)
    seconds = time.perf_counter() - begin
    if sum(grown.rounds) <= instance.rounds:
        grown.rounds[0] += instance.rounds - sum(grown.rounds)
        return Sat(machine.algorithm(collective, grown), NAME, seconds)
    if chunks * len(topology.links) * steps <= _TRUSTED:
        return None
    best = Fraction(sum(grown.rounds), chunks)
    why = f"trees that give way to one another came to R/C {best}, and a search would take too long"
    return Unknown(why, NAME, seconds, best=best)
