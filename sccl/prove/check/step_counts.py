"""Compute the minimum number of steps of chunks breadth first, independent of the synthesizers."""

from __future__ import annotations

from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.check.timed_trees import Spend
from sccl.prove.check.translations import Images, check_translations, is_symmetric_demand


def farthest_chunk(
    machine: Topology, collective: Collective, spend: Spend, translations: Images = ()
) -> tuple[int, int, int]:
    """Return the maximum distance of a chunk to a destination, the chunk, and the destination.

    Args:
        collective: Non-combining collective.
        translations: Claimed translations of the machine, which are checked.

    Raises:
        ValueError: A chunk cannot reach a destination, or a translation is invalid.
        TooMuchError: The check takes too much work.
    """
    if translations and is_symmetric_demand(collective):
        check_translations(machine, translations, spend)
        return _farthest_of_root(machine, collective, spend)
    starts: dict[frozenset[int], int] = {}
    left: list[
        tuple[int, int, list[int]]
    ] = []  # (start, chunk, ranks that want it and have it not)
    for (holders, wanted), chunks in collective.chunk_classes().items():
        start = starts.setdefault(frozenset(holders), len(starts))
        left.append((start, chunks[0], sorted(wanted - holders)))
    reached = [0] * machine.ranks  # starts that have reached each rank, as bits
    for sources, start in starts.items():
        for source in sources:
            reached[source] |= 1 << start
    steps, chunk, rank = 0, 0, 0
    while True:
        spend(len(machine.links) * (1 + len(starts) // 64) + sum(1 + len(w) for *_, w in left))
        left = [
            (start, first, missing)
            for start, first, ranks in left
            if (missing := [r for r in ranks if not reached[r] >> start & 1])
        ]
        if not left:
            return steps, chunk, rank
        steps, (_, chunk, (rank, *_)) = steps + 1, left[0]
        then = list(reached)
        for u, v in machine.edges:
            then[v] |= reached[u]
        if then == reached:
            raise ValueError(f"chunk {chunk} cannot reach rank {rank} at all")
        reached = then


def _farthest_of_root(
    machine: Topology, collective: Collective, spend: Spend
) -> tuple[int, int, int]:
    """Return the result of :func:`farthest_chunk` from the chunks of rank 0 alone.

    In an alltoall rank 0 has a chunk for every rank, and in an allgather one chunk for all ranks.
    """
    spend(2 * len(machine.links))
    far = distances(machine.successors(), [0])
    if UNREACHED in far:
        raise ValueError(f"chunk 0 cannot reach rank {far.index(UNREACHED)} at all")
    rank = max(range(machine.ranks), key=far.__getitem__)
    return far[rank], rank * machine.ranks if collective.is_alltoall else 0, rank


def min_tree_steps(machine: Topology, reduced: Collective, spend: Spend) -> int:
    """Return the minimum number of steps of an allreduce by trees.

    Chunks are reduced to a root and broadcast from it, or reduced to two ranks that exchange their
    sums in one step, and broadcast from both.

    Args:
        reduced: Allreduce, of all ranks or in process groups.

    Raises:
        ValueError: No rank reaches all others and is reached by them.
        TooMuchError: The check takes too much work.
    """
    directions = (machine.edges, [(v, u) for u, v in machine.edges])
    turns = [{root} for root in range(machine.ranks)]
    turns += [{u, v} for u, v in machine.edges if u < v and (v, u) in machine.edges]
    groups = {frozenset[int](held) for held, _ in reduced.chunk_classes()}
    fewest: dict[frozenset[int], int] = {}
    for roots in turns:
        spend(2 * machine.ranks * len(machine.links) + sum(map(len, groups)))
        outbound, back = (_distances(edges, roots) for edges in directions)
        for group in groups:
            if group <= outbound.keys() & back.keys():
                far = len(roots) - 1 + sum(max(each[r] for r in group) for each in (outbound, back))
                fewest[group] = min(far, fewest.get(group, far))
    if len(fewest) < len(groups):
        raise ValueError("no rank reaches all others and is reached by them")
    return max(fewest.values())


def _distances(edges: frozenset[Edge] | list[Edge], roots: set[int]) -> dict[int, int]:
    """Return the distance of each reachable rank from the nearest root."""
    far, steps = dict.fromkeys(roots, 0), 0
    while more := {v for u, v in edges if u in far} - far.keys():
        steps += 1
        far |= dict.fromkeys(more, steps)
    return far


def tree_sends_bound(machine: Topology, reduced: Collective) -> Fraction:
    """Return the lower bound on R/C of an allreduce by trees from its 2 (P - 1) sends per chunk.

    In process groups P is the number of ranks of the chunk's group.
    """
    sends = sum(
        2 * (len(held) - 1) * reduced.amount(chunks)
        for (held, _), chunks in reduced.chunk_classes().items()
    )
    return Fraction(sends, reduced.chunks * sum(link.lanes for link in machine.links))
