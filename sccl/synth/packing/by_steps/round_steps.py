"""Convert a packing of timed trees to algorithms that attain it: by multiplication or few chunks.

By complementary slackness, an algorithm at the limit only uses trees that are cheapest at prices
that prove the limit. There are many such trees, and a packing needs few of them. The trees that are
cheapest after small perturbations of all prices are usually enough for an integral solution, mostly
with the smallest number of chunks for which R is integral.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import lcm

import numpy as np

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.arrays import IntArray
from sccl.core.ids import ChunkId, Edge, Rank, Step
from sccl.core.step_limit import LimitProof
from sccl.judge import require_valid
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.limits import MAX_MULTIPLIED_CHUNKS, MAX_REFINED_SENDS, QUICK_EFFORT, STEP_EFFORT
from sccl.synth.packing.by_steps.solve import Packing, make_pricer
from sccl.synth.packing.price_steps import max_price_scale
from sccl.synth.packing.problem import PackingProblem, StepTree
from sccl.topo.symmetry.permutations import Permutation, map_ranks, rank_orbits

ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]
TimedSends = frozenset[tuple[Edge, int]]
TreeParts = dict[ChunkClass, dict[TimedSends, Fraction]]


def multiply_out(packing: Packing, most_chunks: int | None = None) -> Algorithm | None:
    """Return a verified algorithm with R/C = ``packing.upper``.

    The packing represents its mean under all symmetries. Each symmetry is applied, and C is the
    smallest number that makes all parts integral. None: the group or the algorithm would be too
    large to write down, or a step carries nothing (then fewer steps are as good).

    Args:
        most_chunks: Largest C to write down. None: no limit.
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
    """Return a verified algorithm near the limit with C = ``times`` times that of the problem.

    Each class assigns to its trees whole numbers of chunks near their parts. None: see
    :func:`multiply_out`.
    """
    parts = _average_over_group(packing)
    return None if parts is None else build_algorithm(packing.problem, parts, times)


def build_algorithm(problem: PackingProblem, parts: TreeParts, times: int) -> Algorithm | None:
    """Return the algorithm in which each tree carries its rounded part of the chunks."""
    if problem.collective.num_chunks * times > MAX_REFINED_SENDS:
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
            if count * len(tree) + len(sends) > MAX_REFINED_SENDS:
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
    """Return the sends of tree pairs that the receiver reduces.

    They are the sends of ranks that do not have the contributions of the whole group yet.
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
    """Return whole numbers with sum ``total`` near given parts, by largest remainders."""
    counts = [int(part * total) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: (counts[i] - parts[i] * total, i))
    for i in order[: total - sum(counts)]:
        counts[i] += 1
    return counts


def group_elements(problem: PackingProblem) -> list[Permutation] | None:
    """Return all elements of the symmetry group, breadth first. None: it is too large."""
    identity = tuple(range(problem.topology.ranks))
    group = {identity: None}
    for element in (queue := [identity]):
        for generator in problem.symmetries:
            product = tuple(generator[r] for r in element)
            if product not in group:
                group[product] = None
                queue.append(product)
        if len(group) > MAX_MULTIPLIED_CHUNKS:
            return None
    return list(group)


def _average_over_group(packing: Packing) -> TreeParts | None:
    """Return the timed trees of each class of chunks and their parts, averaged over the group."""
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
    """Return the rounds of each step, divided by C."""
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


_PERTURBATION_TRIES = ((100, (1, 2)), (300, (1, 2, 3, 4, 5)))
"""How often prices are disturbed, and C in multiples of the fewest chunks for which R is whole.

