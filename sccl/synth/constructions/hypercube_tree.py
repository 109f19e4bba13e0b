"""Broadcast on hypercubes in as many steps as dimensions: one timed tree in permuted copies.

Every permutation of the dimensions fixes the root. It maps a link between ranks at distance k and
k + 1 from the root to any other such link. So if one timed tree is used in all permutations at
once, only the number of its sends between layers counts. With n of them from layer k to k + 1, or
back, in a step, rho of that step is at least n / (d binom(d - 1, k)). CP-SAT finds the tree with
the smallest sum: 5/6 for d = 4, which is the limit, 43/60 for d = 5 (the limit is 7/10, with
several trees), and 7/12 for d = 6, where no single tree has less. Even permutations suffice and
need half the chunks: from d = 4 on, they still map each of these links to every other.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import combinations, permutations
from math import comb, lcm

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.collective import Collective, RelationKind
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.constructions.clique_exchange import find_clique_exchange

_DIMENSIONS = range(4, 7)  # with more, permutations make more sends than are written out
# For d = 6, trees with congestion prices have R/C = 22/35 in six steps, where this tree has 7/12.
_EFFORT = Effort(None, 1, 20.0)  # d = 6 takes 3 s
_STRATEGY = Strategy(workers=1)

_TimedTree = tuple[tuple[int, int, int], ...]
"""(from, to, step): ranks as the dimensions in which they are flipped from the root."""


def hypercube_broadcast(topology: Topology, collective: Collective) -> Algorithm | None:
    """Return a verified broadcast in as many steps as dimensions. None: not such a hypercube.

    Args:
        topology: The machine.
        collective: Collective without reductions.

    Raises:
        KeyboardInterrupt: The user interrupted. The solver has been stopped.
    """
    if (collective.pre.kind, collective.post.kind) != (RelationKind.ROOT, RelationKind.ALL):
        return None
    cube = find_clique_exchange(topology)
    if cube is None or cube.side != 2 or cube.dimensions not in _DIMENSIONS:
        return None
    d, lanes, root = cube.dimensions, cube.lanes, cube.ranks.index(collective.pre.root or 0)
    tree = _optimal_tree(d)
    even = [p for p in permutations(range(d)) if _is_even(p)]
    chunks = lcm(len(even), collective.chunks)
    sends: list[Send] = []
    for chunk in range(chunks):
        turn = even[chunk % len(even)]
        image = [
            cube.ranks[root ^ sum(1 << turn[i] for i in range(d) if flips >> i & 1)]
            for flips in range(2**d)
        ]
        sends += [make_send(chunk, image[u], image[v], step) for u, v, step in tree]
    load: dict[tuple[int, int, int], int] = defaultdict(int)
    for tree_send in sends:
        load[tree_send.src, tree_send.dst, tree_send.step] += 1
    rounds = [0] * d
    for (_, _, step), carried in load.items():
        rounds[step] = max(rounds[step], -(-carried // lanes))
    made = Algorithm(topology, collective.with_chunks(chunks), tuple(rounds), tuple(sends))
    return require_valid(made, "a tree rotated by permutations of dimensions")


def _is_even(turn: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in combinations(turn, 2)) % 2 == 0


@lru_cache(maxsize=4)
def _optimal_tree(d: int) -> _TimedTree:
    """Return the timed tree of d steps with the smallest sum of rho, within the effort."""
    model, layer = CpModel(), [rank.bit_count() for rank in range(2**d)]
    uses: dict[tuple[int, int, int], IntVar] = {}
    into: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for u in range(2**d):
        for v in (u ^ (1 << i) for i in range(d)):
            for step in range(max(layer[u], layer[v] - 1), d) if v else ():
                uses[u, v, step] = model.new_bool_var("")
                into[v].append((u, v, step))
    for arriving in into.values():
        model.add_exactly_one([uses[use] for use in arriving])
    for (u, _, step), used in uses.items():
        if u:
            model.add_bool_or([~used, *(uses[use] for use in into[u] if use[2] < step)])
    links = [d * comb(d - 1, k) for k in range(d)]
    unit = lcm(*links)
    rho = [model.new_int_var(0, unit, "") for _ in range(d)]
    between: dict[tuple[int, int, int], list[IntVar]] = defaultdict(list)
    for (u, v, step), used in uses.items():
        between[layer[u], layer[v], step].append(used)
    for (a, b, step), several in between.items():
        model.add(LinearExpr.sum(several) * (unit // links[min(a, b)]) <= rho[step])
    model.minimize(LinearExpr.sum(rho))
    result = solve(model, _EFFORT, _STRATEGY)
    assert result.has_solution, "a binomial tree is one"
    return tuple(use for use, used in uses.items() if result.value(used))
