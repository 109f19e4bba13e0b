"""Recompute lower bounds on the completion time of any plan with any chunks, in exact fractions.

Alphas travel: a byte arrives alpha after it has passed a link. If :func:`is_valid_for_both_alphas`
is true for the machine, the same bounds hold for alphas that occupy their links. The arguments are
in ``docs/mathematics/time.md``.

Each function returns a :class:`LinearTimeBound`: from a size of a rank's buffer on, a minimum time
in microseconds, and a minimum increase for each further byte.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from sccl.core.capacity import LinkWindow, capacity_changes, completion_time
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.check.constraint_prices import common_denominator, fraction_text
from sccl.prove.check.slot_trees import served_cost
from sccl.prove.check.timed_trees import Spend

SlotPrices = Sequence[tuple[ConstraintKey, int, Fraction]]
"""(constraint, slot from 0, price per microsecond)."""


@dataclass(frozen=True, slots=True)
class LinearTimeBound:
    """A lower bound on time, from some size on."""

    from_bytes: Fraction
    lower_bound_us: Fraction
    us_per_byte: Fraction

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return the bound for a rank's buffer of a size, microseconds. 0: unknown."""
        if size_bytes < self.from_bytes:
            return Fraction(0)
        return self.lower_bound_us + self.us_per_byte * (size_bytes - self.from_bytes)


def is_valid_for_both_alphas(machine: Topology) -> bool:
    """Return whether a bound for alphas that travel also holds for alphas that occupy links.

    If a link carries bytes in an interval after its alpha, let it carry them an alpha earlier. Each
    byte then arrives at the same time, so a plan for occupying alphas becomes a plan for travelling
    alphas. This fails in two cases. A cut-through switch may spend the alpha of its outgoing link
    while bytes still come in. And the links of a budget shift against each other if their alphas
    differ.
    """
    alphas = {link.edge: link.alpha_us for link in machine.links}
    through = {machine.ranks + i for i, switch in enumerate(machine.switches) if switch.cut_through}
    return not any(alpha for (src, _), alpha in alphas.items() if src in through) and all(
        len({alphas[edge] for edge in budget.edges}) <= 1 for budget in machine.budgets
    )


# --- cuts ----------------------------------------------------------------------------------------


def cut_time_bound(
    machine: Topology,
    collective: Collective,
    size_bytes: Fraction,
    sides: tuple[Iterable[int], Iterable[int], Iterable[int]],
    spend: Spend,
) -> LinearTimeBound:
    """Return a lower bound on the time in which the links out of a set of nodes carry their data.

    A link is useful only after the data can have arrived at it, and as long as they can still reach
    a destination.

    Args:
        collective: Combining or non-combining collective.
        sides: The set of nodes, the sources (only data that they alone hold count), and the
            destinations whose data count.

    Raises:
        ValueError: No counted data have to leave the set.
    """
    left, among, to = map(frozenset, sides)
    classes = collective.chunk_classes()
    spend(10 * (len(machine.links) + len(left)) + 4 * len(classes))
    count, sources, goals = 0, set[int](), set[int]()
    for (held, wanted), chunks in classes.items():
        holders = frozenset[int](held) & left & among
        wanting = (frozenset[int](wanted) - left) & to
        is_counted = bool(holders) if collective.combining else holders == held
        if is_counted and wanting:
            count += collective.amount(chunks)
            sources |= holders
            goals |= wanting
    if not count:
        raise ValueError("no required data leave that set of nodes")
    windows = _link_windows(machine, sources, goals, left)
    return _carried_bound(machine, Fraction(count, collective.chunks), windows, size_bytes)


def group_time_bound(
    machine: Topology,
    reduced: Collective,
    size_bytes: Fraction,
    groups: Sequence[Iterable[int]],
    spend: Spend,
) -> LinearTimeBound:
    """Return a lower bound on the time of the sends between groups of nodes in an allreduce.

    With G groups each byte is sent at least 2 (G - 1) times between groups: a group acts at best
    like one rank. If ranks reduce in process groups, G counts the groups of nodes with ranks that
    reduce the byte.

    Args:
        reduced: Allreduce, of all ranks or in process groups.

    Raises:
        ValueError: There are fewer than two groups, groups overlap, contain no rank, or omit a
            rank, or all ranks that reduce together are in one group.
    """
    sets = [frozenset(group) for group in groups]
    spend(10 * len(machine.links) + 4 * sum(map(len, sets)))
    ranks = frozenset(range(machine.ranks))
    all_nodes = frozenset().union(*sets)
    if len(sets) < 2 or len(all_nodes) != sum(map(len, sets)) or not ranks <= all_nodes:
        raise ValueError("these are not two or more groups, each rank in one")
    if any(not group & ranks for group in sets):
        raise ValueError("a group has no rank")
    group_of = {node: i for i, group in enumerate(sets) for node in group}
    before, after = (alpha_distances(machine, ranks, backwards=turned) for turned in (False, True))
    windows = {
        link.edge: LinkWindow(before[link.src], Fraction(str(link.alpha_us)) + after[link.dst])
        for link in machine.links
        if link.dst in group_of and group_of.get(link.src) != group_of[link.dst]
        if link.src in before and link.dst in after
    }
    sends = 0
    for (held, _), chunks in reduced.chunk_classes().items():
        spend(1 + len(held))
        sends += 2 * (len({group_of[rank] for rank in held}) - 1) * reduced.amount(chunks)
    if not sends:
        raise ValueError("all ranks that reduce together are in one of these groups")
    return _carried_bound(machine, Fraction(sends, reduced.chunks), windows, size_bytes)


