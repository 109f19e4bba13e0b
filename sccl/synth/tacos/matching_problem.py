"""Represent the task of TACOS: the machine and the demand as arrays, and results of a matching.

Source: TACOS (MICRO 2024), section IV-E. Reductions are matched as collectives that copy, on the
reversed machine (:mod:`sccl.synth.common.reduction`). :func:`run_matching` selects the matching for
the links and the demand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sccl.core.clock import MAX_TICK_PS, MAX_TICKS, AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.formatting import format_count
from sccl.core.packed_schedule import AnySchedule, PackedSchedule, PassKind
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.synth.common.contract import Request
from sccl.synth.common.reduction import Phase, Reduction, reduce_request, reverse_request
from sccl.synth.limits import INFINITE, MAX_PAIRED_RANKS, MAX_TABLE_ROWS
from sccl.synth.network.arrays import NetworkArrays, build_arrays
from sccl.synth.network.demand import build_demand
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.tick_bounds import lower_bound_ticks
from sccl.synth.network.transfer_rows import build_transfer_rows
from sccl.synth.network.transfers import Demand, Pause, Sends, TimedSends
from sccl.synth.tacos.expanded_network import empty_schedule
from sccl.synth.tacos.matching_heterogeneous import DEFAULT_STYLE, HeterogeneousMatching
from sccl.synth.tacos.matching_unicast import UnicastMatching
from sccl.synth.tacos.matching_uniform import RoundLog, log_to_sends, match_uniform
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.switch_unwinding import UnwoundMachine, replay_sends, unwind_switches
from sccl.synth.tacos.tail_rematching import rematch_tail

MAX_SENDS = 2**28
"""Limit for a schedule in memory: 8 GiB with the memory of the search."""

MIN_PACKED_SENDS = MAX_TABLE_ROWS
"""Transfers from which on a schedule in rounds stays packed."""

MAX_LOG = 6 * 2**30
"""Limit in bytes for the chunks of a packed schedule: 8 GiB with search and verification."""


@dataclass(frozen=True, slots=True)
class MatchingProblem:
    """The task of planning one collective that copies on one machine.

    Attributes:
        topology: The machine.
        collective: The collective.
        clock: Costs of its chunks.
        crossings: The links and switches of each link of ``net``.
        net: The machine as arrays.
        demand: The demand to match.
        unwound: Machine with links instead of switches, for the matching. None: ``net`` itself.
        is_backwards: Whether the machine is reversed, and schedules are read backwards.
        uses: Number of times that the schedule is used: 2 in an allreduce.
        is_packed: Whether the schedule is a log of rounds.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    crossings: Routes
    net: NetworkArrays
    demand: Demand
    unwound: UnwoundMachine | None
    is_backwards: bool
    uses: int
    is_packed: bool

    @property
    def min_sends(self) -> int:
        """Return the minimum number of transfers. It is exact if all ranks want all chunks."""
        return self.demand.min_sends(self.net.nodes)

    @property
    def max_sends(self) -> int:
        """Return the limit on the number of transfers, by memory."""
        if not self.is_packed:
            return MAX_SENDS // self.uses
        return MAX_LOG // (2 if self.collective.num_chunks <= 2**16 else 4)

    def match_log(self, seed: int, pause: Pause) -> tuple[int, RoundLog]:
        """Return the completion time in ticks and the log of a packed schedule."""
        log = match_uniform(self.net, self.demand, seed, pause)
        return len(log.fired) * int(self.net.busy[0]), log

    def lower_bound(self, attained: int) -> int:
        """Return a lower bound on the completion time, in ticks.

        Args:
            attained: Completion time of a schedule. A bound that attains it needs no improvement.
        """
        arrays = self.topology, self.clock, self.net, self.demand
        return lower_bound_ticks(*arrays, attained, backwards=self.is_backwards)

    def build_schedule(self, sends: Sends | RoundLog) -> AnySchedule:
        """Return transfers as a schedule."""
        clock = self.clock
        if isinstance(sends, RoundLog):
            return PackedSchedule(
                topology=self.topology,
                collective=self.collective,
                fired=sends.fired,
                log=sends.chunk,
                passes=(PassKind.STORES,),
                tick_ps=clock.tick_ps,
                chunk_bytes=clock.sizes[0],
                model=clock.model,
            )
        rows = build_transfer_rows(sends, self.crossings)
        return rows.to_schedule(self.topology, self.collective, clock)


