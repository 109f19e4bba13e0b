"""Compute lower bounds by prices of constraints, per step or for all steps, in integers.

If the capacity of a round costs at most 1, the sends of R rounds cost at most R. So R is at least
the minimum cost of serving all chunks. ``docs/mathematics/limits.md`` has the argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.check.timed_trees import Spend, cheapest_paths, cheapest_tree, cheapest_tree_pair
from sccl.prove.check.translations import Images, check_translations, is_invariant
from sccl.prove.check.work import TooMuchError

StepPrices = Sequence[tuple[ConstraintKey, int, Fraction]]
"""(constraint, step from 0, price)."""

Cuts = Sequence[tuple[Iterable[int], Fraction]]
"""(ranks, weight)."""

_SCALE_BITS = 4096  # maximum bits of the common denominator of prices (ours have less than 64)


def step_price_bound(  # noqa: PLR0913 - a question, prices, and two variants
    machine: Topology,
    collective: Collective,
    steps: int,
    prices: StepPrices,
    spend: Spend,
    *,
    rounds: Sequence[int] | None = None,
    trees: bool = False,
) -> Fraction:
    """Return the lower bound on R/C in a number of steps, by the cheapest timed trees.

    Args:
        collective: Non-combining collective, or allreduce if ``trees``.
        rounds: Rounds of each step, if fixed. Then C is at most 1 over the result.
        trees: Whether each chunk is reduced up a timed tree to one or two exchanging ranks, and
            then broadcast.

    Raises:
        ValueError: A price is negative or of no constraint or step, the capacity of a round costs
            more than 1 in a step, or a chunk cannot reach its destinations in ``steps`` steps.
        TooMuchError: The check takes too much work.
    """
    spend(steps * (1 + len(machine.links)) + len(prices))
    scale = common_denominator([price for _, _, price in prices])
    constraints = {c.key: c for c in machine.constraints()}
    costs: list[dict[Edge, int]] = [dict.fromkeys(machine.edges, 0) for _ in range(steps)]
    spent = [0] * steps
    for key, step, price in prices:
        if price < 0 or key not in constraints or not 0 <= step < steps:
            name = constraint_name(key)[:60]
            raise ValueError(
                f"price {fraction_text(price)} of {name!r} in step {step}: expected 0 or more, of "
                "a "
                "constraint and a step that exist"
            )
        scaled = int(price * scale)
        spent[step] += scaled * constraints[key].chunks_per_round
        for edge in constraints[key].edges:
            costs[step][edge] += scaled
    if rounds is not None:
        if len(rounds) != steps:
            raise ValueError(f"there are {len(rounds)} rounds for {steps} steps")
        spent = [sum(bought * times for bought, times in zip(spent, rounds, strict=True))]
    for step, total in enumerate(spent):
        if total > scale:
            label = "all steps" if rounds is not None else f"step {step}"
            bought = fraction_text(Fraction(total, scale))
            raise ValueError(f"the prices of {label} buy {bought}, expected up to 1")
    if trees:
        total = 0
        for (holders, _), chunks in collective.chunk_classes().items():
            each = cheapest_tree_pair(costs, machine.ranks, rank_bits(holders), spend)
            total += collective.amount(chunks) * _served_cost(each, steps)
    else:
        total = _tree_costs(costs, collective, machine.ranks, spend)
    return Fraction(total, scale * collective.chunks)


def price_bound(  # noqa: PLR0913, PLR0917 - a claim
    machine: Topology,
    collective: Collective,
    prices: Sequence[tuple[ConstraintKey, Fraction]],
    cuts: Cuts,
    spend: Spend,
    translations: Images = (),
) -> Fraction:
    """Return the lower bound on R/C by cuts at these prices, or without cuts by shortest paths.

    Each chunk that starts outside a set of ranks and has a destination inside has to enter it. Cuts
    whose weights on a link never exceed its price add up.

    Args:
        collective: Non-combining collective.
        translations: Claimed translations of the machine, which are checked.

    Raises:
        ValueError: A price or weight is negative, a constraint does not exist, the cuts together
            exceed the price of a link, no constraint has a price, a chunk cannot reach a
            destination, or a translation is invalid.
        TooMuchError: The check takes too much work.
    """
    constraints = {c.key: c for c in machine.constraints()}
    scale = common_denominator([*(price for _, price in prices), *(weight for _, weight in cuts)])
    costs = dict.fromkeys(machine.edges, 0)
    bought = 0
    for key, price in prices:
        if price < 0 or key not in constraints:
            name = constraint_name(key)[:60]
            raise ValueError(
                f"price {fraction_text(price)} of {name!r}: no such constraint, or below 0"
            )
        bought += int(price * scale) * constraints[key].chunks_per_round
        for edge in constraints[key].edges:
            costs[edge] += int(price * scale)
    if bought <= 0:
        raise ValueError("nothing has a price")
    alike = bool(translations) and collective.is_alltoall and not cuts
    if alike:
        check_translations(machine, translations, spend)
    if cuts:
        demand = _cut_costs(costs, collective, cuts, scale, spend)
    elif alike and is_invariant(costs, translations, spend):
        demand = machine.ranks * _root_path_costs(costs, collective, spend)
    else:
        demand = _path_costs(costs, collective, machine.ranks, spend)
    return Fraction(demand, bought * collective.chunks)


def constraint_finder(machine: Topology) -> Callable[[str], ConstraintKey]:
    """Return a function from constraint names in a certificate's file to a machine's constraints.

    An unknown name maps to itself, as the name of a budget that does not exist.
    """
    keys = {c.name: c.key for c in machine.constraints()}
    return lambda name: keys.get(name, name)


def fraction_text(value: Fraction) -> str:
    """Return a fraction as text, without the digits if these are many."""
    size = max(value.numerator.bit_length(), value.denominator.bit_length())
    return str(value) if size <= 200 else f"a fraction of {size} bits"


def common_denominator(prices: Iterable[Fraction]) -> int:
    """Return the common denominator of fractions.

    Raises:
        TooMuchError: It has too many bits.
    """
    scale = 1
    for price in prices:
        scale = lcm(scale, price.denominator)
        if scale.bit_length() > _SCALE_BITS:
            raise TooMuchError(f"the common denominator of its prices has over {_SCALE_BITS} bits")
    return scale


def _served_cost(cost: int | None, steps: int) -> int:
    if cost is None:
        raise ValueError(f"some chunk cannot reach all its destinations within {steps} steps")
    return cost


def rank_bits(ranks: Iterable[int]) -> int:
    """Return a set of ranks as a bit mask."""
    return sum(1 << rank for rank in ranks)


def _tree_costs(
    costs: Sequence[Mapping[Edge, int]], collective: Collective, ranks: int, spend: Spend
) -> int:
    """Return the total cost of the cheapest timed trees of all chunks."""
    total = 0
    paths: dict[frozenset[int], list[int | None]] = {}
    for (holders, wanted), chunks in collective.chunk_classes().items():
        missing = wanted - holders
        spend(1 + len(missing))
        if len(missing) == 1:
            key = frozenset[int](holders)
            if key not in paths:
                paths[key] = cheapest_paths(costs, ranks, rank_bits(holders), spend)
            (target,) = missing
            total += collective.amount(chunks) * _served_cost(paths[key][target], len(costs))
        elif missing:
            cost = cheapest_tree(costs, ranks, rank_bits(holders), rank_bits(wanted), spend)
            total += collective.amount(chunks) * _served_cost(cost, len(costs))
    return total


def _cut_costs(
    costs: Mapping[Edge, int], collective: Collective, cuts: Cuts, scale: int, spend: Spend
) -> int:
    spent = dict.fromkeys(costs, 0)
    classes = collective.chunk_classes()
    demand = 0
    for ranks, weight in cuts:
        if weight < 0:
            raise ValueError(f"a cut has the negative weight {fraction_text(weight)}")
        inside = set(ranks)
        spend(len(costs) + len(inside) + 4 * len(classes))
        scaled = int(weight * scale)
        for (holders, wanted), chunks in classes.items():
            if inside.isdisjoint(holders) and not inside.isdisjoint(wanted):
                demand += scaled * collective.amount(chunks)
        for u, v in costs:
            if v in inside and u not in inside:
                spent[u, v] += scaled
    for (u, v), taken in spent.items():
        if taken > costs[u, v]:
            raise ValueError(f"the cuts outweigh the price of link {u}->{v}")
    return demand


def _path_costs(costs: Mapping[Edge, int], collective: Collective, ranks: int, spend: Spend) -> int:
    """Return the total cost of all chunks by shortest paths to the farthest destination of each."""
    out: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for (u, v), cost in costs.items():
        out[u].append((v, cost))
    far: dict[frozenset[int], dict[int, int]] = {}
    total = 0
    for (holders, wanted), chunks in collective.chunk_classes().items():
        key = frozenset[int](holders)
        if key not in far:
            spend(8 * len(costs) + ranks)
            far[key] = _distances(out, key)
        spend(1 + len(wanted))
        if any(rank not in far[key] for rank in wanted):
            raise ValueError(f"chunk {chunks[0]} cannot reach all its destinations")
        total += collective.amount(chunks) * max((far[key][rank] for rank in wanted), default=0)
    return total


def _root_path_costs(costs: Mapping[Edge, int], collective: Collective, spend: Spend) -> int:
    """Return the cost of the chunks of rank 0 in an alltoall by shortest paths."""
    spend(8 * len(costs) + collective.ranks)
    out: list[list[tuple[int, int]]] = [[] for _ in range(collective.ranks)]
    for (u, v), cost in costs.items():
        out[u].append((v, cost))
    far = _distances(out, [0])
    if len(far) < collective.ranks:
        raise ValueError("some chunk of rank 0 cannot reach its destination")
    return sum(far.values()) * (collective.chunks // collective.ranks)


def _distances(out: Sequence[Sequence[tuple[int, int]]], holders: Iterable[int]) -> dict[int, int]:
    """Return the length of a shortest path to each rank that can be reached (Dijkstra)."""
    far: dict[int, int] = {}
    queue = [(0, rank) for rank in holders]
    while queue:
        length, rank = heapq.heappop(queue)
        if rank not in far:
            far[rank] = length
            for neighbor, more in out[rank]:
                if neighbor not in far:
                    heapq.heappush(queue, (length + more, neighbor))
    return far
