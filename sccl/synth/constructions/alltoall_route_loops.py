"""Cheapest paths through time from one rank to all, at prices of full links: compiled loops.

All numbers are integers, so results do not depend on a processor's rounding.
"""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled
from sccl.synth.limits import INFINITE


@compiled
def reroute(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    machine: Any,
    source: int,
    order: Any,
    batch: int,
    squarings: int,
    noise: Any,
    shake: int,
    paths: Any,
    load: Any,
    scratch: Any,
) -> None:
    """Reroute all chunks of a rank, a batch at a time, over the cheapest paths at current loads.

    The price of a link in a step is the sum of its constraints' loads, relative to the largest load
    of the step, to a power. This is the derivative of the step's rounds.

    Args:
        machine: Links by the rank that they enter (starts, links), source of each link, constraints
            of each link (starts, numbers), load of a send on each constraint, distances from each
            representative, and the representatives.
        source: Row of the distances and of ``paths``.
        order: Chunks of the rank. Chunk c is for rank c modulo the number of ranks.
        batch: Number of chunks per batch.
        squarings: The power is 2 ** squarings.
        noise: Random numbers of ten bits. Their count is a prime.
        shake: Maximum increase of a price by noise, in 64ths.
        paths: Link of each chunk in each step, shape (representatives, chunks, steps). -1: none.
            Updated.
        load: Load of each constraint, shape (steps, constraints). Updated.
        scratch: Work space: prices by step and link, and by constraint, costs and links by time and
            rank, and the index in ``noise``.
    """
    in_start, in_link, src, of_start, of, fill, first, rank = machine
    price, share, cost, through, place = scratch
    steps, ranks = load.shape[0], first.shape[1]
    begin = 0
    while begin < len(order):
        end = min(begin + batch, len(order))
        for i in range(begin, end):
            _add_load(paths[source, order[i]], of_start, of, fill, load, -1)
        _price_links(of_start, of, fill, load, squarings, noise, shake, (price, share, place))
        _cheapest_paths(in_start, in_link, src, first[source], rank[source], price, cost, through)
        for i in range(begin, end):
            path = paths[source, order[i]]
            at = order[i] % ranks
            for time in range(steps, 0, -1):
                link = through[time, at]
                path[time - 1] = link
                if link >= 0:
                    at = src[link]
            _add_load(path, of_start, of, fill, load, 1)
        begin = end


@compiled
def _add_load(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    path: Any, of_start: Any, of: Any, fill: Any, load: Any, times: int
) -> None:
    for step in range(len(path)):
        if path[step] >= 0:
            for i in range(of_start[path[step]], of_start[path[step] + 1]):
                load[step, of[i]] += times * fill[of[i]]


@compiled
def _price_links(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    of_start: Any,
    of: Any,
    fill: Any,
    load: Any,
    squarings: int,
    noise: Any,
    shake: int,
    scratch: Any,
) -> None:
    """Compute the prices of links from the loads of their constraints."""
    price, share, place = scratch
    at = place[0]
    for step in range(load.shape[0]):
        fullest = load[step].max()
        for c in range(load.shape[1]):
            # twenty binary places
            each = (load[step, c] << 20) // fullest if fullest else 1 << 20
            for _ in range(squarings):
                each = each * each >> 20
            share[c] = (each + 1) * fill[c]
        for link in range(price.shape[1]):
            total = 0
            for i in range(of_start[link], of_start[link + 1]):
                total += share[of[i]]
            at = at + 1 if at + 1 < len(noise) else 0
            # ten binary places
            price[step, link] = total * ((64 << 10) + shake * noise[at]) >> 10
    place[0] = at


@compiled
def _cheapest_paths(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    in_start: Any,
    in_link: Any,
    src: Any,
    first: Any,
    rank: int,
    price: Any,
    cost: Any,
    through: Any,
) -> None:
    """Find the cheapest path from a rank to each (time, rank), and its last link. -1: it waits.

    Args:
        in_start: Index of each rank's first entry of ``in_link``, and the total.
        in_link: Links by the rank that they enter.
        src: Source of each link.
        first: Earliest time at which each rank can be reached.
        rank: Rank at which the paths start.
        price: Price of a send, shape (steps, links).
        cost: Output: costs of the paths, shape (steps + 1, ranks).
        through: Output: last links of the paths, shape (steps + 1, ranks).
    """
    cost[0, :] = INFINITE
    cost[0, rank] = 0
    for time in range(price.shape[0]):
        for v in range(len(first)):
            best, by = cost[time, v], -1
            if first[v] <= time + 1:
                for i in range(in_start[v], in_start[v + 1]):
                    link = in_link[i]
                    if first[src[link]] <= time:
                        next_cost = cost[time, src[link]] + price[time, link]
                        if next_cost < best:
                            best, by = next_cost, link
            cost[time + 1, v], through[time + 1, v] = best, by
