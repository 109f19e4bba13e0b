"""A lower bound from data that arrive late at a chassis, so that they cannot be forwarded twice.

:mod:`sccl.prove.check.ingress_relay_check` contains the proof. This module searches for the
chassis, the sources, and the distance with the strongest bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from sccl.core.bound import Bound, Measure
from sccl.core.topology import Topology
from sccl.synth.packing.flow_problem import FlowProblem, exact_distances

_DistancePair = tuple[Fraction, tuple[Fraction, ...]]
"""How far a chunk is from a chassis, and from each of it that wants it."""


@dataclass(frozen=True, slots=True)
class IngressRelay:
    """Data that arrive late at a chassis, which prove a lower bound on time.

    Attributes:
        inside: Ranks of the chassis.
        sources: Ranks outside. Only data that these ranks alone hold are counted.
        apart: Minimum distance of counted data to their destinations, in microseconds.
    """

    inside: frozenset[int]
    sources: frozenset[int]
    apart: Fraction


IngressRelayBound = Bound[Fraction, IngressRelay]
"""A lower bound on time, in microseconds."""


def ingress_relay_us(problem: FlowProblem) -> Fraction:
    """Return the lower bound from late data in microseconds. 0: there is none."""
    result = strongest_ingress_relay(problem)
    return result.value if result else Fraction(0)


def strongest_ingress_relay(problem: FlowProblem) -> IngressRelayBound | None:
    """Return the strongest lower bound from late data. None: there is none.

    Switches that copy are excluded: one byte that leaves a rank may be delivered many times.
    """
    topology = problem.topology
    if any(switch.copies for switch in topology.switches):
        return None
    images = {image for commodity in problem.commodities for _, image in commodity.members}
    far_from = _link_distances(topology)
    distances = [far_from(commodity.holders) for commodity in problem.commodities]
    done: set[frozenset[int]] = set()
    candidates: list[IngressRelayBound] = []
    for chassis in topology.chassis:
        inside = frozenset(map(int, chassis))
        if inside not in done:  # images of a chassis have the same bound
            done |= {frozenset(image[rank] for rank in inside) for image in images}
            candidates += _chassis_bounds(problem, inside, distances)
    return max(candidates, key=lambda candidate: candidate.value, default=None)


def _chassis_bounds(
    problem: FlowProblem, inside: frozenset[int], distances: Sequence[Mapping[int, Fraction]]
) -> Iterator[IngressRelayBound]:
    """Yield bounds for a chassis: from all data that enter it, and from data of far sources.

    Args:
        distances: For each commodity, the distance of each rank from its first member's holders.
    """
    entering = [w for w, (u, v) in enumerate(problem.edges) if u not in inside and v in inside]
    gates = {problem.edges[w][1] for w in entering}
    within = [w for w, (u, v) in enumerate(problem.edges) if u in inside and v in inside]
    onward = [w for w in within if problem.edges[w][0] in gates]
    if not entering or not within:
        return
    into = _total_rate(problem, {problem.routes[w][-1] for w in entering})
    out = _total_rate(problem, {problem.routes[w][0] for w in onward})
    alpha = _min_alpha(problem, inside)
    near = problem.distances(sorted(inside), backwards=True)
    sizes = _bytes_by_distance(problem, inside, distances)
    for soonest in {soonest for soonest, _ in sizes}:
        later_sizes = {far: size for far, size in sizes.items() if far[0] >= soonest}
        farther = {r for r, d in near.items() if r not in inside and d >= soonest}
        for apart in {d for _, each in later_sizes for d in each}:
            pairs = [
                (sum(d >= apart for d in each), size) for (_, each), size in later_sizes.items()
            ]
            max_count = max(many for many, _ in pairs)
            first = (
                min(d for (d, _), (many, _) in zip(later_sizes, pairs, strict=True) if many) + alpha
            )
            served = min(out, min(max_count, len(inside) - 1) * into)
            changes = [
                (apart, into),
                (apart + 2 * alpha, -into),
                (first, served),
                (first + alpha, max_count * into - served),
            ]
            needed = sum((many * size for many, size in pairs), Fraction(0))
            us = _service_time(sorted(changes), needed)
            proof = IngressRelay(inside, frozenset(farther), apart)
            yield Bound(Measure.TIME_US, us, proof)


def _min_alpha(problem: FlowProblem, inside: frozenset[int]) -> Fraction:
    """Return a lower bound on the alpha of routes between two ranks of a chassis.

    All links are considered, because schedules may use routes over more switches than those of the
    problem.
    """
    far_from = _link_distances(problem.topology)
    each = ((rank, far_from([rank])) for rank in sorted(inside))
    return min(far[to] for rank, far in each for to in inside - {rank} if to in far)


def _link_distances(topology: Topology) -> Callable[[Iterable[int]], dict[int, Fraction]]:
    """Return a function from nodes to the distances of all others: sums of alphas of links."""
    alphas = {link.edge: Fraction(str(link.alpha_us)) for link in topology.links}
    return partial(exact_distances, topology.successors(), alphas)


def _service_time(changes: list[tuple[Fraction, Fraction]], needed: Fraction) -> Fraction:
    """Return the time at which the needed bytes are served, for given (time, change of rate)."""
    rate, at = Fraction(0), Fraction(0)
    for when, more in changes:
        if rate and needed <= rate * (when - at):
            break
        needed -= rate * (when - at)
        rate, at = rate + more, when
    return at + needed / rate


def _total_rate(problem: FlowProblem, links: Iterable[int]) -> Fraction:
    """Return the total rate of links, in bytes per microsecond."""
    pipes = (problem.topology.links[link] for link in links)
    return sum((1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in pipes), Fraction(0))


def _bytes_by_distance(
    problem: FlowProblem, inside: frozenset[int], distances: Sequence[Mapping[int, Fraction]]
) -> dict[_DistancePair, Fraction]:
    """Return the bytes that ranks of a chassis want from outside, by their distances."""
    sizes: dict[_DistancePair, Fraction] = {}
    for commodity, lengths in zip(problem.commodities, distances, strict=True):
        for (held, wanted), image in commodity.members:
            wants = frozenset(map(int, wanted)) & inside
            if not wants or not inside.isdisjoint(map(int, held)):
                continue
            far = {image[rank]: length for rank, length in lengths.items() if rank < len(image)}
            each = tuple(sorted(far[rank] for rank in wants))
            farness = (min(far[rank] for rank in inside if rank in far), each)
            sizes[farness] = sizes.get(farness, Fraction(0)) + commodity.size
    return sizes
