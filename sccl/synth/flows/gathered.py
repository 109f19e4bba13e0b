"""Schedule chunks of one size between chassis, backwards from the end.

When the last chunks have crossed to a chassis, few ports have the data that all its ranks lack, and
each must send them many times. Forward planning notices this too late. Backward planning lets all
ranks pass on their parts of a chunk until one rank has them all. Data that must leave a chassis
early are gathered early, by ports that would otherwise be idle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sccl.collectives import Dual
from sccl.core.clock import Clock
from sccl.core.ids import Edge
from sccl.synth.flows.gathering import LOOKS, SENT, GateRoutes, Gone, HeldParts, gather
from sccl.synth.flows.matched import LOOK, MatchedPlan, has_ports, words_of
from sccl.synth.flows.matching import Whole, Words
from sccl.synth.flows.placed import Planned, PlannedSend
from sccl.synth.flows.problem import FluidProblem
from sccl.synth.network.crossings import crossings_of
from sccl.topo.symmetry.orbits import ChunkClass

_AT_ONCE = 50_000_000
"""Words that are looked at before a signal is heard."""

_PS_PER_US = 10**6


class _Costs(NamedTuple):
    """Costs of paths within a group, or between groups: busy time and latency, picoseconds."""

    busy: int
    takes: int


class Chassis:
    """A machine of chassis, each rank of which has one port inside, and at most one out and in."""

    def __init__(self, problem: FluidProblem, group: Whole, names: dict[Edge, int]) -> None:
        """Keep it, with the way from each rank to another. See :func:`chassis_of`."""
        self.problem, self.group, self.names = problem, group, names
        ranks = len(group)
        self.cross = np.zeros((ranks, ranks), np.int64)  # as it is gathered: against the ways
        for v, u in names:
            self.cross[u, v] = group[u] != group[v]
        out: Whole = np.asarray(self.cross.any(axis=1))
        groups = int(group.max()) + 1
        gates = [np.nonzero(out & (group == g))[0] for g in range(groups)]
        self.gates = np.full((groups, max(len(own) for own in gates)), -1)
        self.number = np.full(ranks, -1)
        for g, own in enumerate(gates):
            self.gates[g, : len(own)] = own
            self.number[own] = np.arange(len(own))

    def ways(self) -> tuple[Whole, Whole] | None:
        """Return, by group and owner, a gate and a landing in the owner's group. None: some lack.

        An owner itself if it can, for then nothing is passed on there. Otherwise one for all groups
        if that can be; of several who has the least.
        """
        ranks, groups = len(self.group), len(self.gates)
        gate, landing = np.full((2, groups, ranks), -1)
        out, into = np.zeros((2, ranks), np.int64)
        direct: Whole = np.asarray(self.cross.any(axis=0))
        for owner in sorted(range(ranks), key=lambda rank: not direct[rank]):
            inside, mate = self.group == self.group[owner], -1
            for g in range(groups):
                if g == self.group[owner]:
                    continue
                here = (self.cross > 0) & (self.group == g)[:, None] & inside[None, :]
                if here[:, owner].any():
                    here[:, np.arange(ranks) != owner] = False
                if not here.any():
                    return None
                u, v = min(
                    zip(*(ends.tolist() for ends in np.nonzero(here)), strict=True),
                    key=lambda way: (way[1] != mate, into[way[1]] + out[way[0]], way),
                )
                gate[g, owner], landing[g, owner], mate = u, v, v
                out[u] += 1
                into[v] += 1
        return gate, landing


def chassis_of(problem: FluidProblem) -> Chassis | None:
    """Return the machine as one of chassis, if it is one and each chunk goes from one to all."""
    topology = problem.topology
    if not has_ports(problem) or len(topology.chassis) < 2:  # else nothing crosses
        return None
    group = np.full(topology.ranks, -1)
    for g, members in enumerate(topology.chassis):
        group[list(members)] = g
    if group.min() < 0:
        return None
    names = _fastest(problem)
    ports: dict[tuple[int, bool, bool], set[int]] = {}
    inner = 0
    for (u, v), name in names.items():
        inside, way = bool(group[u] == group[v]), problem.ways[name]
        inner += inside
        ports.setdefault((u, inside, False), set()).add(way[0])
        ports.setdefault((v, inside, True), set()).add(way[-1])
    pairs = int((group[:, None] == group[None, :]).sum()) - topology.ranks
    if inner < pairs or any(len(own) > 1 for own in ports.values()):
        return None
    every = frozenset(range(topology.ranks))
    if any(c.wanted != every or len(c.holders) != 1 for c in problem.commodities):
        return None
    return Chassis(problem, group, names)


def _fastest(problem: FluidProblem) -> dict[Edge, int]:
    """Return the way that a whole chunk comes by the soonest, from each rank to another."""
    size = max(1, int(problem.chunk_bytes))
    cost = crossings_of(problem.topology, Clock.of(problem.topology, size)).cost
    names: dict[Edge, int] = {}
    for way, edge in enumerate(problem.edges):
        if edge not in names or cost[way] < cost[names[edge]]:
            names[edge] = way
    return names


def gathered(
    chassis: Chassis,
    dual: Dual,
    pieces: int,
    horizon_us: float,
    late: Callable[[], bool] = lambda: False,
) -> MatchedPlan:
    """Return sends of chunks of one size, planned backwards from the end.

    Args:
        pieces: Number of pieces of each chunk of the problem.
        horizon_us: Target time. It sets deadlines and need not be met.
        late: Whether time is over. Then there is no plan.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    problem = chassis.problem
    pieces = max(1, min(pieces, int(problem.chunk_bytes)))
    collective = dual.spec.at(dual.spec.unit * pieces)
    found = _costs(chassis, max(1, int(problem.chunk_bytes / pieces)))
    ways = chassis.ways()
    if found is None or ways is None:
        return MatchedPlan(None, 0.0)
    tick, takes = found
    owner, piece = _owners(collective.classes(), collective.num_chunks)
    horizon = int(horizon_us * _PS_PER_US / tick)
    routes = _routes(chassis, ways, owner, piece, takes, horizon)
    parts = _parts(routes)
    sends = int(parts.many.sum())
    gone = Gone(
        np.zeros((2, len(chassis.group)), np.int64),
        np.zeros((2, len(chassis.group)), np.int64),
        np.full(int(takes.max()) + 1, -1),
        np.zeros(sends, np.int64),
        np.zeros((sends, 4), np.int64),
        np.zeros(4, np.int64),
    )
    while gather(routes, parts, gone, int(gone.now[LOOKS]) + _AT_ONCE):
        if late():
            break
    effort = LOOK * float(gone.now[LOOKS])
    if gone.now[SENT] < sends:
        return MatchedPlan(None, effort)
    sizes = (-(-problem.chunk_bytes // pieces),) * collective.num_chunks
    return MatchedPlan(Planned(collective.chunks, sizes, _turned(chassis, takes, gone)), effort)


def _costs(chassis: Chassis, size: int) -> tuple[int, Whole] | None:
    """Return picoseconds of a tick, and :class:`.GateRoutes`' ``takes``, if ways are alike."""
    topology, group = chassis.problem.topology, chassis.group
    costs = crossings_of(topology, Clock.of(topology, size))
    busy = np.maximum.reduceat(costs.busy, costs.first[:-1])
    kinds: dict[bool, set[_Costs]] = {True: set(), False: set()}
    for (u, v), way in chassis.names.items():
        kinds[bool(group[u] == group[v])].add(_Costs(int(busy[way]), int(costs.cost[way])))
    if any(len(own) != 1 for own in kinds.values()):
        return None
    (inner,), (outer,) = kinds[True], kinds[False]
    tick = max(1, inner.busy)
    inside, held, across = (-(-t // tick) for t in (inner.takes, outer.busy, outer.takes))
    return tick, np.array([max(1, inside), max(1, held), max(1, across), inside - held])


def _owners(classes: dict[ChunkClass, list[int]], chunks: int) -> tuple[Whole, Whole]:
    """Return of each chunk who has it, and which of its chunks it is."""
    owner, piece = np.zeros((2, chunks), np.int64)
    for (holders, _), own in classes.items():
        owner[own] = min(holders)
        piece[own] = np.arange(len(own))
    return owner, piece


def _routes(  # noqa: PLR0913, PLR0917 - a machine, what is on it, and when it is to be there
    chassis: Chassis,
    ways: tuple[Whole, Whole],
    owner: Whole,
    piece: Whole,
    takes: Whole,
    horizon: int,
) -> GateRoutes:
    """Return where chunks leave groups, and in which order."""
    group, groups, chunks = chassis.group, len(chassis.gates), len(owner)
    gate, landing = (end[:, owner] for end in ways)
    place, chunk, until = np.zeros((3, groups, chunks), np.int64)
    inside, held, across = takes[:3].tolist()
    home = group[owner]
    for g in range(groups):
        far = landing[g] != owner
        order = np.lexsort((owner, (home - g) % groups, piece, ~far, home == g))
        chunk[g], place[g, order] = order, np.arange(chunks)
        later, farther = np.zeros((2, chunks), np.int64)
        for own in chassis.gates[g][chassis.gates[g] >= 0]:
            through = order[(gate[g, order] == own) & (home[order] != g)]
            later[through] = np.arange(len(through))[::-1]
            through = through[far[through]]
            farther[through] = np.arange(len(through))[::-1]
        rest = across + np.maximum(later * held, np.where(far, inside + farther * held, 0))
        last = horizon - 2 * inside - np.where(home == g, 0, rest)
        until[g] = last[order]
    return GateRoutes(
        group,
        chassis.gates,
        chassis.number,
        chassis.cross,
        place,
        chunk,
        owner,
        gate,
        landing,
        until,
        takes,
    )


def _parts(routes: GateRoutes) -> HeldParts:
    """Return the parts of all ranks before the first send."""
    ranks, chunks, groups = len(routes.group), len(routes.owner), len(routes.gates)
    every = np.arange(chunks)
    inside = np.bincount(routes.group)
    others = routes.group[routes.owner][None, :] != np.arange(groups)[:, None]
    own, kept, gates = np.zeros((3, ranks, chunks), np.bool_)
    holds = np.zeros((ranks, chunks), np.int64)
    own[routes.owner, every] = True
    for g in range(groups):
        foreign = every[others[g]]
        gate, landing = routes.gate[g, foreign], routes.landing[g, foreign]
        kept[gate, foreign] = gates[gate, foreign] = True
        waiting = landing != routes.owner[foreign]
        holds[landing[waiting], foreign[waiting]] += 1
    kept |= holds > 0
    nobody = np.zeros((ranks, chunks), np.bool_)
    by_rank = routes.chunk[routes.group]
    return HeldParts(
        _placed(~own, by_rank),
        _placed(~nobody, by_rank),
        _placed(kept, by_rank),
        _placed(gates, by_rank),
        _placed(nobody, by_rank),
        _placed(nobody, by_rank),
        _placed(gates, by_rank),
        _placed(own, by_rank),
        _placed(nobody, by_rank),
        _placed(others, routes.chunk),
        _placed(nobody[:groups], routes.chunk),
        _placed(nobody[:groups], routes.chunk),
        _placed(~nobody[:groups], routes.chunk),
        np.full((groups, chunks), -1),
        np.zeros((ranks, chunks), np.int64),
        holds,
        np.repeat(inside[:, None], chunks, axis=1),
        (~own).sum(axis=1),
        own.sum(axis=1) * (inside[routes.group] - 1),
        np.zeros(ranks, np.int64),
        np.zeros(ranks, np.int64),
        np.zeros((groups, 2), np.int64),
        np.argsort(routes.until, axis=1, kind="stable"),
    )


def _placed(bits: np.ndarray, chunk: Whole) -> Words:
    """Return rows of bits of chunks as words, each row's by the chunks of its places."""
    return words_of(np.take_along_axis(bits, chunk, axis=1))


def _turned(chassis: Chassis, takes: Whole, gone: Gone) -> tuple[PlannedSend, ...]:
    """Return the sends reversed in time, so that time runs forward."""
    group, rows = chassis.group, gone.rows
    across = group[rows[:, 2]] != group[rows[:, 3]]
    start = -(rows[:, 0] + np.where(across, takes[2], takes[0]))
    order = np.argsort(start, kind="stable")
    begin = int(start.min())
    return tuple(
        PlannedSend(
            float(start[i] - begin),
            turn,
            int(rows[i, 1]),
            chassis.names[int(rows[i, 3]), int(rows[i, 2])],
        )
        for turn, i in enumerate(order.tolist())
    )
