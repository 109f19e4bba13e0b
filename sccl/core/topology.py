"""Topology: ranks, directed links, and the bandwidth relation B (SCCL section 3.2.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from sccl.core.formatting import format_count
from sccl.core.ids import Edge, Rank
from sccl.errors import InputError, TopologyError

ASCENDING: Final = "ascending"
"""Rank i is the GPU with the i-th lowest bus id, as in ``nvidia-smi``. CUDA's order may differ."""

BusIds = Literal["ascending"] | tuple[str, ...]
"""Bus id of the GPU of each rank, or :data:`ASCENDING`. Empty: unknown."""

_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])")

MAX_RANKS = 65_536
"""Maximum number of ranks: a guard against typing errors. The methods have no such limit."""

MAX_COST = 1e12
"""Maximum alpha in microseconds, bandwidth in 10^9 bytes per second, and inverse bandwidth. Costs
are exact fractions, so larger values would lead to numbers with hundreds of digits.
"""

MAX_BUFFER_CHUNKS = 2**31 - 1
"""Maximum buffer of a switch in chunks, because simulations count chunks in 32 bits."""

MAX_FULL_MESH_RANKS = 1024
"""Maximum number of ranks of a fully connected machine. Its links grow quadratically."""


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A directed connection from ``src`` to ``dst``.

    Attributes:
        lanes: chunks per round.
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


@dataclass(frozen=True, slots=True)
class Budget:
    """A shared member ``(L, b)`` of the bandwidth relation: at most b chunks per round on edges L.

    Source: SCCL section 3.2.1 (point-to-point link, node egress or ingress, shared bus).

    Attributes:
        gb_per_s: bandwidth of its lanes, 10^9 bytes per second. All edges together carry
            ``chunks_per_round * gb_per_s``. None: the bandwidth of its links, or of the machine if
            its links differ.
    """

    name: str
    edges: tuple[Edge, ...]
    chunks_per_round: int
    gb_per_s: float | None = None


ConstraintKey = Edge | str
"""Key of a constraint: the edge of a link, or the name of a shared budget."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A member ``(L, b)`` of the bandwidth relation: the lanes of a link, or a budget."""

    key: ConstraintKey
    edges: tuple[Edge, ...]
    chunks_per_round: int

    @property
    def name(self) -> str:
        """Return its name for output: ``"link 0->1"``, or the budget's name."""
        return constraint_name(self.key)


def constraint_name(key: ConstraintKey) -> str:
    """Return the name of a constraint for output."""
    return key if isinstance(key, str) else link_name(key)