def bandwidth_time_bound(
    machine: Topology, size_bytes: Fraction, bandwidth: Fraction
) -> LinearTimeBound:
    """Return a lower bound on time by R/C, plus the last alpha, in which no send is useful.

    Args:
        bandwidth: Lower bound on R/C.

    Raises:
        ValueError: Lanes are not equally fast, or there are switches.
    """
    speeds = {*(link.gb_per_s for link in machine.links), *machine.budget_speeds()}
    if len(speeds) > 1 or machine.switches:
        raise ValueError("R/C gives no times on this machine: lanes differ, or it has switches")
    each = bandwidth / (1000 * Fraction(str(speeds.pop())))
    alpha = min(Fraction(str(link.alpha_us)) for link in machine.links)
    return LinearTimeBound(size_bytes, alpha + each * size_bytes, each)


def _link_windows(
    machine: Topology, sources: Iterable[int], goals: Iterable[int], left: frozenset[int]
) -> dict[Edge, LinkWindow]:
    """Return the time window of each link out of a set of nodes for bytes from sources to goals."""
    before, after = (
        alpha_distances(machine, sources),
        alpha_distances(machine, goals, backwards=True),
    )
    return {
        link.edge: LinkWindow(before[link.src], Fraction(str(link.alpha_us)) + after[link.dst])
        for link in machine.links
        if link.src in left and link.dst not in left
        if link.src in before and link.dst in after
    }


def alpha_distances(
    machine: Topology, starts: Iterable[int], *, backwards: bool = False
) -> dict[int, Fraction]:
    """Return the shortest alpha distance of each node from the start nodes, or to them."""
    out: dict[int, list[tuple[int, Fraction]]] = {}
    for link in machine.links:
        u, v = link.edge[::-1] if backwards else link.edge
        out.setdefault(u, []).append((v, Fraction(str(link.alpha_us))))
    far: dict[int, Fraction] = {}
    queue = [(Fraction(0), node) for node in starts]
    heapq.heapify(queue)
    while queue:
        length, node = heapq.heappop(queue)
        if node not in far:
            far[node] = length
            for neighbor, alpha in out.get(node, ()):
                if neighbor not in far:
                    heapq.heappush(queue, (length + alpha, neighbor))
    return far


def _carried_bound(
    machine: Topology, share: Fraction, windows: Mapping[Edge, LinkWindow], size_bytes: Fraction
) -> LinearTimeBound:
    """Return the bound on the time in which links and binding budgets can carry a share.

    Each link counts in the first budget that binds, so the order of budgets matters, and every
    order gives a lower bound. Two more orders are tried: the fewest sources first, and the fewest
    destinations first. They split no egress or ingress budget if each node has one of the kind.

    Raises:
        ValueError: No link is useful.
    """
    if not windows:
        raise ValueError("no link out of that set of nodes can be used in time")
    rates = {k.edge: 1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in machine.links}
    budgets = [
        (b.edges, 1000 * b.chunks_per_round * Fraction(str(speed)))
        for b, speed in zip(machine.budgets, machine.budget_speeds(), strict=True)
    ]
    orders = [
        budgets,
        sorted(budgets, key=lambda entry: len({src for src, _ in entry[0]})),
        sorted(budgets, key=lambda entry: len({dst for _, dst in entry[0]})),
    ]
    floors = []
    for order in orders:
        at, slope = completion_time(capacity_changes(windows, rates, order), share * size_bytes)
        floors.append(LinearTimeBound(size_bytes, at, share / slope))
    return max(floors, key=lambda floor: (floor.lower_bound_us, floor.us_per_byte))


# --- prices of constraints in slots of time ------------------------------------------------------


