"""The continuous-time model: an optional interval for each chunk and way, and no epochs.

An interval is present if the chunk goes the way. A link serves one after the other (no overlap), a
budget no more than its capacity at a time (cumulative). Each chunk comes once to each rank that
wants it, over one way, which leaves a rank only after the chunk has come there. So the size of the
model depends on machine and chunks alone, and not on the ratio of alpha to a chunk's time.

Images of a chunk by a symmetry of machine and collective share its variables: a solution for one is
a solution for all. (That excludes schedules that are not symmetric.)

Some of the chunks may be fixed: the others are scheduled around them, which is a neighbourhood of a
known schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.intervals.placing import pruned
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.topo.symmetry.permutations import Permutation


@dataclass(frozen=True)
class Action:
    """The images of chunks, ways and links under symmetries. The first is the identity.

    Attributes:
        chunks: by symmetry and chunk.
        ways: by symmetry and way.
        links: by symmetry and link.
    """

    chunks: tuple[tuple[int, ...], ...]
    ways: tuple[tuple[int, ...], ...]
    links: tuple[tuple[int, ...], ...]

    @classmethod
    def alone(cls, posed: Posed) -> Action:
        """Return that of the identity."""
        sizes = (posed.chunks, len(posed.src), len(posed.topology.links))
        chunks, ways, links = (tuple(range(size)) for size in sizes)
        return cls((chunks,), (ways,), (links,))

    @classmethod
    def of(cls, posed: Posed, group: Sequence[Permutation]) -> Action:
        """Return that of symmetries of the nodes, the identity being the first of them."""
        if len(group) < 2:
            return cls.alone(posed)
        numbers = tuple(range(max(posed.chunks, len(posed.src), len(posed.topology.links))))
        images = [
            [tuple(map(numbers.__getitem__, own)) for own in posed.images_of(one)] for one in group
        ]  # each number once in memory: of large groups there are tens of millions
        return cls(*(tuple(own[k] for own in images) for k in range(3)))

    @property
    def firsts(self) -> tuple[int, ...]:
        """Return one chunk of each orbit: the first."""
        return tuple(sorted({min(images) for images in zip(*self.chunks, strict=True)}))

    @cached_property
    def back(self) -> tuple[tuple[int, ...], ...]:
        """Return by symmetry of each way which one goes there."""
        return tuple(_inverse(ways) for ways in self.ways)

    def images(self, sends: Iterable[ChunkSend]) -> list[ChunkSend]:
        """Return sends of first chunks, and all their images, in the order of time."""
        found = [
            replace(s, chunk=chunks[s.chunk], way=ways[s.way])
            for s in sends
            for chunks, ways in zip(self.chunks, self.ways, strict=True)
        ]
        return sorted(found, key=lambda s: (s.start, s.chunk, s.way))


@dataclass(frozen=True, slots=True)
class Improved:
    """The result of a model.

    Attributes:
        sends: sends of the first chunks. None: it found none.
        refuted: whether it is proved that there are none, symmetric and in time.
        optimal: whether it is proved that none of these finishes earlier.
        units: effort spent.
    """

    sends: tuple[ChunkSend, ...] | None
    refuted: bool
    optimal: bool
    units: float


class IntervalModel:
    """The model of a problem."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is asked
        self,
        posed: Posed,
        action: Action,
        horizon: int,
        known: Sequence[ChunkSend] = (),
        free: Collection[int] | None = None,
        routes: Collection[tuple[int, int]] | None = None,
    ) -> None:
        """Make it, without an objective.

        Args:
            horizon: units by which all has arrived.
            known: sends of first chunks: of those that are not free as they stay, of the others a
                hint.
            free: first chunks that are scheduled. None: all.
            routes: which (chunk, way) there may be. None: any.
        """
        self.posed, self.action, self.horizon = posed, action, horizon
        self.routes = routes
        self.model = CpModel()
        self.free = sorted(action.firsts if free is None else free)
        self.x: dict[tuple[int, int], IntVar] = {}
        self.start: dict[tuple[int, int], IntVar] = {}
        self.arrive: dict[tuple[int, int], IntVar] = {}
        self._fixed = [s for s in known if s.chunk not in set(self.free)]
        self._stays: dict[int, list[tuple[int, int]]] = {}
        for send in self._fixed:
            self._stays.setdefault(send.way, []).append((send.chunk, send.start))
        for chunk in self.free:
            self._route(chunk)
        for thing, intervals in self._held().items():
            alone = [interval for interval, _ in intervals]
            if posed.room[thing] == 1:
                self.model.add_no_overlap(alone)
            else:
                weights = [weight for _, weight in intervals]
                self.model.add_cumulative(alone, weights, posed.room[thing])
        self._hint([s for s in known if s.chunk in set(self.free)])

    def soonest_finish(self, least: int) -> None:
        """Minimise the finishes of tenants, weighted by their priorities.

        Args:
            least: lower bound on that.
        """
        priorities, alone = self.posed.priorities, len(self.posed.priorities) == 1
        lowest = least if alone else 0
        finishes = [self.model.new_int_var(lowest, self.horizon, "") for _ in priorities]
        for tenant, arrive in self._wanted():
            self.model.add(finishes[tenant] >= arrive)
        value = sum(p * finish for p, finish in zip(priorities, finishes, strict=True))
        if not alone:
            self.model.add(value >= least)
        self.model.minimize(value)

    def least_late(self, targets: Sequence[int]) -> None:
        """Minimise by how much arrivals are later than targets of their tenants, in all."""
        late = []
        for tenant, arrive in self._wanted():
            target = targets[tenant]
            over = self.model.new_int_var(0, max(0, self.horizon - target), "")
            self.model.add(over >= arrive - target)
            late.append(self.posed.priorities[tenant] * over)
        self.model.minimize(sum(late))

    def _wanted(self) -> list[tuple[int, IntVar]]:
        """Return when chunks arrive where they are wanted, each with its tenant."""
        wanted, tenant = self.posed.wanted, self.posed.tenant
        return [
            (tenant[chunk], at)
            for (chunk, rank), at in self.arrive.items()
            if rank in wanted[chunk]
        ]

    def _route(self, chunk: int) -> None:
        """Add a chunk: over which ways it goes, and when."""
        posed, model = self.posed, self.model
        soonest, holders, wanted = posed.soonest[chunk], posed.holders[chunk], posed.wanted[chunk]
        latest = self._latest(chunk)
        for rank in range(posed.ranks):
            if rank not in holders and soonest[rank] <= latest[rank]:
                self.arrive[chunk, rank] = model.new_int_var(
                    int(soonest[rank]), int(latest[rank]), ""
                )
        entering: dict[int, list[IntVar]] = {}
        costs, barred = posed.cost_of(chunk), posed.barred_of(chunk)
        for way, (src, dst, cost) in enumerate(zip(posed.src, posed.dst, costs, strict=True)):
            if way in barred or (self.routes is not None and (chunk, way) not in self.routes):
                continue
            known = src in holders or (chunk, src) in self.arrive
            if not known or (chunk, dst) not in self.arrive or soonest[src] + cost > latest[dst]:
                continue
            x = self.x[chunk, way] = model.new_bool_var("")
            start = self.start[chunk, way] = model.new_int_var(
                int(soonest[src]), int(latest[dst] - cost), ""
            )
            entering.setdefault(dst, []).append(x)
            if src not in holders:
                model.add(start >= self.arrive[chunk, src]).only_enforce_if(x)
            model.add(self.arrive[chunk, dst] == start + cost).only_enforce_if(x)
        for rank in range(posed.ranks):
            if rank in wanted:
                model.add_exactly_one(entering.get(rank, []))
            elif (chunk, rank) in self.arrive:
                model.add_at_most_one(entering.get(rank, []))
                here = entering.get(rank, [])
                for way in posed.out[rank]:
                    if (chunk, way) in self.x:
                        model.add(sum(here) >= self.x[chunk, way])

    def _latest(self, chunk: int) -> list[int]:
        """Return of each rank the last unit at which the chunk may come there, and be of use."""
        wanted = sorted(self.posed.wanted[chunk])
        ahead = self.posed.far_of(chunk)[:, wanted].min(axis=1, initial=self.horizon + 1)
        return [
            self.horizon if rank in self.posed.wanted[chunk] else self.horizon - int(ahead[rank])
            for rank in range(self.posed.ranks)
        ]

    def _held(self) -> dict[int, list[tuple[IntervalVar, int]]]:
        """Return when each thing is held, and how much of it; of links of an orbit the first."""
        posed, action, links = self.posed, self.action, len(self.posed.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        held: dict[int, list[tuple[IntervalVar, int]]] = {}
        known: dict[int, list[tuple[IntervalVar, int]]] = {}
        taken: set[tuple[int, int, int]] = set()
        for way, hops in enumerate(posed.hops):
            for place, hop in enumerate(hops):
                if hop.thing < links and hop.thing not in firsts:
                    continue
                rows = held.setdefault(hop.thing, [])
                for which, turn in enumerate(action.back):
                    stem = posed.hops[turn[way]][place].stem
                    if (hop.thing, which, stem) in taken:
                        continue
                    taken.add((hop.thing, which, stem))
                    if stem not in known:
                        known[stem] = self._over(stem)
                    rows += known[stem]
        return held

    def _over(self, stem: int) -> list[tuple[IntervalVar, int]]:
        """Return the intervals and loads of chunks on the ways of a stem."""
        ways, model = self.posed.stems[stem], self.model
        first, place = ways[0]
        found = []
        for chunk in self.free:
            hop = self.posed.hops_of(chunk)[first][place]
            taken = [(chunk, way) for way, _ in ways if (chunk, way) in self.x]
            if taken:
                start, x = self._together(taken)
                over = model.new_optional_fixed_size_interval_var(
                    start + hop.offset, hop.busy, x, ""
                )
                found.append((over, hop.weight))
        stays = {one for way, _ in ways for one in self._stays.get(way, ())}
        for chunk, at in sorted(stays):
            hop = self.posed.hops_of(chunk)[first][place]
            over = model.new_fixed_size_interval_var(at + hop.offset, hop.busy, "")
            found.append((over, hop.weight))
        return found

    def _together(self, taken: list[tuple[int, int]]) -> tuple[IntVar, IntVar]:
        """Return when a chunk sets out on some ways together, and whether it does."""
        if len(taken) == 1:
            return self.start[taken[0]], self.x[taken[0]]
        model = self.model
        start, any_of = model.new_int_var(0, self.horizon, ""), model.new_bool_var("")
        for key in taken:
            model.add_implication(self.x[key], any_of)
            model.add(start == self.start[key]).only_enforce_if(self.x[key])
        return start, any_of

    def _hint(self, sends: Sequence[ChunkSend]) -> None:
        if not sends:
            return
        at = {(s.chunk, s.way): s.start for s in sends}
        for key, x in self.x.items():
            self.model.add_hint(x, key in at)
            if key in at:
                self.model.add_hint(self.start[key], at[key])
                arrives = at[key] + self.posed.cost_of(key[0])[key[1]]
                self.model.add_hint(self.arrive[key[0], self.posed.dst[key[1]]], arrives)

    def solved(self, effort: Effort, strategy: cpsat.Strategy) -> Improved:
        """Return CP-SAT's result.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        result = cpsat.solve(self.model, effort, strategy)
        if not result.found:
            return Improved(None, result.refuted, optimal=False, units=result.units)
        taken = [
            ChunkSend(result.value(self.start[key]), *key)
            for key, x in self.x.items()
            if result.value(x)
        ]
        sends = (*self._fixed, *pruned(self.posed, taken))  # what serves nobody costs nothing here
        return Improved(sends, refuted=False, optimal=result.optimal, units=result.units)


def _inverse(image: Sequence[int]) -> tuple[int, ...]:
    found = [0] * len(image)
    for here, there in enumerate(image):
        found[there] = here
    return tuple(found)
