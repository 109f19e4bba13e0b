"""What comes late to a chassis is not sent on twice: a time that no schedule beats.

Take a chassis of n ranks, who all want some bytes from outside. Ways within it have an alpha of a
or more, and nothing from outside is there before d. Let all be there by T. A byte that comes first
later than T - 2a goes on once at most, for what is sent on again arrives after T. So each of the
ranks has it by a way from outside, or from a rank that has: from one to which such ways lead. Those
carry R bytes a microsecond into the chassis, and the ways on from these ranks O. Of S bytes

- R (T - 2a - d) at most come sooner, and Y, all others, are late;
- n Y deliveries are made: R 2a at most from outside, after T - 2a, and O a within the chassis, for
  what is sent on leaves between T - 2a and T - a.

Hence n (S - R (T - 2a - d)) <= O a + 2 R a. Where T - 2a is before d, all are late, and there is
less time for deliveries: n S <= O (T - a - d) + R (T - d), and no O before d + a. Links that are of
use for other things as well only carry less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from sccl.synth.flows.problem import FluidProblem


@dataclass(frozen=True, slots=True)
class Late:
    """What comes late somewhere.

    Attributes:
        us: what no schedule takes less than.
        inside: the chassis to which it comes.
        sources: what only these have is counted.
    """

    us: Fraction
    inside: frozenset[int]
    sources: frozenset[int]


def late_us(problem: FluidProblem) -> Fraction:
    """Return the microseconds that no schedule takes less than, by what comes late; 0: nothing."""
    found = latest(problem)
    return found.us if found else Fraction(0)


def latest(problem: FluidProblem) -> Late | None:
    """Return what comes late such that it takes the most; None: nothing does.

    Where a switch copies nothing is said: one byte out of a rank may be many deliveries.
    """
    topology = problem.topology
    if any(switch.copies for switch in topology.switches):
        return None
    each = (frozenset(map(int, inside)) for inside in topology.chassis)
    every = (late for inside in each for late in _of(problem, inside))
    return max(every, key=lambda late: late.us, default=None)


def _of(problem: FluidProblem, inside: frozenset[int]) -> Iterator[Late]:
    """Yield what is known of a chassis: of all that comes to it, and of what comes from afar."""
    entering = [w for w, (u, v) in enumerate(problem.edges) if u not in inside and v in inside]
    gates = {problem.edges[w][1] for w in entering}
    within = [w for w, (u, v) in enumerate(problem.edges) if u in inside and v in inside]
    onward = [w for w in within if problem.edges[w][0] in gates]
    if not entering or not within:
        return
    into = _rate(problem, {problem.ways[w][-1] for w in entering})
    out = _rate(problem, {problem.ways[w][0] for w in onward})
    alpha = min(problem.alpha[w] for w in within)
    far = problem.distances(sorted(inside), backwards=True)
    sizes = _sizes(problem, inside, far)
    for soonest in sizes:
        size = sum((s for d, s in sizes.items() if d >= soonest), Fraction(0))
        us = _least(len(inside), size, soonest, alpha, into, out)
        farther = frozenset(rank for rank, d in far.items() if rank not in inside and d >= soonest)
        yield Late(us, inside, farther)


def _rate(problem: FluidProblem, links: Iterable[int]) -> Fraction:
    """Return how many bytes links carry in a microsecond, all together."""
    found = (problem.topology.links[link] for link in links)
    return sum((1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in found), Fraction(0))


def _sizes(
    problem: FluidProblem, inside: frozenset[int], far: dict[int, Fraction]
) -> dict[Fraction, Fraction]:
    """Return the bytes that all of a chassis want from outside, by how far they are from it."""
    found: dict[Fraction, Fraction] = {}
    for commodity in problem.commodities:
        for (held, wanted), _ in commodity.members:
            holders, wants = frozenset(map(int, held)), frozenset(map(int, wanted))
            if not holders & inside and inside <= wants:
                soonest = min(far[rank] for rank in holders if rank in far)
                found[soonest] = found.get(soonest, Fraction(0)) + commodity.size
    return found


def _least(  # noqa: PLR0913, PLR0917 - n, S, d, a, R and O of what is proved above
    many: int, size: Fraction, soonest: Fraction, alpha: Fraction, into: Fraction, out: Fraction
) -> Fraction:
    """Return the soonest that it can all be there."""
    us = soonest + many * size / into
    if us > soonest + alpha:
        us = soonest + (many * size + out * alpha) / (out + into)
    if us > soonest + 2 * alpha:
        us = soonest + 2 * alpha + (size - (out + 2 * into) * alpha / many) / into
    return us
