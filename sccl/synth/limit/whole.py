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
from sccl.core.ids import Edge
from sccl.core.limit import LimitProof
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.limit.multiply import Class, Parts, TimedSends, elements, written
from sccl.synth.limit.pricing import pricer
from sccl.synth.limit.problem import Tree
from sccl.synth.limit.solve import Packing
from sccl.synth.limit.window import PriceArray, largest_scale
from sccl.topo.symmetry.automorphisms import image_of
from sccl.topo.symmetry.permutations import Permutation

_TRIES = ((100, (1, 2)), (300, (1, 2, 3, 4, 5)))
"""How often prices are disturbed, and C in multiples of the fewest chunks for which R is whole.

100 make allgather (20, 7, 163) and (316, 8, 2543) on ndv2x2.
"""

_NOISE = 200  # of prices, the largest
_TRIED = 3.0  # units of effort, for these trees
_UNITS = 2.0  # of effort, for a C; those above take 0.3 to 1.3
ALL_UNITS, FEW_UNITS = 6.0, 0.5  # for all; and where another algorithm is at hand
_TREES = 6_000  # that whole numbers are looked for of, about
_SEED = 1
_STRATEGY = Strategy(workers=1)


def few_whole(packing: Packing, proof: LimitProof, effort: float = ALL_UNITS) -> Algorithm | None:
    """Return an algorithm at a limit with few chunks, judged. None: none is found.

    Args:
        proof: of the limit, on the packing's machine.
        effort: after which no further C is looked at.

    Raises:
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    if not packing.exact:
        return None
    unit = packing.problem.collective.chunks
    least = unit * (packing.upper * unit).denominator
    while least * packing.upper < packing.problem.steps:
        least += unit * (packing.upper * unit).denominator
    spent = {False: 0.0, True: 0.0}  # each has effort of its own: neither finds all that is there
    for (disturbed, multiples), quickly in product(_TRIES, spent):
        whole = WholeTrees(packing, proof, disturbed, quickly)
        for times in multiples:
            made = whole.at(least * times, effort) if spent[quickly] < effort else None
            if made is not None:
                return made
            spent[quickly] += whole.spent
    return None


@dataclass
class WholeTrees:
    """The trees of a packing and others as cheap, and integral solutions of them.

    Attributes:
        packing: at its limit.
        proof: its proof, on the same machine.
        disturbed: number of perturbations of prices, to find trees.
        quickly: whether to use fast trees for them, which need not be cheapest.
        spent: effort of the last C.
    """

    packing: Packing
    proof: LimitProof
    disturbed: int = _TRIES[0][0]
    quickly: bool = False
    spent: float = field(default=0.0, init=False)

    def at(self, chunks: int, effort: float = _UNITS) -> Algorithm | None:
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
        classes = problem.collective.classes()
        whole = {key: len(classes[key]) * int(times) for key in trees}
        numbers = {}
        for key, own in trees.items():
            numbers[key] = {tree: model.new_int_var(0, whole[key], "") for tree in own}
            model.add(LinearExpr.sum(list(numbers[key].values())) == whole[key])
            for tree, number in numbers[key].items():
                for use in tree:
                    loads[use].append(number)
        for constraint in problem.topology.constraints():
            for step, r in enumerate(steps):
                load = [x for edge in constraint.edges for x in loads.get((edge, step), ())]
                if load:
                    model.add(LinearExpr.sum(load) <= constraint.chunks_per_round * r)
        result = solve(model, Effort(None, _SEED, min(effort, _UNITS)), _STRATEGY)
        self.spent = result.units
        if not result.found:
            return None
        parts: Parts = {
            key: {
                tree: Fraction(number, whole[key])
                for tree, number in ((tree, result.value(x)) for tree, x in own.items())
                if number
            }
            for key, own in numbers.items()
        }
        return written(problem, parts, int(times))

    @cached_property
    def _trees(self) -> dict[Class, list[TimedSends]]:
        """Return, by class, trees as cheap as any; none: the group is large, or prices are."""
        problem, group = self.packing.problem, elements(self.packing.problem)
        prices = self._prices(group) if group else None
        if group is None or prices is None:
            return {}
        found: dict[int, dict[Tree, int]] = defaultdict(dict)
        for commodity, tree in self._tried(prices):
            found[commodity][tree] = sum(int(prices[use]) for use in tree)
        most = _TREES // (len(group) * len(found))
        made: dict[Class, dict[TimedSends, None]] = defaultdict(dict)
        for number, own in found.items():
            least, of = min(own.values()), problem.commodities[number]
            cheap = [
                [(problem.edges[e], step) for e, step in tree]
                for tree, cost in own.items()
                if cost == least
            ]
            for image in group:
                key = (image_of(of.holders, image), image_of(of.wanted, image))
                for sends in cheap[:most]:
                    made[key][frozenset(((image[u], image[v]), s) for (u, v), s in sends)] = None
        return {key: list(own) for key, own in made.items()}

    def _tried(self, prices: PriceArray) -> Iterator[tuple[int, Tree]]:
        """Yield trees of commodities: known ones, and cheapest ones at perturbed prices."""
        problem = self.packing.problem
        yield from self.packing.trees
        drawn = random.Random(_SEED)  # noqa: S311 - a sample, not a secret
        pricers = [pricer(problem, commodity) for commodity in problem.commodities]
        scale = min(1 << 20, largest_scale(problem.topology.ranks) // max(1, int(prices.max())))
        for _ in range(self.disturbed):
            if sum(one.spent for one in pricers) > _TRIED:
                return
            noise = [drawn.randrange(_NOISE) * drawn.randrange(2) for _ in range(prices.size)]
            disturbed = prices * scale + np.array(noise, np.int64).reshape(prices.shape)
            for number, one in enumerate(pricers):
                try:
                    found = one.quick(disturbed) if self.quickly else one.exact(disturbed)
                except TimeoutError:
                    return
                yield number, found[1]

    def _prices(self, group: list[Permutation]) -> PriceArray | None:
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
        for labels, weight in ((one.labels, one.weight) for one in proof.cuts):
            for u, v in problem.edges:
                for step in range(labels[u], labels[v] - 1):
                    cut[(u, v), step] += weight
        # of what a cut asks of a link, the prices of shared budgets pay a part
        parts = {use: max(priced[use], cut[use]) for use in {*priced, *cut}}
        scale = lcm(*(part.denominator for part in parts.values()))
        if scale * len(group) > largest_scale(problem.topology.ranks):
            return None
        prices = np.zeros((len(problem.edges), problem.steps), np.int64)
        number = {edge: i for i, edge in enumerate(problem.edges)}
        for ((u, v), step), part in parts.items():
            for image in group:
                prices[number[image[u], image[v]], step] += int(part * scale)
        return prices
