"""One phase of a collective: sends on one machine, improved until the bound is attained.

A combining collective is planned as its dual on the reversed machine, and allreduce as both, one
after the other (:mod:`sccl.collectives.duality`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import Spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.files.bandwidths import bandwidth_of_wire
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Request
from sccl.synth.intervals.begun import NoScheduleError, matched, sends_of_schedule
from sccl.synth.intervals.bounds import least_of, sizes_of
from sccl.synth.intervals.model import Action, IntervalModel
from sccl.synth.intervals.neighbours import Neighbours
from sccl.synth.intervals.placing import placed
from sccl.synth.intervals.posed import ChunkSend, Posed, pose
from sccl.synth.network.paths import FAR
from sccl.synth.network.sends import Sends
from sccl.synth.network.symmetries import free_symmetries
from sccl.synth.teccl.epochs import length_of
from sccl.synth.teccl.listing import listed
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.searched import EpochSearch
from sccl.synth.teccl.varied import varied
from sccl.synth.teccl.varied_epochs import varied_epochs_of
from sccl.synth.teccl.varied_least import least_varied

MOST_SENDS = 2**20
"""Limit for schedules that models improve."""

MOST_OPTIONAL = 12_000
"""Intervals of a model of all chunks at once."""

_GROUPS = 3
"""Groups of symmetries that are tried, the largest that there are."""

EPOCHS = frozenset({"milp", "astar"})
"""Models whose time is in epochs."""

LISTED = "list scheduling"
"""Name of the method that finds the schedule that models begin with."""

_ROUND = 4
"""Epochs that a round of A* has at least, beside the longest alpha's."""

