"""Check claims about times: lower bounds for every plan, and schedules within a gap of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from sccl.core.clock import AlphaModel
from sccl.core.files.claims import (
    BandwidthWire,
    Claim,
    ScheduleClaimWire,
    TimeBandwidthWire,
    TimeClaim,
    TimeCutWire,
    TimeGroupsWire,
    TimeLateWire,
    TimePointWire,
    TimeWire,
)
from sccl.core.formatting import format_count
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.check.case import Case, read_regular
from sccl.prove.check.constraint_prices import constraint_finder, fraction_text
from sccl.prove.check.ingress_relay_check import ingress_relay_bound
from sccl.prove.check.orbit_expansion import SEND_OPERATIONS
from sccl.prove.check.time_bounds import (
    LinearTimeBound,
    bandwidth_time_bound,
    cut_time_bound,
    group_time_bound,
    is_valid_for_both_alphas,
    price_time_bound,
)
from sccl.prove.check.timed_trees import Spend


def check_time_bound(case: Case, claim: TimeClaim, claims: Sequence[Claim], spend: Spend) -> str:
    """Check a lower bound on the completion time, and return the method of the check.

    Args:
        claims: The earlier claims that hold.

    Raises:
        ValueError: The bound is not proved.
        TooMuchError: The check takes too much work.
    """
    proves, how = _recompute_bound(case, claim, claims, spend)
    claimed = claimed_bound(claim)
    if proves.us(claimed.from_bytes) < claimed.lower_bound_us:
        proved_us = fraction_text(proves.us(claimed.from_bytes))
        raise ValueError(
            f"for {fraction_text(claimed.from_bytes)} bytes only {proved_us} us are proved"
        )
    if proves.us_per_byte < claimed.us_per_byte:
        raise ValueError(
            f"only {fraction_text(proves.us_per_byte)} us for each byte more are proved"
        )
    return how


def _recompute_bound(
    case: Case, claim: TimeClaim, claims: Sequence[Claim], spend: Spend
) -> tuple[LinearTimeBound, str]:
    machine, size = case.topology, Fraction(claim.from_bytes)
    if isinstance(claim, TimeCutWire):
        sides = (claim.left, claim.sources, claim.goals)
        collective = case.spec.at(case.spec.unit)
        return cut_time_bound(
            machine, collective, size, sides, spend
        ), "links out of the cut, by use"
    if isinstance(claim, TimeGroupsWire):
        collective = case.spec.at(case.spec.unit)
        floor = group_time_bound(machine, collective, size, claim.groups, spend)
        return floor, "links between the groups, by use"
    if isinstance(claim, TimeBandwidthWire):
        bounds = [Fraction(c.at_least) for c in claims if isinstance(c, BandwidthWire)]
        if not bounds:
            raise ValueError("no earlier claim bounds R/C from below")
        return bandwidth_time_bound(machine, size, max(bounds)), "R/C, and an alpha"
    machine = case.machine(claim.machine)
    chunks = case.unit.chunks * case.dual.chunk_factor
    if isinstance(claim, TimeLateWire):
        counted_ = (claim.inside, claim.sources, Fraction(claim.apart))
        floor = ingress_relay_bound(machine, case.unit, chunks, size, *counted_, spend)
        return floor, f"data that must be relayed among {format_count(len(claim.inside), 'rank')}"
    key_of = constraint_finder(machine)
    prices = [(key_of(name), slot, Fraction(price)) for name, slot, price in claim.prices]
    if case.phases[claim.machine].on_reversed:
        _require_uniform_alpha(machine, {name for name, _, _ in claim.prices})
    borders = [Fraction(border) for border in claim.borders]
    arguments = (machine, case.unit, chunks, borders, prices, claim.middle)
    floor = price_time_bound(*arguments, spend, claim.goals)
    few = "" if claim.goals is None else f" to {format_count(len(claim.goals), 'rank')}"
    return floor, f"cheapest timed trees{few} in {format_count(len(borders) - 1, 'slot')}"


def _require_uniform_alpha(machine: Topology, names: Collection[str]) -> None:
    """Check that budgets with prices have links of one alpha, since schedules are read backwards.

    A transfer from s to s + p whose bytes arrive alpha later departs at F - s - p - alpha, seen
    from the finish F. Its bytes pass alpha after that. If all links of a budget have one alpha, all
    of them shift the use of the budget by the same time. Otherwise prices of its slots prove
    nothing.

    Raises:
        ValueError: The links of a budget have different alphas.
    """
    alphas = {link.edge: link.alpha_us for link in machine.links}
    for budget in machine.budgets:
        if budget.name in names and len({alphas[edge] for edge in budget.edges}) > 1:
            raise ValueError(
                f"budget {budget.name[:60]!r} has a price and links with different alphas: in the "
                "reversed schedule they use it in other slots"
            )


def claimed_bound(claim: TimeWire) -> LinearTimeBound:
    """Return the lower bound that a claim states."""
    return LinearTimeBound(*map(Fraction, (claim.from_bytes, claim.at_least_us, claim.us_per_byte)))


def check_schedule(case: Case, claim: ScheduleClaimWire, spend: Spend) -> str:
    """Check a claim that a schedule exists, and return the method of the check.

    Raises:
        ValueError: The schedule does not match the claim.
        InputError: Its file is missing or cannot be read.
        TooMuchError: The schedule has too many sends.
    """
    from sccl.core.files.schedules import load_schedule  # noqa: PLC0415 - NumPy is slow to load

    path = case.folder / claim.file
    read_regular(path)
    schedule, intact = load_schedule(path)
    spend(SEND_OPERATIONS * schedule.num_sends)
    if schedule.collective != case.spec.at(schedule.collective.chunks):
        raise ValueError(f"{path.name} is for another collective")
    if not schedule.topology.same_timing(case.topology):
        raise ValueError(f"{path.name} is for another topology")
    sizes = schedule.chunk_bytes
    if isinstance(sizes, int):
        sizes = (sizes,) * schedule.collective.num_chunks
    each = Fraction(claim.size_bytes, schedule.collective.chunks)
    for chunks in schedule.collective.chunk_classes().values():
        if sum(sizes[chunk] for chunk in chunks) < each * schedule.collective.amount(chunks):
            raise ValueError(f"{path.name} carries less than a rank's buffer of that size")
    if wrong := violations(schedule):
        raise ValueError(f"{path.name}: {wrong[0].message}")
    if schedule.clock.model is not AlphaModel.TRAVELS and not is_valid_for_both_alphas(
        case.topology
    ):
        raise ValueError(
            f"alphas occupy links in {path.name}; expected alphas that travel on this machine"
        )
    took = schedule.finish_us
    if took > Fraction(claim.finish_us):
        raise ValueError(f"{path.name} takes {fraction_text(took)} us")
    edited = "" if intact else "; its file was edited after sccl wrote it (its digest differs)"
    return f"{schedule.num_sends} transfers re-executed{edited}"


def check_time_point(claim: TimePointWire, claims: Sequence[Claim]) -> None:
    """Check that the claims imply the claimed schedule time and lower bound.

    Raises:
        ValueError: They do not.
    """
    size, took = claim.size_bytes, Fraction(claim.finish_us)
    if not any(
        isinstance(c, ScheduleClaimWire) and c.size_bytes == size and Fraction(c.finish_us) <= took
        for c in claims
    ):
        raise ValueError("there is no such schedule among the claims that hold")
    floors = [claimed_bound(c).us(size) for c in claims if isinstance(c, TimeWire)]
    if max(floors, default=Fraction(0)) < Fraction(claim.at_least_us):
        raise ValueError(
            f"no claim gives a completion time of {fraction_text(Fraction(claim.at_least_us))} us"
        )
