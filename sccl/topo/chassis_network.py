"""Copies of a machine joined over their network cards: by switches, rails, or directly.

A latency counts from one card to another, with or without a switch in between. Each of the two
links of a path over a switch has half of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import ParameterError, TooLargeError

MAX_LINKS = 2**20

JoinKind = Literal["switch", "rails", "full"]
"""One switch for all cards, one for the i-th cards of all copies, or links between all cards."""


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card of a machine.

    Attributes:
        ranks: The nearest ranks, whose data passes the card.
        gb_per_s: Bandwidth per direction, 10^9 bytes per second. None: unknown.
        alpha_us: Latency to another card, microseconds. None: unknown.
    """

    name: str
    ranks: tuple[int, ...]
    gb_per_s: float | None
    alpha_us: float | None


@dataclass(frozen=True, slots=True)
class NetworkCards:
    """The network cards of a machine, all alike.

    Attributes:
        ranks: Ranks that use each card.
        gb_per_s: Bandwidth of each card per direction, 10^9 bytes per second.
        alpha_us: Latency from one card to another, microseconds.
    """

    ranks: tuple[tuple[int, ...], ...]
    gb_per_s: float
    alpha_us: float


def join_chassis(
    machine: Topology, chassis: int, joining: JoinKind, cards: NetworkCards
) -> Topology:
    """Return copies of a machine, joined by their network cards.

    Raises:
        InputError: A card belongs to no existing rank, or the result exceeds the limits.
    """
    _check_inputs(machine, chassis, cards)
    ranks, switches = machine.ranks * chassis, list(_switches(machine, chassis))
    links = [link for copy in range(chassis) for link in _links(machine, copy, chassis)]
    budgets = [b for copy in range(chassis) for b in _budgets(machine, copy, chassis)]
    first = ranks + len(switches)
    if joining == "full":
        more, shared = _direct_links(machine.ranks, chassis, cards)
    elif joining == "rails":
        more, shared = [], []
        for i, users in enumerate(cards.ranks):
            switches.append(Switch(f"rail {i}"))
            rail = replace(cards, ranks=(users,))
            rail_links, budget = _switched_links(
                machine.ranks, chassis, rail, (first + i, f"rail {i}")
            )
            more += rail_links
            shared += budget
    else:
        switches.append(Switch("network"))
        more, shared = _switched_links(machine.ranks, chassis, cards, (first, "network"))
    return replace(
        machine,
        name=f"{machine.name}x{chassis}",
        ranks=ranks,
        links=(*links, *more),
        budgets=(*budgets, *shared),
        switches=tuple(switches),
        chassis=tuple(
            tuple(range(copy * machine.ranks, (copy + 1) * machine.ranks))
            for copy in range(chassis)
        ),
        labels=tuple(f"{copy}.{label}" for copy in range(chassis) for label in machine.labels),
        pci_bus_ids=(),
        source=f"{machine.source}; {describe_join(chassis, joining, cards)}",
    )


def describe_join(chassis: int, joining: JoinKind, cards: NetworkCards) -> str:
    """Describe in words how copies of a machine are joined."""
    how = {
        "switch": "over one switch",
        "rails": "over a switch for the i-th NICs of all",
        "full": "by links between all NICs",
    }[joining]
    return (
        f"{chassis} nodes with {len(cards.ranks)} NICs of {cards.gb_per_s:g} GB/s each, joined "
        f"{how}, {cards.alpha_us:g} us from NIC to NIC"
    )


def _check_inputs(machine: Topology, chassis: int, cards: NetworkCards) -> None:
    """Check that the machine and its cards can be joined.

    Raises:
        InputError: They cannot, or the result exceeds the limits.
    """
    if chassis < 2:
        raise ParameterError(f"the number of nodes is {chassis}, expected 2 or more")
    for i, users in enumerate(cards.ranks):
        if not users or len(set(users)) != len(users) or max(users) >= machine.ranks:
            raise ParameterError(
                f"NIC {i} serves GPUs {list(users)}, expected different GPUs from 0 to "
                f"{machine.ranks - 1}"
            )
    ends = chassis * sum(map(len, cards.ranks))
    if chassis * len(machine.links) + ends * ends > MAX_LINKS:
        raise TooLargeError(
            f"{chassis} nodes have more than {MAX_LINKS} links, the most that is written: give "
            "fewer"
        )