STRATEGY = cpsat.Strategy(conflicts=4000)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Progress callbacks.

    Attributes:
        better: receives the best finish so far and the bound, microseconds.
        counted: receives the length of an epoch, microseconds, and the epochs of a schedule.
    """

    better: Callable[[float, float], None]
    counted: Callable[[float, int], None]


@dataclass(frozen=True, slots=True)
class FoundBy:
    """The method that found the returned schedule, for collectives that do not combine."""

    found_by: str


@dataclass
class PhasePlan:
    """A phase.

    Attributes:
        options: options of the scheduling.
        sends: the best. None: there is none yet.
        least: lower bound in units for schedules of such chunks, or, for several tenants, on the
            weighted sum of their finishes.
        steady: the lower bound at constant bandwidth.
        soonest: lower bounds on the finishes of tenants, units.
        by: method that found the best: list scheduling, or a model. Empty: none yet.
        by_search: whether the lower bound is a result of the solver.
        exhausted: whether the model of all chunks has nothing better.
        ended: why list scheduling ended before its effort was spent. Empty: it did not.
    """

    posed: Posed
    options: Options
    sends: tuple[ChunkSend, ...] | None
    least: int
    steady: int
    soonest: tuple[int, ...]
    told: Listeners
    ended: str = ""
    by: str = ""
    by_search: bool = False
    exhausted: bool = False
    kind: ClassVar[type[IntervalModel]] = IntervalModel
    intervals: ClassVar[int] = 1
    """Number of intervals for a chunk and a way in a model."""
    most: ClassVar[int] = MOST_OPTIONAL
    """Intervals of a model of all chunks at once."""
    made: ClassVar[float] = 1e-3
    """Minimum effort for a neighbourhood."""
    at_once: ClassVar[tuple[float, float]] = (2.0, 1.0)
    """Effort for all chunks at once, and for one of each orbit."""

    @property
    def finish(self) -> int:
        """Return the units after which all has arrived."""
        if self.sends is None:
            return FAR
        return self.posed.finish(self.sends)

    @property
    def value(self) -> int:
        """Return the objective: for one tenant the finish."""
        return FAR if self.sends is None else self.posed.value(self.sends)

    @property
    def ticks(self) -> int:
        """Return the ticks after which all has arrived."""
        return self.finish * self.posed.unit

    @property
    def enough(self) -> int:
        """Return the units after which a finish is near enough to the bound."""
        return max(self.least, int(self.least * (1 + Fraction(self.options.gap))))

    def us(self, units: int) -> float:
        """Return units in microseconds."""
        return units * self.posed.unit * self.posed.clock.tick_ps / 10**6

    def takes(self, sends: Sends) -> NDArray[np.int64]:
        """Return of each transfer the ticks from its start until it has arrived."""
        costs = np.array(self.posed.costs, dtype=np.int64) * self.posed.unit
        return costs[np.array(self.posed.size, dtype=np.int64)[sends.chunk], sends.link]

    def columns(self) -> Sends:
        """Return the sends, in ticks and by columns."""
        rows = [(s.start * self.posed.unit, s.chunk, s.way) for s in self.sends or ()]
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return Sends(
            start=table[:, 0].copy(),
            chunk=table[:, 1].astype(np.int32),
            link=table[:, 2].astype(np.int32),
            reduce=np.zeros(len(rows), dtype=np.bool_),
        ).ordered()

    def _take(self, sends: tuple[ChunkSend, ...]) -> None:
        before, kept = self.value, (self.sends, self.by)
        model = self.options.model
        self.sends, self.by = sends, model if model in EPOCHS else "continuous"
        if self.value < before:
            self.tell()
        elif self.value > before:
            self.sends, self.by = kept

    def tell(self) -> None:
        """Report the best value and the bound: for several tenants the mean."""
        all_of_it = sum(self.posed.priorities)
        self.told.better(self.us(self.value) / all_of_it, self.us(self.least) / all_of_it)

    def run(self, effort: Effort) -> None:
        """Improve the schedule until it is near enough to the bound, or the effort is spent.

        Raises:
            ParameterError: the options are contradictory.
            TooLargeError: a model would be too large.
            KeyboardInterrupt: the user interrupted. Results so far are kept.
        """
        enough, spending = self.enough, Spending(effort)
        if self.options.model in EPOCHS:
            self._in_epochs(spending, enough)
        else:
            self._in_continuous_time(spending, enough)

    def _in_continuous_time(self, spending: Spending, enough: int) -> None:
        for action in self._actions():
            if self.value > enough:
                self._all_at_once(action, spending)
        if self.value > enough and not self.exhausted and self.sends is not None:
            search = Neighbours(
                self.posed,
                Action.alone(self.posed),
                self.sends,
                enough,
                self.soonest,
                STRATEGY,
                self._take,
                self.kind,
                self.intervals,
                self.made,
            )
            search.run(spending)

    def _in_epochs(self, spending: Spending, enough: int) -> None:
        asked = self.options
        length = length_of(self.posed, asked.epoch, asked.multiplier)
        epochs = varied_epochs_of(self.posed, length, ports=asked.ports)
        actions = list(self._actions())
        take = lambda sends, count: self._take_epochs(sends, epochs.us, count)  # noqa: E731
        if asked.buffers is not None:
            actions = actions[-1:]
        search = EpochSearch(epochs, actions, self.steady, asked.buffers, take, asked.solver)
        if asked.model == "astar":
            self._in_rounds(search, spending, asked.epochs or max(_ROUND, epochs.longest) + 1)
        elif asked.epochs:
            search.within(asked.epochs, spending)
        else:
            search.fewest(spending, enough, None if self.sends is None else self.finish)

    def _in_rounds(self, search: EpochSearch, spending: Spending, count: int) -> None:
        """Take the result of rounds, even if it is slower.

        If they do not end, keep the earlier one.

        Args:
            count: epochs of a round.
        """
        before = self.sends, self.by
        self.sends, self.by = None, ""
        try:
            search.rounds(spending, count)
        finally:
            if self.sends is None:
                self.sends, self.by = before

    def _take_epochs(self, sends: tuple[ChunkSend, ...], epoch_us: float, count: int) -> None:
        before = self.finish
        self._take(sends)
        if self.finish < before:
            self.told.counted(epoch_us, count)

    def _actions(self) -> Iterator[Action]:
        """Yield groups of symmetries of which all chunks at once are looked at. The last alone."""
        posed = self.posed
        if len(posed.room) == len(posed.topology.links) and len(posed.priorities) == 1:
            for group in islice(free_symmetries(posed.topology, posed.collective), _GROUPS):
                if len(group) > 1:
                    action = Action.of(posed, group)
                    if posed.varied and not all(map(posed.varied[0].alike, action.links)):
                        continue
                    yield action
        yield Action.alone(posed)

    def _all_at_once(self, action: Action, spending: Spending) -> None:
        alone = len(action.chunks) == 1
        left = spending.left(self.at_once[0 if alone else 1])
        if (
            self.intervals * len(action.firsts) * len(self.posed.src) > self.most
            or not left
            or spending.used_up()
        ):
            return
        known = (self.sends or ()) if alone else ()
        model = self.kind(self.posed, action, self._horizon(), known)
        model.soonest_finish(self.least)
        found = model.solved(left, STRATEGY)
        spending.units += found.units
        if found.sends is not None:
            self._take(tuple(action.images(found.sends)))
        if alone and (found.optimal or found.refuted):
            self._exhaust()

    def _latest(self) -> int:
        """Return the units in less than which a model is to finish."""
        return self.finish

    def _exhaust(self) -> None:
        """Take note that the model of all chunks has nothing better."""
        self.exhausted = True
        if self.posed.plain:
            self.least, self.by_search = self.value, True

    def _horizon(self) -> int:
        """Return the units by which all has arrived in any better schedule.

        For several tenants one may be later if the others can compensate with their earliest
        finishes.
        """
        if len(self.soonest) == 1:
            return self._latest() - 1
        spare = self.value - 1 - self.posed.weighed(self.soonest)
        pairs = zip(self.soonest, self.posed.priorities, strict=True)
        return max(least + spare // priority for least, priority in pairs)


def phase_of(  # noqa: PLR0913 - what is asked, and how
    machine: Topology,
    spec: Spec,
    options: Options,
    size_bytes: int,
    *,
    effort: Effort,
    told: Listeners,
    backwards: bool = False,
) -> PhasePlan:
    """Return a phase, with its first schedule if list scheduling supports the options.

    Args:
        spec: collective of the phase. It does not combine.
        size_bytes: size of C chunks, or of an element if chunks have counts.
        backwards: whether the machine is reversed, and schedules on it are read backwards.

    Raises:
        InputError: the machine or the collective is not supported, or there are too many transfers.
        NoScheduleError: time ran out before there was one.
        KeyboardInterrupt: the user interrupted before there was one.
    """
    collective = spec.at(spec.unit * options.chunks)
    wanted = sum(len(own) * len(post - pre) for (pre, post), own in collective.classes().items())
    if wanted > MOST_SENDS:
        raise TooLargeError(
            f"{spec.name} of {machine.ranks} ranks with C={collective.chunks} takes {wanted} "
            f"transfers; models are made of up to {MOST_SENDS}: give fewer chunks, or ask "
            "'sccl tacos'"
        )
    sizes = sizes_of(collective, size_bytes)
    request = Request(machine, spec, size_bytes)
    model = AlphaModel(options.alpha)
    first, ended = None, ""
    alike = not collective.counts  # others TACOS does not take
    rounds = options.model == "astar"
    begins = options.buffers is None and (rounds or not options.epochs)
    if alike and begins:
        improve = 0.0 if rounds else 1.0  # as it is kept only if rounds do not end
        first, ended = matched(request, options.chunks, options.alpha, effort, improve)
    tick_ps = 1 if first is None else first.tick_ps
    clock = Clock.of(machine, sizes, model, tick_ps)
    parts = [count for _, count in spec.parts] if options.priorities else []
    posed = pose(machine, collective, clock, parts, options.priorities, backwards=backwards)
    if options.bandwidth is not None:
        posed = varied(posed, bandwidth_of_wire(options.bandwidth))
    sends = None if first is None else sends_of_schedule(posed, first)
    if not alike and begins:
        sends = listed(posed, effort.seed, Spending(effort).late)
        if sends is None:
            raise NoScheduleError(effort.why_late)
    attained = FAR if first is None else first.finish
    least = -(-least_of(machine, spec, posed, size_bytes, attained) // posed.unit)
    steady = least
    if posed.varied:
        least = max(least, least_varied(posed))
        sends = None if sends is None else placed(posed, sends, 0)
        if sends is not None and posed.finish(sends) >= FAR:  # over links that are out for good
            sends = None
    soonest: tuple[int, ...] = (least,)
    if options.priorities:
        soonest = _each_alone(machine, spec, posed, size_bytes, options.chunks)
        least = _together(posed.priorities, soonest, least)
    phase = PhasePlan(posed, options, sends, least, steady, soonest, told, ended)
    if sends is not None:
        phase.by = LISTED
        phase.tell()
    return phase


def _each_alone(
    machine: Topology, spec: Spec, posed: Posed, size_bytes: int, chunks: int
) -> tuple[int, ...]:
    """Return the units that each of several collectives takes at the least, if it is alone."""
    found = []
    for one in spec.alone():
        collective, its = one.at(one.unit * chunks), posed.clock
        clock = Clock.of(machine, sizes_of(collective, size_bytes), its.model, its.tick_ps)
        least = least_of(machine, one, pose(machine, collective, clock), size_bytes, FAR)
        found.append(-(-least // posed.unit))
    return tuple(found)


def _together(priorities: Sequence[int], soonest: Sequence[int], least: int) -> int:
    """Return a lower bound on the weighted sum of finishes.

    None is before the earliest possible finish of its tenant, and the last of them not before the
    lower bound of all.
    """
    value = sum(p * own for p, own in zip(priorities, soonest, strict=True))
    pairs = zip(priorities, soonest, strict=True)
    return value + min(p * max(0, least - own) for p, own in pairs)
