"""Schedule chunks of one size through switches: each tick uses as many ports as possible.

Behind a switch each port serves one chunk at a time in each direction. Chunks of one size pass all
ports in the same time, so the transfers of a tick are a matching of ports. If ports are never idle,
the schedule is optimal. Sequential placement of chunks of many sizes is about 8 % slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sccl.collectives import Dual
from sccl.core.arrays import UInt64Array
from sccl.core.clock import PS_PER_US, Clock
from sccl.core.collective import Collective
from sccl.synth.limits import ELEMENT_EFFORT, WORK_PER_CALL
from sccl.synth.network.routes import build_routes
from sccl.synth.packing.flow_problem import FlowProblem
from sccl.synth.packing.port_matching_loops import (
    LEFT,
    LOOKS,
    SENDS,
    Holdings,
    InFlight,
    PortRoutes,
    advance,
)
from sccl.synth.packing.send_plans import PlannedSend, SendPlan


@dataclass(frozen=True, slots=True)
class MatchingResult:
    """A plan from matching.

    Attributes:
        plan: The plan. None: not everything can be sent, or time is over.
        effort: Budget used, in units of some seconds.
    """

    plan: SendPlan | None
    effort: float


def plan_port_matching(
    problem: FlowProblem,
    dual: Dual,
    pieces: int,
    spare_us: float,
    deadline_passed: Callable[[], bool] = lambda: False,
) -> MatchingResult:
    """Plan sends of chunks of one size, by matchings of ports.

    Args:
        problem: The problem.
        dual: Collective of the phase.
        pieces: Number of chunks per chunk of the problem.
        spare_us: Latest arrival of a chunk at a chassis that already has it, microseconds.
        deadline_passed: Whether the deadline has passed. Then there is no plan.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    pieces = max(1, min(pieces, int(problem.chunk_bytes)))
    collective = dual.spec.at(dual.spec.unit * pieces)
    size = max(1, int(problem.chunk_bytes / pieces))
    paths, names, tick_ps = _port_routes(problem, size)
    all_ = _initial_holdings(problem, paths, collective)
    left = int(all_.missing.sum())
    ports = len(problem.topology.links)
    sent = InFlight(
        np.zeros(ports, np.int64),
        np.zeros(ports, np.int64),
        np.full(int(paths.cost.max()) + 1, -1),
        np.zeros(left, np.int64),
        np.zeros((left, 3), np.int64),
        np.array([0, 0, left, 0, 0]),
    )
    until = int(spare_us * PS_PER_US / tick_ps)
    while advance(paths, all_, sent, until, int(sent.now[LOOKS]) + WORK_PER_CALL):
        if deadline_passed():
            break
    effort = ELEMENT_EFFORT * float(sent.now[LOOKS])
    if sent.now[LEFT]:
        return MatchingResult(None, effort)
    sizes = (-(-problem.chunk_bytes // pieces),) * collective.num_chunks
    sends = tuple(
        PlannedSend(float(tick), turn, chunk, names[path])
        for turn, (tick, chunk, path) in enumerate(sent.rows[: sent.now[SENDS]].tolist())
    )
    return MatchingResult(SendPlan(collective.chunks, sizes, sends), effort)


def _port_routes(problem: FlowProblem, size: int) -> tuple[PortRoutes, list[int], int]:
    """Return the fastest paths for chunks of a size, their numbers, and the tick in picoseconds."""
    topology = problem.topology
    costs = build_routes(topology, Clock.from_topology(topology, size))
    busy = np.maximum.reduceat(costs.busy, costs.first[:-1])
    fastest: dict[tuple[int, int], int] = {}
    for edge, cost in zip(problem.edges, costs.cost.tolist(), strict=True):
        fastest[edge] = min(cost, fastest.get(edge, cost))
    chosen = [
        (-int(busy[path]), -cost, problem.routes[path][-1], problem.routes[path][0], path)
        for path, (edge, cost) in enumerate(zip(problem.edges, costs.cost.tolist(), strict=True))
        if cost == fastest[edge]
    ]
    chosen.sort()
    names = [path for *_, path in chosen]
    kinds = [entry[:2] for entry in chosen]
    first = [i for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
    tick = max(1, min(-entry[0] for entry in chosen))
    columns = (
        [*first, len(chosen)],
        [entry[2] for entry in chosen],
        [entry[3] for entry in chosen],
        [problem.edges[path][0] for path in names],
        [problem.edges[path][1] for path in names],
        [max(1, -(-int(busy[path]) // tick)) for path in names],
        [max(1, -(-int(costs.cost[path]) // tick)) for path in names],
    )
    return PortRoutes(*(np.array(column, dtype=np.int64) for column in columns)), names, tick


def _initial_holdings(problem: FlowProblem, paths: PortRoutes, collective: Collective) -> Holdings:
    """Return the holdings of all ranks before the first send."""
    topology = problem.topology
    ranks, chunks = topology.ranks, collective.num_chunks
    held, wanted = np.zeros((ranks, chunks), np.bool_), np.zeros((ranks, chunks), np.bool_)
    for (before, after), class_chunks in collective.chunk_classes().items():
        held[np.ix_(sorted(before), class_chunks)] = True
        wanted[np.ix_(sorted(after), class_chunks)] = True
    group = np.array(list(_rank_groups(topology.ranks, topology.chassis)), np.int64)
    groups = int(group.max()) + 1
    gate = np.zeros(ranks, np.int64)
    gate[paths.src[group[paths.src] != group[paths.dst]]] = 1
    many, gates = np.zeros((2, groups, chunks), np.int64)
    np.add.at(many, group, held)
    np.add.at(gates, group, held & (gate > 0)[:, None])
    reached = (many > 0).sum(axis=0)
    max_size = int(np.bincount(group).max())
    few = np.stack([_pack_words(many == number) for number in range(max_size + 1)], axis=1)
    stuck = _pack_words((many > 0) & (gates == 0) & (reached < groups))
    missing = (wanted & ~held).sum(axis=1)
    words = _pack_words(held)
    return Holdings(
        group,
        gate,
        words,
        words.copy(),
        _pack_words(wanted),
        few,
        stuck,
        _pack_words(many == 1),
        many.copy(),
        np.zeros_like(many),
        many,
        gates,
        reached,
        missing,
    )


def _rank_groups(ranks: int, chassis: tuple[tuple[int, ...], ...]) -> Iterator[int]:
    """Yield the group of each rank: its chassis, or one group for all ranks without chassis."""
    of = {rank: i for i, inside in enumerate(chassis) for rank in inside}
    yield from (of.get(rank, len(chassis)) for rank in range(ranks))


def _pack_words(bits: np.ndarray) -> UInt64Array:
    """Pack rows of bits into words."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
