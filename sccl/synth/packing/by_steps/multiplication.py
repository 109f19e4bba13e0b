"""From a packing of timed trees to an algorithm that attains it: multiplied out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from math import lcm

from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.judge import require_valid
from sccl.synth.packing.by_steps.packing_problem import PackingProblem
from sccl.synth.packing.by_steps.packing_solver import Packing
from sccl.topo.symmetry.permutations import Permutation, map_ranks

_MAX_GROUP = 512
"""Largest group of symmetries whose images of a tree are written out."""

_MAX_SENDS = 200_000
"""Largest number of sends of a packing that is written down."""

ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]
TimedSends = frozenset[tuple[Edge, int]]
TreeParts = dict[ChunkClass, dict[TimedSends, Fraction]]


def multiply_out(packing: Packing, most_chunks: int | None = None) -> Algorithm | None:
    """Return an algorithm with R/C = ``packing.upper``, verified.

    The packing represents its mean under all symmetries. Each of them is applied, and C is the
    smallest that makes all parts integral. None if the group or the algorithm would be too large to
    write down, or if a step carries nothing (then fewer steps are as good).

    Args:
        most_chunks: the largest C to write down. None: no limit.
    """
    parts = _average_over_group(packing)
    if parts is None:
        return None
    collective = packing.problem.collective
    rounds = _rounds_per_step(packing.problem, parts)
    classes = collective.chunk_classes()
    wholes = [p * len(classes[key]) for key, trees in parts.items() for p in trees.values()]
    wholes += [r * collective.chunks for r in rounds]
    times = lcm(*(w.denominator for w in wholes))
    if most_chunks is not None and collective.chunks * times > most_chunks:
        return None
    return build_algorithm(packing.problem, parts, times) if min(rounds) > 0 else None


def round_to_multiple(packing: Packing, times: int) -> Algorithm | None:
    """Return an algorithm near the limit with C = ``times`` times that of the problem, judged.

    Each class gives its trees whole numbers of chunks near their parts. None as for
    :func:`multiply_out`.
    """
    parts = _average_over_group(packing)
    return None if parts is None else build_algorithm(packing.problem, parts, times)


def build_algorithm(problem: PackingProblem, parts: TreeParts, times: int) -> Algorithm | None:
    """Return the algorithm in which each tree carries its part of the chunks, rounded."""
    if problem.collective.num_chunks * times > _MAX_SENDS:
        return None
    collective = replace(
        problem.collective,
        chunks=problem.collective.chunks * times,
        num_chunks=problem.collective.num_chunks * times,
    )
    sends: list[Send] = []
    load: Counter[tuple[Edge, int]] = Counter()
    for key, trees in parts.items():
        order = sorted(trees.items(), key=lambda item: sorted(item[0]))
        chunks = iter(collective.chunk_classes()[key])
        total = len(collective.chunk_classes()[key])
        for (tree, _), count in zip(
            order, _largest_remainders([p for _, p in order], total), strict=True
        ):
            if count * len(tree) + len(sends) > _MAX_SENDS:
                return None
            reduced = (
                _reduced_sends(tree, problem.topology.ranks, key[0])
                if problem.has_tree_pairs
                else ()
            )
            for chunk in (next(chunks) for _ in range(count)):
                sends += [
                    Send(Step(s), ChunkId(chunk), Rank(u), Rank(v), ((u, v), s) in reduced)
                    for (u, v), s in tree
                ]
            load.update(dict.fromkeys(tree, count))
    rounds = [1] * problem.steps
    for constraint in problem.topology.constraints():
        for step in range(problem.steps):
            carried = sum(load[edge, step] for edge in constraint.edges)
            rounds[step] = max(rounds[step], -(-carried // constraint.chunks_per_round))
    algorithm = Algorithm(problem.topology, collective, tuple(rounds), tuple(sends))
    return require_valid(algorithm, "multiplying a packing out")


def _reduced_sends(tree: TimedSends, ranks: int, group: frozenset[Rank]) -> TimedSends:
    """Return the sends of trees up and down that are reduced where they arrive.

    They are those of ranks that do not know all contributions yet, which a group has.
    """
    knows = [1 << rank if rank in group else 0 for rank in range(ranks)]
    full_mask = sum(knows)
    reduced_sends = set()
    for step in sorted({step for _, step in tree}):
        before = list(knows)
        for (u, v), at in tree:
            if at == step:
                knows[v] |= before[u]
                if before[u] != full_mask:
                    reduced_sends.add(((u, v), at))
    return frozenset(reduced_sends)


def _largest_remainders(parts: list[Fraction], total: int) -> list[int]:
    """Return whole numbers that add up to ``total``, near its parts: largest remainders first."""
    counts = [int(part * total) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: (counts[i] - parts[i] * total, i))
    for i in order[: total - sum(counts)]:
        counts[i] += 1
    return counts


def group_elements(problem: PackingProblem) -> list[Permutation] | None:
    """Return the whole group, breadth first; None if it is large."""
    identity = tuple(range(problem.topology.ranks))
    group = {identity: None}
    for element in (queue := [identity]):
        for generator in problem.symmetries:
            product = tuple(generator[r] for r in element)
            if product not in group:
                group[product] = None
                queue.append(product)
        if len(group) > _MAX_GROUP:
            return None
    return list(group)


def _average_over_group(packing: Packing) -> TreeParts | None:
    """Return, per class of chunks, its timed trees and their parts: the mean over the group."""
    problem = packing.problem
    group = group_elements(problem)
    if group is None:
        return None
    parts: TreeParts = defaultdict(lambda: defaultdict(Fraction))
    for share in packing.shares:
        commodity = problem.commodities[share.commodity]
        weight = share.fraction * len(commodity.members) / len(group)
        for image in group:
            key = (map_ranks(commodity.holders, image), map_ranks(commodity.wanted, image))
            ends = ((problem.edges[e], step) for e, step in share.tree)
            tree = frozenset(((image[u], image[v]), step) for (u, v), step in ends)
            parts[key][tree] += weight
    return parts


def _rounds_per_step(problem: PackingProblem, parts: TreeParts) -> list[Fraction]:
    """Return the rounds per C of each step."""
    load: dict[tuple[Edge, int], Fraction] = defaultdict(Fraction)
    for key, trees in parts.items():
        chunks = Fraction(len(problem.collective.chunk_classes()[key]), problem.collective.chunks)
        for tree, part in trees.items():
            for use in tree:
                load[use] += chunks * part
    rounds = [Fraction(0)] * problem.steps
    for constraint in problem.topology.constraints():
        for step in range(problem.steps):
            carried = sum(
                (load[e, step] for e in constraint.edges if (e, step) in load), Fraction(0)
            )
            rounds[step] = max(rounds[step], carried / constraint.chunks_per_round)
    return rounds
