"""Represent the task of TACOS: the machine and the demand as arrays, and results of a matching.

Source: TACOS (MICRO 2024), section IV-E. Reductions are matched on the reversed machine, and the
result is reversed in time. An allreduce is a reducescatter, then an allgather.
:func:`run_matching` selects the matching for the links and the demand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import dual_of
from sccl.core.bound import Bound, Measure
from sccl.core.clock import MAX_TICK_PS, MAX_TICKS, AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.formatting import format_count
from sccl.core.outcome import Solution
from sccl.core.packed_schedule import PackedSchedule, PassKind
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.synth.common.contract import Request
from sccl.synth.network.arrays import NetworkArrays, build_arrays
from sccl.synth.network.demand import build_demand
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.tick_bounds import allreduce_bound_ticks, lower_bound_ticks
from sccl.synth.network.time_reversal import concatenate_schedules, reverse_schedule
from sccl.synth.network.transfer_rows import build_transfer_rows, reverse_routes
from sccl.synth.network.transfers import Demand, Pause, Sends, TimedSends
from sccl.synth.tacos.matching_heterogeneous import DEFAULT_STYLE, HeterogeneousMatching
from sccl.synth.tacos.matching_unicast import MAX_NODES, UnicastMatching
from sccl.synth.tacos.matching_uniform import RoundLog, match_uniform
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.partial_schedule import empty_schedule
from sccl.synth.tacos.round_log import log_to_sends
from sccl.synth.tacos.switch_unwinding import UnwoundMachine, replay_sends, unwind_switches
from sccl.synth.tacos.tail_rematching import rematch_tail

MAX_SENDS = 2**28
"""Limit for a schedule in memory: 8 GiB with the memory of the search."""

MIN_PACKED_SENDS = 2**22
"""Transfers from which on a schedule in rounds stays packed: 25 bytes each would be 100 MB."""

MAX_LOG = 6 * 2**30
"""Limit in bytes for the chunks of a packed schedule: 8 GiB with search and verification."""

_MAX_TOTAL_TICKS = 2**60
"""Limit on the total time of all chunks of a machine one after the other, which bounds every
time.
"""


class MatchingPhase(NamedTuple):
    """A part of the task that one matching solves.

    Attributes:
        net: The machine, or the reversed one.
        demand: The demand to match.
        is_backwards: Whether ``net`` is reversed. The matching is then reversed in time.
        is_reducing: Whether the reversed matching reduces.
        unwound: Machine with links instead of switches, for the matching. None: ``net`` itself.
    """

    net: NetworkArrays
    demand: Demand
    is_backwards: bool
    is_reducing: bool
    unwound: UnwoundMachine | None


@dataclass(frozen=True, slots=True)
class MatchingProblem:
    """The task of planning one collective on one machine.

    Attributes:
        topology: The machine.
        collective: The collective.
        clock: Costs of its chunks.
        net: The machine as arrays.
        reversed_net: The reversed machine, or ``net`` if no demand is matched backwards.
        crossings: The links and switches of each link of ``net``.
        opposite_link: By link of ``reversed_net``: the opposite link of ``net``.
        forward: Demand to match on ``net``. None: no such demand.
        backward: Demand to match on ``reversed_net``, and to reverse. None: no such demand.
        unwound_machines: ``net`` and ``reversed_net`` with links instead of switches. None: the
            switches remain.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    net: NetworkArrays
    reversed_net: NetworkArrays
    crossings: Routes
    opposite_link: NDArray[np.int64]
    forward: Demand | None
    backward: Demand | None
    unwound_machines: tuple[UnwoundMachine | None, UnwoundMachine | None]

    @property
    def tick_us(self) -> Fraction:
        """Return the length of a tick in microseconds."""
        return Fraction(self.clock.tick_ps, 10**6)

    @property
    def min_sends(self) -> int:
        """Return the minimum number of transfers. It is exact if all ranks want all chunks."""
        both = (d for d in (self.forward, self.backward) if d is not None)
        return sum(demand.min_sends(self.net.nodes) for demand in both)

    @property
    def max_sends(self) -> int:
        """Return the limit on the number of transfers, by memory."""
        if not self.passes:
            return MAX_SENDS
        return MAX_LOG // (2 if self.collective.num_chunks <= 2**16 else 4) * len(self.passes)

    @property
    def passes(self) -> tuple[PassKind, ...]:
        """Return the passes of a packed schedule over its log. Empty: the schedule is not packed.

        An allreduce uses one log for both phases, backwards over the opposite links in the first,
        if the reversed machine is the same.
        """
        demand, net, reversed_net = self.forward or self.backward, self.net, self.reversed_net
        assert demand is not None
        plain = not (self.topology.switches or self.topology.budgets)
        if not (
            plain
            and net.is_uniform
            and demand.wanted is None
            and self.min_sends >= MIN_PACKED_SENDS
        ):
            return ()
        if self.backward is None:
            return (PassKind.STORES,)
        if self.forward is None:
            return (PassKind.REDUCES,)
        is_symmetric = np.array_equal(net.src, reversed_net.src) and np.array_equal(
            net.dst, reversed_net.dst
        )
        return (PassKind.REDUCES, PassKind.STORES) if is_symmetric else ()

    def match_log(self, seed: int, pause: Pause) -> tuple[int, RoundLog]:
        """Return the completion time in ticks and the log of a packed schedule."""
        demand = self.forward or self.backward
        net = self.net if self.forward else self.reversed_net
        assert demand is not None
        log = match_uniform(net, demand, seed, pause)
        return len(log.fired) * len(self.passes) * int(net.busy[0]), log

    def phases(self, *, reverse_unicast: bool) -> tuple[MatchingPhase, ...]:
        """Return the phases, in order of time.

        Args:
            reverse_unicast: Whether to match a unicast demand on the reversed machine.
        """
        matchings = []
        if self.backward is not None:
            matchings.append(self._backward_phase(self.backward, reduces=True))
        if self.forward is not None and reverse_unicast:
            matchings.append(self._backward_phase(self.forward.reversed_demand(), reduces=False))
        elif self.forward is not None:
            net, unwound = self.net, self.unwound_machines[0]
            matchings.append(
                MatchingPhase(
                    net, self.forward, is_backwards=False, is_reducing=False, unwound=unwound
                )
            )
        return tuple(matchings)

    def _backward_phase(self, demand: Demand, *, reduces: bool) -> MatchingPhase:
        net, unwound = self.reversed_net, self.unwound_machines[1]
        return MatchingPhase(net, demand, is_backwards=True, is_reducing=reduces, unwound=unwound)

    def join_phases(
        self, halves: tuple[MatchingPhase, ...], parts: Sequence[TimedSends]
    ) -> TimedSends:
        """Return the completion time and the transfers of all phases, one after the other."""
        matchings = [self._to_forward(*pair) for pair in zip(halves, parts, strict=True)]
        if len(matchings) == 1:
            return matchings[0]
        (finish, sends), (second_time, second_sends) = matchings
        return finish + second_time, concatenate_schedules(sends, finish, second_sends)

    def _to_forward(self, half: MatchingPhase, part: TimedSends) -> TimedSends:
        """Return the matching of a phase, reversed in time if the phase is backwards."""
        if not half.is_backwards:
            return part
        finish, sends = part
        cost = half.net.cost[sends.link]
        return finish, reverse_schedule(
            sends, finish, cost, self.opposite_link, reduce=half.is_reducing
        )

    def phase_lower_bound(self, half: MatchingPhase, attained: int) -> int:
        """Return a lower bound on the completion time of a phase, in ticks.

        Args:
            half: The phase.
            attained: Completion time of a schedule. A bound that attains it needs no improvement.
        """
        topology, clock = self.topology, self.clock
        if half.is_backwards:
            topology = topology.reversed()
            clock = Clock.from_topology(topology, clock.chunk_bytes, clock.model, clock.tick_ps)
        return lower_bound_ticks(
            topology, clock, half.net, half.demand, attained, backwards=half.is_backwards
        )

    def is_matched_backwards(self, attempt: int) -> bool:
        """Return whether an attempt matches a unicast demand backwards, as every second one does.

        Chunks to few ranks are then distributed better over the links into these ranks.
        """
        demand = self.forward
        if demand is None or self.backward is not None or not demand.is_unicast():
            return False
        assert demand.wanted_by is not None
        is_concentrating = len(np.unique(demand.wanted_by)) < len(np.unique(demand.held_by))
        return is_concentrating == (attempt % 2 == 0)

    def lower_bound(self, attained: int) -> int:
        """Return a lower bound on the completion time (see :meth:`phase_lower_bound`)."""
        if self.forward is not None and self.backward is not None:
            return allreduce_bound_ticks(self.topology, self.clock, self.net, self.collective)
        return self.phase_lower_bound(self.phases(reverse_unicast=False)[0], attained)

    def build_result(self, finish: int, sends: Sends | RoundLog, lower_bound: int) -> Solution:
        """Return the plan with its bound."""
        schedule = (
            self._build_packed(sends)
            if isinstance(sends, RoundLog)
            else self._build_schedule(sends)
        )
        us = self.tick_us
        scope = f"{self.collective.num_chunks} chunks of {self.clock.sizes[0]} bytes"
        if self.clock.model is AlphaModel.OCCUPIES:  # those that are sent together have one alpha
            scope += ", each sent separately"
        return Solution(schedule, finish * us, Bound(Measure.TIME_US, lower_bound * us, (), scope))

    def _build_schedule(self, sends: Sends) -> Schedule:
        return Schedule(
            topology=self.topology,
            collective=self.collective,
            **build_transfer_rows(sends, self.crossings)._asdict(),
            tick_ps=self.clock.tick_ps,
            chunk_bytes=self.clock.chunk_bytes,
            model=self.clock.model,
        )

    def _build_packed(self, log: RoundLog) -> PackedSchedule:
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


