"""Combining collectives as a whole: their dual reversed, chunk by chunk, or direct demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import dual_of, named
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective, RelationKind
from sccl.core.outcome import Bound, Found, Measure
from sccl.core.schedule import MAX_TIME, Schedule
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.prove.bounds.least_time import MOST_RANKS, least_time
from sccl.solvers.effort import Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.intervals.posed import Posed, pose
from sccl.synth.network.crossings import Crossings, crossings_of
from sccl.synth.network.hops import hops_of_sizes, merged, ways_back
from sccl.synth.network.least import least_of_allreduce
from sccl.synth.network.machine import net_of
from sccl.synth.network.sends import Sends
from sccl.synth.network.turned import joined, turned
from sccl.synth.teccl.chain_plan import ChainPlan
from sccl.synth.teccl.chains import chain_of, finish_of, sends_of
from sccl.synth.teccl.direct import MOST_HOPS, direct, to_all, to_owners
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phases import EPOCHS, Listeners, PhasePlan
from sccl.synth.teccl.rooted import rerooted
from sccl.synth.teccl.varied import rows_of

PS_PER_US = 10**6


class Combining(StrEnum):
    """The method for a combining collective. The first one counts among equal times."""

    REVERSAL = "reversal"
    OVERLAP = "overlap"
    CHAINS = "chains"
    DIRECT = "direct"
    GATHERED = "gathered"


_ORDER = tuple(Combining)


@dataclass(frozen=True, slots=True)
class Combined:
    """The method of the best schedule of a combining collective."""

    by: Combining


@dataclass(frozen=True)
class Whole:
    """The result of a request.

    Attributes:
        finish: the tick by which all has arrived.
        posed: its first phase.
        crossings: of the machine, by size.
        size: by chunk: index of its size in the clock.
        sends: over ways of its crossings.
        copied: whether switches copy chunks that pass a link together.
        message: by send, in order, the message that it is a hop of. None: one by itself.
        least: lower bound in ticks for that scope.
        spread: of an allreduce, in groups or not, the allgather that comes after the reducescatter.
        mean: for several tenants, the mean of their finishes by priority, and its lower bound, in
            ticks.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    posed: Posed
    crossings: tuple[Crossings, ...]
    size: tuple[int, ...]
    finish: int
    sends: Sends
    copied: bool
    least: Fraction
    scope: str
    spread: Collective | None = None
    message: NDArray[np.int32] | None = None
    mean: tuple[Fraction, Fraction] | None = None

    def found(self) -> Found:
        """Return it as a schedule, with its bound."""
        hops = rows_of(self.posed, self.sends) or hops_of_sizes(
            self.sends.ordered(), self.crossings, self.size
        )
        if self.message is not None:
            message = self.message if hops.message is None else self.message[hops.message]
            hops = hops._replace(message=message)
        plan = Schedule(
            topology=self.topology,
            collective=self.collective,
            **(merged(hops) if self.copied else hops)._asdict(),
            tick_ps=self.clock.tick_ps,
            chunk_bytes=self.clock.chunk_bytes,
            model=self.clock.model,
        )
        tick = Fraction(self.clock.tick_ps, PS_PER_US)
        if self.mean is not None:
            mean, least = (ticks * tick for ticks in self.mean)
            return Found(plan, Bound(Measure.WEIGHTED_US, mean, least, self.scope))
        bound = Bound(Measure.TIME_US, self.finish * tick, self.least * tick, self.scope)
        return Found(plan, bound)


def in_phases(
    request: Request, options: Options, collective: Collective, phases: list[PhasePlan]
) -> Whole:
    """Return the results of the phases, one after the other."""
    topology, dual, its = request.topology, dual_of(request.spec), phases[-1].posed.clock
    model = AlphaModel(options.alpha)
    clock = Clock.of(topology, its.chunk_bytes, model, its.tick_ps)
    crossings = tuple(
        crossings_of(topology, Clock.of(topology, size, model, its.tick_ps)) for size in its.sizes
    )
    finish, sends = phases[-1].ticks, phases[-1].columns()
    if dual.on_reversed or dual.phases > 1:
        first, columns = phases[0], phases[0].columns()
        back = ways_back(topology, crossings[0], first.posed.crossings[0])
        before = turned(columns, first.ticks, first.takes(columns), back, reduce=True)
        sends = before if dual.on_reversed else joined(before, first.ticks, sends)
        finish = first.ticks if dual.on_reversed else first.ticks + finish
    scope = f"{collective.num_chunks} chunks of {_range(clock.sizes)} bytes"
    if model is AlphaModel.OCCUPIES:  # those that are sent together have one alpha
        scope += ", each sent separately"
    if dual.phases > 1:
        smallest = Clock.of(topology, clock.sizes[0], model, its.tick_ps)
        net = net_of(topology, smallest, crossings[0])
        least = Fraction(least_of_allreduce(topology, smallest, net, collective))
        if topology.ranks <= MOST_RANKS:
            us = least_time(topology, request.spec, model).us(request.size_bytes)
            least = max(least, us * PS_PER_US / clock.tick_ps)
    else:
        least = Fraction(phases[0].least * phases[0].posed.unit)
        scope += ", by CP-SAT's search" if phases[0].by_search else ""
    mean = None
    if options.priorities:
        unit = Fraction(phases[0].posed.unit, sum(options.priorities))
        mean = phases[0].value * unit, phases[0].least * unit
    return Whole(
        topology=topology,
        collective=collective,
        clock=clock,
        posed=phases[0].posed,
        crossings=crossings,
        size=phases[-1].posed.size,
        finish=finish,
        sends=sends,
        copied=phases[-1].posed.copied,
        least=least,
        scope=scope,
        spread=phases[-1].posed.collective if dual.phases > 1 else None,
        mean=mean,
    )


