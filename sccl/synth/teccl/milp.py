"""TE-CCL's general model: the way and epoch of each send (section 3, appendices A to D).

Variables are Boolean: chunks are not split. A chunk comes once to a rank. So a rank's buffer is the
set of arrivals so far, and flow conservation means that a chunk leaves after its arrival. The
number of epochs is given. All chunks have to arrive by then, without another objective, which is
fastest for solvers. In a round of A*, as many as possible have to come as near as possible to their
destinations.

Images of a chunk by a symmetry of machine and collective share its variables.
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
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.teccl.epochs import Epochs, EpochSpan

T = TypeVar("T")

STRATEGY = cpsat.Strategy(is_presolved=False)
"""NDv2 of two chassis in 35 and 39 epochs: 0.8 s, instead of 2.4 with probing."""

_ROUNDING = 0.5
"""Solvers of programs are off by a little from 0 and 1."""

_CAPACITY_BITS = 40
"""Bits for the capacity of a resource: solvers use 64 for sums."""

_REWARD = 10_000
"""Reward of a chunk at a destination, in the first epoch."""

_DISTANCE_WEIGHT = 0.5
"""Maximum reward for being near, relative to that (the paper's gamma, below 1)."""


class OutOfTimeError(Exception):
    """Time was over before a model was made."""


@dataclass(frozen=True)
class EpochState:
    """The state when a model begins.

    Attributes:
        available_from: the epoch from which a chunk is at a rank, by (chunk, rank). For holders it
            is 0.
        reservations: amounts still in use, by (resource, epoch).
    """

    available_from: dict[tuple[int, int], int]
    reservations: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def initial(cls, epochs: Epochs) -> EpochState:
        """Return that of the begin."""
        holders = epochs.problem.holders
        return cls({(c, r): 0 for c, ranks in enumerate(holders) for r in ranks})

    def advance(self, epochs: Epochs, sends: Iterable[ChunkSend], count: int) -> EpochState:
        """Return the state some epochs later, after some sends, by epoch."""
        problem = epochs.problem
        arrival_epochs = {key: max(0, epoch - count) for key, epoch in self.available_from.items()}
        held = {(t, k - count): load for (t, k), load in self.reservations.items() if k >= count}
        done: set[tuple[int, int, int]] = set()
        for send in sends:
            key = send.chunk, problem.dst[send.route]
            its = epochs.for_chunk(send.chunk)
            delay = its.delay_at(send.route, send.start)
            assert delay is not None
            comes = max(0, send.start + delay - count)
            arrival_epochs[key] = min(comes, arrival_epochs.get(key, comes))
            for span in its.spans_at(send.route, send.start):
                if (send.chunk, send.start, span.multicast_group) in done:
                    continue
                done.add((send.chunk, send.start, span.multicast_group))
                for k in range(send.start + span.first_epoch, send.start + span.last_epoch + 1):
                    if k >= count:
                        at = span.resource, k - count
                        held[at] = held.get(at, 0) + min(
                            span.load, epochs.capacity(span.resource, k)
                        )
        return EpochState(arrival_epochs, held)


@dataclass(frozen=True, slots=True)
class MilpResult:
    """The result of a model.

    Attributes:
        sends: sends of all chunks, by the epoch in which they start. None: it found none.
        refuted: whether it is proved that there are none, among symmetric ones.
        effort_units: effort spent.
    """

    sends: tuple[ChunkSend, ...] | None
    refuted: bool
    effort_units: float


def _while_in_time(items: Iterable[T], deadline_passed: Callable[[], bool]) -> Iterator[T]:
    """Yield things, each while there is time: making a model takes as long as solving some.

    Raises:
        OutOfTimeError: there is none.
    """
    for item in items:
        if deadline_passed():
            raise OutOfTimeError
        yield item


class EpochMilp:
    """The model of so many epochs."""

    def __init__(  # noqa: PLR0913 - independent inputs
        self,
        epochs: Epochs,
        action: SymmetryAction,
        count: int,
        *,
        standing: EpochState | None = None,
        buffers: int | None = None,
        complete: bool = True,
        deadline_passed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the model.

        Args:
            count: epochs.
            standing: the initial state. None: that of the collective.
            buffers: limit on chunks of others that a rank keeps to forward later. None: no limit.
                Only with the action of the identity.
            complete: whether all chunks have to arrive. Otherwise as many as possible come near.
            deadline_passed: whether time is over.

        Raises:
            OutOfTimeError: it is.
        """
        self.epochs, self.action, self.count = epochs, action, count
        self.problem, self.is_complete, self.buffers = epochs.problem, complete, buffers
        self.initial_state = EpochState.initial(epochs) if standing is None else standing
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
            if (c, r) not in self.initial_state.available_from
        }
        for add in (self._add_variables, self._add_conservation):
            for chunk in _while_in_time(action.representatives, deadline_passed):
                add(chunk)
        self._add_capacities(deadline_passed)
        for kept in self._buffered_chunks.values():
            if buffers is not None and len(kept) > buffers:
                self.model.add(sum(kept) <= buffers)
        if not complete:
            self._add_distance_objective(deadline_passed)

    def _add_variables(self, chunk: int) -> None:
        """Add which way a chunk may go, and when."""
        epochs, problem, arrival_epochs = (
            self.epochs.for_chunk(chunk),
            self.problem,
            self.initial_state.available_from,
        )
        goals = sorted(r for c, r in self.wanted if c == chunk)
        if not goals:
            return
        starts = {
            r: arrival_epochs[chunk, r]
            for r in range(problem.ranks)
            if (chunk, r) in arrival_epochs
        }
        soonest = [
            min(k + int(epochs.distance[r, v]) for r, k in starts.items()) for v in self._ranks
        ]
        ahead = epochs.distance[:, goals].min(axis=1)
        for path, (src, dst) in enumerate(zip(problem.src, problem.dst, strict=True)):
            if dst in starts:
                continue
            end = self.count
            if self.is_complete:
                end = self.count - epochs.delay[path] - int(ahead[dst]) + 1
            for k in range(starts.get(src, soonest[src]), end):
                delay = epochs.delay_at(path, k)
                if delay is None or (self.is_complete and k + delay + int(ahead[dst]) > self.count):
                    continue
                x = self.x[chunk, path, k] = self.model.new_bool_var("")
                self.departures.setdefault((chunk, src), []).append((k, x))
                self.arrivals.setdefault((chunk, dst), {}).setdefault(k + delay, []).append(x)

    @property
    def _ranks(self) -> range:
        return range(self.problem.ranks)

    def _add_conservation(self, chunk: int) -> None:
        """Add that a chunk comes once to a rank, and leaves it after that."""
        model, arrival_epochs, holders = (
            self.model,
            self.initial_state.available_from,
            self.problem.holders[chunk],
        )
        for rank in self._ranks:
            come = self.arrivals.get((chunk, rank), {})
            arrivals = [x for k in sorted(come) for x in come[k]]
            if self.is_complete and (chunk, rank) in self.wanted:
                model.add_exactly_one(arrivals)
            elif len(arrivals) > 1:
                model.add_at_most_one(arrivals)
            leave = self.departures.get((chunk, rank), [])
            if self.buffers is not None and rank not in holders:
                self._add_buffering(rank, come, arrival_epochs.get((chunk, rank)), leave)
            elif (chunk, rank) not in arrival_epochs:
                self._require_arrival(come, leave)

    def _require_arrival(
        self, come: dict[int, list[IntVar]], leave: list[tuple[int, IntVar]]
    ) -> None:
        """Add that a rank sends only chunks that have arrived."""
        model, times = self.model, sorted(come)
        have: dict[int, IntVar] = {}
        for before, k in zip([None, *times], times, strict=False):
            have[k] = model.new_bool_var("")
            model.add(sum(come[k]) + (0 if before is None else have[before]) == have[k])
        for k, x in leave:
            if by_then := bisect_right(times, k):
                model.add_implication(x, have[times[by_then - 1]])
            else:
                model.add(x == 0)

    def _add_buffering(
        self,
        rank: int,
        come: dict[int, list[IntVar]],
        came: int | None,
        leave: list[tuple[int, IntVar]],
    ) -> None:
        """Add that a rank forwards a chunk at its arrival, or from its buffer.

        Args:
            came: the epoch from which it is there, if known.
        """
        model = self.model
        kept: IntVar | int = 0
        last = max((k for k, _ in leave), default=-1)
        by_epoch: dict[int, list[IntVar]] = {}
        for k, x in leave:
            by_epoch.setdefault(k, []).append(x)
        for k in range(min([*come, *([] if came is None else [came])], default=last), last + 1):
            comes = sum(come.get(k, [])) + (1 if k == came else 0)
            for x in by_epoch.get(k, []):
                model.add(x <= comes + kept)
            more = model.new_bool_var("")
            model.add(more <= comes + kept)
            self._buffered_chunks.setdefault((rank, k + 1), []).append(more)
            kept = more
        for k, x in leave:
            if k < min([*come, *([] if came is None else [came])], default=last + 1):
                model.add(x == 0)

    def _add_capacities(self, deadline_passed: Callable[[], bool]) -> None:
        """Add the capacities of resources.

        Raises:
            OutOfTimeError: time is over before that.
        """
        held: dict[tuple[int, int], list[tuple[int, IntVar]]] = {}
        action, links = self.action, len(self.problem.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        taken: set[tuple[int, int, int]] = set()
        by_way: dict[int, list[tuple[int, int, IntVar]]] = {}
        for (chunk, path, k), x in self.x.items():
            by_way.setdefault(path, []).append((chunk, k, x))
        for path, spans in enumerate(_while_in_time(self.epochs.spans, deadline_passed)):
            for place, span in enumerate(spans):
                if span.resource < links and span.resource not in firsts:
                    continue
                for which, path_images in enumerate(action.inverse_routes):
                    image_span = self.epochs.spans[path_images[path]][place]
                    if (span.resource, which, image_span.multicast_group) in taken:
                        continue
                    taken.add((span.resource, which, image_span.multicast_group))
                    for chunk, k, x in self._group_departures(image_span, by_way):
                        now = self.epochs.for_chunk(chunk).spans_at(path_images[path], k)[place]
                        for at in range(k + now.first_epoch, k + now.last_epoch + 1):
                            load = min(now.load, self.epochs.capacity(span.resource, at))
                            held.setdefault((span.resource, at), []).append((load, x))
        for (thing, at), rows in held.items():
            room = self.epochs.capacity(thing, at) - self.initial_state.reservations.get(
                (thing, at), 0
            )
            if all(2 * load > room >= load for load, _ in rows):
                if len(rows) > 1:
                    self.model.add_at_most_one(x for _, x in rows)
            else:  # rounded so that infeasibility stays valid, and solutions are placed exactly
                unit = gcd(room, *(load for load, _ in rows))
                unit *= max(1, room // unit >> _CAPACITY_BITS)
                self.model.add(sum(load // unit * x for load, x in rows) <= -(-room // unit))

    def _group_departures(
        self, span: EpochSpan, by_way: dict[int, list[tuple[int, int, IntVar]]]
    ) -> list[tuple[int, int, IntVar]]:
        """Return first chunks, when they set out on ways of a stem, and whether they do."""
        if span.multicast_group in self._group_uses:
            return self._group_uses[span.multicast_group]
        together: dict[tuple[int, int], list[IntVar]] = {}
        for path, _ in self.problem.multicast_groups[span.multicast_group]:
            for chunk, k, x in by_way.get(path, ()):
                together.setdefault((chunk, k), []).append(x)
        uses = []
        for (chunk, k), variables in together.items():
            any_of = variables[0]
            if len(variables) > 1:
                any_of = self.model.new_bool_var("")
                for x in variables:
                    self.model.add_implication(x, any_of)
            uses.append((chunk, k, any_of))
        self._group_uses[span.multicast_group] = uses
        return uses

    def _add_distance_objective(self, deadline_passed: Callable[[], bool]) -> None:
        """Maximise what is there, the sooner the better, and how near the rest comes.

        Raises:
            OutOfTimeError: time is over before that.
        """
        arrival_epochs, terms = self.initial_state.available_from, []
        for chunk, goal in _while_in_time(sorted(self.wanted), deadline_passed):
            far = self.epochs.for_chunk(chunk).distance
            come = self.arrivals.get((chunk, goal), {})
            for k, variables in come.items():
                terms += [(_REWARD + _REWARD // (k + 1), x) for x in variables]
            near = max(
                (
                    self._distance_reward(int(far[v, goal]))
                    for v in self._ranks
                    if (chunk, v) in arrival_epochs
                ),
                default=0,
            )
            places = [x for variables in come.values() for x in variables]
            for rank in self._ranks:
                worth = self._distance_reward(int(far[rank, goal])) - near
                passing = [
                    x
                    for variables in self.arrivals.get((chunk, rank), {}).values()
                    for x in variables
                ]
                if rank != goal and worth > 0 and passing:
                    place = self.model.new_bool_var("")
                    self.model.add(place <= sum(passing))
                    terms.append((worth, place))
                    places.append(place)
            if places:
                self.model.add_at_most_one(places)
        self.model.maximize(sum(worth * x for worth, x in terms))

    @staticmethod
    def _distance_reward(epochs: int) -> int:
        return int(_REWARD * _DISTANCE_WEIGHT / (1 + epochs))

    def solve(self, effort: Effort, solver: str = "auto") -> MilpResult:
        """Return what a solver finds.

        Args:
            solver: CP-SAT, if it is not one of :class:`sccl.solvers.milp.Engine`.

        Raises:
            SolverError: it cannot be used.
            KeyboardInterrupt: the user interrupted.
        """
        result: cpsat.Result | milp.Result
        if solver in set(milp.Engine):
            model, engine = milp.from_cpsat(self.model), milp.Engine(solver)
            result = by_nodes = milp.solve(model, effort, engine=engine)
            taken = [
                key for key, x in self.x.items() if by_nodes.value_by_index(x.index) > _ROUNDING
            ]
        else:
            result = by_clauses = cpsat.solve(self.model, effort, STRATEGY)
            taken = [
                key for key, x in self.x.items() if result.has_solution and by_clauses.value(x)
            ]
        if not result.has_solution:
            return MilpResult(None, result.is_infeasible, result.units)
        sends = [
            ChunkSend(k, chunks[chunk], paths[path])
            for chunk, path, k in taken
            for chunks, paths in zip(self.action.chunks, self.action.routes, strict=True)
        ]
        return MilpResult(
            tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route))),
            refuted=False,
            effort_units=result.units,
        )
