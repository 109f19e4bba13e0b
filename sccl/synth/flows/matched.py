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
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.synth.flows.matching import (
    LEFT,
    LOOKS,
    SENDS,
    Holdings,
    OnTheWay,
    PortWays,
    Words,
    advance,
)
from sccl.synth.flows.placed import Planned, PlannedSend
from sccl.synth.flows.problem import FluidProblem
from sccl.synth.network.crossings import crossings_of

LOOK = 2e-9
"""Budget of one examined word, in units of some seconds."""

_AT_ONCE = 50_000_000
"""Words that are looked at before a signal is heard."""

_PS_PER_US = 10**6


def has_ports(problem: FluidProblem) -> bool:
    """Return whether most ways are between ports: in by one link, and out by another.

    And chunks are alike: those of unequal sizes do not pass ports in one time.
    """
    if problem.collective.counts or any(switch.copies for switch in problem.topology.switches):
        return False
    lengths = [len(way) for way in problem.ways]
    return max(lengths) <= 2 and 2 * lengths.count(2) > len(lengths)


@dataclass(frozen=True, slots=True)
class MatchedPlan:
    """A plan from matching.

    Attributes:
        plan: The plan. None: not everything can be sent, or time is over.
        effort: Budget used, in units of some seconds.
    """

    plan: Planned | None
    effort: float


def matched(
    problem: FluidProblem,
    dual: Dual,
    pieces: int,
    spare_us: float,
    late: Callable[[], bool] = lambda: False,
) -> MatchedPlan:
    """Return sends of chunks, each class of which is cut in so many, by matchings of ports.

    Args:
        pieces: of each chunk of the problem.
        spare_us: the time by which a chunk that comes to a chassis a second time is to be there.
        late: whether time is over: then there is no plan.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    pieces = max(1, min(pieces, int(problem.chunk_bytes)))
    collective = dual.spec.at(dual.spec.unit * pieces)
    size = max(1, int(problem.chunk_bytes / pieces))
    ways, names, tick_ps = _ways(problem, size)
    all_ = _holdings(problem, ways, collective)
    left = int(all_.missing.sum())
    ports = len(problem.topology.links)
    sent = OnTheWay(
        np.zeros(ports, np.int64),
        np.zeros(ports, np.int64),
        np.full(int(ways.cost.max()) + 1, -1),
        np.zeros(left, np.int64),
        np.zeros((left, 3), np.int64),
        np.array([0, 0, left, 0, 0]),
    )
    until = int(spare_us * _PS_PER_US / tick_ps)
    while advance(ways, all_, sent, until, int(sent.now[LOOKS]) + _AT_ONCE):
        if late():
            break
    effort = LOOK * float(sent.now[LOOKS])
    if sent.now[LEFT]:
        return MatchedPlan(None, effort)
    sizes = (-(-problem.chunk_bytes // pieces),) * collective.num_chunks
    sends = tuple(
        PlannedSend(float(tick), turn, chunk, names[way])
        for turn, (tick, chunk, way) in enumerate(sent.rows[: sent.now[SENDS]].tolist())
    )
    return MatchedPlan(Planned(collective.chunks, sizes, sends), effort)


def _ways(problem: FluidProblem, size: int) -> tuple[PortWays, list[int], int]:
    """Return the fastest ways for chunks of a size, their names, and the ticks' picoseconds."""
    topology = problem.topology
    costs = crossings_of(topology, Clock.of(topology, size))
    busy = np.maximum.reduceat(costs.busy, costs.first[:-1])
    fastest: dict[tuple[int, int], int] = {}
    for edge, cost in zip(problem.edges, costs.cost.tolist(), strict=True):
        fastest[edge] = min(cost, fastest.get(edge, cost))
    chosen = [
        (-int(busy[way]), -cost, problem.ways[way][-1], problem.ways[way][0], way)
        for way, (edge, cost) in enumerate(zip(problem.edges, costs.cost.tolist(), strict=True))
        if cost == fastest[edge]
    ]
    chosen.sort()
    names = [way for *_, way in chosen]
    kinds = [one[:2] for one in chosen]
    first = [i for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
    tick = max(1, min(-one[0] for one in chosen))
    columns = (
        [*first, len(chosen)],
        [one[2] for one in chosen],
        [one[3] for one in chosen],
        [problem.edges[way][0] for way in names],
        [problem.edges[way][1] for way in names],
        [max(1, -(-int(busy[way]) // tick)) for way in names],
        [max(1, -(-int(costs.cost[way]) // tick)) for way in names],
    )
    return PortWays(*(np.array(column, dtype=np.int64) for column in columns)), names, tick


def _holdings(problem: FluidProblem, ways: PortWays, collective: Collective) -> Holdings:
    """Return the holdings of all ranks before the first send."""
    topology = problem.topology
    ranks, chunks = topology.ranks, collective.num_chunks
    held, wanted = np.zeros((ranks, chunks), np.bool_), np.zeros((ranks, chunks), np.bool_)
    for (before, after), own in collective.classes().items():
        held[np.ix_(sorted(before), own)] = True
        wanted[np.ix_(sorted(after), own)] = True
    group = np.array(list(_groups(topology.ranks, topology.chassis)), np.int64)
    groups = int(group.max()) + 1
    gate = np.zeros(ranks, np.int64)
    gate[ways.src[group[ways.src] != group[ways.dst]]] = 1
    many, gates = np.zeros((2, groups, chunks), np.int64)
    np.add.at(many, group, held)
    np.add.at(gates, group, held & (gate > 0)[:, None])
    reached = (many > 0).sum(axis=0)
    most = int(np.bincount(group).max())
    few = np.stack([words_of(many == number) for number in range(most + 1)], axis=1)
    stuck = words_of((many > 0) & (gates == 0) & (reached < groups))
    missing = (wanted & ~held).sum(axis=1)
    words = words_of(held)
    return Holdings(
        group,
        gate,
        words,
        words.copy(),
        words_of(wanted),
        few,
        stuck,
        words_of(many == 1),
        many.copy(),
        np.zeros_like(many),
        many,
        gates,
        reached,
        missing,
    )


def _groups(ranks: int, chassis: tuple[tuple[int, ...], ...]) -> Iterator[int]:
    """Yield the group of each rank: its chassis, or one for all that are in none."""
    of = {rank: i for i, inside in enumerate(chassis) for rank in inside}
    yield from (of.get(rank, len(chassis)) for rank in range(ranks))


def words_of(bits: np.ndarray) -> Words:
    """Return rows of bits as words."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
