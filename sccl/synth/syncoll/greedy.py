"""Schedule greedily: step by step each rank receives the most urgent chunks.

In a step the incoming links of a rank are matched with chunks. Chunks that must come closer to a
destination in this step to be in time are matched first, then the chunks that the fewest ranks
hold. The matching uses augmenting paths (Kuhn). Ranks receive independently, so no rank's choice
restricts another. If an attempt fails, the next one has other tie-breaking and extra rounds in
other steps.

It is pure Python for small machines. It finds all allgathers and broadcasts of SCCL's Tables 4 and
5 in 0.3 to 9 ms, where CP-SAT takes up to 0.7 s. A failure proves nothing.

For gather and alltoall, in which each chunk has one destination, more than a few attempts are not
worth their time. It does not find half of the gathers, and
:mod:`sccl.synth.constructions.scatter_flow` finds all of them as flows. CP-SAT is faster on
alltoalls that use all links fully.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import combinations, islice

from sccl.core.algorithm import Algorithm, Send
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import ChunkId, Rank, Step
from sccl.core.instance import Instance
from sccl.synth.limits import MAX_SMALL_MODEL
from sccl.transform import prune

_ATTEMPTS = 24
"""Attempts per instance, which take up to 0.2 s."""


def schedule_greedily(instance: Instance, seed: int = 0) -> Algorithm | None:
    """Return an algorithm, not verified yet. None: none was found, which proves nothing.

    Machines with shared budgets are left to solvers, because on them the arrivals of ranks depend
    on each other.
    """
    topology, collective = instance.topology, instance.collective
    size = collective.num_chunks * len(topology.links) * instance.steps
    if topology.budgets or size > MAX_SMALL_MODEL:
        return None
    lists, rng = _GreedySearch(instance), random.Random(seed)  # noqa: S311 - nothing secret
    if not lists.is_reachable_in_time():
        return None
    for rounds in islice(_round_shapes(instance, rng), _ATTEMPTS):
        sends = lists.attempt(rounds, rng)
        if sends is not None:
            return prune(Algorithm(topology, collective, rounds, tuple(sends)))
    return None


def _round_shapes(instance: Instance, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """Yield rounds of each step: even ones, extra rounds in late steps first, then random ones."""
    steps = instance.steps
    each, left = divmod(instance.rounds, steps)
    even = (each,) * steps
    while True:
        for more in islice(combinations(range(steps - 1, -1, -1), left), _ATTEMPTS // 2):
            yield tuple(each + (s in more) for s in range(steps))
        if each > 1 or left:
            for _ in range(_ATTEMPTS // 2):
                rounds = list(even)
                for _ in range(left + 1):
                    rounds[rng.randrange(steps)] += 1
                taken = rng.choice([s for s in range(steps) if rounds[s] > 1])
                rounds[taken] -= 1
                yield tuple(rounds)


class _GreedySearch:
    """The data of an instance for all attempts. Sets of ranks are bits."""

    def __init__(self, instance: Instance) -> None:
        topology, collective = instance.topology, instance.collective
        self.steps, self.ranks = instance.steps, topology.ranks
        successors = topology.successors()
        self.distance = [distances(successors, [rank]) for rank in range(topology.ranks)]
        self.incoming: list[list[tuple[int, int]]] = [[] for _ in range(topology.ranks)]
        for (src, dst), lanes in sorted(topology.lanes().items()):
            self.incoming[dst].append((src, lanes))
        chunks = range(collective.num_chunks)
        self.holders = [_bit_set(collective.holders(c)) for c in chunks]
        self.wanted = [_bit_set(collective.destinations(c)) for c in chunks]
        self.within_reach = [
            [
                _bit_set(w for w, far in enumerate(row) if far != UNREACHED and far <= steps)
                for steps in range(self.steps + 1)
            ]
            for row in self.distance
        ]
        """Ranks within a number of steps from each rank, by rank and steps."""

    def is_reachable_in_time(self) -> bool:
        """Return whether every chunk can reach its destinations in time, without contention."""
        rows = zip(self.holders, self.wanted, strict=True)
        return not any(wanted & ~self.reachable_ranks(held, self.steps) for held, wanted in rows)

    def reachable_ranks(self, held: int, steps: int) -> int:
        """Return the ranks that can be reached from ``held`` in a number of steps."""
        reached_ranks = 0
        for rank in range(self.ranks):
            if held >> rank & 1:
                reached_ranks |= self.within_reach[rank][steps]
        return reached_ranks

    def attempt(self, rounds: tuple[int, ...], rng: random.Random) -> list[Send] | None:
        """Return the sends of one attempt. None: a chunk is late."""
        held, sends = list(self.holders), list[Send]()
        for step, many in enumerate(rounds):
            after = _GreedyStep(self, held, self.steps - step - 1, rng)
            for rank in sorted(range(self.ranks), key=lambda _: rng.random()):
                for chunk, src in after.receive(rank, many):
                    sends.append(Send(Step(step), ChunkId(chunk), Rank(src), Rank(rank)))
            if any(after.urgent):
                return None
            held = after.holders_after
        if any(wanted & ~has for has, wanted in zip(held, self.wanted, strict=True)):
            return None
        return sends


class _GreedyStep:
    """A step of an attempt.

    Attributes:
        steps_left: Number of steps after this one.
        urgent: Ranks that each chunk must come closer to in this step, and has not yet.
        holders_after: Ranks that hold each chunk after the step.
    """

    def __init__(
        self, lists: _GreedySearch, held: list[int], left: int, rng: random.Random
    ) -> None:
        self.search, self.holders_before, self.steps_left, self.rng = lists, held, left, rng
        self.holders_after = list(held)
        self.missing = [w & ~h for w, h in zip(lists.wanted, held, strict=True)]
        self.urgent = [
            missing and missing & ~lists.reachable_ranks(h, left)
            for missing, h in zip(self.missing, held, strict=True)
        ]
        self.is_in_transit = [False] * len(held)

    def receive(self, rank: int, rounds: int) -> Iterator[tuple[int, int]]:
        """Yield the chunks that a rank receives, and their senders."""
        links = [(src, lanes * rounds) for src, lanes in self.search.incoming[rank]]
        places = _LinkMatching(links, self.holders_before)
        room = sum(many for _, many in links)
        for *_, chunk in sorted(self._candidates(rank)):
            if not room:
                break
            if places.match(chunk):
                room -= 1
                self.urgent[chunk] &= ~self.search.within_reach[rank][self.steps_left]
                self.is_in_transit[chunk] = True
                self.holders_after[chunk] |= 1 << rank
        yield from places.matched_pairs()

    def _candidates(self, rank: int) -> Iterator[tuple[bool, int, float, int]]:
        """Yield useful chunks to receive: not urgent, rarity or lateness, random number, chunk.

        A chunk with only one missing destination takes one path towards it. The farthest chunk
        comes first.
        """
        bit, near = 1 << rank, self.search.within_reach[rank][self.steps_left]
        for chunk, missing in enumerate(self.missing):
            if not missing or self.holders_before[chunk] & bit:
                continue
            urgent, rare = self.urgent[chunk] & near, self.holders_before[chunk].bit_count()
            if not missing & (missing - 1):
                far = self.search.distance[rank][missing.bit_length() - 1]
                if self.is_in_transit[chunk] or not (
                    urgent or self._is_nearest_holder(chunk, missing, far)
                ):
                    continue
                rare = self.steps_left - far
            elif not (urgent or missing & bit):
                continue
            yield not urgent, rare, self.rng.random(), chunk

    def _is_nearest_holder(self, chunk: int, missing: int, far: int) -> bool:
        """Return whether no holder of a chunk is as close to the only missing destination."""
        wanting = missing.bit_length() - 1
        held, rows = self.holders_before[chunk], self.search.distance
        return far != UNREACHED and all(
            rows[rank][wanting] > far or rows[rank][wanting] == UNREACHED
            for rank in range(self.search.ranks)
            if held >> rank & 1
        )


class _LinkMatching:
    """The links into a rank, and the chunks matched with each."""

    def __init__(self, links: list[tuple[int, int]], held: list[int]) -> None:
        self.links, self.holders = links, held
        self.load: dict[int, list[int]] = {src: [] for src, _ in links}

    def match(self, chunk: int) -> bool:
        """Match a chunk with a link. Return whether this is possible."""
        return self._augment(chunk, set())

    def matched_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the matched chunks, and their senders."""
        for src, chunks in self.load.items():
            for chunk in chunks:
                yield chunk, src

    def _augment(self, chunk: int, seen: set[int]) -> bool:
        held = self.holders[chunk]
        able = [(src, many) for src, many in self.links if held >> src & 1 and src not in seen]
        for src, many in able:
            if len(self.load[src]) < many:
                self.load[src].append(chunk)
                return True
        for src, _ in able:
            if src in seen:
                continue
            seen.add(src)
            for place, placed_chunk in enumerate(self.load[src]):
                if self._augment(placed_chunk, seen):
                    self.load[src][place] = chunk
                    return True
        return False


def _bit_set(ranks: Iterable[int]) -> int:
    """Return a set of ranks as a bit mask."""
    return sum(1 << rank for rank in ranks)
