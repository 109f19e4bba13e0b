"""Plan reductions with both phases at once, from the reversed dual, chains, or direct demands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import named_spec
from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US, AlphaModel, Clock
from sccl.core.collective import Collective, RelationKind
from sccl.core.outcome import PlanBound, Solution
from sccl.core.schedule import MAX_TIME
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.solvers.effort import EffortMeter
from sccl.synth.common.reduction import Reduction
from sccl.synth.limits import MAX_PLACED_SENDS
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.transfer_rows import (
    build_sized_transfer_rows,
    merge_switch_copies,
    reverse_routes,
)
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.teccl.chains import ChainSearch, chain_from_sends
from sccl.synth.teccl.direct_demands import (
    contributions_to,
    schedule_direct,
)
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phase_search import EPOCH_MODELS, PhaseSearch, to_columns
from sccl.synth.teccl.rerooting import reroot_chains
from sccl.synth.teccl.time_varying_problem import schedule_rows


class CombiningMethod(StrEnum):
    """Method for a combining collective. If times are equal, the first method counts."""

    REVERSAL = "reversal"
    OVERLAP = "overlap"
    CHAINS = "chains"
    DIRECT = "direct"
    GATHERED = "gathered"


_PREFERENCE = tuple(CombiningMethod)


@dataclass(frozen=True, slots=True)
class CombiningChoice:
    """Method of the best schedule of a combining collective."""

    by: CombiningMethod


@dataclass(frozen=True)
class CombinedSchedule:
    """A schedule of the requested collective, with a lower bound.

    Attributes:
        topology: The machine.
        collective: The requested collective.
        clock: Tick length and chunk sizes.
        problem: Scheduling problem of the first phase.
        crossings: Routes of the machine, for each chunk size.
        size: Index of each chunk's size in the clock, shape (chunks,).
        finish: Completion time, ticks.
        sends: Sends over routes of ``crossings``.
        is_multicast: Whether switches copy chunks that pass a link together.
        lower_bound: Lower bound for the schedules of ``scope``, ticks.
        scope: Description of the schedules that the bound covers.
        allgather: The allgather that follows the reducescatter of an allreduce. None: the
            collective has one phase.
        message: Message of each send, in order. None: each send is a message.
        weighted_mean: Weighted mean completion time of concurrent collectives, and a lower bound on
            it, ticks. None: no priorities.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    problem: SchedulingProblem
    crossings: tuple[Routes, ...]
    size: tuple[int, ...]
    finish: int
    sends: Sends
    is_multicast: bool
    lower_bound: Fraction
    scope: str
    allgather: Collective | None = None
    message: NDArray[np.int32] | None = None
    weighted_mean: tuple[Fraction, Fraction] | None = None

    def to_result(self) -> Solution:
        """Return the schedule and its bound as a solution."""
        hops = schedule_rows(self.problem, self.sends) or build_sized_transfer_rows(
            self.sends.sorted_sends(), self.crossings, self.size
        )
        if self.message is not None:
            message = self.message if hops.message is None else self.message[hops.message]
            hops = hops._replace(message=message)
        hops = merge_switch_copies(hops) if self.is_multicast else hops
        plan = hops.to_schedule(self.topology, self.collective, self.clock)
        tick = Fraction(self.clock.tick_ps, PS_PER_US)
        if self.weighted_mean is not None:
            mean, lower_bound = (ticks * tick for ticks in self.weighted_mean)
            return Solution(plan, mean, Bound(Measure.WEIGHTED_US, lower_bound, (), self.scope))
        bound: PlanBound = Bound(Measure.TIME_US, self.lower_bound * tick, (), self.scope)
        return Solution(plan, self.finish * tick, bound)


def assemble_phases(
    reduction: Reduction, options: Options, collective: Collective, phases: list[PhaseSearch]
) -> CombinedSchedule:
    """Return the schedule that executes the phases one after the other.

    Sends over routes are reversed in the same way as rows (:meth:`Reduction.invert`). The methods
    for both phases at once start from these sends.
    """
    topology, dual, its = reduction.request.topology, reduction.dual, phases[-1].problem.clock
    model = AlphaModel(options.alpha)
    clock = Clock.from_topology(topology, its.chunk_bytes, model, its.tick_ps)
    crossings = tuple(
        build_routes(topology, Clock.from_topology(topology, size, model, its.tick_ps))
        for size in its.sizes
    )
    finish, sends = phases[-1].finish_ticks, phases[-1].to_sends()
    if dual.on_reversed or dual.phases > 1:
        first, columns = phases[0], phases[0].to_sends()
        back = reverse_routes(topology, crossings[0], first.problem.crossings[0])
        ends = columns.start + first.durations(columns)
        before = Sends(
            start=first.finish_ticks - ends,
            chunk=columns.chunk,
            link=back[columns.link].astype(np.int32),
            reduce=np.ones_like(columns.reduce),
        ).sorted_sends()
        if dual.on_reversed:
            finish, sends = first.finish_ticks, before
        else:
            finish += first.finish_ticks
            sends = Sends(
                start=np.concatenate([before.start, sends.start + first.finish_ticks]),
                chunk=np.concatenate([before.chunk, sends.chunk]),
                link=np.concatenate([before.link, sends.link]),
                reduce=np.concatenate([before.reduce, sends.reduce]),
            )
    scope = f"{collective.num_chunks} chunks of {_size_range(clock.sizes)} bytes"
    if model is AlphaModel.OCCUPIES:  # chunks sent together would share one alpha
        scope += ", each sent separately"
    if dual.phases > 1:
        smallest = Clock.from_topology(topology, clock.sizes[0], model, its.tick_ps)
        lower_bound = reduction.allreduce_bound(collective, smallest)
    else:
        lower_bound = Fraction(phases[0].lower_bound * phases[0].problem.unit)
        scope += ", by CP-SAT's search" if phases[0].is_bound_by_search else ""
    mean = None
    if options.priorities:
        unit = Fraction(phases[0].problem.unit, sum(options.priorities))
        mean = phases[0].objective * unit, phases[0].lower_bound * unit
    return CombinedSchedule(
        topology=topology,
        collective=collective,
        clock=clock,
        problem=phases[0].problem,
        crossings=crossings,
        size=phases[-1].problem.size,
        finish=finish,
        sends=sends,
        is_multicast=phases[-1].problem.is_multicast,
        lower_bound=lower_bound,
        scope=scope,
        allgather=phases[-1].problem.collective if dual.phases > 1 else None,
        weighted_mean=mean,
    )


