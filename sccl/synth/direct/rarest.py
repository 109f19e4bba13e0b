"""Allgather and broadcast on few ranks: in every step each rank takes the rarest chunks it can.

Where every rank wants every chunk nothing that arrives is in vain, and what arrives at different
ranks over links of their own meets no common constraint. So a step is a matching for each rank, of
chunks that it lacks with lanes from ranks that hold them: first those that have to come now, as a
rank so far behind it would come too late otherwise, then those that the fewest ranks have. (Among
peers that share files the latter is known as "rarest first".) A matching that is grown in this
order by augmenting paths leaves out none for one that comes after it.

Nothing is looked for twice: where chunks are missing at the end, another shuffle of what is alike
is tried, and other steps get the rounds that do not come out even, a few times. It finds all
allgathers and broadcasts of SCCL's Tables 4 and 5 in a millisecond or two; what it does not find is
undecided.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, islice

from sccl.core.algorithm import Algorithm, Send, send
from sccl.core.instance import Instance
from sccl.core.topology import UNREACHED, distances

NAME = "rarest"

_SIZE = 20_000  # chunks times links times steps: some milliseconds
_TRIES = 8

_Ways = list[tuple[int, int]]
"""Into a rank: from which others, and over how many lanes each."""


def algorithm(instance: Instance, seed: int = 0) -> Algorithm | None:
    """Return an algorithm of an instance, not yet judged; None: it takes a search to know.

    Args:
        instance: of any collective; where some rank does not want some chunk, nothing is found.
        seed: of the shuffles.
    """
    topology, collective = instance.topology, instance.collective
    size = collective.num_chunks * len(topology.links) * instance.steps
    spare = instance.rounds - instance.steps
    if size > _SIZE or topology.budgets or collective.combining or spare < 0:
        return None
    if any(len(have | want) < topology.ranks for have, want in collective.classes()):
        return None
    successors = topology.successors()
    far = [distances(successors, [rank]) for rank in range(topology.ranks)]
    if any(UNREACHED in row for row in far):
        return None
    ways: list[_Ways] = [[] for _ in far]
    for link in topology.links:
        ways[link.dst].append((link.src, link.lanes))
    shuffled = random.Random(seed)  # noqa: S311 - not for secrets
    for rounds in islice(_shares(instance.steps, instance.rounds), _TRIES):
        spread = _Spread(ways, far, shuffled, _holders(instance))
        sends = spread.through(rounds)
        if sends is not None:
            return Algorithm(topology, collective, rounds, tuple(sends))
    return None


def _holders(instance: Instance) -> list[list[int]]:
    collective = instance.collective
    return [sorted(collective.holders(chunk)) for chunk in range(collective.num_chunks)]


def _shares(steps: int, rounds: int) -> Iterator[tuple[int, ...]]:
    """Yield rounds by step, over and over, as even as can be: more first in the last of them."""
    each, more = divmod(rounds, steps)
    last_first = range(steps - 1, -1, -1)
    for longer in cycle(tuple(islice(combinations(last_first, more), _TRIES))):
        yield tuple(each + (step in longer) for step in range(steps))


@dataclass(slots=True)
class _Spread:
    """Chunks on their way to all ranks; sets of chunks are words of bits.

    Attributes:
        ways: by rank.
        far: by rank, the links to each other.
        shuffled: decides among what is alike.
        holders: by chunk, the ranks that have it.
        has: by rank, the chunks that it has.
        off: by chunk, how many links each rank is from the nearest that has it.
    """

    ways: list[_Ways]
    far: list[list[int]]
    shuffled: random.Random
    holders: list[list[int]]
    has: list[int]
    off: list[list[int]]

    def __init__(
        self,
        ways: list[_Ways],
        far: list[list[int]],
        shuffled: random.Random,
        holders: list[list[int]],
    ) -> None:
        self.ways, self.far, self.shuffled, self.holders = ways, far, shuffled, holders
        self.has = [0] * len(far)
        for chunk, ranks in enumerate(holders):
            for rank in ranks:
                self.has[rank] |= 1 << chunk
        self.off = [[min(far[h][rank] for h in of) for rank in range(len(far))] for of in holders]

    def through(self, rounds: Sequence[int]) -> list[Send] | None:
        """Return the sends after which all ranks have all chunks; None: some would lack some."""
        every, sends = (1 << len(self.holders)) - 1, list[Send]()
        for step, of_step in enumerate(rounds):
            left = sum(rounds[step:])
            lanes = (sum(n for _, n in ways) for ways in self.ways)
            lacking = ((every & ~has).bit_count() for has in self.has)
            if any(lacks > n * left for lacks, n in zip(lacking, lanes, strict=True)):
                return None
            due = self._due(len(rounds) - step)
            if due is None:
                return None
            arrived = self._step(of_step, due)
            sends += [send(chunk, src, dst, step) for chunk, src, dst in arrived]
            for chunk, _, rank in arrived:
                self.has[rank] |= 1 << chunk
                off = self.off[chunk]
                self.off[chunk] = [min(pair) for pair in zip(off, self.far[rank], strict=True)]
        return sends if all(has == every for has in self.has) else None

    def _due(self, left: int) -> list[int] | None:
        """Return the chunks that have to come to each rank now; None: some are late already.

        Args:
            left: steps, with this one.
        """
        due = [0] * len(self.has)
        for chunk, off in enumerate(self.off):
            most = max(off)
            if most > left:
                return None
            if most == left:
                last = [rank for rank, links in enumerate(off) if links == left]
                for rank, links in enumerate(off):
                    if links == 1 and any(self.far[rank][one] == left - 1 for one in last):
                        due[rank] |= 1 << chunk
        return due

    def _step(self, rounds: int, due: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return what is sent in a step: (chunk, from, to)."""
        arrived = list[tuple[int, int, int]]()
        noise = [self.shuffled.random() for _ in self.holders]
        order = list(range(len(self.has)))
        self.shuffled.shuffle(order)
        held = [len(ranks) for ranks in self.holders]  # and with what is to come in this step
        for rank in order:
            ways = self.ways[rank]
            there = 0
            for src, _ in ways:
                there |= self.has[src]
            keyed = [
                (not due[rank] >> chunk & 1, held[chunk], noise[chunk], chunk)
                for chunk in _members(there & ~self.has[rank])
            ]
            room = [lanes * rounds for _, lanes in ways]
            taken: list[list[int]] = [[] for _ in ways]
            free = sum(room)
            for *_, chunk in sorted(keyed):
                if not free:
                    break
                if self._takes(chunk, ways, room, taken, set()):
                    free -= 1
            for (src, _), chunks in zip(ways, taken, strict=True):
                for chunk in chunks:
                    arrived.append((chunk, src, rank))
                    held[chunk] += 1
        for chunk, _, rank in arrived:
            self.holders[chunk].append(rank)
        return arrived

    def _takes(
        self, chunk: int, ways: _Ways, room: list[int], taken: list[list[int]], seen: set[int]
    ) -> bool:
        """Return whether a way has room for a chunk, perhaps as others take other ways; use it.

        Args:
            ways: into a rank.
            room: of each way, chunks.
            taken: by way, the chunks.
            seen: the ways that were looked at.
        """
        may = [i for i, (src, _) in enumerate(ways) if self.has[src] >> chunk & 1 and i not in seen]
        for i in may:
            if len(taken[i]) < room[i]:
                taken[i].append(chunk)
                return True
        for i in may:
            if i in seen:
                continue
            seen.add(i)
            for place, other in enumerate(taken[i]):
                if self._takes(other, ways, room, taken, seen):
                    taken[i][place] = chunk
                    return True
        return False


def _members(chunks: int) -> Iterator[int]:
    """Yield the chunks of a set."""
    while chunks:
        lowest = chunks & -chunks
        yield lowest.bit_length() - 1
        chunks ^= lowest