def build_problem(request: Request, options: Options) -> MatchingProblem:
    """Return the task of a request.

    Raises:
        InputError: The options do not fit the request, or the result would be too large.
    """
    topology, dual = request.topology, dual_of(request.spec)
    collective = request.spec.at(request.spec.unit * options.chunks)
    half = build_demand(dual.spec.at(dual.spec.unit * options.chunks))
    size = -(-request.size_bytes // collective.chunks)
    model = AlphaModel(options.alpha)
    tick = _tick_length(topology, size, collective.num_chunks)
    clock = Clock.from_topology(topology, size, model, tick)
    crossings = build_routes(topology, clock, with_detours=False)
    net = build_arrays(topology, clock, crossings)
    needs_reversed = dual.on_reversed or dual.phases == 2 or half.is_unicast()
    back_topology = topology.reversed() if needs_reversed else topology
    back_clock = Clock.from_topology(back_topology, size, model, tick) if needs_reversed else clock
    back = (
        build_routes(back_topology, back_clock, with_detours=False) if needs_reversed else crossings
    )
    task = MatchingProblem(
        topology=topology,
        collective=collective,
        clock=clock,
        net=net,
        reversed_net=build_arrays(back_topology, back_clock, back) if needs_reversed else net,
        crossings=crossings,
        opposite_link=reverse_routes(topology, crossings, back)
        if needs_reversed
        else np.arange(len(crossings.src)),
        forward=None if dual.on_reversed else half,
        backward=half if dual.on_reversed or dual.phases == 2 else None,
        unwound_machines=(
            _unwind_if_requested(topology, clock, crossings, options),
            _unwind_if_requested(back_topology, back_clock, back, options),
        ),
    )
    if task.min_sends > task.max_sends:
        raise TooLargeError(
            f"{collective.name} of {format_count(topology.ranks, 'rank')} with "
            f"C={collective.chunks} "
            f"takes {task.min_sends} transfers; this version keeps up to {task.max_sends} of it: "
            "give fewer ranks or chunks"
        )
    return task


def _unwind_if_requested(
    topology: Topology, clock: Clock, crossings: Routes, options: Options
) -> UnwoundMachine | None:
    """Return the machine with links instead of switches (section IV-G), if the options request it.

    Raises:
        ParameterError: The machine has no switches.
    """
    if not options.switch_degree:
        return None
    if not topology.switches:
        raise ParameterError(
            f"switch_degree is {options.switch_degree}, and topology {topology.name!r} has no "
            "switch nodes to unwind: leave it out"
        )
    return unwind_switches(topology, clock, crossings, options.switch_degree)


def _tick_length(topology: Topology, size: int, chunks: int) -> int:
    """Return the picoseconds of a tick: the smallest power of ten at which times are countable.

    Raises:
        ParameterError: No tick is long enough.
    """
    slowest = max(
        Fraction(str(alpha_us)) * 10**6 + size * 1000 / (lanes * Fraction(str(gb_per_s)))
        for alpha_us, lanes, gb_per_s in {(k.alpha_us, k.lanes, k.gb_per_s) for k in topology.links}
    )
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        pace = budget.chunks_per_round * Fraction(str(speed))
        slowest = max(slowest, size * 1000 / pace)
    tick, total_time = 1, math.ceil(slowest) * chunks * topology.ranks
    while total_time // tick > _MAX_TOTAL_TICKS or slowest // tick >= MAX_TICKS:
        tick *= 10
    if tick > MAX_TICK_PS:
        raise ParameterError(
            f"topology {topology.name!r}: a chunk of {size} bytes takes {float(slowest):.3g} ps on "
            f"its slowest link, which is more than can be counted: give "
            "smaller costs or sizes"
        )
    return tick


def first_matching(half: MatchingPhase, seed: int, pause: Pause) -> TimedSends:
    """Return the completion time and the transfers of the first matching of a phase.

    Raises:
        UnreachableError: A rank has no path from any source of a chunk that it wants.
    """
    if half.unwound is None:
        return run_matching(half.net, half.demand, seed, pause)
    net, path = half.unwound
    _, sends = run_matching(net, half.demand, seed, pause)
    arrival = sends.start + (net.busy + net.lag)[net.kind[sends.link].astype(np.int64)]
    mapped = sends._replace(link=path[sends.link].astype(np.int32))
    return replay_sends(half.net, half.demand, mapped, arrival)


def run_matching(net: NetworkArrays, demand: Demand, seed: int, pause: Pause) -> TimedSends:
    """Match a demand by the algorithm for its links. Return the completion time and the transfers.

    Raises:
        UnreachableError: A rank has no path from any source of a chunk that it wants.
    """
    if net.is_uniform and demand.wanted is None:
        log = match_uniform(net, demand, seed, pause)
        finish, sends = len(log.fired) * int(net.busy[0]), log_to_sends(log, net, demand.chunks)
        return rematch_tail(net, demand, finish, sends, seed)
    if demand.is_unicast() and net.nodes <= MAX_NODES:
        return UnicastMatching(net, demand).match(seed, pause)
    return HeterogeneousMatching(net, demand, seed).match(
        seed, pause, empty_schedule(), DEFAULT_STYLE
    )
