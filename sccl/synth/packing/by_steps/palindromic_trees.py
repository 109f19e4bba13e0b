"""Allreduce by trees that is the same backwards: few chunks that attain a limit.

Chunks come in pairs. One goes up the reverse of a tree Y and down a tree Z from the same root, the
other up the reverse of Z and down Y. Turned round in place and time, the whole is itself again, so
on a machine whose links are alike both ways only half of it has to be found: trees of S // 2 and of
S - S // 2 steps, with rounds per step that are a palindrome. On DGX-1 that finds (48, 5, 14), which
leaves no lane idle in any round, in under a second, where neither multiplying packings out nor
whole numbers over their trees did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.ids import Edge
from sccl.judge import require_valid
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.packing.by_steps.packing_problem import PackingProblem
from sccl.synth.packing.by_steps.packing_solver import Packing
from sccl.topo.symmetry.permutations import rank_orbits

# Without palindromes, five steps on dgx1 attain 601/2048, not the limit of 7/24.
_CHUNK_MULTIPLES = (1, 2)
_MAX_CHUNKS = 128  # of a model
_TOTAL_EFFORT, _VECTOR_EFFORT = 12.0, 3.0
"""Units for all attempts, and for one."""

_SEED = 1  # CP-SAT's own

_TreeVariables = dict[tuple[Edge, int], IntVar]


def round_to_palindrome(packing: Packing, effort: float = _TOTAL_EFFORT) -> Algorithm | None:
    """Return an allreduce by trees with R/C = ``packing.upper``, judged; None if none is found.

    Args:
        packing: of a problem whose trees go up and down. In process groups none is looked for.
        effort: units for all attempts together: the same result on every run.

    Raises:
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    problem = packing.problem
    topology = problem.topology
    grouped = bool(problem.collective.post.pattern)
    if not problem.has_tree_pairs or grouped or not topology.same_capacities(topology.reversed()):
        return None
    unit = lcm(2 * topology.ranks, packing.upper.denominator)
    for chunks in (unit * times for times in _CHUNK_MULTIPLES if unit * times <= _MAX_CHUNKS):
        for rounds in _palindromes(int(chunks * packing.upper), problem.steps):
            if effort <= 0:
                return None
            algorithm, spent = _search_rounds(problem, chunks, rounds, min(_VECTOR_EFFORT, effort))
            effort -= spent
            if algorithm is not None:
                return require_valid(algorithm, "an allreduce by trees that is the same backwards")
    return None


def _palindromes(total: int, steps: int) -> Iterator[tuple[int, ...]]:
    """Yield the palindromes of whole numbers from 1 that add up to ``total``, even ones first."""

    def halves(left: int, parts: int) -> Iterator[tuple[int, ...]]:
        """Yield the first halves: ``parts`` numbers that sum to ``left``."""
        if parts == 0:
            if left == 0:
                yield ()
            return
        for first in range(1, left + 1):
            for rest in halves(left - first, parts - 1):
                yield (first, *rest)

    round_vectors = [
        (*half, *((middle,) if steps % 2 else ()), *reversed(half))
        for middle in (range(1, total + 1) if steps % 2 else (0,))
        if (total - middle) % 2 == 0
        for half in halves((total - middle) // 2, steps // 2)
    ]
    yield from sorted(round_vectors, key=lambda vector: (max(vector) - min(vector), vector))


def _search_rounds(
    problem: PackingProblem, chunks: int, rounds: tuple[int, ...], effort: float
) -> tuple[Algorithm | None, float]:
    """Return an algorithm with these rounds per step, if one is found, and the effort it took."""
    model = CpModel()
    short = problem.steps // 2
    long = problem.steps - short
    pairs = [
        (_tree_variables(model, problem, root, short), _tree_variables(model, problem, root, long))
        for root in _root_variables(model, problem, chunks // 2)
    ]
    load: dict[tuple[Edge, int], list[IntVar]] = defaultdict(list)
    for y, z in pairs:
        for edge, step, _, used in (*_pair_sends(y, z, short), *_pair_sends(z, y, long)):
            load[edge, step].append(used)
    for constraint in problem.topology.constraints():
        for step, times in enumerate(rounds):
            carried = [x for edge in constraint.edges for x in load[edge, step]]
            model.add(LinearExpr.sum(carried) <= times * constraint.chunks_per_round)
    result = solve(model, Effort(seed=_SEED, units=effort), Strategy(workers=8))
    if not result.has_solution:
        return None, result.units
    collective = replace(problem.collective, chunks=chunks, num_chunks=chunks)
    chunk_trees = [trees for y, z in pairs for trees in ((y, z, short), (z, y, long))]
    sends = [
        make_send(chunk, *edge, step, reduce=reduce)
        for chunk, (up, down, turn) in enumerate(chunk_trees)
        for edge, step, reduce, used in _pair_sends(up, down, turn)
        if result.value(used)
    ]
    algorithm = Algorithm(problem.topology, collective, rounds, tuple(sends))
    return algorithm, result.units


def _root_variables(model: CpModel, problem: PackingProblem, pairs: int) -> Iterator[list[IntVar]]:
    """Yield, per pair, which rank is its root: in equal shares where all ranks are alike."""
    ranks = problem.topology.ranks
    alike = len(rank_orbits(problem.topology, problem.symmetries)) == 1
    for pair in range(pairs):
        root = [model.new_bool_var("") for _ in range(ranks)]
        model.add_exactly_one(root)
        if alike and pairs % ranks == 0:
            model.add(root[pair * ranks // pairs] == 1)
        yield root


def _tree_variables(
    model: CpModel, problem: PackingProblem, root: list[IntVar], steps: int
) -> _TreeVariables:
    """Return the variables of a timed tree out of a root: whether it takes a link in a step."""
    tree = {(edge, s): model.new_bool_var("") for edge in problem.edges for s in range(steps)}
    into: dict[int, list[Edge]] = defaultdict(list)
    for edge in problem.edges:
        into[edge[1]].append(edge)
    for rank in range(problem.topology.ranks):
        arriving = [tree[edge, s] for edge in into[rank] for s in range(steps)]
        model.add_exactly_one([root[rank], *arriving])
    for (edge, s), used in tree.items():
        earlier = [tree[other_edge, t] for other_edge in into[edge[0]] for t in range(s)]
        model.add_bool_or([~used, root[edge[0]], *earlier])
    return tree


def _pair_sends(
    up: _TreeVariables, down: _TreeVariables, turn: int
) -> Iterator[tuple[Edge, int, bool, IntVar]]:
    """Yield (link, step, reduce, used) of a chunk that goes up a tree's reverse, and down one."""
    for ((u, v), s), used in up.items():
        yield (v, u), turn - 1 - s, True, used
    for (edge, s), used in down.items():
        yield edge, turn + s, False, used
