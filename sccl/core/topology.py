"""Topology: ranks, directed links, and the bandwidth relation B (SCCL section 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sccl.core.ids import Edge, Rank
from sccl.core.words import counted
from sccl.errors import ParameterError, TopologyError

MAX_RANKS = 65_536
"""A guard against a slip of the finger, not a limit of the method."""

MAX_PAIRED = 1024
"""Ranks of machines in which every rank is linked to every other: links grow with the square."""


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A directed connection from ``src`` to ``dst``.

    Attributes:
        lanes: chunks that the link carries in one round.
        alpha_us: latency of a transfer, microseconds.
        gb_per_s: bandwidth of *one lane*, 10^9 bytes per second.
    """

    src: int
    dst: int
    lanes: int
    alpha_us: float
    gb_per_s: float

    @property
    def edge(self) -> Edge:
        """Return ``(src, dst)``."""
        return (self.src, self.dst)


@dataclass(frozen=True, slots=True, order=True)
class Budget:
    """A member ``(L, b)`` of the bandwidth relation: edges L carry at most b chunks a round.

    Source: SCCL section 3.2.1 (point-to-point link, node egress or ingress, shared bus).
    """

    name: str
    edges: tuple[Edge, ...]
    chunks_per_round: int


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine: who can send to whom, how much in a round, and at what cost.

    Nodes ``0 .. ranks-1`` are ranks; nodes ``ranks .. ranks+len(switches)-1`` are switches, which
    forward and hold nothing. Validated on construction; links and budgets are kept sorted, so equal
    machines are equal values.

    Attributes:
        alpha_us: latency of a step, microseconds, for links that state none.
        gb_per_s: bandwidth of one lane, 10^9 bytes per second, for links that state none.
        budgets: shared budgets beside the links' own lanes.
        chassis: ranks that share an enclosure, a partition of a subset of the ranks.
        labels: what the machine calls each rank (empty: the rank number).
        source: where the numbers come from.
    """

    name: str
    ranks: int
    links: tuple[Link, ...]
    alpha_us: float
    gb_per_s: float
    budgets: tuple[Budget, ...] = ()
    switches: tuple[str, ...] = ()
    chassis: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(sorted(self.links)))
        budgets = tuple(replace(b, edges=tuple(sorted(b.edges))) for b in sorted(self.budgets))
        object.__setattr__(self, "budgets", budgets)
        self._check_nodes()
        self._check_links()
        self._check_budgets()
        self._check_groups()

    def _check_nodes(self) -> None:
        if not self.name.strip():
            raise TopologyError("topology has no name: give it a non-empty 'name'")
        if not 2 <= self.ranks <= MAX_RANKS:
            raise TopologyError(
                f"topology {self.name!r} has {counted(self.ranks, 'rank')}, expected "
                f"2 to {MAX_RANKS}"
            )
        for what, value, allowed in (
            ("alpha_us", self.alpha_us, "zero or more"),
            ("gb_per_s", self.gb_per_s, "more than zero"),
        ):
            positive = value >= 0 if what == "alpha_us" else value > 0
            if not (math.isfinite(value) and positive):
                raise TopologyError(
                    f"topology {self.name!r}: {what} is {value}, expected a number of {allowed}"
                )
        if self.labels and len(self.labels) != self.ranks:
            raise TopologyError(
                f"topology {self.name!r}: {len(self.labels)} labels for {self.ranks} ranks, "
                "expected one label per rank (or none at all)"
            )

    def _check_links(self) -> None:
        if not self.links:
            raise TopologyError(f"topology {self.name!r} has no links: list at least one")
        nodes = self.ranks + len(self.switches)
        seen: set[Edge] = set()
        for link in self.links:
            where = f"topology {self.name!r}, link {link.src}->{link.dst}"
            if not isinstance(link.lanes, int):
                raise TopologyError(f"{where}: lanes is {link.lanes!r}, expected a whole number")
            for end in link.edge:
                if not 0 <= end < nodes:
                    raise TopologyError(
                        f"{where}: node {end} does not exist, expected 0 to {nodes - 1}"
                    )
            if link.src == link.dst:
                raise TopologyError(f"{where}: a link must join two different nodes")
            if link.edge in seen:
                raise TopologyError(
                    f"{where} is listed twice: list it once and give the sum as its lanes"
                )
            seen.add(link.edge)
            if link.lanes < 1:
                raise TopologyError(f"{where}: lanes is {link.lanes}, expected at least 1")
            if not (math.isfinite(link.alpha_us) and link.alpha_us >= 0):
                raise TopologyError(f"{where}: alpha_us is {link.alpha_us}, expected 0 or more")
            if not (math.isfinite(link.gb_per_s) and link.gb_per_s > 0):
                raise TopologyError(f"{where}: gb_per_s is {link.gb_per_s}, expected more than 0")

    def _check_budgets(self) -> None:
        edges = self.edges
        names = {_link_name(edge) for edge in edges}
        for budget in self.budgets:
            where = f"topology {self.name!r}, budget {budget.name!r}"
            if budget.name in names:
                raise TopologyError(
                    f"{where}: another budget or link has this name, expected distinct names"
                )
            names.add(budget.name)
            if not budget.edges:
                raise TopologyError(f"{where} covers no edge: list the edges that share it")
            if len(set(budget.edges)) != len(budget.edges):
                raise TopologyError(f"{where} lists an edge twice: list each edge once")
            for src, dst in budget.edges:
                if (src, dst) not in edges:
                    raise TopologyError(
                        f"{where}: edge {src}->{dst} is not a link of the topology; "
                        "add the link or take the edge out of the budget"
                    )
            if budget.chunks_per_round < 1:
                raise TopologyError(
                    f"{where}: chunks_per_round is {budget.chunks_per_round}, expected at least 1 "
                    "(take the links out if nothing may use them)"
                )

    def _check_groups(self) -> None:
        seen: set[int] = set()
        for group in self.chassis:
            for rank in group:
                if not 0 <= rank < self.ranks or rank in seen:
                    raise TopologyError(
                        f"topology {self.name!r}, chassis: rank {rank} is listed twice or is not "
                        f"one of 0 to {self.ranks - 1}"
                    )
                seen.add(rank)

    @property
    def edges(self) -> frozenset[Edge]:
        """Return every ``(src, dst)`` that has a link: the set E of SCCL section 3.4."""
        return frozenset(link.edge for link in self.links)

    @property
    def equally_fast(self) -> bool:
        """Return whether all lanes are: what is said of rounds is about lanes as if they were."""
        return len({link.gb_per_s for link in self.links}) == 1

    def lanes(self) -> dict[Edge, int]:
        """Return the chunks per round of every link, by edge."""
        return {link.edge: link.lanes for link in self.links}

    def constraints(self) -> tuple[Budget, ...]:
        """Return the whole bandwidth relation B: one member per link, then the shared budgets."""
        own = (Budget(_link_name(edge), (edge,), n) for edge, n in self.lanes().items())
        return (*own, *self.budgets)

    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Return, for every node, the nodes its links lead to, ascending."""
        out: list[list[int]] = [[] for _ in range(self.ranks + len(self.switches))]
        for link in self.links:
            out[link.src].append(link.dst)
        return tuple(tuple(nodes) for nodes in out)

    def label(self, rank: int) -> str:
        """Return what the machine calls ``rank``."""
        return self.labels[rank] if self.labels else str(rank)

    def reversed(self) -> Topology:
        """Return the topology with every link and budget turned round (SCCL section 3.5)."""
        return replace(
            self,
            links=tuple(replace(link, src=link.dst, dst=link.src) for link in self.links),
            budgets=tuple(
                replace(b, edges=tuple((dst, src) for src, dst in b.edges)) for b in self.budgets
            ),
        )

    def carries_like(self, other: Topology) -> bool:
        """Return whether both have the same links, lanes and budgets, whatever names and costs."""
        mine, theirs = (
            sorted((b.edges, b.chunks_per_round) for b in t.budgets) for t in (self, other)
        )
        return self.ranks == other.ranks and self.lanes() == other.lanes() and mine == theirs

    def without(
        self,
        links: Iterable[Edge] = (),
        ranks: Iterable[int] = (),
        lanes: Mapping[Edge, int] | None = None,
    ) -> Topology:
        """Return the same machine with failed parts taken out, ready for synthesis.

        Ranks that are left keep their order and are renumbered from 0; ``labels`` keep the numbers
        they had, if any goes. Budgets lose the edges that are gone.

        Args:
            lanes: of links that lose some of their lanes, how many; a link that has none left goes.

        Raises:
            ParameterError: a link, lane or rank to take out does not exist.
        """
        whole, fewer = self._fewer_lanes(lanes or {})
        gone_links, gone_ranks = {*links, *whole}, set(ranks)
        for src, dst in sorted(gone_links - self.edges):
            raise ParameterError(
                f"topology {self.name!r} has no link {src}->{dst} to take out; "
                "see its links with 'sccl topo show'"
            )
        for rank in sorted(gone_ranks):
            if not 0 <= rank < self.ranks:
                raise ParameterError(
                    f"topology {self.name!r} has no rank {rank} to take out, "
                    f"expected 0 to {self.ranks - 1}"
                )
        nodes = range(self.ranks + len(self.switches))
        kept = [node for node in nodes if node not in gone_ranks]
        number = {node: i for i, node in enumerate(kept)}
        alive = {
            edge: (number[edge[0]], number[edge[1]])
            for edge in self.edges - gone_links
            if edge[0] in number and edge[1] in number
        }
        fewer = {edge: n for edge, n in fewer.items() if edge in alive}
        parts = [_link_name(edge) for edge in sorted(gone_links)]
        parts += [f"{counted(n, 'lane')} of {_link_name(edge)}" for edge, n in fewer.items()]
        parts += [f"rank {r}" for r in sorted(gone_ranks)]
        failed = f"{', '.join(parts)} taken out"
        tags = [f"{a}to{b}" for a, b in sorted(gone_links)]
        tags += [f"{a}to{b}x{n}" for (a, b), n in fewer.items()]
        tags += [f"rank{r}" for r in sorted(gone_ranks)]
        return replace(
            self,
            name=f"{self.name}-without-{'-'.join(tags)}",
            ranks=self.ranks - len(gone_ranks),
            links=tuple(
                replace(
                    link,
                    src=alive[link.edge][0],
                    dst=alive[link.edge][1],
                    lanes=link.lanes - fewer.get(link.edge, 0),
                )
                for link in self.links
                if link.edge in alive
            ),
            budgets=tuple(
                replace(b, edges=tuple(alive[e] for e in b.edges if e in alive))
                for b in self.budgets
                if any(e in alive for e in b.edges)
            ),
            chassis=tuple(
                group
                for whole in self.chassis
                if (group := tuple(number[r] for r in whole if r in number))
            ),
            labels=self._labels_without(gone_ranks),
            source=f"{self.source}; {failed}" if self.source else failed,
        )

    def _labels_without(self, gone: set[int]) -> tuple[str, ...]:
        """Return the labels of the ranks that are left; none where there are none and all are."""
        if not self.labels and not gone:
            return ()
        return tuple(self.label(r) for r in range(self.ranks) if r not in gone)

    def _fewer_lanes(self, lanes: Mapping[Edge, int]) -> tuple[set[Edge], dict[Edge, int]]:
        """Return the links that lose all their lanes, and how many the others lose.

        Raises:
            ParameterError: there are not as many.
        """
        have = self.lanes()
        for edge, n in sorted(lanes.items()):
            where = f"topology {self.name!r}, {_link_name(edge)}"
            if edge not in have:
                raise ParameterError(
                    f"{where}: there is no such link to take lanes from; see its links with "
                    "'sccl topo show'"
                )
            if not 1 <= n <= have[edge]:
                raise ParameterError(
                    f"{where}: {counted(n, 'lane')} to take out, expected 1 to {have[edge]}"
                )
        whole = {edge for edge, n in lanes.items() if n == have[edge]}
        return whole, {edge: n for edge, n in sorted(lanes.items()) if edge not in whole}

    def plus(self, lanes: Mapping[Edge, int]) -> Topology:
        """Return the same machine with links added; those there are already get more lanes.

        Args:
            lanes: by edge, how many are added; new links have the machine's latency and bandwidth.

        Raises:
            TopologyError: a link makes no sense here.
        """
        known = {link.edge: link for link in self.links}
        for edge, more in lanes.items():
            if more < 1:
                where = f"topology {self.name!r}, {_link_name(edge)}"
                raise TopologyError(f"{where}: {more} lanes to add, expected at least 1")
            old = known.get(edge) or Link(*edge, 0, self.alpha_us, self.gb_per_s)
            known[edge] = replace(old, lanes=old.lanes + more)
        several = {edge: n for edge, n in lanes.items() if n > 1}
        parts = [
            _link_name(edge) + (f" ({several[edge]} lanes)" if edge in several else "")
            for edge in sorted(lanes)
        ]
        added = f"{', '.join(parts)} added"
        tag = "-".join(
            f"{src}to{dst}" + (f"x{several[src, dst]}" if (src, dst) in several else "")
            for src, dst in sorted(lanes)
        )
        return replace(
            self,
            name=f"{self.name}-with-{tag}",
            links=tuple(known.values()),
            source=f"{self.source}; {added}" if self.source else added,
        )


