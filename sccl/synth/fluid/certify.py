"""Certificates of least times: cuts, prices of links in slots, and schedules near them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf
from pathlib import Path

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.contradictions import require_not_below
from sccl.core.files.claims import (
    BandwidthWire,
    Claim,
    ScheduleClaimWire,
    TimeBandwidthWire,
    TimeCutWire,
    TimeGroupsWire,
    TimeLateWire,
    TimePointWire,
    TimePricesWire,
    TimeWire,
)
from sccl.core.files.disk import write_pieces_atomically
from sccl.core.files.schedules import pieces
from sccl.core.ids import Edge
from sccl.core.outcome import Found
from sccl.core.schedule import Schedule
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.errors import TooLargeError
from sccl.prove.bounds import Crossing, Sides, least_time
from sccl.prove.bounds.allreduce import told_between
from sccl.prove.check.late import by_late
from sccl.prove.check.least import floor_of
from sccl.prove.check.times import Floor, by_prices, rates_of
from sccl.prove.check.work import TooMuchError, Work
from sccl.synth.claims import base_name, bound_claims, write_claims
from sccl.synth.flows.problem import FluidProblem, pose
from sccl.synth.fluid.floors import (
    FloorSearch,
    SlotProof,
    engine_of,
    narrowed_search,
    unheard,
    unplaced,
)
from sccl.synth.fluid.late import latest

_FINE = 2**32
"""The largest price as an integer."""

_CLOSE = 1 - Fraction(1, 10**8)
"""Fraction of a bound to search by prices, if cuts do not prove it."""

_PS_PER_US = 10**6


@dataclass(frozen=True, slots=True)
class TimeCertificate:
    """A written certificate of times.

    Attributes:
        file: file of its claims.
        least: proved lower bound for each size, microseconds.
    """

    file: Path
    least: Mapping[int, Fraction]


def write_time_certificate(
    topology: Topology, spec: Spec, found: Mapping[int, Found], folder: Path
) -> TimeCertificate:
    """Write lower bounds on the time of plans at some sizes, and schedules near them.

    Args:
        found: by the bytes of a rank's buffer.

    Raises:
        InputError: the folder cannot be written, or contains another certificate.
    """
    least: dict[int, Fraction] = {}

    def make(unfinished: Path) -> Sequence[Claim]:
        """Write the files of all schedules, and return the claims."""
        claims: list[Claim] = []
        cuts = _Cuts(topology, spec)
        for size, one in sorted(found.items()):
            claims += cuts.claims(size, claims)
            for more in (_late, priced):
                if one.bound.least and _known(claims, size) < one.bound.least * _CLOSE:
                    claim = more(topology, dual_of(spec), size)
                    claims += [claim] if claim else []
        for size, one in sorted(found.items()):
            least[size] = _known(claims, size)
            claims += _near(unfinished, topology, spec, size, one, least[size])
        return claims

    return TimeCertificate(write_claims(folder, topology, spec, make), least)


def _known(claims: Sequence[Claim], size_bytes: int) -> Fraction:
    """Return the lower bound for a size by some claims."""
    floors = [floor_of(claim).us(size_bytes) for claim in claims if isinstance(claim, TimeWire)]
    return max(floors, default=Fraction(0))


def _near(  # noqa: PLR0913, PLR0917 - a question, a size, what was found, and what is claimed
    folder: Path,
    topology: Topology,
    spec: Spec,
    size_bytes: int,
    found: Found,
    least: Fraction,
) -> Iterator[Claim]:
    """Write a schedule, and yield that it is there, and near the least time.

    Raises:
        ContradictionError: it takes less than the lower bound.
    """
    schedule = found.plan
    assert isinstance(schedule, Schedule)
    file = f"{base_name(topology, spec)}-{size_bytes}.json"
    write_pieces_atomically(folder / file, (piece.encode() for piece in pieces(schedule)))
    finish = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    require_not_below(
        finish,
        least,
        result=f"the completion time of the schedule of {size_bytes} bytes",
        limit="the lower bound that is certified",
        unit="us",
    )
    took = str(finish)
    yield ScheduleClaimWire(size_bytes=size_bytes, finish_us=took, file=file)
    if least:
        yield TimePointWire(size_bytes=size_bytes, finish_us=took, at_least_us=str(least))


class _Cuts:
    """The bounds without prices of slots."""

    def __init__(self, topology: Topology, spec: Spec) -> None:
        self.topology, self.spec = topology, spec
        self.least = least_time(topology, spec)
        self.alone: tuple[Crossing, ...] = ()
        if dual_of(spec).phases > 1 and not topology.switches:  # R/C of all plans is that
            alone = tuple(frozenset([rank]) for rank in range(topology.ranks))
            share = told_between(spec.at(spec.unit), alone)
            pipes = tuple(
                (Fraction(str(k.alpha_us)), 1000 * k.lanes * Fraction(str(k.gb_per_s)))
                for k in topology.links
            )
            self.alone = (Crossing(share, tuple(sorted(pipes)), alone),)

    def claims(self, size_bytes: int, before: Sequence[Claim]) -> Iterator[Claim]:
        """Yield the strongest claim for a size, unless earlier claims are as strong."""
        crossings = (*self.least.crossings, *self.alone)
        best = max(crossings, key=lambda one: one.us(size_bytes), default=None)
        whole, each = Fraction(0), self.least.us_per_byte
        if each and not self.alone:
            whole = self.least.alpha_us + each * size_bytes
        cut = best.us(size_bytes) if best else Fraction(0)
        if _known(before, size_bytes) >= max(whole, cut):
            return
        if best is None or whole > cut:
            if not any(isinstance(claim, BandwidthWire) for claim in before):
                bounds = bound_claims(self.topology, self.spec)
                yield from (claim for claim in bounds if isinstance(claim, BandwidthWire))
            yield TimeBandwidthWire(**_told(Floor(Fraction(size_bytes), whole, each)))
            return
        told = _told(Floor(Fraction(size_bytes), cut, best.us_per_byte(size_bytes)))
        if isinstance(best.of, Sides):
            left, sources, goals = (
                tuple(sorted(some)) for some in (best.of.left, best.of.sources, best.of.goals)
            )
            yield TimeCutWire(**told, left=left, sources=sources, goals=goals)
        else:
            groups = tuple(tuple(sorted(group)) for group in best.of)
            yield TimeGroupsWire(**told, groups=groups)


def _told(floor: Floor) -> dict[str, str]:
    return {
        "from_bytes": str(floor.from_bytes),
        "at_least_us": str(floor.at_least_us),
        "us_per_byte": str(floor.us_per_byte),
    }


def _late(topology: Topology, dual: Dual, size_bytes: int) -> TimeLateWire | None:
    """Return the claim for a size by data that arrive late at a chassis. None: no such bound."""
    if dual.phases > 1:
        return None
    machine = topology.reversed() if dual.on_reversed else topology
    problem = pose(machine, dual, size_bytes)
    late = latest(problem)
    if late is None:
        return None
    inside, sources = tuple(sorted(late.inside)), tuple(sorted(late.sources))
    chunks = problem.collective.chunks * dual.chunk_factor
    (work := Work()).begin()
    size = Fraction(size_bytes)
    try:
        pairs = (inside, sources, late.apart)
        found = by_late(machine, problem.collective, chunks, size, *pairs, work.spend)
    except (TooMuchError, ValueError):
        return None
    told, apart = _told(found), str(late.apart)
    return TimeLateWire(**told, machine=0, inside=inside, sources=sources, apart=apart)


def priced(topology: Topology, dual: Dual, size_bytes: int) -> TimePricesWire | None:
    """Return the claim for a size by prices of links in slots. None: no better than cuts."""
    if topology.switches or dual.phases > 1:
        return None
    machine = topology.reversed() if dual.on_reversed else topology
    problem = pose(machine, dual, size_bytes)
    least = least_time(machine, dual.spec, backwards=dual.on_reversed)
    floor = least.us(Fraction(size_bytes, dual.chunk_factor))
    try:
        engine = engine_of(problem)
    except TooLargeError:
        search = narrowed_search(problem, floor, inf)
    else:
        search = FloorSearch(problem, engine, floor, 0.0, inf, inf, unheard, unplaced)
    if search is None:
        return None
    search.raise_floor()
    return _exactly(problem, dual, size_bytes, search.proof) if search.proof else None


def _exactly(
    problem: FluidProblem, dual: Dual, size_bytes: int, proof: SlotProof
) -> TimePricesWire | None:
    """Return the exact claim by prices: the time that buys exactly the given bytes."""
    prices = _prices(problem, proof)
    chunks = problem.collective.chunks * dual.chunk_factor
    goals = None if proof.goals is None else tuple(sorted(proof.goals))

    def floor(us: Fraction, middle: int | None) -> Floor:
        """Return the lower bound by a time."""
        (work := Work()).begin()
        borders = _borders(proof.borders, us)
        return by_prices(
            problem.topology, problem.collective, chunks, borders, prices, middle, work.spend, goals
        )

    low, high = ((proof.begin * n + proof.end * (3 - n)) / 3 for n in (2, 1))
    try:
        here, there = (floor(us, None).from_bytes for us in (low, high))
        if here >= there:
            return None
        us = low + (size_bytes - here) * (high - low) / (there - here)
        nearly = (proof.end - proof.begin) / _FINE
        us = min(max(us, proof.begin + nearly), proof.end - nearly)
        borders = _borders(proof.borders, us)
        middle = _middle(problem.topology, borders, prices)
        found = floor(us, middle)
    except (TooMuchError, ValueError):  # too many sets of ranks for the checker
        return None
    if found.from_bytes > size_bytes:
        return None
    return TimePricesWire(
        **_told(found),
        machine=0,
        borders=tuple(map(str, borders)),
        middle=middle,
        prices=tuple((constraint_name(key), slot, str(price)) for key, slot, price in prices),
        goals=goals,
    )


def _prices(problem: FluidProblem, proof: SlotProof) -> list[tuple[ConstraintKey, int, Fraction]]:
    """Return the price of each constraint in each slot, as whole numbers."""
    keys: dict[frozenset[Edge], tuple[Fraction, ConstraintKey]] = {}
    for key, (edges, rate) in rates_of(problem.topology).items():
        edges_, known = frozenset(edges), keys.get(frozenset(edges))
        if known is None or rate < known[0]:
            keys[edges_] = (rate, key)
    floats = proof.packing.prices
    dearest = float(floats.max(initial=0.0)) or 1.0
    return [
        (keys[thing][1], slot, Fraction(whole))
        for i, resource in enumerate(problem.resources)
        for slot in range(floats.shape[1])
        if (whole := round(float(floats[i, slot]) / dearest * _FINE)) > 0
        for thing in resource.things
    ]


def _borders(sums: frozenset[Fraction], us: Fraction) -> list[Fraction]:
    """Return the borders of slots of a time."""
    inside = {at for s in sums for at in (s, us - s) if 0 < at < us}
    return [Fraction(0), *sorted(inside), us]


def _middle(
    topology: Topology,
    borders: Sequence[Fraction],
    prices: Sequence[tuple[ConstraintKey, int, Fraction]],
) -> int | None:
    """Return the slot that is longer in more time, where one is and has prices."""
    longest = max(Fraction(str(link.alpha_us)) for link in topology.links)
    priced = {slot for _, slot, _ in prices}
    for slot, (begin, end) in enumerate(pairwise(borders)):
        if end - begin > longest and slot in priced:
            return slot
    return None
