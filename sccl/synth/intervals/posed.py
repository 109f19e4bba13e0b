"""The scheduling problem: chunks, ways from rank to rank, and their costs in integral units.

A way is a link, or links through switches that do not store a chunk between them
(:mod:`sccl.synth.network.crossings`). A unit is the greatest that divides all costs, so that models
in integral units lose nothing. If switches copy, ways of one chunk that part at a switch share the
links before it: their stem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import UnreachableError
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.intervals.varied_ways import VariedWays
from sccl.synth.intervals.ways import Hop, holds_of, same_rooms
from sccl.synth.network.crossings import Crossings, crossings_of
from sccl.synth.network.paths import FAR
from sccl.topo.symmetry.permutations import Permutation

Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkSend:
    """A chunk that goes a way. By its start, which is in units."""

    start: int
    chunk: int
    way: int


@dataclass(frozen=True)
class Posed:
    """A collective that does not combine, on its machine.

    Attributes:
        crossings: by size.
        unit: ticks of a unit.
        size: by chunk: index of its size in the clock.
        src: source of each way.
        dst: destination of each way.
        costs: by size and way: units until the chunk has arrived.
        holds: by size and way. Numbers of stems are the same for all sizes.
        room: by resource: its capacity, 1 for a link. Links come first.
        holders: holders of each chunk.
        wanted: by chunk: the ranks that want it, and do not hold it.
        tenant: by chunk: its collective among several.
        priorities: weight of the finish of each of these.
        varied: by size, the additional time of ways if bandwidth varies. Empty: it does not.
        barred: by chunk, forbidden ways. Empty: none has any.
        backwards: whether the machine is reversed, and schedules on it are read backwards.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    crossings: tuple[Crossings, ...]
    unit: int
    size: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    costs: tuple[tuple[int, ...], ...]
    holds: tuple[tuple[tuple[Hop, ...], ...], ...]
    room: tuple[int, ...]
    holders: tuple[frozenset[int], ...]
    wanted: tuple[frozenset[int], ...]
    tenant: tuple[int, ...]
    priorities: tuple[int, ...]
    varied: tuple[VariedWays, ...] = ()
    barred: tuple[frozenset[int], ...] = ()
    backwards: bool = False

    @property
    def chunks(self) -> int:
        """Return how many there are in all."""
        return len(self.holders)

    @property
    def ranks(self) -> int:
        """Return how many there are."""
        return self.topology.ranks

    @property
    def alike(self) -> bool:
        """Return whether all chunks are of one size."""
        return len(self.costs) == 1

    @property
    def cost(self) -> tuple[int, ...]:
        """Return the cost of each way for a chunk of the smallest size."""
        return self.costs[0]

    @property
    def hops(self) -> tuple[tuple[Hop, ...], ...]:
        """Return the use of resources by such a chunk on each way."""
        return self.holds[0]

    def cost_of(self, chunk: int) -> tuple[int, ...]:
        """Return the cost of each way for a chunk."""
        return self.costs[self.size[chunk]]

    def hops_of(self, chunk: int) -> tuple[tuple[Hop, ...], ...]:
        """Return the use of resources by a chunk on each way."""
        return self.holds[self.size[chunk]]

    def by_size(self) -> Iterator[Posed]:
        """Yield the problem as if all chunks were of each size."""
        for k in range(len(self.costs)):
            yield replace(
                self,
                crossings=(self.crossings[k],),
                size=(0,) * self.chunks,
                costs=(self.costs[k],),
                holds=(self.holds[k],),
                varied=self.varied[k : k + 1],
            )

    def barred_of(self, chunk: int) -> frozenset[int]:
        """Return the ways that a chunk does not go."""
        return self.barred[chunk] if self.barred else frozenset()

    def held(self, chunk: int, way: int, start: int) -> tuple[Hop, ...]:
        """Return the use of resources by a chunk that starts on a way at a unit."""
        hops = self.hops_of(chunk)[way]
        if not self.varied:
            return hops
        late = self.varied[self.size[chunk]].stretched(way, start, len(hops))
        pairs = zip(hops, late, strict=True)
        return tuple(replace(h, offset=h.offset + a, busy=h.busy + b) for h, (a, b) in pairs)

    def idle(self, chunk: int, way: int, start: int) -> int:
        """Return for how many units nothing passes of a chunk that goes a way from a unit on."""
        return self.varied[self.size[chunk]].idle(way, start) if self.varied else 0

    def arrives(self, send: ChunkSend) -> int:
        """Return the unit by which a send has arrived."""
        arrives = send.start + self.cost_of(send.chunk)[send.way]
        if self.varied:
            arrives += self.varied[self.size[send.chunk]].late(send.way, send.start)
        return arrives

    def finish(self, sends: Iterable[ChunkSend]) -> int:
        """Return the units after which all that is sent has arrived."""
        return max((self.arrives(s) for s in sends), default=0)

    def finishes(self, sends: Iterable[ChunkSend]) -> list[int]:
        """Return of each tenant the units after which all that is sent of it has arrived."""
        found = [0] * len(self.priorities)
        for s in sends:
            tenant = self.tenant[s.chunk]
            found[tenant] = max(found[tenant], self.arrives(s))
        return found

    def value(self, sends: Iterable[ChunkSend]) -> int:
        """Return the objective: the finishes of all tenants, weighted by priority.

        For one tenant that is the last arrival.
        """
        return self.weighed(self.finishes(sends))

    def weighed(self, finishes: Iterable[int]) -> int:
        """Return the weighted sum of the finishes of tenants."""
        return sum(p * us for p, us in zip(self.priorities, finishes, strict=True))

    @property
    def plain(self) -> bool:
        """Return whether ways and their resources model the machine completely.

        Through switches a chunk might wait, be copied, or go a longer way, and it might use a
        smaller part of a budget for longer. Over links alone the best schedule has none of that:
        each chunk comes to a rank once, and passes a link at the full rate.
        """
        return not self.topology.switches and not self.topology.budgets

    @cached_property
    def stems(self) -> dict[int, list[tuple[int, int]]]:
        """Return the ways of each stem, each with the index of its use."""
        found: dict[int, list[tuple[int, int]]] = {}
        for way, hops in enumerate(self.hops):
            for place, hop in enumerate(hops):
                found.setdefault(hop.stem, []).append((way, place))
        return found

    @cached_property
    def copied(self) -> bool:
        """Return whether ways share resources by a common stem."""
        return any(len(ways) > 1 for ways in self.stems.values())

    @cached_property
    def out(self) -> tuple[tuple[int, ...], ...]:
        """Return the ways from each rank."""
        found: list[list[int]] = [[] for _ in range(self.ranks)]
        for way, rank in enumerate(self.src):
            found[rank].append(way)
        return tuple(map(tuple, found))

    @cached_property
    def into(self) -> tuple[tuple[int, ...], ...]:
        """Return the ways to each rank."""
        found: list[list[int]] = [[] for _ in range(self.ranks)]
        for way, rank in enumerate(self.dst):
            found[rank].append(way)
        return tuple(map(tuple, found))

    @cached_property
    def _far(self) -> tuple[Ticks, ...]:
        found = []
        for cost in self.costs:
            far = np.full((self.ranks, self.ranks), FAR, dtype=np.int64)
            np.fill_diagonal(far, 0)
            np.minimum.at(far, (np.array(self.src), np.array(self.dst)), np.array(cost))
            for middle in range(self.ranks):  # Floyd and Warshall
                np.minimum(far, far[:, [middle]] + far[[middle], :], out=far)
            found.append(far)
        return tuple(found)

    def far_of(self, chunk: int) -> Ticks:
        """Return the units of a chunk from each rank to each other, if nothing is in the way."""
        return self._far[self.size[chunk]]

    @cached_property
    def soonest(self) -> Ticks:
        """Return by chunk and rank the units after which it can be there at the earliest."""
        known: dict[tuple[int, frozenset[int]], Ticks] = {}
        kinds = list(zip(self.size, self.holders, strict=True))
        for size, holders in kinds:
            if (size, holders) not in known:
                known[size, holders] = self._far[size][sorted(holders)].min(axis=0)
        return np.array([known[kind] for kind in kinds])

    def check_reachable(self) -> None:
        """Check that every chunk can come to where it is wanted.

        Raises:
            UnreachableError: one cannot.
        """
        for chunk, wanted in enumerate(self.wanted):
            for rank in sorted(wanted):
                if self.soonest[chunk, rank] >= FAR:
                    raise UnreachableError(
                        f"topology {self.topology.name!r}: no path leads from rank "
                        f"{min(self.holders[chunk])} to rank {rank}, where {self.collective.name} "
                        f"needs chunk {chunk}: add links"
                    )

    def images_of(self, image: Permutation) -> tuple[list[int], list[int], list[int]]:
        """Return where a symmetry of the nodes takes chunks, ways and links.

        Chunks of a class go to those of its image in their order, by their sizes.
        """
        to, (ends, link_order) = np.array(image, dtype=np.int64), self._ends
        links = np.empty(len(ends), dtype=np.int64)
        links[_in_order(to[ends])] = link_order  # images of all are all
        rows, way_order = self._rows
        ways = np.empty(len(rows), dtype=np.int64)
        ways[_in_order(np.append(links, -1)[rows])] = way_order
        classes = self.collective.classes()
        chunks = [0] * self.chunks
        known: dict[frozenset[int], frozenset[int]] = {}
        for (held, wanted), own in classes.items():
            for ranks in (held, wanted):
                if ranks not in known:
                    known[ranks] = frozenset(image[r] for r in ranks)
            images = classes[known[held], known[wanted]]  # type: ignore[index]
            by_size = (sorted(some, key=self.size.__getitem__) for some in (own, images))
            for chunk, there in zip(*by_size, strict=True):
                chunks[chunk] = there
        return chunks, ways.tolist(), links.tolist()

    @cached_property
    def _ends(self) -> tuple[Ticks, Ticks]:
        """Return the nodes that each link joins, and the links in the order of these."""
        ends = np.array([k.edge for k in self.topology.links], dtype=np.int64).reshape(-1, 2)
        return ends, _in_order(ends)

    @cached_property
    def _rows(self) -> tuple[Ticks, Ticks]:
        """Return the links of each way, filled up with -1, and the ways in the order of these."""
        rows = np.full((len(self.paths), max(map(len, self.paths))), -1, dtype=np.int64)
        for way, path in enumerate(self.paths):
            rows[way, : len(path)] = path
        return rows, _in_order(rows)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Return the links of each way."""
        links, first = self.crossings[0].link.tolist(), self.crossings[0].first.tolist()
        return tuple(tuple(links[a:b]) for a, b in pairwise(first))


def pose(  # noqa: PLR0913, PLR0917 - what is asked
    topology: Topology,
    collective: Collective,
    clock: Clock,
    tenants: Sequence[int] = (),
    priorities: Sequence[int] = (),
    sketched: Sketched | None = None,
    *,
    together: bool = False,
    backwards: bool = False,
) -> Posed:
    """Return the scheduling problem.

    Args:
        clock: clock of all chunks, or of each.
        tenants: number of chunks of the pattern for each tenant. Empty: there is one.
        priorities: priority of each. Empty: there is one tenant.
        sketched: the allowed ways, by chunk, some of which may have none. None: all, for all.
        together: whether a unit divides alphas, too, since chunks sent together pay one.
        backwards: whether the machine is reversed, and schedules on it are read backwards.

    Raises:
        TooLargeError: there are too many ways through switches.
        TopologyError: the machine lacks ways that the sketch names.
        UnreachableError: a chunk cannot reach a rank that wants it.
    """
    clocks = [Clock.of(topology, size, clock.model, clock.tick_ps) for size in clock.sizes]
    factors = None if sketched is None else sketched.factors
    crossings = tuple(crossings_of(topology, one, factors) for one in clocks)
    pairs = zip(clocks, crossings, strict=True)
    holds, room = same_rooms([holds_of(topology, one, ways) for one, ways in pairs])
    numbers = {n for hops in holds for own in hops for hop in own for n in (hop.offset, hop.busy)}
    numbers.update(clock.alpha if together else ())
    unit = gcd(*numbers, *(cost for ways in crossings for cost in ways.cost.tolist())) or 1
    sizes, every = clock.chunk_bytes, range(collective.num_chunks)
    whose = [tenant for tenant, count in enumerate(tenants) for _ in range(count)] or [0]
    held = [frozenset(map(int, collective.holders(c))) for c in range(collective.num_chunks)]
    posed = Posed(
        topology=topology,
        collective=collective,
        clock=clock,
        crossings=crossings,
        unit=unit,
        size=tuple(0 if isinstance(sizes, int) else clock.sizes.index(sizes[c]) for c in every),
        src=tuple(crossings[0].src.tolist()),
        dst=tuple(crossings[0].dst.tolist()),
        costs=tuple(tuple((ways.cost // unit).tolist()) for ways in crossings),
        holds=tuple(
            tuple(
                tuple(replace(h, offset=h.offset // unit, busy=h.busy // unit) for h in own)
                for own in hops
            )
            for hops in holds
        ),
        room=room,
        holders=tuple(held),
        wanted=tuple(
            frozenset(map(int, collective.wanted(c))) - held[c]
            for c in range(collective.num_chunks)
        ),
        tenant=tuple(whose[c % len(whose)] for c in every) if priorities else (0,) * len(every),
        priorities=tuple(priorities) or (1,),
        backwards=backwards,
    )
    if sketched is not None:
        sketched.check_symmetric(np.array(posed.src), np.array(posed.dst))
        return replace(posed, barred=_barred(posed, sketched))
    posed.check_reachable()
    return posed


def _in_order(rows: Ticks) -> Ticks:
    """Return the numbers of distinct rows, in the order of their content."""
    return np.lexsort(rows.T)


def _barred(posed: Posed, sketched: Sketched) -> tuple[frozenset[int], ...]:
    """Return of each chunk the ways that it does not go, those of one origin together."""
    known: dict[int, frozenset[int]] = {}
    for origin in sorted({min(own) for own in posed.holders}):
        known[origin] = sketched.barred(origin, posed.src, posed.dst)
    return tuple(known[min(own)] for own in posed.holders) if any(known.values()) else ()