def price_time_bound(  # noqa: PLR0913, PLR0917 - the problem, its prices, and a slot that grows
    machine: Topology,
    collective: Collective,
    chunks: int,
    borders: Sequence[Fraction],
    prices: SlotPrices,
    middle: int | None,
    spend: Spend,
    goals: Iterable[int] | None = None,
) -> LinearTimeBound:
    """Return a lower bound on time by prices of constraints in slots, and the cheapest timed trees.

    A chunk sent in a slot over a link can be forwarded, at the earliest, in the first slot that
    ends more than the link's alpha after the sending slot began. Every plan obeys this rule. A link
    is useless in the last alpha. So in a plan within the time, the bytes of each chunk cost at
    least as much as the cheapest timed tree, and all bytes together cost at most the total capacity
    of all slots. This determines the maximum number of bytes for this time, so that number of bytes
    takes at least this time. If a slot is longer than each alpha, the argument stays valid when the
    slot grows.

    Args:
        collective: Non-combining collective. A rank's buffer is ``chunks`` of its chunks.
        borders: Borders of slots in microseconds, from 0 to the time.
        prices: Price of a microsecond of a constraint.
        middle: Slot that grows with time, if any.
        goals: Ranks to serve, by default all. A tree that serves more costs no less.

    Raises:
        ValueError: Borders do not ascend from 0, there are switches, a price is negative or without
            a constraint, a chunk cannot reach its destinations, all trees cost 0, or the slot is
            too short.
        TooMuchError: The check takes too much work.
    """
    if machine.switches:
        raise ValueError("prices of slots prove nothing about machines with switches")
    if borders[0] != 0 or any(a >= b for a, b in pairwise(borders)):
        raise ValueError("the borders do not ascend from 0")
    slots = len(borders) - 1
    spend(slots * (1 + len(machine.links)) + len(prices))
    scale = common_denominator([price for _, _, price in prices])
    alphas = {k.edge: Fraction(str(k.alpha_us)) for k in machine.links}
    rates = constraint_rates(machine)
    end, room, grows = borders[-1], Fraction(0), Fraction(0)
    costs: list[dict[Edge, Fraction]] = [dict.fromkeys(alphas, Fraction(0)) for _ in range(slots)]
    for key, slot, price in prices:
        if price < 0 or key not in rates or not 0 <= slot < slots:
            name = constraint_name(key)[:60]
            raise ValueError(
                f"price {fraction_text(price)} of {name!r} in slot {slot}: expected 0 or more, of "
                "a "
                "constraint and a slot that exist"
            )
        edges, rate = rates[key]
        spend(len(edges))
        last = end - min(alphas[edge] for edge in edges)
        room += price * max(Fraction(0), min(borders[slot + 1], last) - borders[slot])
        grows += price if slot == middle else 0
        for edge in edges:
            costs[slot][edge] += price / rate
    finest = scale * common_denominator([1 / rate for _, rate in rates.values()])
    integral_costs = [
        {edge: int(cost * finest) for edge, cost in slot_costs.items()} for slot_costs in costs
    ]
    follows = [
        {edge: _first_usable_slot(borders, k, a) for edge, a in alphas.items()}
        for k in range(slots)
    ]
    cheapest = served_cost(integral_costs, follows, collective, machine.ranks, spend, goals)
    total = Fraction(cheapest, finest * chunks)
    if not total:
        raise ValueError("no link has a price")
    if middle is None:
        return LinearTimeBound(room / total, end, Fraction(0))
    if not 0 <= middle < slots or borders[middle + 1] - borders[middle] <= max(alphas.values()):
        raise ValueError(f"slot {middle} is not longer than each alpha")
    if not grows:
        raise ValueError(f"nothing has a price in slot {middle}")
    return LinearTimeBound(room / total, end, total / grows)


def constraint_rates(
    machine: Topology,
) -> Mapping[ConstraintKey, tuple[tuple[Edge, ...], Fraction]]:
    """Return the links of each constraint, and its rate in bytes per microsecond."""
    speeds: dict[ConstraintKey, float] = {k.edge: k.gb_per_s for k in machine.links}
    speeds |= {b.name: s for b, s in zip(machine.budgets, machine.budget_speeds(), strict=True)}
    return {
        c.key: (c.edges, 1000 * c.chunks_per_round * Fraction(str(speeds[c.key])))
        for c in machine.constraints()
    }


def _first_usable_slot(borders: Sequence[Fraction], slot: int, alpha: Fraction) -> int | None:
    """Return the first slot in which a send may be forwarded, None if it arrives too late."""
    arrival = borders[slot] + alpha
    if arrival >= borders[-1]:
        return None
    return bisect_right(borders, arrival) - 1
