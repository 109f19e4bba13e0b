"""Select the best schedule of several packings of a phase, and extend it to the collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from sccl.collectives import Dual, Spec
from sccl.core.clock import PS_PER_US, Clock
from sccl.core.schedule import MAX_TIME, Schedule, build_schedule
from sccl.core.topology import Topology
from sccl.synth.limits import MAX_IDLE, MAX_PASSES, MAX_REFINED_SENDS, MIN_GAIN, OPERATION_EFFORT
from sccl.synth.network.routes import build_routes
from sccl.synth.network.transfer_rows import reverse_routes
from sccl.synth.packing.flow_problem import FlowProblem
from sccl.synth.packing.port_matching import plan_port_matching
from sccl.synth.packing.send_plans import (
    PlacedSend,
    PlacementDirection,
    SendPlan,
    place_plan,
    plan_sends,
    schedule_rows,
)
from sccl.synth.packing.slots import TimedPacking

PIECE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Chunks of each share of a tree, as long as there are not too many sends."""

_USUAL_PIECES = 32
"""Pieces of a share. More are tried only if half of the last gain would reach the target."""

MATCHING_PIECES = (1, 2, 4, 6, 12, 24, 48, 96)
"""Parts of each class, where chunks are of one size. An allgather of 1 MB on dgx2:8 has a gap of
2.7 % in 6 parts and 2.0 % in 12, but 3.3 % in 8 and 2.1 % in 16.
"""

_MATCHING_EFFORT = 2.5
"""Multiple of the budget for chunks of one size. Twelve parts take it on ``dgx2:8``."""

MAX_SENDS = 60_000
"""Sends of a packing. More are placed only if that is likely to reach the target."""


@dataclass(frozen=True, slots=True)
class ReduceBroadcastRoutes:
    """The meaning of the paths in a plan for a whole allreduce.

    Attributes:
        machine_routes: Path of the machine for each path. -1: none, because the rank already has
            the data.
        is_reducing: Whether arrivals on the path are added to the receiver's value instead of
            replacing it.
        exchange_numbers: Number of the exchange of each path. The paths between two ranks in both
            directions have the same number. -1: no exchange.
    """

    machine_routes: tuple[int, ...]
    is_reducing: tuple[bool, ...]
    exchange_numbers: tuple[int, ...]


