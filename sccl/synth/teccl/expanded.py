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
from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import ChunkSend
from sccl.synth.teccl.epochs import Epochs, Span

T = TypeVar("T")

STRATEGY = cpsat.Strategy(presolved=False)
"""NDv2 of two chassis in 35 and 39 epochs: 0.8 s, instead of 2.4 with probing."""

_HALF = 0.5
"""Solvers of programs are off by a little from 0 and 1."""

_BITS = 40
"""Bits for the capacity of a resource: solvers use 64 for sums."""

_REWARD = 10_000
"""Reward of a chunk at a destination, in the first epoch."""

_DISTANCE = 0.5
"""Maximum reward for being near, relative to that (the paper's gamma, below 1)."""


class OutOfTimeError(Exception):
    """Time was over before a model was made."""


@dataclass(frozen=True)
class EpochState:
    """The state when a model begins.

    Attributes:
        there: the epoch from which a chunk is at a rank, by (chunk, rank). For holders it is 0.
        held: amounts still in use, by (resource, epoch).
    """

    there: dict[tuple[int, int], int]
    held: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def first(cls, epochs: Epochs) -> EpochState:
        """Return that of the begin."""
        holders = epochs.posed.holders
        return cls({(c, r): 0 for c, own in enumerate(holders) for r in own})

    def after(self, epochs: Epochs, sends: Iterable[ChunkSend], count: int) -> EpochState:
        """Return the state some epochs later, after some sends, by epoch."""
        posed = epochs.posed
        there = {key: max(0, epoch - count) for key, epoch in self.there.items()}
        held = {(t, k - count): load for (t, k), load in self.held.items() if k >= count}
        done: set[tuple[int, int, int]] = set()
        for send in sends:
            key = send.chunk, posed.dst[send.way]
            its = epochs.of(send.chunk)
            delay = its.delay_at(send.way, send.start)
            assert delay is not None
            comes = max(0, send.start + delay - count)
            there[key] = min(comes, there.get(key, comes))
            for span in its.spans_at(send.way, send.start):
                if (send.chunk, send.start, span.stem) in done:
                    continue
                done.add((send.chunk, send.start, span.stem))
                for k in range(send.start + span.first, send.start + span.last + 1):
                    if k >= count:
                        at = span.thing, k - count
                        held[at] = held.get(at, 0) + min(span.load, epochs.room(span.thing, k))
        return EpochState(there, held)


@dataclass(frozen=True, slots=True)
class Expanded:
    """The result of a model.

    Attributes:
        sends: sends of all chunks, by the epoch in which they start. None: it found none.
        refuted: whether it is proved that there are none, among symmetric ones.
        units: effort spent.
    """

    sends: tuple[ChunkSend, ...] | None
    refuted: bool
    units: float


def _in_time(some: Iterable[T], late: Callable[[], bool]) -> Iterator[T]:
    """Yield things, each while there is time: making a model takes as long as solving some.

    Raises:
        OutOfTimeError: there is none.
    """
    for one in some:
        if late():
            raise OutOfTimeError
        yield one


