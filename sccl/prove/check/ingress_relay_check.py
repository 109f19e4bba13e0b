"""Compute the ingress-relay bound: late data at a set of ranks cannot be forwarded twice.

Take n ranks, and chunks that none of them holds initially. Count *pairs* of a byte of such a chunk
and one of the n ranks that demands it at a distance of D or more from each holder. There are N
pairs, at most m for each byte. A *hop* leads from a rank to a rank and passes only switches. A byte
enters the set by a hop from outside, to a *gate*. No byte reaches one of the n ranks before d. No
hop among the n ranks has an alpha below a. All bytes have arrived by T, and d <= D.

1. *Late bytes.* Suppose that a byte first arrives later than T - 2a. If a rank receives it from one
   of the n ranks, that rank is a gate which received it from outside. Otherwise the byte was
   forwarded twice, and arrived later than T.
2. *From outside*, a late byte arrives over the last link of a hop. All of these links together
   carry at most R bytes per microsecond. A pair served in this way is served after D and after T -
   2a: at most R min(2a, T - D) pairs.
3. *From a gate*, a late byte leaves over the first link of a hop to another of the n ranks. All of
   these links together carry O. A switch that does not copy delivers each byte that passes it once,
   so the bound needs such switches. The bytes leave after d, after T - 2a, and no later than T - a.
   They arrived at the gate within these times, for at most m pairs each, and at most n - 1. So
   there are at most Q min(a, T - a - d) pairs, where Q is the minimum of O, m R and (n - 1) R.
4. *All other bytes* arrived over last links from d to T - 2a: at most m R (T - 2a - d) pairs.

Each of these terms is 0 if it would be negative, and never decreases with T. So N is at most their
sum, and each further pair takes at least the time of the steepest part of the sum from there on.

Bytes of a chunk leave one after the other and arrive at least alpha later. Storing a whole chunk
before forwarding it only delays it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.capacity import completion_time
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.check.constraint_prices import fraction_text
from sccl.prove.check.time_bounds import LinearTimeBound, alpha_distances
from sccl.prove.check.timed_trees import Spend


def ingress_relay_bound(  # noqa: PLR0913, PLR0917 - a question, a size, and the pairs in question
    machine: Topology,
    collective: Collective,
    chunks: int,
    size_bytes: Fraction,
    inside: Iterable[int],
    sources: Iterable[int],
    apart: Fraction,
    spend: Spend,
) -> LinearTimeBound:
    """Return a lower bound on time by the data that arrive late at some ranks.

    Args:
        collective: Non-combining collective. A rank's buffer is ``chunks`` of its chunks.
        inside: The ranks.
        sources: Count only data that these ranks alone hold.
        apart: Count only data at least this many microseconds from their destination.

    Raises:
        ValueError: A switch copies, the ranks are invalid, no hop leads to them or among them, or
            no data count.
        TooMuchError: The check takes too much work.
    """
    if any(switch.copies for switch in machine.switches):
        raise ValueError("a switch copies: one byte that a rank sends may be many deliveries")
    ranks, among = frozenset(inside), frozenset(sources)
    if not ranks or not ranks <= frozenset(range(machine.ranks)):
        raise ValueError("these are not ranks, one or more")
    spend((10 + 10 * len(ranks)) * len(machine.links) + len(among))
    pairs = _count_relay_pairs(machine, collective, ranks, among, apart, spend)
    alpha = _min_alpha(machine, ranks)
    into, onward = _ingress_and_relay_links(machine, ranks)
    if alpha is None or not into or not onward:
        raise ValueError("no path leads to these ranks, or no path leads from them to the others")
    rate = _total_rate(machine, into)
    served = min(_total_rate(machine, onward), min(pairs.max_fraction, len(ranks) - 1) * rate)
    first = pairs.soonest + alpha
    changes = [
        (apart, rate),
        (apart + 2 * alpha, -rate),
        (first, served),
        (first + alpha, -served),
        (first + alpha, pairs.max_fraction * rate),
    ]
    share = Fraction(pairs.count, chunks)
    at, steepest = completion_time(sorted(changes), share * size_bytes)
    return LinearTimeBound(size_bytes, at, share / steepest)


@dataclass(frozen=True, slots=True)
class _RelayPairs:
    """The counted pairs of data and ranks.

    Attributes:
        count: Number of pairs of a chunk and a destination.
        max_fraction: maximum number of ranks for one chunk.
        soonest: earliest possible arrival of any of them.
    """

    count: int
    max_fraction: int
    soonest: Fraction


def _count_relay_pairs(  # noqa: PLR0913, PLR0917 - the parts of the claim
    machine: Topology,
    collective: Collective,
    ranks: frozenset[int],
    among: frozenset[int],
    apart: Fraction,
    spend: Spend,
) -> _RelayPairs:
    """Return the counted pairs.

    Raises:
        ValueError: There are none, or ``apart`` is less than the smallest distance.
    """
    classes = collective.chunk_classes()
    spend(4 * len(classes))
    count, max_wanting, soonest = 0, 0, list[Fraction]()
    alphas: dict[frozenset[int], dict[int, Fraction]] = {}
    for (held, wanted), chunks in classes.items():
        holders, wanting = frozenset[int](held), frozenset[int](wanted) & ranks
        if not wanting or not holders <= among - ranks:
            continue
        if holders not in alphas:
            spend(10 * len(machine.links))
            alphas[holders] = alpha_distances(machine, holders)
        far = alphas[holders]
        many = sum(1 for rank in wanting if rank in far and far[rank] >= apart)
        if many:
            count += many * collective.amount(chunks)
            max_wanting = max(max_wanting, many)
            soonest.append(min(far[rank] for rank in ranks if rank in far))
    if not count:
        raise ValueError("these ranks need no data from the sources at this distance")
    if apart < min(soonest):
        raise ValueError(f"the smallest distance is {fraction_text(min(soonest))} us")
    return _RelayPairs(count, max_wanting, min(soonest))


def _min_alpha(machine: Topology, ranks: frozenset[int]) -> Fraction | None:
    """Return the smallest alpha of paths between the ranks, None if there is no path."""
    each = ((rank, alpha_distances(machine, [rank])) for rank in ranks)
    return min((far[to] for rank, far in each for to in ranks - {rank} if to in far), default=None)


def _ingress_and_relay_links(
    machine: Topology, ranks: frozenset[int]
) -> tuple[list[Edge], list[Edge]]:
    """Return the last links of hops from outside, and the first links of hops from gates.

    Including more links would only weaken the bound.
    """
    everyone = frozenset(range(machine.ranks))
    outside = _switch_reach(machine, everyone - ranks)
    into = [k.edge for k in machine.links if k.src in outside and k.dst in ranks]
    gates = {dst for _, dst in into}
    leading = _switch_reach(machine, ranks, backwards=True)
    onward = [k.edge for k in machine.links if k.src in gates and k.dst in leading]
    return into, onward


def _switch_reach(
    machine: Topology, starts: frozenset[int], *, backwards: bool = False
) -> frozenset[int]:
    """Return the ranks, and all switches that are reachable from them (or that reach them)."""
    out: dict[int, list[int]] = {}
    for link in machine.links:
        u, v = link.edge[::-1] if backwards else link.edge
        if v >= machine.ranks:
            out.setdefault(u, []).append(v)
    reached = set(starts)
    queue = sorted(starts)
    for node in queue:  # grows during the loop
        queue += (more := [v for v in dict.fromkeys(out.get(node, ())) if v not in reached])
        reached.update(more)
    return frozenset(reached)


def _total_rate(machine: Topology, edges: Iterable[Edge]) -> Fraction:
    """Return the total rate of links, bytes per microsecond."""
    rates = {k.edge: 1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in machine.links}
    return sum((rates[edge] for edge in edges), Fraction(0))