def _link_name(edge: Edge) -> str:
    return f"link {edge[0]}->{edge[1]}"


def per_rank_budgets(edges: Iterable[Edge], egress: int, ingress: int) -> list[Budget]:
    """Return budgets of all that leaves, and all that enters, each rank over some links."""
    found: list[Budget] = []
    every = sorted(edges)
    for end, side, limit in ((0, "egress", egress), (1, "ingress", ingress)):
        own: dict[int, list[Edge]] = {}
        for edge in every:
            own.setdefault(edge[end], []).append(edge)
        found += [Budget(f"{side} of rank {r}", tuple(own[r]), limit) for r in sorted(own)]
    return found


UNREACHED = -1


def distances(successors: tuple[tuple[int, ...], ...], sources: Iterable[int]) -> list[int]:
    """Return the fewest links from any of ``sources`` to each node, :data:`UNREACHED` if none.

    Args:
        successors: adjacency as :meth:`Topology.successors` gives it.
        sources: the nodes at distance 0.
    """
    far = [UNREACHED] * len(successors)
    frontier = sorted(set(sources))
    for node in frontier:
        far[node] = 0
    for node in frontier:  # grows while it is walked: breadth first
        for neighbour in successors[node]:
            if far[neighbour] == UNREACHED:
                far[neighbour] = far[node] + 1
                frontier.append(neighbour)
    return far


def as_ranks(numbers: Iterable[int]) -> frozenset[Rank]:
    """Return ``numbers`` as a set of ranks."""
    return frozenset(Rank(n) for n in numbers)
