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
from sccl.core.arrays import IntArray, UInt64Array
from sccl.core.clock import Clock
from sccl.core.ids import Edge
from sccl.synth.network.routes import build_routes
from sccl.synth.packing.schedules.egress_gather_loops import (
    LOOKS,
    SENT,
    ChunkParts,
    EgressRoutes,
    SendLog,
    run_gather,
)
from sccl.synth.packing.schedules.flow_problem import FlowProblem
from sccl.synth.packing.schedules.port_matching import (
    WORD_EFFORT,
    MatchingResult,
    has_ports,
    pack_words,
)
from sccl.synth.packing.schedules.send_plans import PlannedSend, SendPlan
from sccl.topo.symmetry.permutations import ChunkClass

_WORDS_PER_CALL = 50_000_000
"""Words that are looked at before a signal is heard."""

_PS_PER_US = 10**6


class _RouteCosts(NamedTuple):
    """Costs of paths within a group, or between groups: busy time and latency, picoseconds."""

    busy: int
    takes: int


class ChassisMachine:
    """A machine of chassis, each rank of which has one port inside, and at most one out and in."""

    def __init__(self, problem: FlowProblem, group: IntArray, names: dict[Edge, int]) -> None:
        """Keep it, with the way from each rank to another. See :func:`find_chassis`."""
        self.problem, self.group, self.names = problem, group, names
        ranks = len(group)
        self.cross = np.zeros((ranks, ranks), np.int64)  # as it is gathered: against the ways
        for v, u in names:
            self.cross[u, v] = group[u] != group[v]
        out: IntArray = np.asarray(self.cross.any(axis=1))
        groups = int(group.max()) + 1
        gates = [np.nonzero(out & (group == g))[0] for g in range(groups)]
        self.egress_ranks = np.full((groups, max(len(gate_ranks) for gate_ranks in gates)), -1)
        self.number = np.full(ranks, -1)
        for g, gate_ranks in enumerate(gates):
            self.egress_ranks[g, : len(gate_ranks)] = gate_ranks
            self.number[gate_ranks] = np.arange(len(gate_ranks))

    def egress_ingress(self) -> tuple[IntArray, IntArray] | None:
        """Return, by group and owner, a gate and a landing in the owner's group. None: some lack.

        An owner itself if it can, for then nothing is passed on there. Otherwise one for all groups
        if that can be; of several who has the least.
        """
        ranks, groups = len(self.group), len(self.egress_ranks)
        gate, landing = np.full((2, groups, ranks), -1)
        out, into = np.zeros((2, ranks), np.int64)
        direct: IntArray = np.asarray(self.cross.any(axis=0))
        for owner in sorted(range(ranks), key=lambda rank: not direct[rank]):
            inside, mate = self.group == self.group[owner], -1
            for g in range(groups):
                if g == self.group[owner]:
                    continue
                crossing = (self.cross > 0) & (self.group == g)[:, None] & inside[None, :]
                if crossing[:, owner].any():
                    crossing[:, np.arange(ranks) != owner] = False
                if not crossing.any():
                    return None
                u, v = min(
                    zip(*(ends.tolist() for ends in np.nonzero(crossing)), strict=True),
                    key=lambda link: (link[1] != mate, into[link[1]] + out[link[0]], link),
                )
                gate[g, owner], landing[g, owner], mate = u, v, v
                out[u] += 1
                into[v] += 1
        return gate, landing


def find_chassis(problem: FlowProblem) -> ChassisMachine | None:
    """Return the machine as one of chassis, if it is one and each chunk goes from one to all."""
    topology = problem.topology
    if not has_ports(problem) or len(topology.chassis) < 2:  # else nothing crosses
        return None
    group = np.full(topology.ranks, -1)
    for g, members in enumerate(topology.chassis):
        group[list(members)] = g
    if group.min() < 0:
        return None
    names = _fastest_routes(problem)
    ports: dict[tuple[int, bool, bool], set[int]] = {}
    inner = 0
    for (u, v), name in names.items():
        inside, path = bool(group[u] == group[v]), problem.routes[name]
        inner += inside
        ports.setdefault((u, inside, False), set()).add(path[0])
        ports.setdefault((v, inside, True), set()).add(path[-1])
    pairs = int((group[:, None] == group[None, :]).sum()) - topology.ranks
    if inner < pairs or any(len(port_set) > 1 for port_set in ports.values()):
        return None
    all_ranks = frozenset(range(topology.ranks))
    if any(c.wanted != all_ranks or len(c.holders) != 1 for c in problem.commodities):
        return None
    return ChassisMachine(problem, group, names)


