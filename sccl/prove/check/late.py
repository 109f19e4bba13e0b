"""A lower bound on time: data that arrive late at a set of ranks are not forwarded twice.

Take n ranks, and chunks that none of them has. Count *pairs*: a byte of such a chunk, and one of
the n ranks that wants it and is D or more from each holder. There are N pairs, at most m for each
byte. A *way* leads from a rank to a rank and passes only switches. A byte enters the set by a way
from outside, to a *gate*. No byte reaches one of the n before d. No way among the n has an alpha
below a. All bytes are there by T, and d <= D.

1. *Ways on.* Suppose that a byte first arrives later than T - 2a. A rank that gets it from one of
   the n gets it from a gate that has it from outside: otherwise it was forwarded twice, and came
   later than T.
2. *From outside* it comes over a last link of a way from there. All of those together carry at most
   R bytes a microsecond. A pair that is served so is served after D, and if the byte is late, after
   T - 2a: at most R min(2a, T - D) pairs.
3. *From a gate* it comes over a first link of ways from gates to others of the n, which together
   carry O. A switch that does not copy makes one delivery of each byte that passes it. The bound
   needs such switches. The bytes leave after d, after T - 2a, and no later than T - a. They came to
   the gate within these times, for at most m pairs each, and at most n - 1. So there are at most Q
   min(a, T - a - d) pairs, where Q is the minimum of O, m R and (n - 1) R.
4. *The rest* came over last links from d to T - 2a: at most m R (T - 2a - d) pairs.

Each of these is 0 where it would be negative, and never decreases with T. So N is at most their
sum, and each further pair takes at least the time by the steepest part from there on.

Bytes of a chunk leave one after the other and arrive at least alpha later. Storing a whole chunk
before forwarding it only makes it later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.capacity import completion
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.check.prices import short
from sccl.prove.check.times import Floor, alphas_from
from sccl.prove.check.trees import Spend


def by_late(  # noqa: PLR0913, PLR0917 - a question, a size, and the pairs in question
    machine: Topology,
    collective: Collective,
    chunks: int,
    size_bytes: Fraction,
    inside: Iterable[int],
    sources: Iterable[int],
    apart: Fraction,
    spend: Spend,
) -> Floor:
    """Return a lower bound on time by the data that arrive late at some ranks.

    Args:
        collective: non-combining; ``chunks`` of its chunks are a rank's buffer.
        inside: the ranks.
        sources: count only data that these ranks alone hold.
        apart: microseconds; count only data at least this far from their destination.

    Raises:
        ValueError: a switch copies, there are no such ranks, no way leads to them or on, or nothing
            counts.
        TooMuchError: that takes too much work.
    """
    if any(switch.copies for switch in machine.switches):
        raise ValueError("a switch copies: one byte that a rank sends may be many deliveries")
    ranks, among = frozenset(inside), frozenset(sources)
    if not ranks or not ranks <= frozenset(range(machine.ranks)):
        raise ValueError("these are not ranks, one or more")
    spend((10 + 10 * len(ranks)) * len(machine.links) + len(among))
    found = _pairs(machine, collective, ranks, among, apart, spend)
    alpha = _least_alpha(machine, ranks)
    into, onward = _into_and_onward(machine, ranks)
    if alpha is None or not into or not onward:
        raise ValueError("no way leads to these ranks, or none from where it leads to the others")
    rate = _rate(machine, into)
    served = min(_rate(machine, onward), min(found.most, len(ranks) - 1) * rate)
    first = found.soonest + alpha
    changes = [
        (apart, rate),
        (apart + 2 * alpha, -rate),
        (first, served),
        (first + alpha, -served),
        (first + alpha, found.most * rate),
    ]
    share = Fraction(found.count, chunks)
    at, steepest = completion(sorted(changes), share * size_bytes)
    return Floor(size_bytes, at, share / steepest)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The counted pairs of data and ranks.

    Attributes:
        count: number of pairs of a chunk and a rank that wants it.
        most: maximum number of ranks for one chunk.
        soonest: earliest possible arrival of any of them.
    """

    count: int
    most: int
    soonest: Fraction


def _pairs(  # noqa: PLR0913, PLR0917 - what the claim says
    machine: Topology,
    collective: Collective,
    ranks: frozenset[int],
    among: frozenset[int],
    apart: Fraction,
    spend: Spend,
) -> _Pairs:
    """Return the counted pairs.

    Raises:
        ValueError: there are none, or some can arrive only later than ``apart``.
    """
    classes = collective.classes()
    spend(4 * len(classes))
    count, most, soonest = 0, 0, list[Fraction]()
    known: dict[frozenset[int], dict[int, Fraction]] = {}
    for (held, wanted), own in classes.items():
        holders, wanting = frozenset[int](held), frozenset[int](wanted) & ranks
        if not wanting or not holders <= among - ranks:
            continue
        if holders not in known:
            spend(10 * len(machine.links))
            known[holders] = alphas_from(machine, holders)
        far = known[holders]
        many = sum(1 for rank in wanting if rank in far and far[rank] >= apart)
        if many:
            count += many * collective.amount(own)
            most = max(most, many)
            soonest.append(min(far[rank] for rank in ranks if rank in far))
    if not count:
        raise ValueError("these ranks need no data from the sources at this distance")
    if apart < min(soonest):
        raise ValueError(f"the smallest distance is {short(min(soonest))} us")
    return _Pairs(count, most, min(soonest))


def _least_alpha(machine: Topology, ranks: frozenset[int]) -> Fraction | None:
    """Return an alpha that no way from one of some ranks to another is below. None: no way is."""
    each = ((rank, alphas_from(machine, [rank])) for rank in ranks)
    return min((far[to] for rank, far in each for to in ranks - {rank} if to in far), default=None)


def _into_and_onward(machine: Topology, ranks: frozenset[int]) -> tuple[list[Edge], list[Edge]]:
    """Return the last links of ways from outside, and the first of ways on from where they lead.

    More links than these would only prove less.
    """
    everyone = frozenset(range(machine.ranks))
    outside = _by_switches(machine, everyone - ranks)
    into = [k.edge for k in machine.links if k.src in outside and k.dst in ranks]
    gates = {dst for _, dst in into}
    leading = _by_switches(machine, ranks, backwards=True)
    onward = [k.edge for k in machine.links if k.src in gates and k.dst in leading]
    return into, onward


def _by_switches(
    machine: Topology, starts: frozenset[int], *, backwards: bool = False
) -> frozenset[int]:
    """Return some ranks, and the switches to which ways from them lead; backwards: to them."""
    out: dict[int, list[int]] = {}
    for link in machine.links:
        u, v = link.edge[::-1] if backwards else link.edge
        if v >= machine.ranks:
            out.setdefault(u, []).append(v)
    found = set(starts)
    queue = sorted(starts)
    for node in queue:  # grows while it is walked
        queue += (more := [v for v in dict.fromkeys(out.get(node, ())) if v not in found])
        found.update(more)
    return frozenset(found)


def _rate(machine: Topology, edges: Iterable[Edge]) -> Fraction:
    """Return the total rate of links, bytes per microsecond."""
    rates = {k.edge: 1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in machine.links}
    return sum((rates[edge] for edge in edges), Fraction(0))