class MatchingTask(NamedTuple):
    """A request, reduced to problems that copy: one, or two for an allreduce."""

    reduction: Reduction
    problems: tuple[MatchingProblem, ...]


def build_tasks(request: Request, options: Options) -> tuple[MatchingTask, ...]:
    """Return the tasks that attempts solve in turn.

    If each chunk has one source and one destination, every second attempt matches the way back.
    Chunks to few ranks are then distributed better over the links into these ranks.

    Raises:
        InputError: The options do not fit the request, or the result would be too large.
    """
    reductions = [reduce_request(request)]
    (phase, *others) = reductions[0].phases
    demand = build_demand(phase.spec.at(phase.spec.unit))
    if not (others or phase.is_backwards) and demand.is_unicast():
        assert demand.wanted_by is not None
        is_concentrating = len(np.unique(demand.wanted_by)) < len(np.unique(demand.held_by))
        reductions.insert(0 if is_concentrating else 1, reverse_request(request))
    used = reductions[: options.restarts]
    return tuple(MatchingTask(each, _build_problems(each, options)) for each in used)


def _build_problems(reduction: Reduction, options: Options) -> tuple[MatchingProblem, ...]:
    phases = reduction.solved_phases
    uses = len(reduction.phases) // len(phases)
    problems = tuple(_build_problem(phase, options, uses, len(phases)) for phase in phases)
    max_sends = sum(problem.max_sends * problem.uses for problem in problems) // len(problems)
    min_sends = sum(problem.min_sends * problem.uses for problem in problems)
    if min_sends > max_sends:
        asked = reduction.collective(problems[0].collective)
        raise TooLargeError(
            f"{asked.name} of {format_count(asked.ranks, 'rank')} with C={asked.chunks} "
            f"takes {min_sends} transfers; this version keeps up to {max_sends} of it: "
            "give fewer ranks or chunks"
        )
    return problems


def _build_problem(phase: Phase, options: Options, uses: int, phases: int) -> MatchingProblem:
    topology = phase.topology
    collective = phase.spec.at(phase.spec.unit * options.chunks)
    size = -(-phase.size_bytes // collective.chunks)
    tick = _tick_length(topology, size, collective.num_chunks)
    clock = Clock.from_topology(topology, size, AlphaModel(options.alpha), tick)
    crossings = build_routes(topology, clock, with_detours=False)
    net, demand = build_arrays(topology, clock, crossings), build_demand(collective)
    is_uniform = net.is_uniform and not (topology.switches or topology.budgets)
    many = uses * demand.min_sends(net.nodes) >= MIN_PACKED_SENDS
    return MatchingProblem(
        topology=topology,
        collective=collective,
        clock=clock,
        crossings=crossings,
        net=net,
        demand=demand,
        unwound=_unwind_if_requested(topology, clock, crossings, options),
        is_backwards=phase.is_backwards,
        uses=uses,
        is_packed=phases == 1 and is_uniform and demand.wanted is None and many,
    )


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
    while total_time // tick >= INFINITE or slowest // tick >= MAX_TICKS:
        tick *= 10
    if tick > MAX_TICK_PS:
        raise ParameterError(
            f"topology {topology.name!r}: a chunk of {size} bytes takes {float(slowest):.3g} ps on "
            f"its slowest link, which is more than can be counted: give "
            "smaller costs or sizes"
        )
    return tick


def first_matching(half: MatchingProblem, seed: int, pause: Pause) -> TimedSends:
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
    if demand.is_unicast() and net.nodes <= MAX_PAIRED_RANKS:
        return UnicastMatching(net, demand).match(seed, pause)
    return HeterogeneousMatching(net, demand, seed).match(
        seed, pause, empty_schedule(), DEFAULT_STYLE
    )