def _fastest_routes(problem: FlowProblem) -> dict[Edge, int]:
    """Return the way that a whole chunk comes by the soonest, from each rank to another."""
    size = max(1, int(problem.chunk_bytes))
    cost = build_routes(problem.topology, Clock.from_topology(problem.topology, size)).cost
    names: dict[Edge, int] = {}
    for name, edge in enumerate(problem.edges):
        if edge not in names or cost[name] < cost[names[edge]]:
            names[edge] = name
    return names


def plan_egress_gather(
    chassis: ChassisMachine,
    dual: Dual,
    pieces: int,
    horizon_us: float,
    deadline_passed: Callable[[], bool] = lambda: False,
) -> MatchingResult:
    """Return sends of chunks of one size, planned backwards from the end.

    Args:
        pieces: Number of pieces of each chunk of the problem.
        horizon_us: Target time. It sets deadlines and need not be met.
        deadline_passed: Whether time is over. Then there is no plan.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    problem = chassis.problem
    pieces = max(1, min(pieces, int(problem.chunk_bytes)))
    collective = dual.spec.at(dual.spec.unit * pieces)
    costs = _route_costs(chassis, max(1, int(problem.chunk_bytes / pieces)))
    gateways = chassis.egress_ingress()
    if costs is None or gateways is None:
        return MatchingResult(None, 0.0)
    tick, takes = costs
    owner, piece = _chunk_owners(collective.chunk_classes(), collective.num_chunks)
    horizon = int(horizon_us * _PS_PER_US / tick)
    routes = _build_egress_routes(chassis, gateways, owner, piece, takes, horizon)
    parts = _initial_parts(routes)
    sends = int(parts.part_counts.sum())
    gone = SendLog(
        np.zeros((2, len(chassis.group)), np.int64),
        np.zeros((2, len(chassis.group)), np.int64),
        np.full(int(takes.max()) + 1, -1),
        np.zeros(sends, np.int64),
        np.zeros((sends, 4), np.int64),
        np.zeros(4, np.int64),
    )
    while run_gather(routes, parts, gone, int(gone.now[LOOKS]) + _WORDS_PER_CALL):
        if deadline_passed():
            break
    effort = WORD_EFFORT * float(gone.now[LOOKS])
    if gone.now[SENT] < sends:
        return MatchingResult(None, effort)
    sizes = (-(-problem.chunk_bytes // pieces),) * collective.num_chunks
    return MatchingResult(
        SendPlan(collective.chunks, sizes, _reverse_sends(chassis, takes, gone)), effort
    )


def _route_costs(chassis: ChassisMachine, size: int) -> tuple[int, IntArray] | None:
    """Return picoseconds of a tick, and :class:`.GateRoutes`' ``takes``, if ways are alike."""
    topology, group = chassis.problem.topology, chassis.group
    costs = build_routes(topology, Clock.from_topology(topology, size))
    busy = np.maximum.reduceat(costs.busy, costs.first[:-1])
    kinds: dict[bool, set[_RouteCosts]] = {True: set(), False: set()}
    for (u, v), name in chassis.names.items():
        kinds[bool(group[u] == group[v])].add(_RouteCosts(int(busy[name]), int(costs.cost[name])))
    if any(len(kind_costs) != 1 for kind_costs in kinds.values()):
        return None
    (inner,), (outer,) = kinds[True], kinds[False]
    tick = max(1, inner.busy)
    inside, held, across = (-(-t // tick) for t in (inner.takes, outer.busy, outer.takes))
    return tick, np.array([max(1, inside), max(1, held), max(1, across), inside - held])


def _chunk_owners(classes: dict[ChunkClass, list[int]], chunks: int) -> tuple[IntArray, IntArray]:
    """Return of each chunk who has it, and which of its chunks it is."""
    owner, piece = np.zeros((2, chunks), np.int64)
    for (holders, _), class_chunks in classes.items():
        owner[class_chunks] = min(holders)
        piece[class_chunks] = np.arange(len(class_chunks))
    return owner, piece


def _build_egress_routes(  # noqa: PLR0913, PLR0917 - independent inputs
    chassis: ChassisMachine,
    gateways: tuple[IntArray, IntArray],
    owner: IntArray,
    piece: IntArray,
    takes: IntArray,
    horizon: int,
) -> EgressRoutes:
    """Return where chunks leave groups, and in which order."""
    group, groups, chunks = chassis.group, len(chassis.egress_ranks), len(owner)
    gate, landing = (end[:, owner] for end in gateways)
    place, chunk, until = np.zeros((3, groups, chunks), np.int64)
    inside, held, across = takes[:3].tolist()
    home = group[owner]
    for g in range(groups):
        far = landing[g] != owner
        order = np.lexsort((owner, (home - g) % groups, piece, ~far, home == g))
        chunk[g], place[g, order] = order, np.arange(chunks)
        later, farther = np.zeros((2, chunks), np.int64)
        for gate_rank in chassis.egress_ranks[g][chassis.egress_ranks[g] >= 0]:
            through = order[(gate[g, order] == gate_rank) & (home[order] != g)]
            later[through] = np.arange(len(through))[::-1]
            through = through[far[through]]
            farther[through] = np.arange(len(through))[::-1]
        rest = across + np.maximum(later * held, np.where(far, inside + farther * held, 0))
        last = horizon - 2 * inside - np.where(home == g, 0, rest)
        until[g] = last[order]
    return EgressRoutes(
        group,
        chassis.egress_ranks,
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


def _initial_parts(routes: EgressRoutes) -> ChunkParts:
    """Return the parts of all ranks before the first send."""
    ranks, chunks, groups = len(routes.group), len(routes.owner), len(routes.egress_ranks)
    all_chunks = np.arange(chunks)
    inside = np.bincount(routes.group)
    others = routes.group[routes.owner][None, :] != np.arange(groups)[:, None]
    owned, kept, gates = np.zeros((3, ranks, chunks), np.bool_)
    holds = np.zeros((ranks, chunks), np.int64)
    owned[routes.owner, all_chunks] = True
    for g in range(groups):
        foreign = all_chunks[others[g]]
        gate, landing = routes.egress[g, foreign], routes.ingress[g, foreign]
        kept[gate, foreign] = gates[gate, foreign] = True
        waiting = landing != routes.owner[foreign]
        holds[landing[waiting], foreign[waiting]] += 1
    kept |= holds > 0
    nobody = np.zeros((ranks, chunks), np.bool_)
    by_rank = routes.chunk[routes.group]
    return ChunkParts(
        _pack_bits(~owned, by_rank),
        _pack_bits(~nobody, by_rank),
        _pack_bits(kept, by_rank),
        _pack_bits(gates, by_rank),
        _pack_bits(nobody, by_rank),
        _pack_bits(nobody, by_rank),
        _pack_bits(gates, by_rank),
        _pack_bits(owned, by_rank),
        _pack_bits(nobody, by_rank),
        _pack_bits(others, routes.chunk),
        _pack_bits(nobody[:groups], routes.chunk),
        _pack_bits(nobody[:groups], routes.chunk),
        _pack_bits(~nobody[:groups], routes.chunk),
        np.full((groups, chunks), -1),
        np.zeros((ranks, chunks), np.int64),
        holds,
        np.repeat(inside[:, None], chunks, axis=1),
        (~owned).sum(axis=1),
        owned.sum(axis=1) * (inside[routes.group] - 1),
        np.zeros(ranks, np.int64),
        np.zeros(ranks, np.int64),
        np.zeros((groups, 2), np.int64),
        np.argsort(routes.until, axis=1, kind="stable"),
    )


def _pack_bits(bits: np.ndarray, chunk: IntArray) -> UInt64Array:
    """Return rows of bits of chunks as words, each row's by the chunks of its places."""
    return pack_words(np.take_along_axis(bits, chunk, axis=1))


def _reverse_sends(
    chassis: ChassisMachine, takes: IntArray, gone: SendLog
) -> tuple[PlannedSend, ...]:
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
