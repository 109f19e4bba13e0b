"""Few chunks at a limit: integral numbers of timed trees that are cheapest at its prices.

By complementary slackness an algorithm at the limit uses no other trees: at prices that prove the
limit, each costs as much as a cheapest one of its class. There are many of these, most of which no
packing needs. The trees that are cheapest after small perturbations of all prices are usually
enough for an integral solution, mostly at the fewest chunks for which R is integral.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm

import numpy as np

from sccl.core.algorithm import Algorithm
from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.core.step_limit import LimitProof
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.packing.by_steps.multiplication import (
    ChunkClass,
    TimedSends,
    TreeParts,
    build_algorithm,
    group_elements,
)
from sccl.synth.packing.by_steps.packing_problem import StepTree
from sccl.synth.packing.by_steps.packing_solver import Packing
from sccl.synth.packing.by_steps.pricing.pricers import make_pricer
from sccl.synth.packing.by_steps.pricing.time_windows import max_price_scale
from sccl.topo.symmetry.permutations import Permutation, map_ranks

_PERTURBATION_TRIES = ((100, (1, 2)), (300, (1, 2, 3, 4, 5)))
"""How often prices are disturbed, and C in multiples of the fewest chunks for which R is whole.

100 make allgather (20, 7, 163) and (316, 8, 2543) on ndv2x2. The packing of seven steps is too
large to multiply out, and rounded to 256 chunks it takes 0.12 % more rounds.
"""

_MAX_NOISE = 200  # of prices, the largest
_PRICING_EFFORT = 3.0  # units of effort, for these trees
_EFFORT_PER_SOLVE = 2.0  # effort for a C, whose solves take 0.3 to 1.3
TOTAL_EFFORT_UNITS, REDUCED_EFFORT_UNITS = (
    6.0,
    0.5,
)  # for all, and if another algorithm is available
_MAX_TREES = 6_000  # that whole numbers are looked for of, about
_SEED = 1
"""Any seed gives valid trees; a fixed one gives the same files."""

_STRATEGY = Strategy(workers=1)


def round_to_few_chunks(
    packing: Packing, proof: LimitProof, effort: float = TOTAL_EFFORT_UNITS
) -> Algorithm | None:
    """Return an algorithm at a limit with few chunks, judged. None: none is found.

    Args:
        proof: of the limit, on the packing's machine.
        effort: after which no further C is looked at.

    Raises:
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    if not packing.is_exact:
        return None
    unit = packing.problem.collective.chunks
    min_chunks = unit * (packing.upper * unit).denominator
    while min_chunks * packing.upper < packing.problem.steps:
        min_chunks += unit * (packing.upper * unit).denominator
    spent = {False: 0.0, True: 0.0}  # each has effort of its own: neither finds all that is there
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
    """The trees of a packing and others as cheap, and integral solutions of them.

    Attributes:
        packing: at its limit.
        proof: its proof, on the same machine.
        perturbations: number of perturbations of prices, to find trees.
        is_quick: whether to use fast trees for them, which need not be cheapest.
        spent: effort of the last C.
    """

    packing: Packing
    proof: LimitProof
    perturbations: int = _PERTURBATION_TRIES[0][0]
    is_quick: bool = False
    spent: float = field(default=0.0, init=False)

    def find_algorithm(self, chunks: int, effort: float = _EFFORT_PER_SOLVE) -> Algorithm | None:
        """Return an algorithm at the limit with C = ``chunks``, judged. None: none is found.

        Raises:
            KeyboardInterrupt: the user interrupted. The solver has been stopped.
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
        result = solve(model, Effort(None, _SEED, min(effort, _EFFORT_PER_SOLVE)), _STRATEGY)
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
        """Return, by class, trees as cheap as any; none: the group is large, or prices are."""
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
        """Yield trees of commodities: known ones, and cheapest ones at perturbed prices."""
        problem = self.packing.problem
        yield from self.packing.trees
        drawn = random.Random(_SEED)  # noqa: S311 - a sample, not a secret
        pricers = [make_pricer(problem, commodity) for commodity in problem.commodities]
        scale = min(1 << 20, max_price_scale(problem.topology.ranks) // max(1, int(prices.max())))
        for _ in range(self.perturbations):
            if sum(tree_pricer.spent for tree_pricer in pricers) > _PRICING_EFFORT:
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
        """Return the prices of the proof by link and step: whole, and the same on images.

        None: as whole numbers they would be too large.
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