@dataclass(frozen=True, slots=True)
class Switch:
    """A node that forwards chunks and is not a rank. Defaults follow SCCL section 3.2.1.

    Attributes:
        copies: whether a chunk may leave over several links.
        buffer_chunks: maximum number of stored chunks, in addition to chunks in transit. None: no
            limit.
        cut_through: whether a chunk leaves while it arrives. Otherwise the switch stores it first.
    """

    name: str
    copies: bool = False
    buffer_chunks: int | None = 0
    cut_through: bool = True

    @property
    def is_plain(self) -> bool:
        """Return whether it has the default properties (no storage, no copies)."""
        return self == Switch(self.name)


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine: its links, with capacity per round and costs.

    Nodes ``0 .. ranks-1`` are ranks. Nodes ``ranks .. ranks+len(switches)-1`` are switches. A
    topology is validated on construction. Links and budgets are sorted, so equal machines are equal
    values.

    Attributes:
        alpha_us: Latency of a step, microseconds, for links without a value of their own.
        gb_per_s: Bandwidth of one lane, 10^9 bytes per second, for links without a value of their
            own.
        budgets: shared budgets in addition to the links' lanes.
        chassis: ranks that share an enclosure, a partition of a subset of the ranks.
        labels: name of each rank on the machine (empty: the rank number).
        source: source of the numbers.
        pci_bus_ids: bus id of the GPU of each rank.
    """

    name: str
    ranks: int
    links: tuple[Link, ...]
    alpha_us: float
    gb_per_s: float
    budgets: tuple[Budget, ...] = ()
    switches: tuple[Switch, ...] = ()
    chassis: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    source: str = ""
    pci_bus_ids: BusIds = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(sorted(self.links)))
        budgets = tuple(replace(b, edges=tuple(sorted(b.edges))) for b in self.budgets)
        by_content = sorted(budgets, key=lambda b: (b.name, b.edges, b.chunks_per_round))
        object.__setattr__(self, "budgets", tuple(by_content))
        self._check_nodes()
        self._check_links()
        self._check_budgets()
        self._check_switches()
        self._check_chassis()
        bus_ids = check_bus_ids(self.pci_bus_ids, self.ranks, f"topology {self.name!r}")
        object.__setattr__(self, "pci_bus_ids", bus_ids)

    def _check_nodes(self) -> None:
        if not self.name.strip():
            raise TopologyError("topology has no name: give it a non-empty 'name'")
        if not 2 <= self.ranks <= MAX_RANKS:
            raise TopologyError(
                f"topology {self.name!r} has {format_count(self.ranks, 'rank')}, expected "
                f"2 to {MAX_RANKS}"
            )
        check_cost(f"topology {self.name!r}: ", self.alpha_us, self.gb_per_s)
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
            check_cost(f"{where}: ", link.alpha_us, link.gb_per_s)

    def _check_budgets(self) -> None:
        edges = self.edges
        names = {link_name(edge) for edge in edges}
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
                        "add the link or remove the edge from the budget"
                    )
            if budget.chunks_per_round < 1:
                raise TopologyError(
                    f"{where}: chunks_per_round is {budget.chunks_per_round}, expected at least 1 "
                    "(remove the links if nothing may use them)"
                )
            if budget.gb_per_s is not None:
                check_cost(f"{where}: ", 0.0, budget.gb_per_s)

    def _check_switches(self) -> None:
        for switch in self.switches:
            where = f"topology {self.name!r}, switch {switch.name!r}"
            limit = switch.buffer_chunks
            if limit is not None and not 0 <= limit <= MAX_BUFFER_CHUNKS:
                raise TopologyError(
                    f"{where}: buffer_chunks is {limit}, expected 0 to {MAX_BUFFER_CHUNKS}; leave "
                    "it out for an unlimited buffer"
                )
            if limit == 0 and not switch.cut_through:
                raise TopologyError(
                    f"{where} stores each chunk before it forwards it, and buffer_chunks is 0: "
                    "give buffer_chunks of at least 1, or set cut_through"
                )

    def _check_chassis(self) -> None:
        seen: set[int] = set()
        for ranks in self.chassis:
            for rank in ranks:
                if not 0 <= rank < self.ranks or rank in seen:
                    raise TopologyError(
                        f"topology {self.name!r}, chassis: rank {rank} is listed twice or is not "
                        f"one of 0 to {self.ranks - 1}"
                    )
                seen.add(rank)

    @property
    def edges(self) -> frozenset[Edge]:
        """Return ``(src, dst)`` of all links: the set E of SCCL section 3.4."""
        return frozenset(link.edge for link in self.links)

    @property
    def has_uniform_lanes(self) -> bool:
        """Return whether all lanes have the same bandwidth, as statements about rounds assume."""
        return len({link.gb_per_s for link in self.links}) == 1

    def lanes(self) -> dict[Edge, int]:
        """Return the chunks per round of every link, by edge."""
        return {link.edge: link.lanes for link in self.links}

    def constraints(self) -> tuple[Constraint, ...]:
        """Return the bandwidth relation B: one member per link, then the shared budgets."""
        per_link = (Constraint(edge, (edge,), n) for edge, n in self.lanes().items())
        shared = (Constraint(b.name, b.edges, b.chunks_per_round) for b in self.budgets)
        return (*per_link, *shared)

    def budget_speeds(self) -> tuple[float, ...]:
        """Return the bandwidth per lane of each budget, 10^9 bytes per second.

        It is the budget's own value, or else the value of its links, or else (if its links differ)
        the value of the machine.
        """
        if not self.budgets:
            return ()
        edge_speeds = {link.edge: link.gb_per_s for link in self.links}
        speeds = [{edge_speeds[edge] for edge in b.edges} for b in self.budgets]
        return tuple(
            b.gb_per_s or (link_speeds.pop() if len(link_speeds) == 1 else self.gb_per_s)
            for b, link_speeds in zip(self.budgets, speeds, strict=True)
        )

    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Return the successors of each node, ascending."""
        out: list[list[int]] = [[] for _ in range(self.ranks + len(self.switches))]
        for link in self.links:
            out[link.src].append(link.dst)
        return tuple(tuple(nodes) for nodes in out)

    def label(self, rank: int) -> str:
        """Return the machine's name for ``rank``."""
        return self.labels[rank] if self.labels else str(rank)

    def reversed(self) -> Topology:
        """Return the topology with every link and budget reversed (SCCL section 3.5)."""
        return replace(
            self,
            links=tuple(replace(link, src=link.dst, dst=link.src) for link in self.links),
            budgets=tuple(
                replace(b, edges=tuple((dst, src) for src, dst in b.edges)) for b in self.budgets
            ),
        )

    def same_capacities(self, topology: Topology) -> bool:
        """Return whether both have the same links, lanes and budgets. Costs are ignored."""
        mine, theirs = (
            sorted((b.edges, b.chunks_per_round) for b in t.budgets) for t in (self, topology)
        )
        return self.ranks == topology.ranks and self.lanes() == topology.lanes() and mine == theirs

    def same_timing(self, topology: Topology) -> bool:
        """Return whether both have the same links, switches, budgets and costs."""
        mine, theirs = (
            (
                sorted((link.edge, link.lanes, link.alpha_us, link.gb_per_s) for link in t.links),
                [(s.copies, s.buffer_chunks, s.cut_through) for s in t.switches],
                sorted(
                    (b.edges, b.chunks_per_round, speed)
                    for b, speed in zip(t.budgets, t.budget_speeds(), strict=True)
                ),
            )
            for t in (self, topology)
        )
        return self.ranks == topology.ranks and mine == theirs