def _switches(machine: Topology, chassis: int) -> Iterator[Switch]:
    for copy in range(chassis):
        for switch in machine.switches:
            yield replace(switch, name=f"{copy}.{switch.name}")


def _node_of_copy(machine: Topology, node: int, copy: int, chassis: int) -> int:
    """Return the number of a node of the i-th copy. The ranks of all copies come first."""
    if node < machine.ranks:
        return copy * machine.ranks + node
    return chassis * machine.ranks + copy * len(machine.switches) + node - machine.ranks


def _links(machine: Topology, copy: int, chassis: int) -> Iterator[Link]:
    for link in machine.links:
        src, dst = (_node_of_copy(machine, node, copy, chassis) for node in link.edge)
        yield replace(link, src=src, dst=dst)


def _budgets(machine: Topology, copy: int, chassis: int) -> Iterator[Budget]:
    for budget, speed in zip(machine.budgets, machine.budget_speeds(), strict=True):
        edges = tuple(
            (_node_of_copy(machine, a, copy, chassis), _node_of_copy(machine, b, copy, chassis))
            for a, b in budget.edges
        )
        yield replace(budget, name=f"{copy}.{budget.name}", edges=edges, gb_per_s=speed)


def _count_cards(cards: NetworkCards) -> Counter[tuple[int, ...]]:
    """Return the number of cards of each set of ranks.

    Raises:
        ParameterError: A rank shares its cards with different sets of ranks.
    """
    groups = Counter(tuple(sorted(users)) for users in cards.ranks)
    ranks = Counter(rank for users in groups for rank in users)
    for rank, count in ranks.items():
        if count > 1:
            raise ParameterError(
                f"GPU {rank} shares several NICs with different GPUs each, which this network "
                "cannot express: give each NIC the same GPUs or others, or join them by rails"
            )
    return groups


_LinksAndBudgets = tuple[list[Link], list[Budget]]


def _switched_links(
    ranks: int, chassis: int, cards: NetworkCards, switch: tuple[int, str]
) -> _LinksAndBudgets:
    """Return the links between cards and a switch, and the budgets of cards of several ranks."""
    node, name = switch
    links: list[Link] = []
    budgets: list[Budget] = []
    for copy in range(chassis):
        for users, count in _count_cards(cards).items():
            card_ranks = [copy * ranks + rank for rank in users]
            up = [(rank, node) for rank in card_ranks]
            for src, dst in (*up, *((b, a) for a, b in up)):
                links.append(Link(src, dst, count, cards.alpha_us / 2, cards.gb_per_s))
            if len(card_ranks) > 1:
                budgets += _budgets_both_ways(
                    f"NIC of rank {card_ranks[0]} at {name}", up, count, cards
                )
    return links, budgets


def _direct_links(ranks: int, chassis: int, cards: NetworkCards) -> _LinksAndBudgets:
    """Return the links between cards of different copies, and each card's budgets."""
    groups = [
        ([copy * ranks + rank for rank in users], copy, count)
        for copy in range(chassis)
        for users, count in _count_cards(cards).items()
    ]
    links, out = [], {i: list[Edge]() for i in range(len(groups))}
    for (i, (sources, copy, count)), (_, (goals, peer, peer_count)) in permutations(
        enumerate(groups), 2
    ):
        if copy != peer:
            edges = [(a, b) for a in sources for b in goals]
            out[i] += edges
            lanes = min(count, peer_count)
            links += [Link(a, b, lanes, cards.alpha_us, cards.gb_per_s) for a, b in edges]
    budgets: list[Budget] = []
    for i, (sources, _, count) in enumerate(groups):
        if len(out[i]) > 1:
            budgets += _budgets_both_ways(f"NIC of rank {sources[0]}", out[i], count, cards)
    return links, budgets


def _budgets_both_ways(
    name: str, out: Sequence[Edge], lanes: int, cards: NetworkCards
) -> Iterator[Budget]:
    back = tuple((b, a) for a, b in out)
    yield Budget(f"{name}, out", tuple(out), lanes, cards.gb_per_s)
    yield Budget(f"{name}, in", back, lanes, cards.gb_per_s)
