"""Automatic sketches: those that a machine suggests, and the best of them for a size.

TACCL (NSDI 2023, section 9) leaves the exploration of sketches open; SyCCL (SIGCOMM 2025) lists
sketches of stages over the dimensions of a machine, and selects by simulation in two passes. Here
the choices follow from the machine's links: the ranks of a node, the ranks that send to other nodes
and their links, the rotations that are symmetries, and the number of chunks per buffer. One choice
is made after the other, by a quick schedule for each; choices that a bound rules out are not
planned. The best two are then planned with full effort.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sccl.core.clock import AlphaModel, Clock
from sccl.core.sketch import Hyperedge, HyperedgePolicy, Joining, Relays, Rotation, Sketch
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.synth.contract import Request
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.network.crossings import Crossings, crossings_of

MOST_CHUNKS = 8
"""Into which each part is cut at the most."""


@dataclass(frozen=True)
class Suggestions:
    """The suggestions of a machine for a collective."""

    topology: Topology
    size_bytes: int
    symmetric: bool

    @cached_property
    def ways(self) -> Crossings:
        """Return all ways of the machine, at the size."""
        clock = Clock.of(self.topology, self.size_bytes, AlphaModel.TRAVELS)
        return crossings_of(self.topology, clock)

    @cached_property
    def nodes(self) -> int:
        """Return the number of nodes of the machine: blocks of ranks joined by faster links.

        If there are several levels, the one of the fastest links. 1: there are none.
        """
        ranks = self.topology.ranks
        costs = self.ways.cost.tolist()
        rows = list(zip(costs, self.ways.src.tolist(), self.ways.dst.tolist(), strict=True))
        for cost in sorted(set(costs))[:-1]:
            block = _blocks(ranks, [(a, b) for own, a, b in rows if own <= cost])
            if block and 1 < block < ranks:
                return ranks // block
        return 1

    @property
    def local(self) -> int:
        """Return how many ranks a node has."""
        return self.topology.ranks // self.nodes

    @cached_property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Return who can send to whom of another node, from each node to each other."""
        nodes, local = self.nodes, self.local
        counts: dict[tuple[int, int], int] = {}
        for a, b in set(zip(self.ways.src.tolist(), self.ways.dst.tolist(), strict=True)):
            if a // local != b // local:
                pair = (a % local, b % local)
                counts[pair] = counts.get(pair, 0) + 1
        return frozenset(pair for pair, count in counts.items() if count == nodes * (nodes - 1))

    def relays(self) -> Iterator[tuple[str, Relays | None]]:
        """Yield ways to leave nodes, by name. None: over any link."""
        yield "any", None
        if self.nodes == 1 or not self.pairs:
            return
        numbers = range(self.local)
        same = all((n, n) in self.pairs for n in numbers)
        if same and len(self.pairs) > self.local:
            yield "direct", Relays(Joining.SAME)
        if same:
            own = tuple((n, (n,)) for n in numbers)
            yield "own", Relays(Joining.SAME, leaves_by=own)
        senders = sorted({sender for sender, _ in self.pairs})
        if 1 < len(senders) < self.local:  # each takes the chunks of as many ranks, its own too
            joined = tuple(
                (one, tuple(sorted(to for own, to in self.pairs if own == one))) for one in senders
            )
            share = [n * len(senders) // self.local for n in numbers]
            leaves = tuple(
                (one, tuple(n for n in numbers if share[n] == place))
                for place, one in enumerate(senders)
            )
            yield "spread", Relays(joined, leaves_by=leaves)
        yield from self._by_card()

    def _by_card(self) -> Iterator[tuple[str, Relays | None]]:
        """Yield relays of one sender for each card that several ranks of a node share."""
        cards = self._cards()
        if not cards or all(len(card) < 2 for card in cards):
            return
        for name, place in (("card", 0), ("card-apart", 1)):
            joined, leaves = [], []
            for card in cards:
                sender, receiver = card[0], card[place % len(card)]
                if (sender, receiver) not in self.pairs:
                    return
                joined.append((sender, (receiver,)))
                leaves.append((sender, tuple(card)))
            yield name, Relays(tuple(joined), leaves_by=tuple(leaves))

    def _cards(self) -> list[tuple[int, ...]]:
        """Return the numbers of a node that share a budget, or a link, on their way out."""
        local, ways = self.local, self.ways
        first = ways.first.tolist()
        edges = [k.edge for k in self.topology.links]
        shared: dict[object, set[int]] = {}
        budgets: dict[tuple[int, int], list[str]] = {}
        for budget in self.topology.budgets:
            for edge in budget.edges:
                budgets.setdefault(edge, []).append(budget.name)
        for way, (a, b) in enumerate(zip(ways.src.tolist(), ways.dst.tolist(), strict=True)):
            if a // local or not b // local:  # out of the first node
                continue
            for link in ways.link[first[way] : first[way + 1]].tolist():
                for thing in (*budgets.get(edges[link], ()), ("link", link)):
                    shared.setdefault(thing, set()).add(a)
        groups = sorted({tuple(sorted(own)) for own in shared.values() if 1 < len(own) < local})
        whole = tuple(range(local))
        if not groups and any(len(own) == local for own in shared.values()):
            groups = [whole]
        if sorted(n for own in groups for n in own) != list(whole):
            return []
        return groups

    def rotations(self, relays: Relays | None) -> list[tuple[Rotation, ...]]:
        """Return symmetries that sketches with such relays can have, the largest group first."""
        if not self.symmetric:
            return [()]
        ranks, local = self.topology.ranks, self.local
        nodes = [Rotation(local, ranks)] if self.nodes > 1 else []
        found = [()] if not nodes else [tuple(nodes), ()]
        for step in (d for d in range(1, local) if not local % d):
            within = (*nodes, Rotation(step, local)) if local < ranks else (Rotation(step, local),)
            if self._holds(relays, within):
                return [within, *(one for one in found if self._holds(relays, one))]
        return [one for one in found if self._holds(relays, one)]

    def _holds(self, relays: Relays | None, rotations: tuple[Rotation, ...]) -> bool:
        """Return whether rotations are symmetries of the machine, restricted to the relays."""
        sketch = Sketch("", self.nodes, relays=relays, rotations=rotations)
        sketched = Sketched(sketch, self.topology)
        try:
            group = sketched.group
        except InputError:
            return False
        ways = self.ways
        factors = sketched.factors(ways.src, ways.dst)
        pairs = zip(ways.src.tolist(), ways.dst.tolist(), factors.tolist(), strict=True)
        left = {(a, b) for a, b, factor in pairs if factor}
        turns = group[1 : 1 + len(rotations) * 2]
        return all((one[a], one[b]) in left for one in turns for a, b in left)

    def policies(self) -> list[tuple[Hyperedge, ...]]:
        """Return how switches of nodes may be used; of nodes without any, as they are."""
        numbers = tuple(range(self.local))
        inside = {
            (a, b)
            for a, b in zip(self.ways.src.tolist(), self.ways.dst.tolist(), strict=True)
            if max(a, b) < self.local
        }
        if not self.topology.switches or len(inside) < self.local * (self.local - 1):
            return [()]
        some = (HyperedgePolicy.LEAST, HyperedgePolicy.MOST)
        return [(), *((Hyperedge(numbers, policy),) for policy in some)]


def suggested(request: Request, *, symmetric: bool) -> Generator[Sequence[Sketch], Sketch, None]:
    """Yield choices, one after the other. The caller sends back the best of each.

    Args:
        symmetric: whether the collective treats all ranks equally.
    """
    hints = Suggestions(request.topology, max(1, request.size_bytes), symmetric)
    name = f"auto-{request.topology.name}"
    first = []
    for word, relays in hints.relays():
        rotations = hints.rotations(relays)[0]
        first.append(Sketch(f"{name}-{word}", hints.nodes, relays=relays, rotations=rotations))
    best = yield first
    others = hints.rotations(best.relays)[1:2]
    if others:
        best = yield [replace(best, name=f"{best.name}-free", rotations=one) for one in others]
    edges = hints.policies()[1:]
    if edges:
        best = yield [
            replace(best, name=f"{best.name}-{own[0].policy}", hyperedges=own) for own in edges
        ]
    chunks = 2
    while chunks <= MOST_CHUNKS:
        before = best
        best = yield [replace(best, name=f"{name}-c{chunks}", chunks=chunks)]
        if best == before:
            return
        chunks *= 2


def _blocks(ranks: int, ways: list[tuple[int, int]]) -> int:
    """Return how many ranks each block has that ways join. 0: they are not alike, or in a row."""
    parent = list(range(ranks))

    def root(rank: int) -> int:
        while parent[rank] != rank:
            parent[rank] = parent[parent[rank]]
            rank = parent[rank]
        return rank

    for a, b in ways:
        parent[max(root(a), root(b))] = min(root(a), root(b))
    roots = [root(rank) for rank in range(ranks)]
    block = roots.count(roots[0])
    alike = not ranks % block and all(roots[r] == r // block * block for r in range(ranks))
    return block if alike else 0