def _size_range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def improve_combining(
    strict: CombinedSchedule, last: PhaseSearch, spending: EffortMeter, units: float
) -> tuple[CombinedSchedule, CombiningMethod, StopReason]:
    """Improve a combining schedule as a whole.

    Args:
        strict: Schedule with consecutive phases.
        last: Search of the last phase.
        spending: The budget.
        units: Limit on effort.

    Returns:
        The schedule, its method, and why the search ended early, if so.

    Raises:
        TooLargeError: Direct sends are required and take too many messages.
    """
    best, how, ended = strict, CombiningMethod.REVERSAL, NOT_STOPPED
    try:
        if last.options.combine == "direct":
            best, how = _require_direct(strict, last)
        elif last.options.combine == "auto" and last.options.model not in EPOCH_MODELS:
            best, how = _try_direct(strict, how, last)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    chained = strict.allgather is not None and len(strict.crossings) == 1  # one chunk size
    if chained and last.options.combine != "direct" and not ended:
        best, how, ended = _try_chains(strict, (best, how), last, spending, units)
    return best, how, ended


def _require_direct(
    strict: CombinedSchedule, last: PhaseSearch
) -> tuple[CombinedSchedule, CombiningMethod]:
    best, how = _try_direct(replace(strict, finish=MAX_TIME), CombiningMethod.DIRECT, last)
    if best.finish == MAX_TIME:
        raise TooLargeError(
            f"{strict.collective.name} of {strict.topology.ranks} ranks needs more than "
            f"{MAX_PLACED_SENDS} message hops if all contributions are sent directly: give fewer "
            "chunks, or combine by reversal"
        )
    return best, how


def _try_direct(
    best: CombinedSchedule, how: CombiningMethod, last: PhaseSearch
) -> tuple[CombinedSchedule, CombiningMethod]:
    """Return the better of the incumbent and direct demands, with its method."""
    if len(best.crossings) > 1:  # direct demands support only chunks of one size
        return best, how
    spread = best.allgather
    problem, goals = last.problem, best.collective.destinations
    tries: list[tuple[CombiningMethod, Callable[[int], Iterable[int]], Iterable[ChunkSend]]]
    if spread is None:
        allgather = named_spec("allgather", best.topology.ranks).at(1)
        problem = build_problem(best.topology, allgather, best.clock)
        tries = [(CombiningMethod.DIRECT, goals, ())]
    else:
        tries = [
            (CombiningMethod.DIRECT, spread.holders, last.sends or ()),
            (CombiningMethod.GATHERED, goals, ()),
        ]
    for by, reducing_ranks, after in tries:
        contributions = contributions_to(best.collective, reducing_ranks)
        direct = schedule_direct(problem, contributions, best.finish, after)
        if direct is not None:
            (finish, sends, message), how = direct, by
            best = replace(best, finish=finish, sends=sends, message=message)
    return best, how


def _try_chains(
    strict: CombinedSchedule,
    incumbent: tuple[CombinedSchedule, CombiningMethod],
    last: PhaseSearch,
    spending: EffortMeter,
    units: float,
) -> tuple[CombinedSchedule, CombiningMethod, StopReason]:
    """Return the better of the incumbent and chains, its method, and why the search ended early."""
    (best, how), problem, ended = incumbent, last.problem, NOT_STOPPED
    lower_bound = ceil(strict.lower_bound / problem.unit)
    chains = ChainSearch(
        problem, last.options, None, lower_bound, lower_bound, (lower_bound,), last.notify
    )
    candidates = []
    try:
        chains.overlap_phases(chain_from_sends(strict.sends))
        candidates.append((CombiningMethod.OVERLAP, chains.finish_ticks, chains.to_sends()))
        everywhere = strict.collective.post.kind is RelationKind.ALL  # otherwise roots are fixed
        if (
            chains.sends is not None
            and chains.has_root_choice
            and last.options.combine == "auto"
            and everywhere
        ):
            turned = reroot_chains(problem, chains.sends, units, spending.deadline_passed)
            ticks = problem.finish(turned) * problem.unit
            candidates.append((CombiningMethod.CHAINS, ticks, to_columns(problem, turned)))
        left = spending.remaining(units)
        if left and everywhere and best.finish > chains.min_chain_time * problem.unit:
            chains.improve_before(min(ticks for _, ticks, _ in candidates) // problem.unit, left)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    candidates.append((CombiningMethod.CHAINS, chains.finish_ticks, chains.to_sends()))
    for by, ticks, sends in candidates:
        if (ticks, _PREFERENCE.index(by)) < (best.finish, _PREFERENCE.index(how)):
            best, how = replace(strict, finish=ticks, sends=sends), by
    if not ended and spending.deadline_passed() and best.finish > strict.lower_bound:
        ended = spending.effort.timeout_reason
    return best, how, ended
