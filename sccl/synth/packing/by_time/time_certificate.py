"""Certificates of minimum times: cuts, prices of links in slots, and schedules near the bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf
from pathlib import Path

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bound import require_at_least_bound
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
from sccl.core.files.schedules import text_pieces
from sccl.core.ids import Edge
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.errors import TooLargeError
from sccl.prove.bounds.any_class import exchange_demand
from sccl.prove.bounds.time_cuts import CutSides, TimeCut, completion_time_bound
from sccl.prove.check.ingress_relay_check import ingress_relay_bound
from sccl.prove.check.time_bounds import LinearTimeBound, constraint_rates, price_time_bound
from sccl.prove.check.time_claims import claimed_bound
from sccl.prove.check.work import TooMuchError, Work
from sccl.synth.common.claims import bound_claims, file_prefix, write_claims
from sccl.synth.limits import TIME_PRICE_SCALE
from sccl.synth.packing.by_time.ingress_relay import strongest_ingress_relay
from sccl.synth.packing.by_time.lower_bounds import (
    LowerBoundSearch,
    SlotPriceProof,
    restricted_search,
    select_engine,
)
from sccl.synth.packing.by_time.time_bound_curve import FLOAT_MARGIN
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem

_PRICE_SCALE = TIME_PRICE_SCALE << 2  # fractions allow finer prices than 64 bits do


@dataclass(frozen=True, slots=True)
class TimeCertificate:
    """A written certificate of times.

    Attributes:
        file: File of its claims.
        lower_bounds: Proved lower bound in microseconds for each size.
    """

    file: Path
    lower_bounds: Mapping[int, Fraction]


def write_time_certificate(
    topology: Topology, spec: Spec, results: Mapping[int, Solution], folder: Path
) -> TimeCertificate:
    """Write lower bounds on the time of plans at some sizes, and schedules near them.

    Args:
        results: Result for each size, the bytes of a rank's buffer.

    Raises:
        InputError: The folder cannot be written, or contains another certificate.
    """
    lower_bounds: dict[int, Fraction] = {}

    def make(unfinished: Path) -> Sequence[Claim]:
        claims: list[Claim] = []
        cuts = _CutClaims(topology, spec)
        for size, result in sorted(results.items()):
            claims += cuts.claims(size, claims)
            for more in (_ingress_relay_claim, price_claim):
                if (
                    result.bound.value
                    and _claimed_bound(claims, size) < result.bound.value * FLOAT_MARGIN
                ):
                    claim = more(topology, dual_of(spec), size)
                    claims += [claim] if claim else []
        for size, result in sorted(results.items()):
            lower_bounds[size] = _claimed_bound(claims, size)
            claims += _schedule_claims(unfinished, topology, spec, size, result, lower_bounds[size])
        return claims

    return TimeCertificate(write_claims(folder, topology, spec, make), lower_bounds)


def _claimed_bound(claims: Sequence[Claim], size_bytes: int) -> Fraction:
    floors = [
        claimed_bound(claim).us(size_bytes) for claim in claims if isinstance(claim, TimeWire)
    ]
    return max(floors, default=Fraction(0))


def _schedule_claims(  # noqa: PLR0913, PLR0917 - independent inputs
    folder: Path,
    topology: Topology,
    spec: Spec,
    size_bytes: int,
    result: Solution,
    lower_bound: Fraction,
) -> Iterator[Claim]:
    """Write a schedule, and yield the claims of its time and of its lower bound.

    Raises:
        ContradictionError: The schedule takes less than the lower bound.
    """
    schedule = result.plan
    assert isinstance(schedule, Schedule)
    file = f"{file_prefix(topology, spec)}-{size_bytes}.json"
    write_pieces_atomically(folder / file, (piece.encode() for piece in text_pieces(schedule)))
    finish = schedule.finish_us
    require_at_least_bound(
        finish,
        lower_bound,
        result=f"the completion time of the schedule of {size_bytes} bytes",
        limit="the lower bound that is certified",
        unit="us",
    )
    took = str(finish)
    yield ScheduleClaimWire(size_bytes=size_bytes, finish_us=took, file=file)
    if lower_bound:
        yield TimePointWire(size_bytes=size_bytes, finish_us=took, at_least_us=str(lower_bound))


class _CutClaims:
    """The claims of bounds without prices of slots."""

    def __init__(self, topology: Topology, spec: Spec) -> None:
        self.topology, self.spec = topology, spec
        self.time_bound = completion_time_bound(topology, spec)
        self.bandwidth_cuts: tuple[TimeCut, ...] = ()
        if dual_of(spec).phases > 1 and not topology.switches:  # this cut gives R/C of all plans
            single_ranks = tuple(frozenset([rank]) for rank in range(topology.ranks))
            share = exchange_demand(spec.at(spec.unit), single_ranks)
            pipes = tuple(
                (Fraction(str(k.alpha_us)), 1000 * k.lanes * Fraction(str(k.gb_per_s)))
                for k in topology.links
            )
            self.bandwidth_cuts = (TimeCut(share, tuple(sorted(pipes)), single_ranks),)

    def claims(self, size_bytes: int, before: Sequence[Claim]) -> Iterator[Claim]:
        """Yield the strongest claim for a size, unless earlier claims are as strong."""
        crossings = (*self.time_bound.cuts, *self.bandwidth_cuts)
        best = max(crossings, key=lambda crossing: crossing.us(size_bytes), default=None)
        total_us, each = Fraction(0), self.time_bound.us_per_byte
        if each and not self.bandwidth_cuts:
            total_us = self.time_bound.alpha_us + each * size_bytes
        cut = best.us(size_bytes) if best else Fraction(0)
        if _claimed_bound(before, size_bytes) >= max(total_us, cut):
            return
        if best is None or total_us > cut:
            if not any(isinstance(claim, BandwidthWire) for claim in before):
                bounds = bound_claims(self.topology, self.spec)
                yield from (claim for claim in bounds if isinstance(claim, BandwidthWire))
            yield TimeBandwidthWire(
                **_bound_fields(LinearTimeBound(Fraction(size_bytes), total_us, each))
            )
            return
        fields = _bound_fields(
            LinearTimeBound(Fraction(size_bytes), cut, best.us_per_byte(size_bytes))
        )
        if isinstance(best.cut, CutSides):
            left, sources, goals = (
                tuple(sorted(ranks)) for ranks in (best.cut.left, best.cut.sources, best.cut.goals)
            )
            yield TimeCutWire(**fields, left=left, sources=sources, goals=goals)
        else:
            groups = tuple(tuple(sorted(group)) for group in best.cut)
            yield TimeGroupsWire(**fields, groups=groups)


def _bound_fields(floor: LinearTimeBound) -> dict[str, str]:
    return {
        "from_bytes": str(floor.from_bytes),
        "at_least_us": str(floor.lower_bound_us),
        "us_per_byte": str(floor.us_per_byte),
    }


def _ingress_relay_claim(topology: Topology, dual: Dual, size_bytes: int) -> TimeLateWire | None:
    """Return the claim for a size from data that arrive late at a chassis. None: none applies."""
    if dual.phases > 1:
        return None
    machine = topology.reversed() if dual.on_reversed else topology
    problem = build_flow_problem(machine, dual, size_bytes)
    bound = strongest_ingress_relay(problem)
    if bound is None:
        return None
    relay = bound.proof
    inside, sources = tuple(sorted(relay.inside)), tuple(sorted(relay.sources))
    chunks = problem.collective.chunks * dual.chunk_factor
    (work := Work()).begin()
    size = Fraction(size_bytes)
    try:
        pairs = (inside, sources, relay.apart)
        floor = ingress_relay_bound(machine, problem.collective, chunks, size, *pairs, work.spend)
    except (TooMuchError, ValueError):
        return None
    fields, apart = _bound_fields(floor), str(relay.apart)
    return TimeLateWire(**fields, machine=0, inside=inside, sources=sources, apart=apart)


def price_claim(topology: Topology, dual: Dual, size_bytes: int) -> TimePricesWire | None:
    """Return the claim for a size from prices of links in slots. None: no stronger than cuts."""
    if topology.switches or dual.phases > 1:
        return None
    machine = topology.reversed() if dual.on_reversed else topology
    problem = build_flow_problem(machine, dual, size_bytes)
    time_bound = completion_time_bound(machine, dual.spec, backwards=dual.on_reversed)
    floor = time_bound.us(Fraction(size_bytes, dual.chunk_factor))
    try:
        engine = select_engine(problem)
    except TooLargeError:
        search = restricted_search(problem, floor, inf)
    else:
        search = LowerBoundSearch(problem, engine, floor)
    if search is None:
        return None
    search.raise_bound()
    return _exact_price_claim(problem, dual, size_bytes, search.proof) if search.proof else None


def _exact_price_claim(
    problem: FlowProblem, dual: Dual, size_bytes: int, proof: SlotPriceProof
) -> TimePricesWire | None:
    """Return the exact claim from prices: the largest time that they prove for the given bytes."""
    prices = _slot_prices(problem, proof)
    chunks = problem.collective.chunks * dual.chunk_factor
    goals = None if proof.targets is None else tuple(sorted(proof.targets))

    def floor(us: Fraction, middle: int | None) -> LinearTimeBound:
        (work := Work()).begin()
        borders = _slot_borders(proof.borders, us)
        return price_time_bound(
            problem.topology, problem.collective, chunks, borders, prices, middle, work.spend, goals
        )

    low, high = ((proof.begin * n + proof.end * (3 - n)) / 3 for n in (2, 1))
    try:
        low_bytes, high_bytes = (floor(us, None).from_bytes for us in (low, high))
        if low_bytes >= high_bytes:
            return None
        us = low + (size_bytes - low_bytes) * (high - low) / (high_bytes - low_bytes)
        nearly = (proof.end - proof.begin) / _PRICE_SCALE
        us = min(max(us, proof.begin + nearly), proof.end - nearly)
        borders = _slot_borders(proof.borders, us)
        middle = _growing_slot(problem.topology, borders, prices)
        proven_floor = floor(us, middle)
    except (TooMuchError, ValueError):  # too many sets of ranks for the checker
        return None
    if proven_floor.from_bytes > size_bytes:
        return None
    return TimePricesWire(
        **_bound_fields(proven_floor),
        machine=0,
        borders=tuple(map(str, borders)),
        middle=middle,
        prices=tuple((constraint_name(key), slot, str(price)) for key, slot, price in prices),
        goals=goals,
    )


def _slot_prices(
    problem: FlowProblem, proof: SlotPriceProof
) -> list[tuple[ConstraintKey, int, Fraction]]:
    """Return the positive prices of constraints in slots, as whole numbers."""
    keys: dict[frozenset[Edge], tuple[Fraction, ConstraintKey]] = {}
    for key, (edges, rate) in constraint_rates(problem.topology).items():
        edges_, entry = frozenset(edges), keys.get(frozenset(edges))
        if entry is None or rate < entry[0]:
            keys[edges_] = (rate, key)
    floats = proof.packing.prices
    dearest = float(floats.max(initial=0.0)) or 1.0
    return [
        (keys[member][1], slot, Fraction(price))
        for i, resource in enumerate(problem.resources)
        for slot in range(floats.shape[1])
        if (price := round(float(floats[i, slot]) / dearest * _PRICE_SCALE)) > 0
        for member in resource.orbit
    ]


def _slot_borders(sums: frozenset[Fraction], us: Fraction) -> list[Fraction]:
    inside = {at for s in sums for at in (s, us - s) if 0 < at < us}
    return [Fraction(0), *sorted(inside), us]


def _growing_slot(
    topology: Topology,
    borders: Sequence[Fraction],
    prices: Sequence[tuple[ConstraintKey, int, Fraction]],
) -> int | None:
    """Return a priced slot that grows with the total time. None: there is none."""
    longest = max(Fraction(str(link.alpha_us)) for link in topology.links)
    priced = {slot for _, slot, _ in prices}
    for slot, (begin, end) in enumerate(pairwise(borders)):
        if end - begin > longest and slot in priced:
            return slot
    return None
