"""Broadcast as a scatter followed by an allgather, at any size, without search.

Each rank receives a part of all data, and sends it to all others: a chunk of rank n in the scatter
is a chunk of rank n in the allgather. S and R add up. On square tori and hypercubes both phases
attain their bounds, so R/C is 2 (P - 1) / (P deg) with twice the fewest steps (van de Geijn, On
global combine operations, 1994, for one port).

The allgather uses a breadth-first tree of one chunk, in as many rotated copies as a rank has links,
translated to all ranks. Rotations and translations map a link to any other link. So the number of
sends of one tree in a step is the load of every link in this step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.collective import Collective, RelationKind
from sccl.core.graphs import UNREACHED, distances
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.judge import require_valid, violations
from sccl.prove.bounds.timed_cuts import timed_bound
from sccl.synth.constructions.scatter_flow import attain_bound
from sccl.synth.limits import MAX_SENDS, MAX_TABLE_WORK
from sccl.topo.symmetry.automorphisms import generator_groups
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import prune


@dataclass(frozen=True, slots=True)
class ScatterAllgather:
    """A scatter followed by an allgather.

    Attributes:
        steps: Steps of both phases.
        cost: R/C of the broadcast.
        algorithm: The broadcast. None: it has too many sends.
    """

    steps: int
    cost: Fraction
    algorithm: Algorithm | None


@lru_cache(maxsize=16)
def scatter_then_allgather(topology: Topology, collective: Collective) -> ScatterAllgather | None:
    """Return a verified broadcast by a scatter and an allgather. None: one phase is not known.

    Args:
        topology: The machine.
        collective: Collective without reductions.
    """
    if (collective.pre.kind, collective.post.kind) != (RelationKind.ROOT, RelationKind.ALL):
        return None
    second = breadth_first_allgather(topology)
    if second is None:
        return None
    parts = named_spec("scatter", topology.ranks, collective.pre.root).at(topology.ranks)
    bound = timed_bound(topology, parts, second.steps)
    first = attain_bound(topology, parts, bound) if bound else None
    if first is None:
        return None
    cost = first.bandwidth_cost + second.bandwidth_cost / topology.ranks
    return ScatterAllgather(
        first.steps + second.steps, cost, _build_broadcast(collective, first, second)
    )


def breadth_first_allgather(topology: Topology) -> SymmetricAlgorithm | None:
    """Return a verified breadth-first allgather. None: the known symmetries do not suffice.

    They must map any rank to any other, and the links of a rank to one another.
    """
    links = len(topology.successors()[0])
    far = distances(topology.successors(), [0])
    number = topology.ranks * (topology.ranks - 1) * links
    if topology.budgets or UNREACHED in far or not 0 < number <= MAX_TABLE_WORK:
        return None
    collective = named_spec("allgather", topology.ranks).at(links)
    group = next(generator_groups(topology, collective), None)
    if group is None or not group.shifts_chunks():
        return None
    into: dict[int, int] = {}
    for u, v in sorted(topology.edges):
        if far[v] == far[u] + 1:
            into.setdefault(v, u)
    sends = tuple(make_send(0, u, v, far[u]) for v, u in into.items())
    layers = tuple(far.count(step + 1) for step in range(max(far)))
    made = SymmetricAlgorithm(topology, collective, layers, group.generators, sends, number)
    return None if violations(made) else made


def _build_broadcast(
    collective: Collective, first: Algorithm, second: SymmetricAlgorithm
) -> Algorithm | None:
    """Return the verified broadcast. None: it has too many sends."""
    ranks = first.topology.ranks
    parts = first.collective.chunks // ranks
    times = lcm(parts, second.collective.chunks)
    chunks = ranks * times
    if chunks * (ranks - 1) > MAX_SENDS:
        return None
    copies, again = times // parts, times // second.collective.chunks
    sends = _copy_sends(first.sends, copies, first.collective.num_chunks, 0)
    sends += _copy_sends(
        expand_algorithm(second).sends, again, second.collective.num_chunks, first.steps
    )
    rounds = [r * copies for r in first.rounds_per_step]
    rounds += [r * again for r in second.rounds_per_step]
    made = Algorithm(first.topology, collective.with_chunks(chunks), tuple(rounds), tuple(sends))
    return require_valid(prune(made), "a scatter and an allgather")


def _copy_sends(sends: Sequence[Send], copies: int, chunks: int, later: int) -> list[Send]:
    """Return the sends of copies of all chunks, ``later`` steps later."""
    return [
        make_send(s.chunk + copy * chunks, s.src, s.dst, s.step + later)
        for copy in range(copies)
        for s in sends
    ]