@dataclass
class ScheduleBuilder:
    """Schedules of a phase: a non-combining collective on its machine.

    Attributes:
        problem: Flow problem of the phase.
        dual: Collective of the phase.
        directions: Directions in which the placed sends must be valid.
        deadline_passed: Whether the deadline has passed. Then no smaller chunks are placed.
        allreduce_routes: Paths of a plan for a whole allreduce. None: it is a plan for one phase.
        ticks: Time of the best schedule, picoseconds. Without one, a maximum.
        plan: Plan of the best schedule. None: there is none yet.
        sends: Placed sends of the best schedule.
        effort: Budget used.
        method: Method in use, ``"packing"`` or ``"matching"``.
        found_by: Method of the best schedule.
    """

    problem: FlowProblem
    dual: Dual
    directions: tuple[PlacementDirection, ...]
    deadline_passed: Callable[[], bool]
    allreduce_routes: ReduceBroadcastRoutes | None = None
    ticks: int = MAX_TIME
    plan: SendPlan | None = None
    sends: list[PlacedSend] = field(default_factory=list)
    effort: float = 0.0
    method: str = "packing"
    found_by: str = "packing"

    @property
    def us(self) -> float:
        """Return the time of the best schedule, microseconds. Infinite: there is none."""
        return inf if self.plan is None else self.ticks / PS_PER_US

    def schedule_packing(self, packing: TimedPacking, target_us: float, thorough: bool) -> float:
        """Schedule a packing in smaller and smaller chunks. Return the best time, microseconds."""
        self.method = "packing"
        flows = _USUAL_PIECES if packing.slots.offset else 1
        before, max_sends, soon = float("inf"), MAX_SENDS, False
        for pieces in PIECE_COUNTS:
            if pieces > _USUAL_PIECES and not soon:
                break
            plan = plan_sends(self.problem, packing, self.dual, pieces * flows)
            if self.plan is not None and (len(plan.sends) > max_sends or self.deadline_passed()):
                break
            ticks = self._keep_best(plan, self._place_plan(plan))
            if self.ticks <= target_us * PS_PER_US or not thorough:
                break
            if ticks > before * (1 - MIN_GAIN):
                break
            near = before < float("inf") and 2 * ticks - before <= target_us * PS_PER_US
            soon = 3 * ticks - before <= 2 * target_us * PS_PER_US
            before, max_sends = ticks, MAX_REFINED_SENDS if near else MAX_SENDS
        return self.us

    def _place_plan(self, plan: SendPlan) -> list[PlacedSend]:
        """Return the sends of a plan, each placed as early as possible."""
        many = max(1, len(plan.sends))
        passes = min(MAX_PASSES, MAX_REFINED_SENDS // many)
        self.effort += OPERATION_EFFORT * many * (1 + passes)
        return place_plan(self.problem, plan, self.directions, passes)

    def schedule_by_matching(
        self, floor: float, gap: float, spare_us: float, effort: float
    ) -> float:
        """Schedule chunks of one size. Return the time of the best schedule, microseconds.

        Chunks are divided into more and more pieces, until the target, no more gain, or the budget.

        Args:
            floor: Lower bound, microseconds.
            gap: Relative gap to it at which the search ends.
            spare_us: See :func:`.plan_port_matching`.
            effort: Budget of the whole search. After a multiple of it chunks are not divided
                further.
        """
        self.method = "matching"
        classes = self.problem.collective.chunk_classes().items()
        each = sum(len(class_chunks) * len(post - pre) for (pre, post), class_chunks in classes)
        target, max_effort = floor * (1 + gap) * PS_PER_US, _MATCHING_EFFORT * effort
        before, idle = float("inf"), 0
        for pieces in MATCHING_PIECES:
            over = (
                pieces * each > MAX_REFINED_SENDS
                or self.effort > max_effort
                or self.deadline_passed()
            )
            if self.plan is not None and over:
                break
            matching = plan_port_matching(
                self.problem, self.dual, pieces, spare_us, self.deadline_passed
            )
            self.effort += matching.effort + OPERATION_EFFORT * pieces * each
            if matching.plan is None:
                break
            ticks = self._keep_best(
                matching.plan, place_plan(self.problem, matching.plan, self.directions)
            )
            idle = idle + 1 if ticks > before * (1 - MIN_GAIN) else 0
            if self.ticks <= target or idle == MAX_IDLE:
                break
            before = min(before, ticks)
        return self.us

    def _keep_best(self, plan: SendPlan, sent: list[PlacedSend]) -> int:
        """Store a placed plan if it is the best so far. Return its time, picoseconds."""
        ticks = max(send.arrival for send in sent)
        if ticks < self.ticks and not self._has_mixed_exchange(sent):
            self.ticks, self.plan, self.sends = ticks, plan, sent
            self.found_by = self.method
        return ticks

    def schedule(self, topology: Topology, spec: Spec) -> Schedule:
        """Return the best schedule for the requested collective.

        Args:
            topology: Machine of the collective, not reversed.
            spec: The collective.
        """
        dual, plan = self.dual, self.plan
        assert plan is not None
        rows: list[tuple[int, int, int, int, bool]] = []
        messages: list[int] = []
        later = 0
        if self.allreduce_routes is not None:
            up_down = self.allreduce_routes
            real = [s for s in self.sends if up_down.machine_routes[s.route] >= 0]
            sent, adds = (
                [s._replace(route=up_down.machine_routes[s.route]) for s in real],
                self._reducing_sends(up_down, real),
            )
            first, messages = schedule_rows(topology, plan.sizes, sent)
            last = dict(zip(messages, range(len(first)), strict=True))
            rows = [
                (*row, adds[number] and last[number] == i)
                for i, (row, number) in enumerate(zip(first, messages, strict=True))
            ]
        elif dual.on_reversed or dual.phases > 1:
            first, numbers = schedule_rows(topology, plan.sizes, self._reversed_sends())
            last = dict(zip(numbers, range(len(first)), strict=True))  # a switch cannot reduce
            for i, (row, number) in enumerate(zip(first, numbers, strict=True)):
                rows.append((*row, spec.combining and last[number] == i))
            messages, later = numbers, self.ticks
        if not dual.on_reversed and self.allreduce_routes is None:
            sent = [
                s._replace(start=s.start + later, arrival=s.arrival + later) for s in self.sends
            ]
            then, numbers = schedule_rows(topology, plan.sizes, sent)
            rows += [(*row, False) for row in then]
            messages += [number + len(self.sends) for number in numbers]
        sizes = plan.sizes[0] if len(set(plan.sizes)) == 1 else plan.sizes
        collective = spec.at(plan.chunks * dual.chunk_factor)
        message_ids = messages if topology.switches else None
        return build_schedule(
            topology, collective, rows, Clock.from_topology(topology, sizes), message_ids
        )

    def _reducing_sends(
        self, up_down: ReduceBroadcastRoutes, sent: Sequence[PlacedSend]
    ) -> list[bool]:
        """Return whether each send is added to the receiver's value instead of replacing it.

        In an exchange, a send that starts after the other's arrival carries the sum of both.
        """
        edges = self.problem.edges
        exchange = [
            (s.chunk, up_down.exchange_numbers[s.route], *edges[up_down.machine_routes[s.route]])
            for s in sent
        ]
        come = {key: s.arrival for key, s in zip(exchange, sent, strict=True) if key[1] >= 0}

        def is_separate(s: PlacedSend, chunk: int, number: int, u: int, v: int) -> bool:
            return number < 0 or s.start < come.get((chunk, number, v, u), inf)

        return [
            up_down.is_reducing[s.route] and is_separate(s, *key)
            for s, key in zip(sent, exchange, strict=True)
        ]

    def _has_mixed_exchange(self, sent: Sequence[PlacedSend]) -> bool:
        """Return whether a rank sends in an exchange after a part of the other has arrived.

        It would send this part back with its own, and the other rank would have it twice.
        """
        up_down, edges = self.allreduce_routes, self.problem.edges
        if up_down is None:
            return False
        last: dict[tuple[int, int, int], list[int]] = {}
        for s in sent:
            if (number := up_down.exchange_numbers[s.route]) >= 0:
                key = (s.chunk, number, edges[up_down.machine_routes[s.route]][0])
                last.setdefault(key, []).append(s.start)
        last_starts = {key: max(starts) for key, starts in last.items() if len(starts) > 1}
        return any(
            s.arrival
            <= last_starts.get(
                (
                    s.chunk,
                    up_down.exchange_numbers[s.route],
                    edges[up_down.machine_routes[s.route]][1],
                ),
                -1,
            )
            for s in sent
        )

    def _reversed_sends(self) -> list[PlacedSend]:
        turned = self.directions[0].reversed_routes
        assert turned is not None
        return [
            PlacedSend(self.ticks - s.arrival, self.ticks - s.start, s.chunk, turned[s.route])
            for s in self.sends
        ]


def forward_or_reversed(topology: Topology, dual: Dual) -> tuple[PlacementDirection, ...]:
    """Return the placement directions of a phase: forwards, backwards, or both."""
    forwards = () if dual.on_reversed else (PlacementDirection(topology),)
    if not dual.on_reversed and dual.phases == 1:
        return forwards
    routes = (
        build_routes(machine, Clock.from_topology(machine, 1))
        for machine in (topology, topology.reversed())
    )
    turned = tuple(reverse_routes(topology, *routes).tolist())
    return (PlacementDirection(topology, turned, is_backwards=True), *forwards)