class ExpandedModel:
    """The model of so many epochs."""

    def __init__(  # noqa: PLR0913 - what is asked, and from when on
        self,
        epochs: Epochs,
        action: Action,
        count: int,
        *,
        standing: EpochState | None = None,
        buffers: int | None = None,
        whole: bool = True,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the model.

        Args:
            count: epochs.
            standing: the initial state. None: that of the collective.
            buffers: limit on chunks of others that a rank keeps to forward later. None: no limit.
                Only with the action of the identity.
            whole: whether all chunks have to arrive. Otherwise as many as possible come near.
            late: whether time is over.

        Raises:
            OutOfTimeError: it is.
        """
        self.epochs, self.action, self.count = epochs, action, count
        self.posed, self.whole, self.buffers = epochs.posed, whole, buffers
        self.standing = EpochState.first(epochs) if standing is None else standing
        self.model = CpModel()
        self.x: dict[tuple[int, int, int], IntVar] = {}
        self.come: dict[tuple[int, int], dict[int, list[IntVar]]] = {}
        self.leave: dict[tuple[int, int], list[tuple[int, IntVar]]] = {}
        self._kept: dict[tuple[int, int], list[IntVar]] = {}
        self._stems: dict[int, list[tuple[int, int, IntVar]]] = {}
        self.wanted = {
            (c, r)
            for c in action.firsts
            for r in self.posed.wanted[c]
            if (c, r) not in self.standing.there
        }
        for add in (self._variables, self._conserve):
            for chunk in _in_time(action.firsts, late):
                add(chunk)
        self._limit(late)
        for kept in self._kept.values():
            if buffers is not None and len(kept) > buffers:
                self.model.add(sum(kept) <= buffers)
        if not whole:
            self._near(late)

    def _variables(self, chunk: int) -> None:
        """Add which way a chunk may go, and when."""
        epochs, posed, there = self.epochs.of(chunk), self.posed, self.standing.there
        goals = sorted(r for c, r in self.wanted if c == chunk)
        if not goals:
            return
        starts = {r: there[chunk, r] for r in range(posed.ranks) if (chunk, r) in there}
        soonest = [min(k + int(epochs.far[r, v]) for r, k in starts.items()) for v in self._ranks]
        ahead = epochs.far[:, goals].min(axis=1)
        for way, (src, dst) in enumerate(zip(posed.src, posed.dst, strict=True)):
            if dst in starts:
                continue
            end = self.count
            if self.whole:
                end = self.count - epochs.delay[way] - int(ahead[dst]) + 1
            for k in range(starts.get(src, soonest[src]), end):
                delay = epochs.delay_at(way, k)
                if delay is None or (self.whole and k + delay + int(ahead[dst]) > self.count):
                    continue
                x = self.x[chunk, way, k] = self.model.new_bool_var("")
                self.leave.setdefault((chunk, src), []).append((k, x))
                self.come.setdefault((chunk, dst), {}).setdefault(k + delay, []).append(x)

    @property
    def _ranks(self) -> range:
        return range(self.posed.ranks)

    def _conserve(self, chunk: int) -> None:
        """Add that a chunk comes once to a rank, and leaves it after that."""
        model, there, holders = self.model, self.standing.there, self.posed.holders[chunk]
        for rank in self._ranks:
            come = self.come.get((chunk, rank), {})
            arrivals = [x for k in sorted(come) for x in come[k]]
            if self.whole and (chunk, rank) in self.wanted:
                model.add_exactly_one(arrivals)
            elif len(arrivals) > 1:
                model.add_at_most_one(arrivals)
            leave = self.leave.get((chunk, rank), [])
            if self.buffers is not None and rank not in holders:
                self._pass_on(rank, come, there.get((chunk, rank)), leave)
            elif (chunk, rank) not in there:
                self._keep(come, leave)

    def _keep(self, come: dict[int, list[IntVar]], leave: list[tuple[int, IntVar]]) -> None:
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

    def _pass_on(
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
            self._kept.setdefault((rank, k + 1), []).append(more)
            kept = more
        for k, x in leave:
            if k < min([*come, *([] if came is None else [came])], default=last + 1):
                model.add(x == 0)

    def _limit(self, late: Callable[[], bool]) -> None:
        """Add the capacities of resources.

        Raises:
            OutOfTimeError: time is over before that.
        """
        held: dict[tuple[int, int], list[tuple[int, IntVar]]] = {}
        action, links = self.action, len(self.posed.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        taken: set[tuple[int, int, int]] = set()
        by_way: dict[int, list[tuple[int, int, IntVar]]] = {}
        for (chunk, way, k), x in self.x.items():
            by_way.setdefault(way, []).append((chunk, k, x))
        for way, spans in enumerate(_in_time(self.epochs.spans, late)):
            for place, span in enumerate(spans):
                if span.thing < links and span.thing not in firsts:
                    continue
                for which, ways in enumerate(action.back):
                    own = self.epochs.spans[ways[way]][place]
                    if (span.thing, which, own.stem) in taken:
                        continue
                    taken.add((span.thing, which, own.stem))
                    for chunk, k, x in self._uses(own, by_way):
                        now = self.epochs.of(chunk).spans_at(ways[way], k)[place]
                        for at in range(k + now.first, k + now.last + 1):
                            load = min(now.load, self.epochs.room(span.thing, at))
                            held.setdefault((span.thing, at), []).append((load, x))
        for (thing, at), rows in held.items():
            room = self.epochs.room(thing, at) - self.standing.held.get((thing, at), 0)
            if all(2 * load > room >= load for load, _ in rows):
                if len(rows) > 1:
                    self.model.add_at_most_one(x for _, x in rows)
            else:  # rounded so that what is refuted stays so: what is found is placed exactly
                unit = gcd(room, *(load for load, _ in rows))
                unit *= max(1, room // unit >> _BITS)
                self.model.add(sum(load // unit * x for load, x in rows) <= -(-room // unit))

    def _uses(
        self, span: Span, by_way: dict[int, list[tuple[int, int, IntVar]]]
    ) -> list[tuple[int, int, IntVar]]:
        """Return first chunks, when they set out on ways of a stem, and whether they do."""
        if span.stem in self._stems:
            return self._stems[span.stem]
        together: dict[tuple[int, int], list[IntVar]] = {}
        for way, _ in self.posed.stems[span.stem]:
            for chunk, k, x in by_way.get(way, ()):
                together.setdefault((chunk, k), []).append(x)
        found = []
        for (chunk, k), some in together.items():
            any_of = some[0]
            if len(some) > 1:
                any_of = self.model.new_bool_var("")
                for x in some:
                    self.model.add_implication(x, any_of)
            found.append((chunk, k, any_of))
        self._stems[span.stem] = found
        return found

    def _near(self, late: Callable[[], bool]) -> None:
        """Maximise what is there, the sooner the better, and how near the rest comes.

        Raises:
            OutOfTimeError: time is over before that.
        """
        there, terms = self.standing.there, []
        for chunk, goal in _in_time(sorted(self.wanted), late):
            far = self.epochs.of(chunk).far
            come = self.come.get((chunk, goal), {})
            for k, own in come.items():
                terms += [(_REWARD + _REWARD // (k + 1), x) for x in own]
            near = max(
                (self._worth(int(far[v, goal])) for v in self._ranks if (chunk, v) in there),
                default=0,
            )
            places = [x for own in come.values() for x in own]
            for rank in self._ranks:
                worth = self._worth(int(far[rank, goal])) - near
                passing = [x for own in self.come.get((chunk, rank), {}).values() for x in own]
                if rank != goal and worth > 0 and passing:
                    place = self.model.new_bool_var("")
                    self.model.add(place <= sum(passing))
                    terms.append((worth, place))
                    places.append(place)
            if places:
                self.model.add_at_most_one(places)
        self.model.maximize(sum(worth * x for worth, x in terms))

    @staticmethod
    def _worth(epochs: int) -> int:
        return int(_REWARD * _DISTANCE / (1 + epochs))

    def solved(self, effort: Effort, solver: str = "auto") -> Expanded:
        """Return what a solver finds.

        Args:
            solver: CP-SAT, if it is not one of :class:`sccl.solvers.milp.Engine`.

        Raises:
            SolverError: it cannot be used.
            KeyboardInterrupt: the user interrupted.
        """
        result: cpsat.Result | milp.Result
        if solver in set(milp.Engine):
            model, engine = milp.of_booleans(self.model), milp.Engine(solver)
            result = by_nodes = milp.solve(model, effort, engine=engine)
            taken = [key for key, x in self.x.items() if by_nodes.number(x.index) > _HALF]
        else:
            result = by_clauses = cpsat.solve(self.model, effort, STRATEGY)
            taken = [key for key, x in self.x.items() if result.found and by_clauses.value(x)]
        if not result.found:
            return Expanded(None, result.refuted, result.units)
        sends = [
            ChunkSend(k, chunks[chunk], ways[way])
            for chunk, way, k in taken
            for chunks, ways in zip(self.action.chunks, self.action.ways, strict=True)
        ]
        return Expanded(
            tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.way))),
            refuted=False,
            units=result.units,
        )
