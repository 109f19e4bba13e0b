"""Automatic sketches: the suggestions of a machine, and the best of them for a size.

TACCL (NSDI 2023, section 9) leaves the exploration of sketches open. SyCCL (SIGCOMM 2025) lists
sketches of stages over the dimensions of a machine, and selects by simulation in two passes. Here
the choices follow from the machine's links: the ranks of a node, the ranks that send to other nodes
and their links, the rotations that are symmetries, and the number of chunks per buffer. The choices
are made one after the other, by a quick schedule for each. Choices that a bound excludes are not
planned. The best two sketches are then planned with full effort.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.synth.common.contract import Request
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)

MAX_CHUNKS = 8
"""Chunks into which a part is cut. Models grow in proportion."""


@dataclass(frozen=True)
class Suggestions:
    """The suggestions of a machine for a collective."""

    topology: Topology
    size_bytes: int
    is_symmetric: bool

    @cached_property
    def routes(self) -> Routes:
        """Return all routes of the machine, at the size."""
        clock = Clock.from_topology(self.topology, self.size_bytes, AlphaModel.TRAVELS)
        return build_routes(self.topology, clock)

    @cached_property
    def nodes(self) -> int:
        """Return the number of nodes of the machine: blocks of ranks joined by faster links.

        If there are several levels, the fastest links count. 1: there are no blocks.
        """
        ranks = self.topology.ranks
        costs = self.routes.cost.tolist()
        rows = list(zip(costs, self.routes.src.tolist(), self.routes.dst.tolist(), strict=True))
        for cost in sorted(set(costs))[:-1]:
            block = _block_size(ranks, [(a, b) for path_cost, a, b in rows if path_cost <= cost])
            if block and 1 < block < ranks:
                return ranks // block
        return 1

    @property
    def ranks_per_node(self) -> int:
        """Return the number of ranks of a node."""
        return self.topology.ranks // self.nodes

    @cached_property
    def sender_pairs(self) -> frozenset[tuple[int, int]]:
        """Return (sender, receiver) numbers with a route from each node to each other node."""
        nodes, local = self.nodes, self.ranks_per_node
        counts: dict[tuple[int, int], int] = {}
        for a, b in set(zip(self.routes.src.tolist(), self.routes.dst.tolist(), strict=True)):
            if a // local != b // local:
                pair = (a % local, b % local)
                counts[pair] = counts.get(pair, 0) + 1
        return frozenset(pair for pair, count in counts.items() if count == nodes * (nodes - 1))

    def relays(self) -> Iterator[tuple[str, RelayRules | None]]:
        """Yield named rules for the senders between nodes. None: any link."""
        yield "any", None
        if self.nodes == 1 or not self.sender_pairs:
            return
        numbers = range(self.ranks_per_node)
        has_same = all((n, n) in self.sender_pairs for n in numbers)
        if has_same and len(self.sender_pairs) > self.ranks_per_node:
            yield "direct", RelayRules(RelayPattern.DIRECT_MAP)
        if has_same:
            exits = tuple((n, (n,)) for n in numbers)
            yield "own", RelayRules(RelayPattern.DIRECT_MAP, leaves_by=exits)
        senders = sorted({sender for sender, _ in self.sender_pairs})
        if (
            1 < len(senders) < self.ranks_per_node
        ):  # each sends the chunks of equally many ranks, including its own
            joined = tuple(
                (relay, tuple(sorted(to for exits, to in self.sender_pairs if exits == relay)))
                for relay in senders
            )
            share = [n * len(senders) // self.ranks_per_node for n in numbers]
            leaves = tuple(
                (relay, tuple(n for n in numbers if share[n] == place))
                for place, relay in enumerate(senders)
            )
            yield "spread", RelayRules(joined, leaves_by=leaves)
        yield from self._card_relays()

    def _card_relays(self) -> Iterator[tuple[str, RelayRules | None]]:
        """Yield relays of one sender for each card that several ranks of a node share."""
        cards = self._shared_cards()
        if not cards or all(len(card) < 2 for card in cards):
            return
        for name, place in (("card", 0), ("card-apart", 1)):
            joined, leaves = [], []
            for card in cards:
                sender, receiver = card[0], card[place % len(card)]
                if (sender, receiver) not in self.sender_pairs:
                    return
                joined.append((sender, (receiver,)))
                leaves.append((sender, tuple(card)))
            yield name, RelayRules(tuple(joined), leaves_by=tuple(leaves))

    def _shared_cards(self) -> list[tuple[int, ...]]:
        """Return groups of ranks of a node that share a budget, or a link, to other nodes."""
        local, paths = self.ranks_per_node, self.routes
        edges = [k.edge for k in self.topology.links]
        shared: dict[object, set[int]] = {}
        budgets: dict[tuple[int, int], list[str]] = {}
        for budget in self.topology.budgets:
            for edge in budget.edges:
                budgets.setdefault(edge, []).append(budget.name)
        ends = zip(paths.src.tolist(), paths.dst.tolist(), paths.paths(), strict=True)
        for a, b, path in ends:
            if a // local or not b // local:  # only routes out of the first node count
                continue
            for link in path:
                for resource in (*budgets.get(edges[link], ()), ("link", link)):
                    shared.setdefault(resource, set()).add(a)
        groups = sorted(
            {tuple(sorted(sharers)) for sharers in shared.values() if 1 < len(sharers) < local}
        )
        all_numbers = tuple(range(local))
        if not groups and any(len(sharers) == local for sharers in shared.values()):
            groups = [all_numbers]
        if sorted(n for sharers in groups for n in sharers) != list(all_numbers):
            return []
        return groups

    def rotations(self, relays: RelayRules | None) -> list[tuple[Rotation, ...]]:
        """Return sets of symmetries for sketches with these relays, the largest group first."""
        if not self.is_symmetric:
            return [()]
        ranks, local = self.topology.ranks, self.ranks_per_node
        nodes = [Rotation(local, ranks)] if self.nodes > 1 else []
        candidates = [()] if not nodes else [tuple(nodes), ()]
        for step in (d for d in range(1, local) if not local % d):
            within = (*nodes, Rotation(step, local)) if local < ranks else (Rotation(step, local),)
            if self._are_symmetries(relays, within):
                return [
                    within,
                    *(
                        candidate
                        for candidate in candidates
                        if self._are_symmetries(relays, candidate)
                    ),
                ]
        return [candidate for candidate in candidates if self._are_symmetries(relays, candidate)]

    def _are_symmetries(self, relays: RelayRules | None, rotations: tuple[Rotation, ...]) -> bool:
        """Return whether rotations are symmetries of the machine, restricted to the relays."""
        sketch = Sketch("", self.nodes, relays=relays, rotations=rotations)
        sketched = MachineSketch(sketch, self.topology)
        try:
            group = sketched.group
        except InputError:
            return False
        paths = self.routes
        factors = sketched.route_factors(paths.src, paths.dst)
        pairs = zip(paths.src.tolist(), paths.dst.tolist(), factors.tolist(), strict=True)
        left = {(a, b) for a, b, factor in pairs if factor}
        turns = group[1 : 1 + len(rotations) * 2]
        return all((image[a], image[b]) in left for image in turns for a, b in left)

    def policies(self) -> list[tuple[Hyperedge, ...]]:
        """Return policies for the switches of nodes. The first one leaves them unchanged."""
        numbers = tuple(range(self.ranks_per_node))
        inside = {
            (a, b)
            for a, b in zip(self.routes.src.tolist(), self.routes.dst.tolist(), strict=True)
            if max(a, b) < self.ranks_per_node
        }
        if not self.topology.switches or len(inside) < self.ranks_per_node * (
            self.ranks_per_node - 1
        ):
            return [()]
        policies = (HyperedgePolicy.MIN, HyperedgePolicy.MAX)
        return [(), *((Hyperedge(numbers, policy),) for policy in policies)]


def suggest_sketches(
    request: Request, *, symmetric: bool
) -> Generator[Sequence[Sketch], Sketch, None]:
    """Yield choices, one after the other. The caller sends back the best sketch of each.

    Args:
        request: Machine, collective, and size.
        symmetric: Whether the collective treats all ranks equally.
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
        best = yield [
            replace(best, name=f"{best.name}-free", rotations=free_rotations)
            for free_rotations in others
        ]
    edges = hints.policies()[1:]
    if edges:
        best = yield [
            replace(best, name=f"{best.name}-{edge_set[0].policy}", hyperedges=edge_set)
            for edge_set in edges
        ]
    chunks = 2
    while chunks <= MAX_CHUNKS:
        before = best
        best = yield [replace(best, name=f"{name}-c{chunks}", chunks=chunks)]
        if best == before:
            return
        chunks *= 2


def _block_size(ranks: int, pairs: list[tuple[int, int]]) -> int:
    """Return the size of the blocks joined by routes. 0: not equal, or not consecutive ranks."""
    parent = list(range(ranks))

    def root(rank: int) -> int:
        while parent[rank] != rank:
            parent[rank] = parent[parent[rank]]
            rank = parent[rank]
        return rank

    for a, b in pairs:
        parent[max(root(a), root(b))] = min(root(a), root(b))
    roots = [root(rank) for rank in range(ranks)]
    block = roots.count(roots[0])
    alike = not ranks % block and all(roots[r] == r // block * block for r in range(ranks))
    return block if alike else 0
