"""Step 1, routing: the ways of each chunk, before any ordering on links.

TACCL (NSDI 2023), section 5.1 and appendix B.1. Chunks may pass a link at once. The objective is
the maximum of the total loads of links, budgets and switches, and of each chunk's path time
(equations 1 to 8). CP-SAT takes implications directly, so there are no large constants, and
equation 15 (data for another node leave their node) follows from the ways that lead there. Among
routes of minimum time, those are taken that use as many or as few connections as the sketch
requires (9 to 11), and among these the ones with the earliest total arrivals. Images by a symmetry
are one (12 to 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.sketch import HyperedgePolicy
from sccl.errors import UnreachableError
from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import Posed
from sccl.synth.network.paths import FAR
from sccl.synth.taccl.growing import Ways, grown, relaxed

MOST_ROUTES = 60_000
"""Ways of first chunks that a model is made of."""

MOST_IMAGES = 4_000_000
"""Limit on routes and their images for a model of routes that attain the bound."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_TIME, _TASTE = 0.7, 0.3
"""Fractions of the effort for the minimum time, and for the choice among routes that attain it."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The ways of chunks.

    Attributes:
        ways: for each first chunk of an orbit, in no order.
        units: the relaxed time: a lower bound for any order of these routes.
        least: lower bound on the relaxed time for all routes of this sketch.
        spent: effort spent.
    """

    ways: dict[int, tuple[int, ...]]
    units: int
    least: int
    spent: float

    def all_of(self, action: Action) -> list[tuple[int, int]]:
        """Return (chunk, way) of all chunks."""
        return [
            (chunks[chunk], ways[way])
            for chunk, own in self.ways.items()
            for way in own
            for chunks, ways in zip(action.chunks, action.ways, strict=True)
        ]


def shortest_ways(posed: Posed, chunk: int) -> frozenset[int]:
    """Return the ways on which a chunk is no farther from its source than it need be.

    Section 5.1: chunks go through ranks on shortest paths, which are those of the fewest ways.
    """
    far, reach = _hops(posed, chunk)
    wanted, found = posed.wanted[chunk], set()
    for way in sorted(open_ways(posed, chunk)):
        src, dst = posed.src[way], posed.dst[way]
        if any(far[src] + 1 + reach[rank][dst] == far[rank] for rank in wanted):
            found.add(way)
    return frozenset(found)


def open_ways(posed: Posed, chunk: int) -> frozenset[int]:
    """Return the ways that a chunk may go."""
    barred, holders = posed.barred_of(chunk), posed.holders[chunk]
    return frozenset(
        way for way in range(len(posed.src)) if way not in barred and posed.dst[way] not in holders
    )


def _hops(posed: Posed, chunk: int) -> tuple[list[int], dict[int, list[int]]]:
    """Return how many ways each rank is from a chunk's source, and from each to who wants it."""
    into: dict[int, list[int]] = {}
    for way in sorted(open_ways(posed, chunk)):
        into.setdefault(posed.dst[way], []).append(posed.src[way])
    reach = {rank: _spread(into, [rank], posed.ranks) for rank in sorted(posed.wanted[chunk])}
    return _far(posed, chunk), reach


def _far(posed: Posed, chunk: int) -> list[int]:
    """Return how many ways each rank is from a chunk's source."""
    out: dict[int, list[int]] = {}
    for way in sorted(open_ways(posed, chunk)):
        out.setdefault(posed.src[way], []).append(posed.dst[way])
    return _spread(out, sorted(posed.holders[chunk]), posed.ranks)


def _spread(onward: dict[int, list[int]], begin: Iterable[int], ranks: int) -> list[int]:
    far = [int(FAR)] * ranks
    front = list(begin)
    for rank in front:
        far[rank] = 0
    while front:
        fresh = []
        for rank in front:
            for there in onward.get(rank, ()):
                if far[there] > far[rank] + 1:
                    far[there] = far[rank] + 1
                    fresh.append(there)
        front = fresh
    return far


def check_reachable(posed: Posed, where: str) -> None:
    """Check that each chunk comes to where it is wanted over ways that it may go.

    Raises:
        UnreachableError: one does not.
    """
    known: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for chunk, wanted in enumerate(posed.wanted):
        barred = posed.barred_of(chunk)
        kind = (posed.holders[chunk], barred)
        if kind not in known:
            known[kind] = _far(posed, chunk) if barred else posed.soonest[chunk].tolist()
        far = known[kind]
        for rank in sorted(wanted):
            if far[rank] >= FAR:
                raise UnreachableError(
                    f"{where}: chunk {chunk} of rank {min(posed.holders[chunk])} cannot come to "
                    f"rank {rank} over the ways that it leaves: let it out by another sender"
                )