100 make allgather (20, 7, 163) and (316, 8, 2543) on ndv2x2. The packing of seven steps is too
large to multiply out, and rounded to 256 chunks it takes 0.12 % more rounds.
"""

_MAX_NOISE = 200
"""Largest perturbation of a price, which is scaled by 2**20, so that only ties are broken."""

TOTAL_EFFORT_UNITS, REDUCED_EFFORT_UNITS = 6.0, 0.5
"""Budget of all attempts, and of those if another algorithm is known. An allgather in 3 steps on
``dgx1`` has no algorithm of few chunks, and the larger budget takes 10 s."""

_MAX_TREES = 6_000
"""Trees of an integer program, images included. Solves take up to 1.3 units."""

_SEED = 1
"""Any seed gives valid trees; a fixed one gives the same files."""

_STRATEGY = Strategy(workers=1)


def round_to_few_chunks(
    packing: Packing, proof: LimitProof, effort: float = TOTAL_EFFORT_UNITS
) -> Algorithm | None:
    """Return a verified algorithm at a limit with few chunks. None: none is found.

    Args:
        proof: Proof of the limit, on the packing's machine.
        effort: Effort after which no further C is tried.

    Raises:
        KeyboardInterrupt: The user interrupted. The solver has been stopped.
    """
    if not packing.is_exact:
        return None
    unit = packing.problem.collective.chunks
    min_chunks = unit * (packing.upper * unit).denominator
    while min_chunks * packing.upper < packing.problem.steps:
        min_chunks += unit * (packing.upper * unit).denominator
    pricers = [make_pricer(packing.problem, c) for c in packing.problem.commodities]
    # separate budgets: quick pricing by a search finds other trees
    spent = dict.fromkeys([False, True] if any(p.is_searched for p in pricers) else [False], 0.0)
    for (disturbed, multiples), quickly in product(_PERTURBATION_TRIES, spent):
        integral_trees = IntegerPacking(packing, proof, disturbed, quickly)
        for times in multiples:
            made = (
                integral_trees.find_algorithm(min_chunks * times, effort)
                if spent[quickly] < effort
                else None
            )
            if made is not None:
                return made
            spent[quickly] += integral_trees.spent
    return None


@dataclass
class IntegerPacking:
    """The trees of a packing and others as cheap, and integral solutions with them.

    Attributes:
        packing: Packing at its limit.
        proof: Proof of the limit, on the same machine.
        perturbations: Number of perturbations of prices for finding trees.
        is_quick: Whether these trees come from quick pricing, which need not find a cheapest one.
        spent: Effort for the last C.
    """

    packing: Packing
    proof: LimitProof
    perturbations: int = _PERTURBATION_TRIES[0][0]
    is_quick: bool = False
    spent: float = field(default=0.0, init=False)

    def find_algorithm(self, chunks: int, effort: float = STEP_EFFORT) -> Algorithm | None:
        """Return a verified algorithm at the limit with C = ``chunks``. None: none is found.

        Raises:
            KeyboardInterrupt: The user interrupted. The solver has been stopped.
        """
        problem, trees = self.packing.problem, self._trees
        times, rounds = Fraction(chunks, problem.collective.chunks), chunks * self.packing.upper
        if not trees or times.denominator > 1 or rounds.denominator > 1:
            return None
        model = CpModel()
        steps = [model.new_int_var(1, int(rounds), "") for _ in range(problem.steps)]
        model.add(LinearExpr.sum(steps) <= int(rounds))
        loads: dict[tuple[Edge, int], list[IntVar]] = defaultdict(list)
        classes = problem.collective.chunk_classes()
        class_chunks = {key: len(classes[key]) * int(times) for key in trees}
        numbers = {}
        for key, class_trees in trees.items():
            numbers[key] = {
                tree: model.new_int_var(0, class_chunks[key], "") for tree in class_trees
            }
            model.add(LinearExpr.sum(list(numbers[key].values())) == class_chunks[key])
            for tree, number in numbers[key].items():
                for use in tree:
                    loads[use].append(number)
        for constraint in problem.topology.constraints():
            for step, r in enumerate(steps):
                load = [x for edge in constraint.edges for x in loads.get((edge, step), ())]
                if load:
                    model.add(LinearExpr.sum(load) <= constraint.chunks_per_round * r)
        result = solve(model, Effort(None, _SEED, min(effort, STEP_EFFORT)), _STRATEGY)
        self.spent = result.units
        if not result.has_solution:
            return None
        parts: TreeParts = {
            key: {
                tree: Fraction(number, class_chunks[key])
                for tree, number in ((tree, result.value(x)) for tree, x in class_trees.items())
                if number
            }
            for key, class_trees in numbers.items()
        }
        return build_algorithm(problem, parts, int(times))

    @cached_property
    def _trees(self) -> dict[ChunkClass, list[TimedSends]]:
        """Return the cheapest trees of each class. Empty: the group or the prices are too large."""
        problem, group = self.packing.problem, group_elements(self.packing.problem)
        prices = self._prices(group) if group else None
        if group is None or prices is None:
            return {}
        tree_costs: dict[int, dict[StepTree, int]] = defaultdict(dict)
        for commodity, tree in self._perturbed_trees(prices):
            tree_costs[commodity][tree] = sum(int(prices[use]) for use in tree)
        max_trees = _MAX_TREES // (len(group) * len(tree_costs))
        made: dict[ChunkClass, dict[TimedSends, None]] = defaultdict(dict)
        for number, class_trees in tree_costs.items():
            min_cost, of = min(class_trees.values()), problem.commodities[number]
            cheap = [
                [(problem.edges[e], step) for e, step in tree]
                for tree, cost in class_trees.items()
                if cost == min_cost
            ]
            for image in group:
                key = (map_ranks(of.holders, image), map_ranks(of.wanted, image))
                for sends in cheap[:max_trees]:
                    made[key][frozenset(((image[u], image[v]), s) for (u, v), s in sends)] = None
        return {key: list(class_trees) for key, class_trees in made.items()}

    def _perturbed_trees(self, prices: IntArray) -> Iterator[tuple[int, StepTree]]:
        """Yield (commodity, tree): known trees, and cheapest trees at perturbed prices."""
        problem = self.packing.problem
        yield from self.packing.trees
        drawn = random.Random(_SEED)  # noqa: S311 - a sample, not a secret
        pricers = [make_pricer(problem, commodity) for commodity in problem.commodities]
        scale = min(1 << 20, max_price_scale(problem.topology.ranks) // max(1, int(prices.max())))
        for _ in range(self.perturbations):
            if sum(tree_pricer.spent for tree_pricer in pricers) > STEP_EFFORT:
                return
            noise = [drawn.randrange(_MAX_NOISE) * drawn.randrange(2) for _ in range(prices.size)]
            disturbed = prices * scale + np.array(noise, np.int64).reshape(prices.shape)
            for number, tree_pricer in enumerate(pricers):
                try:
                    cheapest = (
                        tree_pricer.quick(disturbed)
                        if self.is_quick
                        else tree_pricer.exact(disturbed)
                    )
                except TimeoutError:
                    return
                yield number, cheapest[1]

    def _prices(self, group: list[Permutation]) -> IntArray | None:
        """Return the proof's prices, symmetrized and integral, shape (links, steps).

        None: the integers would be too large.
        """
        problem, proof = self.packing.problem, self.proof
        priced: dict[tuple[Edge, int], Fraction] = defaultdict(Fraction)
        cut: dict[tuple[Edge, int], Fraction] = defaultdict(Fraction)
        edges_of = {c.key: c.edges for c in problem.topology.constraints()}
        for key, step, price in proof.prices:
            for edge in edges_of[key]:
                priced[edge, step] += price
        for labels, weight in ((timed_cut.labels, timed_cut.weight) for timed_cut in proof.cuts):
            for u, v in problem.edges:
                for step in range(labels[u], labels[v] - 1):
                    cut[(u, v), step] += weight
        # the prices of shared budgets pay a part of a cut's demand on a link
        parts = {use: max(priced[use], cut[use]) for use in {*priced, *cut}}
        scale = lcm(*(part.denominator for part in parts.values()))
        if scale * len(group) > max_price_scale(problem.topology.ranks):
            return None
        prices = np.zeros((len(problem.edges), problem.steps), np.int64)
        number = {edge: i for i, edge in enumerate(problem.edges)}
        for ((u, v), step), part in parts.items():
            for image in group:
                prices[number[image[u], image[v]], step] += int(part * scale)
        return prices


# Without palindromes, five steps on dgx1 attain 601/2048, not the limit of 7/24.
_MAX_CHUNKS = 128
"""Chunks of a palindrome, whose model has three trees for each."""


_TreeVariables = dict[tuple[Edge, int], IntVar]


def round_to_palindrome(packing: Packing) -> Algorithm | None:
    """Return a verified allreduce by trees with R/C = ``packing.upper``. None: none is found.

    Args:
        packing: Packing of a problem with tree pairs. In process groups the result is None.

    Raises:
        KeyboardInterrupt: The user interrupted. The solver has been stopped.
    """
    problem = packing.problem
    topology = problem.topology
    grouped = bool(problem.collective.post.pattern)
    if not problem.has_tree_pairs or grouped or not topology.same_capacities(topology.reversed()):
        return None
    unit = lcm(2 * topology.ranks, packing.upper.denominator)
    for chunks in (unit * times for times in (1, 2) if unit * times <= _MAX_CHUNKS):
        total = int(chunks * packing.upper)
        algorithm = _search_palindrome(problem, chunks, total)
        if algorithm is not None:
            return require_valid(algorithm, "an allreduce by trees that is the same backwards")
    return None


@lru_cache(maxsize=4)  # sweeps and limits of a comparison make the same call
def _search_palindrome(problem: PackingProblem, chunks: int, total: int) -> Algorithm | None:
    """Return an algorithm with this number of rounds. None: none is found."""
    model = CpModel()
    short = problem.steps // 2
    long = problem.steps - short
    pairs = [
        (_tree_variables(model, problem, root, short), _tree_variables(model, problem, root, long))
        for root in _root_variables(model, problem, chunks // 2)
    ]
    half = [model.new_int_var(1, total, "") for _ in range(long)]
    rounds = [*half, *reversed(half[:short])]
    model.add(LinearExpr.sum(rounds) == total)
    load: dict[tuple[Edge, int], list[IntVar]] = defaultdict(list)
    for y, z in pairs:
        for edge, step, _, used in (*_pair_sends(y, z, short), *_pair_sends(z, y, long)):
            load[edge, step].append(used)
    for constraint in problem.topology.constraints():
        for step, times in enumerate(rounds):
            carried = [x for edge in constraint.edges for x in load[edge, step]]
            model.add(LinearExpr.sum(carried) <= times * constraint.chunks_per_round)
    result = solve(model, Effort(seed=_SEED, units=QUICK_EFFORT), Strategy(workers=8))
    if not result.has_solution:
        return None
    collective = replace(problem.collective, chunks=chunks, num_chunks=chunks)
    chunk_trees = [trees for y, z in pairs for trees in ((y, z, short), (z, y, long))]
    sends = [
        make_send(chunk, *edge, step, reduce=reduce)
        for chunk, (up, down, turn) in enumerate(chunk_trees)
        for edge, step, reduce, used in _pair_sends(up, down, turn)
        if result.value(used)
    ]
    rounds_of_steps = tuple(result.value(times) for times in rounds)
    return Algorithm(problem.topology, collective, rounds_of_steps, tuple(sends))


def _root_variables(model: CpModel, problem: PackingProblem, pairs: int) -> Iterator[list[IntVar]]:
    """Yield the root variables of each pair. If all ranks are alike, each gets an equal share."""
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
    """Return the variables of a timed tree from a root: whether it uses a link in a step."""
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
    """Yield (link, step, reduce, used) of a chunk that is reduced and then broadcast by trees."""
    for ((u, v), s), used in up.items():
        yield (v, u), turn - 1 - s, True, used
    for (edge, s), used in down.items():
        yield edge, turn + s, False, used
