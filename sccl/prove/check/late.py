"""What comes late to a set of ranks is not sent on twice: what that proves, in exact fractions.

Take n ranks, all of which want some bytes that no one among them has. A *way* leads from a rank to
a rank and passes only switches. A byte enters the set by a way from outside, to a *gate*. No way
among the n has an alpha below a; no byte comes to one of them before d; all is there by T.

1. *Ways on.* Say that a byte comes first later than T - 2a. Whoever has it from one of the n, has
   it from a gate that has it from outside: else it was sent on twice, and came later than T.
2. *Deliveries.* So each of the n has it over a last link of a way from outside, or from a gate. The
   former carry R bytes a microsecond at most, all of them, whatever else passes them; of the first
   links of ways from gates to others of the n all carry O. A switch that does not copy makes one
   delivery of each byte that passes it; where one copies nothing is said.
3. *Time.* What a gate sends on leaves it after d, after T - 2a, and no later than T - a. What comes
   from outside comes after d, and if it is late after T - 2a.
4. If T <= d + 2a all bytes are late: n S <= R (T - d) + O max(0, T - a - d).
5. If T >= d + 2a: R (T - 2a - d) bytes at most are not late, and of the others, by 3,
   n (S - R (T - 2a - d)) <= 2 R a + O a.

Both say how many bytes there are at most, which never falls with T and is the same at d + 2a. So
that time takes S bytes, and each more at least what the steepest part from there on says.

Bytes of a chunk leave one after the other and come alpha later, or more; that a chunk is whole
before it is sent on only makes it later. It is the same whether alphas travel or occupy.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.check.times import Floor, alphas_from
from sccl.prove.check.trees import Spend


def by_late(  # noqa: PLR0913, PLR0917 - a question, a size, and the ranks in question
    machine: Topology,
    collective: Collective,
    chunks: int,
    size_bytes: Fraction,
    inside: Iterable[int],
    sources: Iterable[int],
    spend: Spend,
) -> Floor:
    """Return in what time what comes late to some ranks can have come to all of them.

    Args:
        collective: non-combining, of which ``chunks`` are a rank's buffer.
        inside: the ranks.
        sources: what others than these have, too, does not count.

    Raises:
        ValueError: a switch copies, there are no such ranks, no way leads to them or on, or nothing
            that counts is wanted by all of them.
    """
    if any(switch.copies for switch in machine.switches):
        raise ValueError("a switch copies: one byte that a rank sends may be many deliveries")
    ranks, among = frozenset(inside), frozenset(sources)
    if not ranks or not ranks <= frozenset(range(machine.ranks)):
        raise ValueError("these are not ranks, one or more")
    classes = collective.classes()
    spend((10 + len(ranks)) * len(machine.links) + 4 * len(classes) + len(ranks) + len(among))
    count, holding = 0, set[int]()
    for (held, wanted), own in classes.items():
        holders = frozenset[int](held)
        if holders <= among - ranks and ranks <= frozenset[int](wanted):
            count += collective.amount(own)
            holding |= holders
    if not count:
        raise ValueError("nothing that only the sources have is wanted by all of these ranks")
    far = alphas_from(machine, holding)
    soonest = min((far[rank] for rank in ranks if rank in far), default=None)
    alpha = _least_alpha(machine, ranks)
    into, onward = _into_and_onward(machine, ranks)
    if soonest is None or alpha is None or not into or not onward:
        raise ValueError("no way leads to these ranks, or none from where it leads to the others")
    share = Fraction(count, chunks)
    return _carried(
        len(ranks), size_bytes, share, soonest, alpha, _rate(machine, into), _rate(machine, onward)
    )


def _carried(  # noqa: PLR0913, PLR0917 - n, L, S / L, d, a, R and O of what is proved above
    many: int,
    size_bytes: Fraction,
    share: Fraction,
    soonest: Fraction,
    alpha: Fraction,
    into: Fraction,
    onward: Fraction,
) -> Floor:
    """Return when it is all there."""
    needed = many * share * size_bytes  # deliveries
    if needed <= into * alpha:
        steepest = max(into + onward, many * into)
        return Floor(size_bytes, soonest + needed / into, many * share / steepest)
    needed -= into * alpha
    if needed <= (into + onward) * alpha:
        steepest = max(into + onward, many * into)
        us = soonest + alpha + needed / (into + onward)
        return Floor(size_bytes, us, many * share / steepest)
    needed -= (into + onward) * alpha
    return Floor(size_bytes, soonest + 2 * alpha + needed / (many * into), share / into)


def _least_alpha(machine: Topology, ranks: frozenset[int]) -> Fraction | None:
    """Return an alpha that no way from one of some ranks to another is below; None: no way is."""
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
    """Return what links carry in a microsecond, all of them."""
    rates = {k.edge: 1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in machine.links}
    return sum((rates[edge] for edge in edges), Fraction(0))
