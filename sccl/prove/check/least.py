"""Check claims on times: lower bounds for every plan, and schedules near them."""

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
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.judge import violations
from sccl.prove.check.late import by_late
from sccl.prove.check.plain import SEND
from sccl.prove.check.prices import keys_of, short
from sccl.prove.check.question import Case, read_regular
from sccl.prove.check.times import (
    Floor,
    by_bandwidth,
    by_cut,
    by_groups,
    by_prices,
    holds_for_both,
)
from sccl.prove.check.trees import Spend

_PS_PER_US = 10**6


def at_least(case: Case, claim: TimeClaim, claims: Sequence[Claim], spend: Spend) -> str:
    """Return how a claim on the least time was checked.

    Args:
        claims: those that hold.

    Raises:
        ValueError: it is not proved.
        TooMuchError: it takes too much work to say.
    """
    proves, how = _floor(case, claim, claims, spend)
    claimed = floor_of(claim)
    if proves.us(claimed.from_bytes) < claimed.at_least_us:
        found = short(proves.us(claimed.from_bytes))
        raise ValueError(f"for {short(claimed.from_bytes)} bytes only {found} us are proved")
    if proves.us_per_byte < claimed.us_per_byte:
        raise ValueError(f"only {short(proves.us_per_byte)} us for each byte more are proved")
    return how


def _floor(
    case: Case, claim: TimeClaim, claims: Sequence[Claim], spend: Spend
) -> tuple[Floor, str]:
    machine, size = case.topology, Fraction(claim.from_bytes)
    if isinstance(claim, TimeCutWire):
        sides = (claim.left, claim.sources, claim.goals)
        whole = case.spec.at(case.spec.unit)
        return by_cut(machine, whole, size, sides, spend), "links out of the cut, by use"
    if isinstance(claim, TimeGroupsWire):
        whole = case.spec.at(case.spec.unit)
        found = by_groups(machine, whole, size, claim.groups, spend)
        return found, "links between the groups, by use"
    if isinstance(claim, TimeBandwidthWire):
        known = [Fraction(c.at_least) for c in claims if isinstance(c, BandwidthWire)]
        if not known:
            raise ValueError("no claim before says what R/C is at least")
        return by_bandwidth(machine, size, max(known)), "R/C, and an alpha"
    machine = case.machine(claim.machine)
    chunks = case.unit.chunks * case.dual.chunk_factor
    if isinstance(claim, TimeLateWire):
        counted_ = (claim.inside, claim.sources, Fraction(claim.apart))
        found = by_late(machine, case.unit, chunks, size, *counted_, spend)
        return found, f"data that must be relayed among {counted(len(claim.inside), 'rank')}"
    key_of = keys_of(machine)
    prices = [(key_of(name), slot, Fraction(price)) for name, slot, price in claim.prices]
    if case.phases[claim.machine].on_reversed:
        _require_one_alpha(machine, {name for name, _, _ in claim.prices})
    borders = [Fraction(border) for border in claim.borders]
    what = (machine, case.unit, chunks, borders, prices, claim.middle)
    found = by_prices(*what, spend, claim.goals)
    few = "" if claim.goals is None else f" to {counted(len(claim.goals), 'rank')}"
    return found, f"cheapest timed trees{few} in {counted(len(borders) - 1, 'slot')}"


def _require_one_alpha(machine: Topology, names: Collection[str]) -> None:
    """Check that budgets with prices have links of one alpha, as schedules are read backwards.

    A transfer from s to s + p whose bytes arrive alpha later departs at F - s - p - alpha, seen
    from the finish F. Its bytes pass alpha after that. If all links of a budget have one alpha, the
    budget is used as much later by all of them. Else prices of its slots prove nothing.

    Raises:
        ValueError: the links of one have different alphas.
    """
    alphas = {link.edge: link.alpha_us for link in machine.links}
    for budget in machine.budgets:
        if budget.name in names and len({alphas[edge] for edge in budget.edges}) > 1:
            raise ValueError(
                f"budget {budget.name[:60]!r} has a price, and links of different alphas: read "
                "backwards they use it in other slots than they send in"
            )


def floor_of(claim: TimeWire) -> Floor:
    """Return the lower bound that a claim states."""
    return Floor(*map(Fraction, (claim.from_bytes, claim.at_least_us, claim.us_per_byte)))


def judged(case: Case, claim: ScheduleClaimWire, spend: Spend) -> str:
    """Return how a claim that there is a schedule was checked.

    Raises:
        ValueError: there is none.
        InputError: its file is missing or cannot be read.
        TooMuchError: it is too long.
    """
    from sccl.core.files.schedules import load_schedule  # noqa: PLC0415 - NumPy is slow to load

    path = case.folder / claim.file
    read_regular(path)
    schedule, intact = load_schedule(path)
    spend(SEND * schedule.num_sends)
    if schedule.collective != case.spec.at(schedule.collective.chunks):
        raise ValueError(f"{path.name} is for another collective")
    if not schedule.topology.takes_like(case.topology):
        raise ValueError(f"{path.name} is for another topology")
    sizes = schedule.chunk_bytes
    if isinstance(sizes, int):
        sizes = (sizes,) * schedule.collective.num_chunks
    each = Fraction(claim.size_bytes, schedule.collective.chunks)
    for chunks in schedule.collective.classes().values():
        if sum(sizes[chunk] for chunk in chunks) < each * schedule.collective.amount(chunks):
            raise ValueError(f"{path.name} carries less than a rank's buffer of that size")
    if wrong := violations(schedule):
        raise ValueError(f"{path.name}: {wrong[0].message}")
    if schedule.clock.model is not AlphaModel.TRAVELS and not holds_for_both(case.topology):
        raise ValueError(
            f"alphas occupy links in {path.name}; expected alphas that travel on this machine"
        )
    took = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    if took > Fraction(claim.finish_us):
        raise ValueError(f"{path.name} takes {short(took)} us")
    edited = "" if intact else "; its file was edited after sccl wrote it (its digest differs)"
    return f"{schedule.num_sends} transfers re-executed{edited}"


def time_point(claim: TimePointWire, claims: Sequence[Claim]) -> None:
    """Check that a schedule is as near the least time as it is said to be, by some claims.

    Raises:
        ValueError: it does not follow.
    """
    size, took = claim.size_bytes, Fraction(claim.finish_us)
    if not any(
        isinstance(c, ScheduleClaimWire) and c.size_bytes == size and Fraction(c.finish_us) <= took
        for c in claims
    ):
        raise ValueError("there is no such schedule among the claims that hold")
    floors = [floor_of(c).us(size) for c in claims if isinstance(c, TimeWire)]
    if max(floors, default=Fraction(0)) < Fraction(claim.at_least_us):
        raise ValueError(
            f"no claim gives a completion time of {short(Fraction(claim.at_least_us))} us"
        )
