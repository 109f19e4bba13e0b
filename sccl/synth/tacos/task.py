"""The planning task: the machine and the demand as arrays, and results of a matching."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import dual_of
from sccl.core.clock import MAX_TICK_PS, MAX_TICKS, AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.outcome import Bound, Found, Measure
from sccl.core.packed import PackedSchedule, Pass
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.errors import ParameterError, TooLargeError
from sccl.synth.contract import Request
from sccl.synth.network.crossings import Crossings, crossings_of
from sccl.synth.network.demands import demand_of
from sccl.synth.network.hops import hops_of, ways_back
from sccl.synth.network.least import least_of_allreduce, least_ticks
from sccl.synth.network.machine import Net, net_of
from sccl.synth.network.sends import Demand, Pause, Sends, Timed
from sccl.synth.network.turned import joined, turned
from sccl.synth.tacos.by_event import USUAL, ByEvent
from sccl.synth.tacos.by_route import MAX_NODES, ByRoute
from sccl.synth.tacos.in_step import Log, in_rounds
from sccl.synth.tacos.listed import sends_of
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.resumed import from_the_start
from sccl.synth.tacos.unwound import Unwound, replayed, unwound
from sccl.synth.tacos.window import again

MAX_SENDS = 2**28
"""Limit for a schedule in memory: 8 GiB with the memory of the search."""

PACKED_FROM = 2**22
"""Transfers from which on a schedule in rounds stays packed: 25 bytes each would be 100 MB."""

MAX_LOG = 6 * 2**30
"""Limit in bytes for the chunks of a packed schedule: 8 GiB with search and verification."""

_MOST_TICKS = 2**60
"""Limit on the total time of all chunks of a machine one after the other, which bounds every
time.
"""


class Matching(NamedTuple):
    """The part that is matched at once.

    Attributes:
        backwards: whether it is on the reversed machine, and reversed afterwards.
        reduces: whether it then reduces.
        unwound: links that replace switches for the matching. None: the machine is unchanged.
    """

    net: Net
    demand: Demand
    backwards: bool
    reduces: bool
    unwound: Unwound | None


@dataclass(frozen=True, slots=True)
class Task:
    """The planning task.

    Attributes:
        forward: the demand to match on the machine itself. None: nothing.
        backward: the demand to match on the reversed one, and reverse. None: nothing.
        reversed_net: the reversed one, or the machine itself if nothing is matched backwards.
        crossings: the meaning of links of the machine's net.
        back: by link of the reversed one: the opposite link of the machine.
        unwound: both of them with links instead of switches. None: switches are kept.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    net: Net
    reversed_net: Net
    crossings: Crossings
    back: NDArray[np.int64]
    forward: Demand | None
    backward: Demand | None
    unwound: tuple[Unwound | None, Unwound | None]

    @property
    def tick_us(self) -> Fraction:
        """Return the microseconds of a tick."""
        return Fraction(self.clock.tick_ps, 10**6)

    @property
    def sends(self) -> int:
        """Return how many transfers there are at least: all, where all ranks want all chunks."""
        both = (d for d in (self.forward, self.backward) if d is not None)
        return sum(demand.least_sends(self.net.nodes) for demand in both)

    @property
    def most(self) -> int:
        """Return how many transfers may be kept."""
        if not self.passes:
            return MAX_SENDS
        return MAX_LOG // (2 if self.collective.num_chunks <= 2**16 else 4) * len(self.passes)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Return the passes over a log of rounds. Empty: the result is no log.

        For allreduce, the log that spreads the sums also collects them, backwards over the opposite
        links, if the reversed machine is the same.
        """
        demand, net, there = self.forward or self.backward, self.net, self.reversed_net
        assert demand is not None
        plain = not (self.topology.switches or self.topology.budgets)
        if not (plain and net.alike and demand.wanted is None and self.sends >= PACKED_FROM):
            return ()
        if self.backward is None:
            return (Pass.STORES,)
        if self.forward is None:
            return (Pass.REDUCES,)
        same = np.array_equal(net.src, there.src) and np.array_equal(net.dst, there.dst)
        return (Pass.REDUCES, Pass.STORES) if same else ()

    def logged(self, seed: int, pause: Pause) -> tuple[int, Log]:
        """Return the finish and the log, for tasks with passes."""
        demand = self.forward or self.backward
        net = self.net if self.forward else self.reversed_net
        assert demand is not None
        log = in_rounds(net, demand, seed, pause)
        return len(log.fired) * len(self.passes) * int(net.busy[0]), log

    def halves(self, *, turns: bool) -> tuple[Matching, ...]:
        """Return the parts to match, one after the other.

        Args:
            turns: whether to match backwards where forwards is possible, too.
        """
        found = []
        if self.backward is not None:
            found.append(self._backwards(self.backward, reduces=True))
        if self.forward is not None and turns:
            found.append(self._backwards(self.forward.exchanged(), reduces=False))
        elif self.forward is not None:
            net, its = self.net, self.unwound[0]
            found.append(Matching(net, self.forward, backwards=False, reduces=False, unwound=its))
        return tuple(found)

    def _backwards(self, demand: Demand, *, reduces: bool) -> Matching:
        net, its = self.reversed_net, self.unwound[1]
        return Matching(net, demand, backwards=True, reduces=reduces, unwound=its)

    def joined(self, halves: tuple[Matching, ...], parts: Sequence[Timed]) -> Timed:
        """Return the finish and the transfers of the matchings of all halves."""
        ends = [self._forwards(*pair) for pair in zip(halves, parts, strict=True)]
        if len(ends) == 1:
            return ends[0]
        (finish, sends), (time, then) = ends
        return finish + time, joined(sends, finish, then)

    def _forwards(self, half: Matching, part: Timed) -> Timed:
        """Return the matching of a half, reversed if it was backwards."""
        if not half.backwards:
            return part
        finish, sends = part
        takes = half.net.cost[sends.link]
        return finish, turned(sends, finish, takes, self.back, reduce=half.reduces)

    def least_of(self, half: Matching, attained: int) -> int:
        """Return a lower bound of the finish of a half, as good as need be."""
        topology, clock = self.topology, self.clock
        if half.backwards:
            topology = topology.reversed()
            clock = Clock.of(topology, clock.chunk_bytes, clock.model, clock.tick_ps)
        return least_ticks(
            topology, clock, half.net, half.demand, attained, backwards=half.backwards
        )

    def turns(self, attempt: int) -> bool:
        """Return whether an attempt is matched backwards, as every second one may be.

        If all chunks go to one rank, that distributes them better over the links into it.
        """
        demand = self.forward
        if demand is None or self.backward is not None or not demand.is_routed():
            return False
        assert demand.wanted_by is not None
        narrow = len(np.unique(demand.wanted_by)) < len(np.unique(demand.held_by))
        return narrow == (attempt % 2 == 0)

    def least(self, attained: int) -> int:
        """Return a lower bound of the finish; as good as need be where one attains it."""
        if self.forward is not None and self.backward is not None:
            return least_of_allreduce(self.topology, self.clock, self.net, self.collective)
        return self.least_of(self.halves(turns=False)[0], attained)

    def found(self, finish: int, sends: Sends | Log, least: int) -> Found:
        """Return the plan with its bound."""
        schedule = self._packed(sends) if isinstance(sends, Log) else self._schedule(sends)
        us = self.tick_us
        scope = f"{self.collective.num_chunks} chunks of {self.clock.sizes[0]} bytes"
        if self.clock.model is AlphaModel.OCCUPIES:  # those that are sent together have one alpha
            scope += ", each sent separately"
        return Found(schedule, Bound(Measure.TIME_US, finish * us, least * us, scope))

    def _schedule(self, sends: Sends) -> Schedule:
        return Schedule(
            topology=self.topology,
            collective=self.collective,
            **hops_of(sends, self.crossings)._asdict(),
            tick_ps=self.clock.tick_ps,
            chunk_bytes=self.clock.chunk_bytes,
            model=self.clock.model,
        )

    def _packed(self, log: Log) -> PackedSchedule:
        return PackedSchedule(
            topology=self.topology,
            collective=self.collective,
            fired=log.fired,
            log=log.chunk,
            passes=self.passes,
            tick_ps=self.clock.tick_ps,
            chunk_bytes=self.clock.sizes[0],
            model=self.clock.model,
        )


def task_of(request: Request, options: Options) -> Task:
    """Return the planning task of a request.

    Raises:
        InputError: the options do not fit the request, or the result would be too large.
    """
    topology, dual = request.topology, dual_of(request.spec)
    collective = request.spec.at(request.spec.unit * options.chunks)
    half = demand_of(dual.spec.at(dual.spec.unit * options.chunks))
    size = -(-request.size_bytes // collective.chunks)
    model = AlphaModel(options.alpha)
    tick = _tick(topology, size, collective.num_chunks)
    clock = Clock.of(topology, size, model, tick)
    crossings = crossings_of(topology, clock, beside=False)
    net = net_of(topology, clock, crossings)
    turns = dual.on_reversed or dual.phases == 2 or half.is_routed()
    there = topology.reversed() if turns else topology
    back_clock = Clock.of(there, size, model, tick) if turns else clock
    back = crossings_of(there, back_clock, beside=False) if turns else crossings
    task = Task(
        topology=topology,
        collective=collective,
        clock=clock,
        net=net,
        reversed_net=net_of(there, back_clock, back) if turns else net,
        crossings=crossings,
        back=ways_back(topology, crossings, back) if turns else np.arange(len(crossings.src)),
        forward=None if dual.on_reversed else half,
        backward=half if dual.on_reversed or dual.phases == 2 else None,
        unwound=(
            _unwound(topology, clock, crossings, options),
            _unwound(there, back_clock, back, options),
        ),
    )
    if task.sends > task.most:
        raise TooLargeError(
            f"{collective.name} of {counted(topology.ranks, 'rank')} with C={collective.chunks} "
            f"takes {task.sends} transfers; this version keeps up to {task.most} of it: "
            "give fewer ranks or chunks"
        )
    return task


def _unwound(
    topology: Topology, clock: Clock, crossings: Crossings, options: Options
) -> Unwound | None:
    """Return a machine with its switches unwound, if they are to be.

    Raises:
        ParameterError: it has none.
    """
    if not options.switch_degree:
        return None
    if not topology.switches:
        raise ParameterError(
            f"switch_degree is {options.switch_degree}, and topology {topology.name!r} has no "
            "switch nodes to unwind: leave it out"
        )
    return unwound(topology, clock, crossings, options.switch_degree)


def _tick(topology: Topology, size: int, chunks: int) -> int:
    """Return the picoseconds of a tick: one, or ten, and so on, where times became too large.

    Raises:
        ParameterError: no tick is long enough.
    """
    slowest = max(
        Fraction(str(alpha_us)) * 10**6 + size * 1000 / (lanes * Fraction(str(gb_per_s)))
        for alpha_us, lanes, gb_per_s in {(k.alpha_us, k.lanes, k.gb_per_s) for k in topology.links}
    )
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        pace = budget.chunks_per_round * Fraction(str(speed))
        slowest = max(slowest, size * 1000 / pace)
    tick, every = 1, math.ceil(slowest) * chunks * topology.ranks
    while every // tick > _MOST_TICKS or slowest // tick >= MAX_TICKS:
        tick *= 10
    if tick > MAX_TICK_PS:
        raise ParameterError(
            f"topology {topology.name!r}: a chunk of {size} bytes takes {float(slowest):.3g} ps on "
            f"its slowest link, which is more than can be counted: give "
            "smaller costs or sizes"
        )
    return tick


def first_of(half: Matching, seed: int, pause: Pause) -> Timed:
    """Return the finish and the transfers of the first matching of a half.

    Raises:
        UnreachableError: a rank has no path from any source of a chunk it wants.
    """
    if half.unwound is None:
        return matched(half.net, half.demand, seed, pause)
    net, way = half.unwound
    _, sends = matched(net, half.demand, seed, pause)
    arrival = sends.start + (net.busy + net.lag)[net.kind[sends.link].astype(np.int64)]
    mapped = sends._replace(link=way[sends.link].astype(np.int32))
    return replayed(half.net, half.demand, mapped, arrival)


def matched(net: Net, demand: Demand, seed: int, pause: Pause) -> Timed:
    """Return the finish and the transfers of one matching.

    Raises:
        UnreachableError: a rank has no path from any source of a chunk it wants.
    """
    if net.alike and demand.wanted is None:
        log = in_rounds(net, demand, seed, pause)
        finish, sends = len(log.fired) * int(net.busy[0]), sends_of(log, net, demand.chunks)
        return again(net, demand, finish, sends, seed)
    if demand.is_routed() and net.nodes <= MAX_NODES:
        return ByRoute(net, demand).matched(seed, pause)
    return ByEvent(net, demand, seed).matched(seed, pause, from_the_start(), USUAL)
