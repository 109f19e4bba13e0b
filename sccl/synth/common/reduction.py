"""Solve collectives with reductions by collectives that copy, on the reversed machine.

Source: Cai et al., SCCL (PPoPP 2021), section 3.5, here for schedules. (For algorithms, see
:mod:`sccl.transform.question`.) The interface is that of CVXPY's reductions: a reduction is applied
to a problem and gives other problems. Their solutions are inverted to one of the first problem.

A reduce or reducescatter is solved as its dual on the reversed machine, and the schedule is
reversed in time. An allreduce is a reducescatter followed by an allgather. One schedule serves both
phases if the reversed machine has the same costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.clock import PS_PER_US, Clock
from sccl.core.collective import Collective
from sccl.core.packed_schedule import AnySchedule, PackedSchedule, PassKind
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.prove.bounds.time_cuts import MAX_RANKS, completion_time_bound
from sccl.synth.common.contract import Request
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.routes import build_routes, inter_switch_links
from sccl.synth.network.tick_bounds import allreduce_bound_ticks, combined_clock
from sccl.synth.network.transfer_rows import TransferRows, sorted_rows


@dataclass(frozen=True, slots=True)
class Phase:
    """A problem without reductions.

    Attributes:
        topology: The machine, or the reversed one. Its switches do not copy if it is reversed,
            because switches cannot reduce.
        spec: The collective.
        size_bytes: Size of a rank's buffer.
        is_backwards: Whether the machine is reversed and the schedule will be reversed in time.
    """

    topology: Topology
    spec: Spec
    size_bytes: int
    is_backwards: bool


@dataclass(frozen=True, slots=True)
class Reduction:
    """A request, and the problems that it is reduced to.

    Attributes:
        request: The request.
        dual: Its dual.
        phases: The problems, in the order of time. Only an allreduce has two. A collective that
            copies is its own phase.
    """

    request: Request
    dual: Dual
    phases: tuple[Phase, ...]

    @property
    def is_mirrored(self) -> bool:
        """Return whether a schedule of the first of two phases also serves the second."""
        first, last = self.phases[0], self.phases[-1]
        return len(self.phases) == 2 and first.topology.same_timing(last.topology)

    @property
    def solved_phases(self) -> tuple[Phase, ...]:
        """Return the phases to solve, without a mirrored one."""
        return self.phases[:1] if self.is_mirrored else self.phases

    def collective(self, dual_collective: Collective) -> Collective:
        """Return the requested collective, with the chunks of a collective of the phases."""
        return self.request.spec.at(dual_collective.chunks * self.dual.chunk_factor)

    def invert(self, schedules: Sequence[AnySchedule]) -> AnySchedule:
        """Return the schedule for the request.

        Args:
            schedules: A valid schedule for each of the solved phases, or of all phases, of the same
                chunks and ticks.
        """
        first, last = schedules[0], schedules[-1]
        if not self.phases[0].is_backwards:
            return first
        if isinstance(first, PackedSchedule):
            passes = (PassKind.REDUCES, PassKind.STORES)[: len(self.phases)]
            collective = self.collective(first.collective)
            return replace(
                first, topology=self.request.topology, collective=collective, passes=passes
            )
        rows = _reversed_rows(self.request.topology, first, reduces=self.request.spec.combining)
        if len(self.phases) == 2:
            rows = _concatenated_rows(rows, first.finish, cast("Schedule", last))
        return rows.to_schedule(
            self.request.topology, self.collective(first.collective), first.clock
        )

    def allreduce_bound(
        self, collective: Collective, clock: Clock, *, batches: bool = False, with_cuts: bool = True
    ) -> Fraction:
        """Return a lower bound on the ticks of every allreduce, with or without phases.

        Args:
            collective: The allreduce.
            clock: Clock of its smallest chunks on the machine.
            batches: Whether a transfer may carry several chunks.
            with_cuts: Whether to compute the bound for any chunks, too, which takes seconds.

        Raises:
            UnreachableError: A rank has no path to another one.
        """
        topology, spec, lower_bound = self.request.topology, self.request.spec, Fraction(0)
        chunk_clock = combined_clock(topology, clock) if batches else clock
        if chunk_clock is not None:
            net = build_arrays(topology, chunk_clock, build_routes(topology, chunk_clock))
            ticks = allreduce_bound_ticks(topology, chunk_clock, net, collective)
            lower_bound = Fraction(ticks)
        if with_cuts and topology.ranks <= MAX_RANKS:
            us = completion_time_bound(topology, spec, clock.model).us(self.request.size_bytes)
            lower_bound = max(lower_bound, us * PS_PER_US / clock.tick_ps)
        return lower_bound


def reduce_request(request: Request) -> Reduction:
    """Return the problems without reductions that a request is reduced to.

    Raises:
        CollectiveError: The collective reduces and is no allreduce, and a chunk has several
            destinations or none.
    """
    topology, dual = request.topology, dual_of(request.spec)
    size_bytes = -(-request.size_bytes // dual.chunk_factor)
    phases = []
    if dual.on_reversed or dual.phases == 2:
        backwards = _reversed_machine(topology)
        phases.append(Phase(backwards, dual.spec, size_bytes, is_backwards=True))
    if not dual.on_reversed:
        phases.append(Phase(topology, dual.spec, size_bytes, is_backwards=False))
    return Reduction(request, dual, tuple(phases))


def reverse_request(request: Request) -> Reduction:
    """Return the reversed problem of a collective whose chunks have one source and one destination.

    A gather is a scatter reversed in time. Searches may find a better schedule in one direction.
    """
    spec, size_bytes = request.spec, request.size_bytes
    reversed_spec = replace(spec, name=f"{spec.name}-reversed", pre=spec.post, post=spec.pre)
    dual = Dual(spec, reversed_spec, on_reversed=True, chunk_factor=1, phases=1, scope="")
    phase = Phase(_reversed_machine(request.topology), reversed_spec, size_bytes, is_backwards=True)
    return Reduction(request, dual, (phase,))


def _reversed_machine(topology: Topology) -> Topology:
    switches = tuple(replace(switch, copies=False) for switch in topology.switches)
    return replace(topology.reversed(), switches=switches)


def _reversed_rows(topology: Topology, schedule: Schedule, *, reduces: bool) -> TransferRows:
    """Reverse a schedule of the reversed machine in time, and return it as rows on the machine.

    A row keeps its link busy from s to e, and its bytes arrive by e + lag. Reversed from the finish
    F, the opposite link is busy from F - e - lag to F - s - lag, and its bytes arrive by F - s. So
    data that a rank had received before its send at s now arrive before that send. The times of a
    link are shifted by a constant, so rows do not overlap. (Between switches a link without alpha
    forwards one tick later, in either direction.) In a reduction, data that arrive at a rank are
    reduced. A rank received each chunk once, so it sends its sum once, and each contribution counts
    once.
    """
    place = {link.edge: i for i, link in enumerate(topology.links)}
    back = np.array([place[k.dst, k.src] for k in topology.reversed().links], dtype=np.int32)
    link, clock = back[schedule.link], schedule.clock
    forwards = Clock.from_topology(topology, clock.chunk_bytes, clock.model, clock.tick_ps)
    waits = inter_switch_links(topology) & (np.array(forwards.alpha) == 0)
    lags = np.array([forwards.lag(i) for i in range(len(back))], dtype=np.int64) + waits
    end_of_start = schedule.finish - lags[link]
    is_reduced = np.array([reduces and k.dst < topology.ranks for k in topology.links])
    return sorted_rows(
        TransferRows(
            start=end_of_start - schedule.end,
            end=end_of_start - schedule.start,
            chunk=schedule.chunk.astype(np.int32, copy=False),
            link=link,
            reduce=is_reduced[link],
            message=None if schedule.message is None else schedule.message.astype(np.int32),
        )
    )


def _concatenated_rows(first: TransferRows, finish: int, then: Schedule) -> TransferRows:
    """Return a schedule that starts at ``finish``, when another one ends, after that one.

    Hardly any transfer of the second schedule could start earlier. All ranks first send their own
    data, so in reverse all ranks receive last the data that complete their sums.
    """
    message = None
    if first.message is not None and then.message is not None:
        message = np.concatenate([first.message, then.message + first.message.max(initial=-1) + 1])
    return sorted_rows(
        TransferRows(
            start=np.concatenate([first.start, then.start + finish]),
            end=np.concatenate([first.end, then.end + finish]),
            chunk=np.concatenate([first.chunk, then.chunk]),
            link=np.concatenate([first.link, then.link]),
            reduce=np.concatenate([first.reduce, then.reduce]),
            message=message,
        )
    )
