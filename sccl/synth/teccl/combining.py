"""What combines, as a whole: its dual read backwards, chunk by chunk, or by direct demands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import named
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.outcome import Bound, Found, Measure
from sccl.core.schedule import MAX_TIME, Schedule
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.solvers.effort import Spending
from sccl.synth.contract import Notify
from sccl.synth.network.crossings import Crossings
from sccl.synth.network.hops import hops_of, merged
from sccl.synth.network.sends import Sends
from sccl.synth.teccl.chain_plan import ChainPlan
from sccl.synth.teccl.chains import chain_of
from sccl.synth.teccl.direct import MOST_HOPS, DirectSends, direct, to_all, to_owners
from sccl.synth.teccl.phases import EPOCHS, Listeners, PhasePlan
from sccl.synth.teccl.posed import Posed, pose

PS_PER_US = 10**6


class Combining(StrEnum):
    """How what combines was found; of what takes as long, the first."""

    REVERSAL = "reversal"
    OVERLAP = "overlap"
    CHAINS = "chains"
    DIRECT = "direct"
    GATHERED = "gathered"


_ORDER = tuple(Combining)


@dataclass(frozen=True, slots=True)
class Combined:
    """The best schedule of what combines was found so."""

    by: Combining


@dataclass(frozen=True)
class Whole:
    """What was found of a request.

    Attributes:
        finish: the tick by which all has arrived.
        sends: over ways of its crossings.
        copied: whether switches copy what of these passes a link together.
        message: of each send, in their order, the message that it is a hop of; None: one by itself.
        least: ticks that nothing of that scope takes less than.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    crossings: Crossings
    finish: int
    sends: Sends
    copied: bool
    least: Fraction
    scope: str
    message: NDArray[np.int32] | None = None

    def found(self) -> Found:
        """Return it as a schedule, with its bound."""
        hops = hops_of(self.sends.ordered(), self.crossings)
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
        bound = Bound(Measure.TIME_US, self.finish * tick, self.least * tick, self.scope)
        return Found(plan, bound)


@dataclass(frozen=True, slots=True)
class Asked:
    """How what combines is looked for, and who is told.

    Attributes:
        last: its last phase.
        how: by which methods.
    """

    last: PhasePlan
    how: Literal["auto", "reversal", "direct"]
    told: Listeners
    notify: Notify


def combined(strict: Whole, asked: Asked, spending: Spending, units: float) -> tuple[Whole, str]:
    """Return what combines, bettered as a whole, and why that ended early; empty: it did not.

    Args:
        strict: its phases, one after the other.
        units: of effort, at the most.

    Raises:
        TooLargeError: it is to be direct, and that takes too many messages.
    """
    best, how = strict, Combining.REVERSAL
    ended = ""
    if asked.how != "reversal" and asked.last.options.model not in EPOCHS:
        only = asked.how == "direct"
        if only:
            best = replace(strict, finish=MAX_TIME)
        best, how = _direct(best, how, asked.last)
        if only and best.finish == MAX_TIME:
            raise TooLargeError(
                f"{strict.collective.name} of {strict.topology.ranks} ranks takes more than "
                f"{MOST_HOPS} hops of messages if all is sent directly: give fewer chunks, or "
                "combine by reversal"
            )
    if strict.collective.name == "allreduce" and asked.how != "direct":
        best, how, ended = _chained(strict, (best, how), asked, spending, units)
    asked.notify(Combined(how))
    return best, ended


def _direct(best: Whole, how: Combining, last: PhasePlan) -> tuple[Whole, Combining]:
    """Return the best of what there is and what is sent directly."""
    allreduce = best.collective.name == "allreduce"
    posed = last.posed if allreduce else _posed(best)
    copies = (last.sends or ()) if allreduce else ()
    tries = [(Combining.DIRECT, to_owners(best.collective), copies)]
    if allreduce:
        tries.append((Combining.GATHERED, to_all(best.collective), ()))
    for by, contributions, after in tries:
        found = direct(posed, contributions, best.finish, after)
        if found is not None:
            best, how = _with(best, found), by
    return best, how


def _with(whole: Whole, found: DirectSends) -> Whole:
    return replace(
        whole,
        finish=found.ticks,
        sends=found.sends,
        message=found.message,
    )


def _posed(whole: Whole) -> Posed:
    """Return an allgather on the machine, of chunks of that size."""
    ranks = whole.topology.ranks
    return pose(whole.topology, named("allgather", ranks).at(1), whole.clock)


def _chained(
    strict: Whole,
    known: tuple[Whole, Combining],
    asked: Asked,
    spending: Spending,
    units: float,
) -> tuple[Whole, Combining, str]:
    """Return the best of what is known and chains, how that is, and why it ended early."""
    (best, how), last = known, asked.last
    posed, ended = last.posed, ""
    least = ceil(strict.least / posed.unit)
    chains = ChainPlan(posed, last.net, last.options, None, least, asked.told)
    found = []
    try:
        chains.overlap(chain_of(strict.sends))
        found.append((Combining.OVERLAP, chains.ticks, chains.columns()))
        if (left := spending.left(units)) and best.finish > chains.shortest * posed.unit:
            chains.run(left)
    except KeyboardInterrupt:
        ended = "interrupted"
    found.append((Combining.CHAINS, chains.ticks, chains.columns()))
    for by, ticks, sends in found:
        if (ticks, _ORDER.index(by)) < (best.finish, _ORDER.index(how)):
            best, how = replace(strict, finish=ticks, sends=sends), by
    if not ended and spending.late() and best.finish > strict.least:
        ended = spending.effort.why_late
    return best, how, ended