def check_cost(
    where: str,
    alpha_us: float,
    gb_per_s: float,
    *,
    error: type[InputError] = TopologyError,
    names: tuple[str, str] = ("alpha_us", "gb_per_s"),
) -> None:
    """Check a latency and a bandwidth from any source.

    Args:
        where: Beginning of the message.
        error: Exception type to raise.
        names: Names of the two values in the message.

    Raises:
        InputError: One of them is not a number, is below 0, or exceeds :data:`MAX_COST`.
    """
    if not 0 <= alpha_us <= MAX_COST:
        raise error(
            f"{where}{names[0]} is {alpha_us}, expected a finite number from 0 to {MAX_COST:g} "
            "(microseconds)"
        )
    if not 1 / MAX_COST <= gb_per_s <= MAX_COST:
        raise error(
            f"{where}{names[1]} is {gb_per_s}, expected a finite number of more than 0, from "
            f"{1 / MAX_COST:g} to {MAX_COST:g} (10^9 bytes/s)"
        )


def link_name(edge: Edge) -> str:
    """Return the name of a link in messages. No budget may have such a name."""
    return f"link {edge[0]}->{edge[1]}"


def per_rank_budgets(edges: Iterable[Edge], egress: int, ingress: int) -> list[Budget]:
    """Return an egress budget and an ingress budget for each rank over some links."""
    budgets: list[Budget] = []
    all_edges = sorted(edges)
    for end, side, chunks in ((0, "egress", egress), (1, "ingress", ingress)):
        by_rank: dict[int, list[Edge]] = {}
        for edge in all_edges:
            by_rank.setdefault(edge[end], []).append(edge)
        budgets += [
            Budget(f"{side} of rank {r}", tuple(by_rank[r]), chunks) for r in sorted(by_rank)
        ]
    return budgets


def to_ranks(numbers: Iterable[int]) -> frozenset[Rank]:
    """Return ``numbers`` as a set of ranks."""
    return frozenset(Rank(n) for n in numbers)


# --- GPUs of ranks, by PCI bus ids ---------------------------------------------------------------


def normalize_bus_id(text: str) -> str:
    """Return a bus id as ``0000:0a:00.0``, or an empty text if it is invalid."""
    match = _BUS_ID.fullmatch(text.lower())
    if match is None:
        return ""
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def check_bus_ids(bus_ids: BusIds, ranks: int, where: str) -> BusIds:
    """Return the bus ids of ranks, each normalized to ``0000:0a:00.0``.

    Args:
        where: Beginning of the message.

    Raises:
        TopologyError: A bus id is invalid or repeated, or there is not one for each rank.
    """
    if not isinstance(bus_ids, tuple) or not bus_ids:
        return bus_ids
    if len(bus_ids) != ranks:
        raise TopologyError(
            f"{where}: {len(bus_ids)} pci_bus_ids for {ranks} ranks, expected one per rank (or "
            f"{ASCENDING!r}, or none at all)"
        )
    rank_by_id: dict[str, int] = {}
    for rank, text in enumerate(bus_ids):
        plain = normalize_bus_id(text)
        if not plain:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text!r} for rank {rank}, expected hexadecimal "
                "[domain:]bus:device.function, such as 0000:0a:00.0"
            )
        peer = rank_by_id.setdefault(plain, rank)
        if peer != rank:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text} for ranks {peer} and {rank}, expected a GPU for "
                "each; leave them out for a machine of several hosts"
            )
    return tuple(rank_by_id)


def is_ascending(bus_ids: tuple[str, ...]) -> bool:
    """Return whether checked bus ids ascend."""
    ordered = sorted(bus_ids, key=lambda text: (len(text), text))  # the domain may be longer
    return list(bus_ids) == ordered
