"""Plans at a bandwidth that does not vary, placed again where it does.

Models without epochs know no bandwidth that varies, and what reduces is planned backwards in time
from an end that nobody knows yet. So such plans are made as if the bandwidth were what the machine
says, and then what links have on average until the schedule so far ends, as long as that helps, and
each send is placed again, in the order of the plan, as soon as its chunk is there and its way free.
Where nothing reduces, the models in epochs, which do know it, come after these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from msgspec import structs

from sccl.core.clock import Clock
from sccl.core.files.bandwidths import bandwidth_of_wire
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, UnreachableError
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.intervals.placing import placed
from sccl.synth.intervals.posed import ChunkSend, Posed, pose
from sccl.synth.network.paths import FAR
from sccl.synth.network.sends import Sends
from sccl.synth.teccl.combining import Combined
from sccl.synth.teccl.epochs import length_of
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phases import FoundBy
from sccl.synth.teccl.varied import rows_of, varied
from sccl.synth.teccl.varied_least import least_varied

UNITS = 2.0
"""Of effort, if nothing is said."""

_PARTS = 4
"""Each plan takes one of so many parts of the effort, and the models in epochs what is left."""

_LEAST_MEAN = Fraction(1, 1000)
"""Of its bandwidth that a link has on average: one without any stays, and is of no use."""

_SMALL = 200_000
"""Variables of a model in epochs for which nobody has asked."""

_LONG = 100
"""Bounds that it may take, where the plan of full bandwidth takes for ever."""

_PS_PER_US = 10**6

Planning = Callable[[Request, Options, Effort, Notify], Outcome]


@dataclass
class PlannedAnew:
    """A search for plans where bandwidth varies.

    Attributes:
        better: called with what the best takes, and what none takes less than, microseconds.
        planning: what plans at a bandwidth that does not, or in epochs.
    """

    request: Request
    options: Options
    effort: Effort
    notify: Notify
    better: Callable[[float, float], None]
    planning: Planning

    def __post_init__(self) -> None:
        assert self.options.bandwidth is not None
        self._bandwidth = bandwidth_of_wire(self.options.bandwidth)
        self._found: Found | None = None
        self._posed: Posed | None = None
        self._least, self._scope = Fraction(0), ""

    def best(self) -> Outcome:
        """Return the best plan of all.

        Raises:
            InputError: the options do not fit the request, or nothing can come to where it is
                wanted.
            KeyboardInterrupt: the user interrupted before there was a schedule.
        """
        self._bandwidth.check_fits(self.request.topology)
        spending, ended = Spending(self.effort), ""
        units = UNITS if self.effort.units is None else self.effort.units
        try:
            for outcome in self._plans(spending, units):
                if isinstance(outcome, GaveUp) and (outcome.best or spending.late()):
                    ended = outcome.reason
                if ended or self._near_enough():
                    break
        except KeyboardInterrupt:
            if self._found is None:
                raise
            ended = "interrupted"
        if not ended and spending.late() and not self._near_enough():
            ended = self.effort.why_late
        if self._found is None and not ended and self._least:
            raise UnreachableError(
                f"{self._bandwidth.name}: every known plan needs a link that has no bandwidth "
                "from then on: set the end of that ('to_us'), or remove the link ('sccl topo "
                "without')"
            )
        if self._found is None:
            return GaveUp(ended or f"no schedule within a budget of {units:g}")
        bound = replace(self._found.bound, least=self._least, scope=self._scope)
        found = replace(self._found, bound=bound)
        return GaveUp(ended, found) if ended else found

    def _near_enough(self) -> bool:
        gap = 1 + Fraction(self.options.gap)
        return self._found is not None and self._found.bound.attained <= self._least * gap

    def _plans(self, spending: Spending, units: float) -> Iterator[Outcome]:
        """Yield what is planned, one after the other."""
        combines, topology = self.request.spec.combining, self.request.topology
        rounds = _PARTS if combines else _PARTS // 2
        # of two that exchange one may come later than planned, and be sent back: so trees alone
        combine: Literal["auto", "reversal"] = "reversal" if combines else "auto"
        options = structs.replace(self.options, bandwidth=None, combine=combine)
        if options.model == "auto":  # epochs of some length are those of the plans after these
            options = structs.replace(options, epoch="auto", multiplier=1)
        for _ in range(rounds):
            left, before = spending.left(units / _PARTS), self._found
            if left is None:
                return
            told: list[object] = []  # of times that are not those of the schedule, but for this
            outcome = self.planning(
                replace(self.request, topology=topology),
                options,
                left,
                told.append,
            )
            if self._take_anew(outcome, at_full=topology is self.request.topology):
                for event in told:
                    if isinstance(event, Combined | FoundBy):
                        self.notify(event)
            yield outcome
            if self._found is before and topology is not self.request.topology:
                break
            until = self._found.bound.attained if self._found else _LONG * self._least
            if not until:
                break
            topology = self._mean(until)
        if not combines and len(set(self.request.spec.counts)) <= 1:
            yield from self._in_epochs(spending, units / _PARTS)

    def _in_epochs(self, spending: Spending, units: float) -> Iterator[Outcome]:
        for model in ("milp", "astar") if self._epochs_few() else ("astar",):
            left = spending.left(2 * units)
            if left is None:
                return
            told: list[object] = []
            options = structs.replace(self.options, model=model)
            try:
                outcome = self.planning(self.request, options, left, told.append)
            except TooLargeError:
                continue
            found = outcome.best if isinstance(outcome, GaveUp) else outcome
            if isinstance(found, Found):
                self._know(found)
                if self._better(found):
                    for event in told:
                        self.notify(event)
            yield outcome
            return

    def _epochs_few(self) -> bool:
        """Return whether all epochs at once make a model that is soon put together."""
        if self._posed is None or self._found is None:
            return True
        length = length_of(self._posed, self.options.epoch, self.options.multiplier)
        assert isinstance(self._found.plan, Schedule)
        epochs = -(-self._found.plan.finish // length)
        return self._posed.chunks * len(self._posed.src) * epochs <= _SMALL

    def _know(self, found: Found) -> None:
        """Take what nothing is below, where that is more than is known."""
        assert found.bound.least is not None
        if found.bound.least > self._least or not self._scope:
            self._least, self._scope = found.bound.least, found.bound.scope

    def _better(self, found: Found) -> bool:
        """Take a plan, if it is better."""
        if self._found is None or found.bound.attained < self._found.bound.attained:
            self._found = found
            self.better(float(found.bound.attained), float(self._least))
            return True
        return False

    def _take_anew(self, outcome: Outcome, *, at_full: bool) -> bool:
        """Place a plan again and return whether it is the best.

        Of one on the machine as it is the bound holds, too.
        """
        found = outcome.best if isinstance(outcome, GaveUp) else outcome
        if not isinstance(found, Found):
            return False
        assert isinstance(found.plan, Schedule)
        clock = found.plan.clock
        clock = Clock.of(self.request.topology, clock.chunk_bytes, clock.model, clock.tick_ps)
        posed = pose(self.request.topology, found.plan.collective, clock)
        posed = varied(posed, self._bandwidth)
        us = Fraction(clock.tick_ps, _PS_PER_US)
        if at_full:
            self._posed = posed
            self._know(found)
            if not self.request.spec.combining:
                self._least = max(self._least, least_varied(posed) * us)
        anew = _placed_anew(posed, found.plan)
        if anew is None:
            return False
        return self._better(Found(anew, Bound(Measure.TIME_US, anew.finish * us, self._least)))

    def _mean(self, until_us: Fraction) -> Topology:
        """Return the machine whose links have what they have on average until a time."""
        topology = self.request.topology
        links = []
        for link in topology.links:
            mean = max(_LEAST_MEAN, self._bandwidth.mean(link.edge, until_us))
            links.append(replace(link, gb_per_s=float(f"{link.gb_per_s * float(mean):.6g}")))
        pairs = zip(topology.budgets, topology.budget_speeds(), strict=True)
        budgets = tuple(replace(one, gb_per_s=speed) for one, speed in pairs)
        return replace(topology, links=tuple(links), budgets=budgets)


def _placed_anew(posed: Posed, plan: Schedule) -> Schedule | None:
    """Return a plan in its order at the bandwidth that there is. None: it takes for ever."""
    rows = _sends(posed, plan)
    exact = placed(posed, [send for send, _ in rows], 0)
    if posed.finish(exact) >= FAR:
        return None
    table = np.array([(s.start, s.chunk, s.way) for s in exact], dtype=np.int64).reshape(-1, 3)
    hops = rows_of(
        posed,
        Sends(
            start=table[:, 0].copy(),
            chunk=table[:, 1].astype(np.int32),
            link=table[:, 2].astype(np.int32),
            reduce=np.array([reduces for _, reduces in rows], dtype=np.bool_),
        ),
    )
    assert hops is not None
    return replace(plan, topology=posed.topology, **hops._asdict())


def _sends(posed: Posed, plan: Schedule) -> list[tuple[ChunkSend, bool]]:
    """Return what a plan sends over ways, by start, and whether it is reduced where it arrives."""
    columns = (plan.start, plan.chunk, plan.link, plan.reduce)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    messages = range(len(rows)) if plan.message is None else plan.message.tolist()
    of_message: dict[int, list[tuple[int, int, int, bool]]] = {}
    for message, row in zip(messages, rows, strict=True):
        of_message.setdefault(message, []).append(row)
    number = {path: way for way, path in enumerate(posed.paths)}
    return [
        (ChunkSend(hops[0][0], hops[0][1], number[tuple(hop[2] for hop in hops)]), hops[-1][3])
        for hops in of_message.values()
    ]