def _range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


@dataclass(frozen=True, slots=True)
class CombiningAsked:
    """The methods for a combining collective, and progress callbacks.

    Attributes:
        last: its last phase.
        how: allowed methods.
    """

    last: PhasePlan
    how: Literal["auto", "reversal", "direct"]
    told: Listeners
    notify: Notify


def combined(
    strict: Whole, asked: CombiningAsked, spending: Spending, units: float
) -> tuple[Whole, str]:
    """Return a combining schedule, improved as a whole, and why that ended early, if it did.

    Args:
        strict: its phases, one after the other.
        units: limit on effort.

    Raises:
        TooLargeError: it has to be direct, and that takes too many messages.
    """
    best, how, ended = strict, Combining.REVERSAL, ""
    try:
        if asked.how == "direct":
            best, how = _only_direct(strict, asked.last)
        elif asked.how == "auto" and asked.last.options.model not in EPOCHS:
            best, how = _direct(strict, how, asked.last)
    except KeyboardInterrupt:
        ended = "interrupted"
    chained = strict.spread is not None and len(strict.crossings) == 1  # of chunks of one size
    if chained and asked.how != "direct" and not ended:
        best, how, ended = _chained(strict, (best, how), asked, spending, units)
    asked.notify(Combined(how))
    return best, ended


def _only_direct(strict: Whole, last: PhasePlan) -> tuple[Whole, Combining]:
    best, how = _direct(replace(strict, finish=MAX_TIME), Combining.DIRECT, last)
    if best.finish == MAX_TIME:
        raise TooLargeError(
            f"{strict.collective.name} of {strict.topology.ranks} ranks needs more than "
            f"{MOST_HOPS} message hops if all contributions are sent directly: give fewer chunks, "
            "or combine by reversal"
        )
    return best, how


def _direct(best: Whole, how: Combining, last: PhasePlan) -> tuple[Whole, Combining]:
    """Return the better of the known result and direct demands."""
    if len(best.crossings) > 1:  # chunks of several sizes are not sent so
        return best, how
    spread = best.spread
    posed = _posed(best) if spread is None else last.posed
    copies = () if spread is None else last.sends or ()
    tries = [(Combining.DIRECT, to_owners(best.collective, spread), copies)]
    if spread is not None:
        tries.append((Combining.GATHERED, to_all(best.collective), ()))
    for by, contributions, after in tries:
        found = direct(posed, contributions, best.finish, after)
        if found is not None:
            best = replace(best, finish=found.ticks, sends=found.sends, message=found.message)
            how = by
    return best, how


def _posed(whole: Whole) -> Posed:
    """Return an allgather on the machine, of chunks of that size."""
    ranks = whole.topology.ranks
    return pose(whole.topology, named("allgather", ranks).at(1), whole.clock)


def _chained(
    strict: Whole,
    known: tuple[Whole, Combining],
    asked: CombiningAsked,
    spending: Spending,
    units: float,
) -> tuple[Whole, Combining, str]:
    """Return the better of the known result and chains, its method, and why it ended early."""
    (best, how), last = known, asked.last
    posed, ended = last.posed, ""
    least = ceil(strict.least / posed.unit)
    chains = ChainPlan(posed, last.options, None, least, least, (least,), asked.told)
    found = []
    try:
        chains.overlap(chain_of(strict.sends))
        found.append((Combining.OVERLAP, chains.ticks, chains.columns()))
        everywhere = strict.collective.post.kind is RelationKind.ALL  # else roots stay
        if chains.sends is not None and chains.turns and asked.how == "auto" and everywhere:
            turned = rerooted(posed, chains.sends, spending.late)
            ticks = finish_of(posed, turned) * posed.unit
            found.append((Combining.CHAINS, ticks, sends_of(posed, turned)))
        left = spending.left(units)
        if left and everywhere and best.finish > chains.shortest * posed.unit:
            chains.run_before(min(ticks for _, ticks, _ in found) // posed.unit, left)
    except KeyboardInterrupt:
        ended = "interrupted"
    found.append((Combining.CHAINS, chains.ticks, chains.columns()))
    for by, ticks, sends in found:
        if (ticks, _ORDER.index(by)) < (best.finish, _ORDER.index(how)):
            best, how = replace(strict, finish=ticks, sends=sends), by
    if not ended and spending.late() and best.finish > strict.least:
        ended = spending.effort.why_late
    return best, how, ended