_MOST_LOAD = 2**40


class _Model:
    """The model of routes of first chunks."""

    def __init__(self, posed: Posed, action: Action, chosen: dict[int, frozenset[int]]) -> None:
        self.posed, self.action, self.model = posed, action, CpModel()
        self.sent: dict[tuple[int, int], IntVar] = {}
        self.arrive: dict[tuple[int, int], IntVar] = {}
        self.most = self._horizon()
        self.time = self.model.new_int_var(0, self.most, "")
        for chunk in action.firsts:
            self._route(chunk, chosen[chunk])
        self._loads()

    def _horizon(self) -> int:
        """Return units that are enough for any routes, if one thing had to carry all."""
        far = int(self.posed.soonest[self.posed.soonest < FAR].max(initial=1))
        busy = max(h.busy for own in self.posed.hops for h in own)
        return max(far * self.posed.ranks, busy * self.posed.chunks * 2)

    def _route(self, chunk: int, chosen: frozenset[int]) -> None:
        posed, model = self.posed, self.model
        holders, wanted, costs = posed.holders[chunk], posed.wanted[chunk], posed.cost_of(chunk)
        entering: dict[int, list[IntVar]] = {}
        leaving: dict[int, list[IntVar]] = {}
        for rank in {posed.dst[way] for way in chosen}:
            self.arrive[chunk, rank] = model.new_int_var(0, self.most, "")
        for way in sorted(chosen):
            src, dst = posed.src[way], posed.dst[way]
            if src not in holders and (chunk, src) not in self.arrive:
                continue
            sent = self.sent[chunk, way] = model.new_bool_var("")
            entering.setdefault(dst, []).append(sent)
            before = 0 if src in holders else self.arrive[chunk, src]
            model.add(self.arrive[chunk, dst] == before + costs[way]).only_enforce_if(sent)
            if src not in holders:
                leaving.setdefault(src, []).append(sent)
        for rank in sorted({rank for one, rank in self.arrive if one == chunk}):
            own = entering.get(rank, [])
            if rank in wanted:
                model.add_exactly_one(own)
                model.add(self.time >= self.arrive[chunk, rank])
            else:
                model.add_at_most_one(own)
                for sent in leaving.get(rank, []):
                    model.add(sum(own) >= sent)

    def _loads(self) -> None:
        """Bound the time by the load of each resource. Links of an orbit have the first's load."""
        posed, action, links = self.posed, self.action, len(self.posed.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        loads: dict[int, dict[int, tuple[IntVar, int]]] = {}
        stems: dict[tuple[int, int, int], IntVar] = {}
        for (chunk, way), sent in self.sent.items():
            for which, ways in enumerate(action.ways):
                for hop in posed.hops[ways[way]]:
                    if hop.thing < links and hop.thing not in firsts:
                        continue
                    amount, load = hop.busy * hop.weight, loads.setdefault(hop.thing, {})
                    if len(posed.stems[hop.stem]) == 1:  # each image is a load of its own
                        amount += load.get(sent.index, (sent, 0))[1]
                        load[sent.index] = (sent, amount)
                        continue
                    key = (chunk, which, hop.stem)  # ways of one chunk share it
                    if key not in stems:
                        stems[key] = self.model.new_bool_var("")
                    self.model.add_implication(sent, stems[key])
                    load[stems[key].index] = (stems[key], amount)
        for thing, load in sorted(loads.items()):
            # numbers of 64 bits: what is carried is rounded down, so that routes are no less free
            most = max(posed.room[thing] * self.most, sum(amount for _, amount in load.values()))
            scale = max(1, -(-most // _MOST_LOAD))
            total = sum(amount // scale * var for var, amount in load.values())
            self.model.add(total <= -(-posed.room[thing] // scale) * self.time)

    def hint(self, ways: dict[int, tuple[int, ...]]) -> None:
        """Begin from routes."""
        posed = self.posed
        for (chunk, way), sent in self.sent.items():
            self.model.add_hint(sent, way in ways[chunk])
        for chunk, own in ways.items():
            brings = {posed.dst[way]: way for way in own}
            costs = posed.cost_of(chunk)
            for rank in brings:
                at, far = rank, 0
                while at in brings:
                    far += costs[brings[at]]
                    at = posed.src[brings[at]]
                self.model.add_hint(self.arrive[chunk, rank], far)

    def connected(self, edges: Iterable[tuple[HyperedgePolicy, list[int]]]) -> list[IntVar | int]:
        """Return terms to minimise for policies of hyperedges: connections, or lacking ones."""
        images: dict[int, list[IntVar]] = {}
        for (_, way), sent in self.sent.items():
            for ways in self.action.ways:
                images.setdefault(ways[way], []).append(sent)
        terms: list[IntVar | int] = []
        for policy, own in edges:
            if policy is HyperedgePolicy.FREE:
                continue
            for way in own:
                used = self.model.new_bool_var("")
                sents = images.get(way, [])
                if policy is HyperedgePolicy.LEAST:
                    for sent in sents:
                        self.model.add_implication(sent, used)
                    terms.append(used)
                else:  # one that is not used counts
                    self.model.add_bool_or([*sents, used])
                    terms.append(used)
        return terms


def routed(  # noqa: PLR0913, PLR0917 - what is asked
    posed: Posed,
    action: Action,
    chosen: dict[int, frozenset[int]],
    edges: Iterable[tuple[HyperedgePolicy, list[int]]],
    effort: Effort,
    least: int = 0,
    begun: Ways | None = None,
) -> Routed:
    """Return routes of the first chunks.

    If they are too many for a model, they are the trees that it would begin from.

    Args:
        chosen: for each first chunk the allowed ways.
        edges: the ways of each hyperedge, and its policy on their number.
        least: lower bound for schedules, units.
        begun: routes to begin from. None: grown trees.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    units = effort.units or 1.0
    if begun is None:
        begun = grown(posed, action, chosen)
    time, spent, ways = relaxed(posed, action, begun), 0.0, begun
    size = sum(map(len, chosen.values()))
    met = time <= least
    if size > MOST_ROUTES or (met and size * len(action.ways) > MOST_IMAGES):
        return Routed(ways, time, 0, spent)
    proved = 0
    if not met:
        first = _Model(posed, action, chosen)
        first.hint(begun)
        first.model.minimize(first.time)
        left = Effort(effort.timeout_s, effort.seed, units * _TIME)
        found = cpsat.solve(first.model, left, STRATEGY)
        spent = found.units
        if found.found and found.value(first.time) < time:
            time, ways = found.value(first.time), _ways(first, found)
        if found.optimal:
            proved = time
    again = _Model(posed, action, chosen)
    again.model.add(again.time <= time)
    taste = again.connected(edges)
    again.hint(ways)
    soon = sum(again.arrive.values())
    most = len(again.arrive) * again.most + 1
    again.model.minimize(most * sum(taste) + soon if taste else soon)
    left = Effort(effort.timeout_s, effort.seed, units * _TASTE)
    better = cpsat.solve(again.model, left, STRATEGY)
    spent += better.units
    if better.found:
        ways = _ways(again, better)
    return Routed(ways, time, proved, spent)


def _ways(model: _Model, found: cpsat.Result) -> dict[int, tuple[int, ...]]:
    """Return the ways of each chunk that serve somebody."""
    posed = model.posed
    ways: dict[int, tuple[int, ...]] = {}
    for chunk in model.action.firsts:
        brings = {
            posed.dst[way]: way
            for (one, way), sent in model.sent.items()
            if one == chunk and found.value(sent)
        }
        used: set[int] = set()
        for rank in posed.wanted[chunk]:
            at = rank
            while at not in posed.holders[chunk] and brings[at] not in used:
                used.add(brings[at])
                at = posed.src[brings[at]]
        ways[chunk] = tuple(sorted(used))
    return ways


def loads_of(posed: Posed, routes: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Return of each thing the units that routes keep it busy, were it all of its room."""
    found = np.zeros(len(posed.room), dtype=np.float64)
    stems: set[tuple[int, int]] = set()
    for chunk, way in routes:
        for hop in posed.hops_of(chunk)[way]:
            if (chunk, hop.stem) not in stems:
                stems.add((chunk, hop.stem))
                found[hop.thing] += hop.busy * hop.weight / posed.room[hop.thing]
    return np.ceil(found).astype(np.int64)
