"""TE-CCL's general model: the route and epoch of each send (section 3.1, appendices A to D and F).

Source: Liu et al., TE-CCL (SIGCOMM 2024). The variable ``x[chunk, route, epoch]`` is the paper's F:
whether a chunk starts on a route in an epoch. Chunks are not split, so all variables are Boolean. A
chunk arrives at a rank at most once. So the paper's buffer B is the set of arrivals so far, and
flow conservation means that a chunk leaves after its arrival.

There are two modes. In the complete one, all chunks must arrive within the given epochs (the
destination constraints), and there is no objective. Solvers are faster this way than with the
paper's objective, which prefers early arrivals. In a round of A*
(:mod:`sccl.synth.teccl.astar`) the destination constraints are dropped, and the distance objective
of appendix D (:meth:`EpochMilp._add_distance_objective`) rewards progress.

Images of a chunk under a symmetry of machine and collective share its variables.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import TypeVar

from sccl.solvers import cpsat, milp
from sccl.solvers.cpsat import CpModel, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.limits import MAX_LOAD
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.teccl.epochs import Epochs, EpochSpan

T = TypeVar("T")

STRATEGY = cpsat.Strategy(is_presolved=False)
"""NDv2 of two chassis in 35 and 39 epochs: 0.8 s, instead of 2.4 with probing."""

_REWARD = 10_000
"""Reward for a chunk at its destination, and again for its arrival in the first epoch. Rewards are
integers, so it is large."""

_DISTANCE_WEIGHT = 0.5
"""Maximum reward for a chunk near its destination, as a fraction of ``_REWARD`` (gamma)."""


class OutOfTimeError(Exception):
    """The deadline passed before a model was built."""


@dataclass(frozen=True)
class EpochState:
    """The state at the start of a model: the Q of appendix D, and the use of resources.

    Attributes:
        available_from: First epoch in which a chunk is at a rank, keyed by (chunk, rank). 0 for
            holders.
        reservations: Capacity that sends of earlier rounds use, keyed by (resource, epoch).
    """

    available_from: dict[tuple[int, int], int]
    reservations: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def initial(cls, epochs: Epochs) -> EpochState:
        """Return the state before the first epoch: holders have their chunks (appendix A)."""
        holders = epochs.problem.holders
        return cls({(c, r): 0 for c, ranks in enumerate(holders) for r in ranks})

    def advance(self, epochs: Epochs, sends: Iterable[ChunkSend], count: int) -> EpochState:
        """Return the state of the next round (the look-ahead constraints of appendix D).

        Args:
            epochs: Epochs of this round.
            sends: Sends of this round, by epoch.
            count: Number of epochs of this round.
        """
        problem = epochs.problem
        available_from = {key: max(0, epoch - count) for key, epoch in self.available_from.items()}
        reservations = {
            (resource, epoch - count): load
            for (resource, epoch), load in self.reservations.items()
            if epoch >= count
        }
        counted_groups: set[tuple[int, int, int]] = set()
        for send in sends:
            key = send.chunk, problem.dst[send.route]
            chunk_epochs = epochs.for_chunk(send.chunk)
            delay = chunk_epochs.delay_at(send.route, send.start)
            assert delay is not None
            arrival = max(0, send.start + delay - count)
            available_from[key] = min(arrival, available_from.get(key, arrival))
            for span in chunk_epochs.spans_at(send.route, send.start):
                group = send.chunk, send.start, span.multicast_group
                if group in counted_groups:
                    continue
                counted_groups.add(group)
                last_epoch = send.start + span.last_epoch
                for epoch in range(max(count, send.start + span.first_epoch), last_epoch + 1):
                    use = span.resource, epoch - count
                    load = min(span.load, epochs.capacity(span.resource, epoch))
                    reservations[use] = reservations.get(use, 0) + load
        return EpochState(available_from, reservations)


@dataclass(frozen=True, slots=True)
class MilpResult:
    """The result of a model.

    Attributes:
        sends: Sends of all chunks, sorted, with starts in epochs. None: the solver has no solution.
        refuted: Whether the solver proved that the model, with its symmetry, has no solution.
        effort_units: Effort spent.
    """

    sends: tuple[ChunkSend, ...] | None
    refuted: bool
    effort_units: float


def _until_deadline(items: Iterable[T], deadline_passed: Callable[[], bool]) -> Iterator[T]:
    """Yield items until the deadline. Building a large model takes as long as solving a small one.

    Raises:
        OutOfTimeError: The deadline passed before the last item.
    """
    for item in items:
        if deadline_passed():
            raise OutOfTimeError
        yield item


class EpochMilp:
    """The model of a given number of epochs."""

    def __init__(  # noqa: PLR0913 - independent inputs
        self,
        epochs: Epochs,
        action: SymmetryAction,
        count: int,
        *,
        initial_state: EpochState | None = None,
        buffers: int | None = None,
        is_complete: bool = True,
        deadline_passed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Build the model.

        Args:
            epochs: Epochs of the problem.
            action: Symmetries of the schedule.
            count: Number of epochs.
            initial_state: The state before the first epoch. None: only holders have their chunks.
            buffers: Limit on the chunks of others that a rank stores to forward later (appendix B).
                None: no limit. A limit requires the identity as ``action``.
            is_complete: Whether all chunks must arrive. Otherwise the model maximizes progress, as
                in a round of A* (appendix D).
            deadline_passed: Whether the deadline has passed.

        Raises:
            OutOfTimeError: The deadline passed before the model was built.
        """
        self.epochs, self.action, self.count = epochs, action, count
        self.problem, self.is_complete, self.buffers = epochs.problem, is_complete, buffers
        if initial_state is None:
            initial_state = EpochState.initial(epochs)
        self.initial_state = initial_state
        self.model = CpModel()
        self.x: dict[tuple[int, int, int], IntVar] = {}
        self.arrivals: dict[tuple[int, int], dict[int, list[IntVar]]] = {}
        self.departures: dict[tuple[int, int], list[tuple[int, IntVar]]] = {}
        self._buffered_chunks: dict[tuple[int, int], list[IntVar]] = {}
        self._group_uses: dict[int, list[tuple[int, int, IntVar]]] = {}
        self.wanted = {
            (c, r)
            for c in action.representatives
            for r in self.problem.wanted[c]
            if (c, r) not in initial_state.available_from
        }
        for add in (self._add_variables, self._add_conservation):
            for chunk in _until_deadline(action.representatives, deadline_passed):
                add(chunk)
        self._add_capacities(deadline_passed)
        for buffered in self._buffered_chunks.values():
            if buffers is not None and len(buffered) > buffers:
                self.model.add(sum(buffered) <= buffers)  # appendix B: the limit L
        if not is_complete:
            self._add_distance_objective(deadline_passed)

    def _add_variables(self, chunk: int) -> None:
        """Add the variables F of a chunk: each route and epoch on which it can be useful."""
        epochs, problem = self.epochs.for_chunk(chunk), self.problem
        available_from = self.initial_state.available_from
        destinations = sorted(r for c, r in self.wanted if c == chunk)
        if not destinations:
            return
        sources = {r: available_from[chunk, r] for r in self._ranks if (chunk, r) in available_from}
        earliest_arrival = [
            min(epoch + int(epochs.distance[source, rank]) for source, epoch in sources.items())
            for rank in self._ranks
        ]
        to_destination = epochs.distance[:, destinations].min(axis=1)
        for path, (src, dst) in enumerate(zip(problem.src, problem.dst, strict=True)):
            if dst in sources:
                continue
            end, remaining = self.count, int(to_destination[dst])
            if self.is_complete:
                end = self.count - epochs.delay[path] - remaining + 1
            for k in range(sources.get(src, earliest_arrival[src]), end):
                delay = epochs.delay_at(path, k)
                if delay is None or (self.is_complete and k + delay + remaining > self.count):
                    continue
                x = self.x[chunk, path, k] = self.model.new_bool_var("")
                self.departures.setdefault((chunk, src), []).append((k, x))
                self.arrivals.setdefault((chunk, dst), {}).setdefault(k + delay, []).append(x)

    @property
    def _ranks(self) -> range:
        return range(self.problem.ranks)

    def _add_conservation(self, chunk: int) -> None:
        """Add the constraints of a chunk on destinations, flow conservation, and buffers."""
        model, available_from = self.model, self.initial_state.available_from
        for rank in self._ranks:
            by_epoch = self.arrivals.get((chunk, rank), {})
            arrivals = [x for k in sorted(by_epoch) for x in by_epoch[k]]
            if self.is_complete and (chunk, rank) in self.wanted:  # destination constraints
                model.add_exactly_one(arrivals)
            elif len(arrivals) > 1:
                model.add_at_most_one(arrivals)
            departures = self.departures.get((chunk, rank), [])
            if self.buffers is not None and rank not in self.problem.holders[chunk]:
                first_epoch = available_from.get((chunk, rank))
                self._add_limited_buffer(rank, by_epoch, first_epoch, departures)
            elif (chunk, rank) not in available_from:
                self._add_buffer(by_epoch, departures)

    def _add_buffer(
        self, arrivals: dict[int, list[IntVar]], departures: list[tuple[int, IntVar]]
    ) -> None:
        """Add buffer variables B of a chunk on a rank, and flow conservation: F <= B.

        Args:
            arrivals: Arriving sends of each epoch.
            departures: The sends from this rank, with their epochs.
        """
        model, epochs = self.model, sorted(arrivals)
        is_buffered: dict[int, IntVar] = {}
        for previous, k in zip([None, *epochs], epochs, strict=False):
            is_buffered[k] = model.new_bool_var("")
            before = 0 if previous is None else is_buffered[previous]
            model.add(sum(arrivals[k]) + before == is_buffered[k])
        for k, x in departures:
            if earlier_arrivals := bisect_right(epochs, k):
                model.add_implication(x, is_buffered[epochs[earlier_arrivals - 1]])
            else:
                model.add(x == 0)

    def _add_limited_buffer(
        self,
        rank: int,
        arrivals: dict[int, list[IntVar]],
        first_epoch: int | None,
        departures: list[tuple[int, IntVar]],
    ) -> None:
        """Require that a rank forwards a chunk at its arrival or from its limited buffer.

        A chunk may leave the buffer at any epoch, as with the paper's variable X (appendix B).

        Args:
            rank: The rank.
            arrivals: Arriving sends of each epoch.
            first_epoch: Epoch of the chunk's arrival by a send of an earlier round. None: no such
                send.
            departures: The sends from this rank, with their epochs.
        """
        model = self.model
        arrival_epochs = [*arrivals, *([] if first_epoch is None else [first_epoch])]
        buffered: IntVar | int = 0
        last = max((k for k, _ in departures), default=-1)
        departures_by_epoch: dict[int, list[IntVar]] = {}
        for k, x in departures:
            departures_by_epoch.setdefault(k, []).append(x)
        for k in range(min(arrival_epochs, default=last), last + 1):
            arriving = sum(arrivals.get(k, [])) + (1 if k == first_epoch else 0)
            for x in departures_by_epoch.get(k, []):
                model.add(x <= arriving + buffered)
            next_buffered = model.new_bool_var("")
            model.add(next_buffered <= arriving + buffered)
            self._buffered_chunks.setdefault((rank, k + 1), []).append(next_buffered)
            buffered = next_buffered
        for k, x in departures:
            if k < min(arrival_epochs, default=last + 1):
                model.add(x == 0)

    def _add_capacities(self, deadline_passed: Callable[[], bool]) -> None:
        """Add the capacity constraints, for uses of one or more epochs (appendix F).

        Links of one orbit under the symmetries have the same loads, so the first one suffices.

        Raises:
            OutOfTimeError: The deadline passed.
        """
        uses: dict[tuple[int, int], list[tuple[int, IntVar]]] = {}
        action, links = self.action, len(self.problem.topology.links)
        first_links = {min(images) for images in zip(*action.links, strict=True)}
        counted_groups: set[tuple[int, int, int]] = set()
        sends_by_route: dict[int, list[tuple[int, int, IntVar]]] = {}
        for (chunk, path, k), x in self.x.items():
            sends_by_route.setdefault(path, []).append((chunk, k, x))
        for path, spans in enumerate(_until_deadline(self.epochs.spans, deadline_passed)):
            for hop, span in enumerate(spans):
                if span.resource < links and span.resource not in first_links:
                    continue
                for image, path_images in enumerate(action.inverse_routes):
                    image_span = self.epochs.spans[path_images[path]][hop]
                    group = span.resource, image, image_span.multicast_group
                    if group in counted_groups:
                        continue
                    counted_groups.add(group)
                    for chunk, k, x in self._group_departures(image_span, sends_by_route):
                        chunk_epochs = self.epochs.for_chunk(chunk)
                        use = chunk_epochs.spans_at(path_images[path], k)[hop]
                        for epoch in range(k + use.first_epoch, k + use.last_epoch + 1):
                            load = min(use.load, self.epochs.capacity(span.resource, epoch))
                            uses.setdefault((span.resource, epoch), []).append((load, x))
        for (resource, epoch), loads in uses.items():
            reserved = self.initial_state.reservations.get((resource, epoch), 0)
            capacity = self.epochs.capacity(resource, epoch) - reserved
            if all(2 * load > capacity >= load for load, _ in loads):
                if len(loads) > 1:
                    self.model.add_at_most_one(x for _, x in loads)
            else:  # rounded down, so that a refutation is valid: exact time is assigned later
                unit = gcd(capacity, *(load for load, _ in loads))
                unit *= max(1, capacity // unit // MAX_LOAD)
                self.model.add(sum(load // unit * x for load, x in loads) <= -(-capacity // unit))

    def _group_departures(
        self, span: EpochSpan, sends_by_route: dict[int, list[tuple[int, int, IntVar]]]
    ) -> list[tuple[int, int, IntVar]]:
        """Return (chunk, epoch, variable) of all departures on the routes of a multicast group.

        The variable is true if the chunk starts in the epoch on at least one of these routes. The
        switch copies it, so it uses the common links once.
        """
        if span.multicast_group in self._group_uses:
            return self._group_uses[span.multicast_group]
        sends: dict[tuple[int, int], list[IntVar]] = {}
        for path, _ in self.problem.multicast_groups[span.multicast_group]:
            for chunk, k, x in sends_by_route.get(path, ()):
                sends.setdefault((chunk, k), []).append(x)
        departures = []
        for (chunk, k), variables in sends.items():
            is_sent = variables[0]
            if len(variables) > 1:
                is_sent = self.model.new_bool_var("")
                for x in variables:
                    self.model.add_implication(x, is_sent)
            departures.append((chunk, k, is_sent))
        self._group_uses[span.multicast_group] = departures
        return departures

    def _add_distance_objective(self, deadline_passed: Callable[[], bool]) -> None:
        """Maximize arrivals, early ones first, and the approach of other chunks (appendix D).

        The paper rewards the chunks P that are at each distance FW from their destination after the
        round. Here each (chunk, destination) is rewarded once, at the destination or at the nearest
        rank, and only for a smaller distance than before the round. The distance term has no
        factor 1 / (k' + 1) for late arrivals.

        Raises:
            OutOfTimeError: The deadline passed.
        """
        available_from, terms = self.initial_state.available_from, []
        for chunk, destination in _until_deadline(sorted(self.wanted), deadline_passed):
            distance = self.epochs.for_chunk(chunk).distance[:, destination]
            arrivals = self.arrivals.get((chunk, destination), {})
            for k, variables in arrivals.items():  # the term of P at its destination
                terms += [(_REWARD + _REWARD // (k + 1), x) for x in variables]
            sources = [rank for rank in self._ranks if (chunk, rank) in available_from]
            source_rewards = [self._distance_reward(int(distance[rank])) for rank in sources]
            initial_reward = max(source_rewards, default=0)
            rewarded = [x for variables in arrivals.values() for x in variables]
            for rank in self._ranks:  # the term of P elsewhere: gamma / (1 + FW)
                reward = self._distance_reward(int(distance[rank])) - initial_reward
                by_epoch = self.arrivals.get((chunk, rank), {})
                rank_arrivals = [x for variables in by_epoch.values() for x in variables]
                if rank != destination and reward > 0 and rank_arrivals:
                    is_rewarded = self.model.new_bool_var("")
                    self.model.add(is_rewarded <= sum(rank_arrivals))
                    terms.append((reward, is_rewarded))
                    rewarded.append(is_rewarded)
            if rewarded:
                self.model.add_at_most_one(rewarded)
        self.model.maximize(sum(reward * x for reward, x in terms))

    @staticmethod
    def _distance_reward(distance: int) -> int:
        return int(_REWARD * _DISTANCE_WEIGHT / (1 + distance))

    def solve(self, effort: Effort, solver: str = "auto") -> MilpResult:
        """Solve the model, and return its sends.

        Args:
            effort: Limits of the solver.
            solver: A name of :class:`sccl.solvers.milp.Engine`, otherwise CP-SAT.

        Raises:
            SolverError: The solver is not available.
            KeyboardInterrupt: The user interrupted.
        """
        result: cpsat.Result | milp.Result
        if solver in set(milp.Engine):
            model, engine = milp.from_cpsat(self.model), milp.Engine(solver)
            result = milp_result = milp.solve(model, effort, engine=engine)
            selected = [
                key for key, x in self.x.items() if milp_result.value_by_index(x.index) > 0.5
            ]
        else:
            result = cpsat_result = cpsat.solve(self.model, effort, STRATEGY)
            selected = [
                key for key, x in self.x.items() if result.has_solution and cpsat_result.value(x)
            ]
        if not result.has_solution:
            return MilpResult(None, result.is_infeasible, result.units)
        sends = [
            ChunkSend(k, chunks[chunk], paths[path])
            for chunk, path, k in selected
            for chunks, paths in zip(self.action.chunks, self.action.routes, strict=True)
        ]
        return MilpResult(
            tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route))),
            refuted=False,
            effort_units=result.units,
        )
