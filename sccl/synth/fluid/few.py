"""Some of the ranks that want a chunk: what serves all of them serves these, and costs no less.

So prices of links in slots say the least time of machines of any number of ranks, where trees to
all of them are too many to look at. Which ranks are taken changes how much is said, and never
whether it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from sccl.synth.flows.problem import FluidProblem

MOST_GOALS = 6
"""Trees to so many ranks take milliseconds, on any machine."""


def few_goals(problem: FluidProblem) -> frozenset[int]:
    """Return ranks that are hard to serve together; none: chunks do not all go the same ways.

    Those are the farthest rank of each chassis, as what comes late to a chassis comes to it by
    itself; and of each way that a chunk can begin with, one that is far by that way, as what leaves
    late has to leave by several.
    """
    if len(problem.commodities) != 1 or len(problem.commodities[0].members) != 1:
        return frozenset()
    one = problem.commodities[0]
    missing = sorted(one.wanted - one.holders)
    far = problem.distances(one.holders)
    found: list[int] = []
    for chassis in problem.topology.chassis:
        inside = [int(rank) for rank in chassis if rank in one.wanted]
        if inside and one.holders.isdisjoint(inside):
            found.append(max(inside, key=lambda rank: (far[rank], -rank)))
    for ranks in _late(problem, missing):
        if not ranks.intersection(found):
            found.append(min(ranks))
    return frozenset(found[:MOST_GOALS])


def _late(problem: FluidProblem, missing: list[int]) -> Iterator[frozenset[int]]:
    """Yield the ranks that a chunk comes to last by each way that it can begin with."""
    (one,) = problem.commodities
    firsts = sorted({v for u, v in problem.edges if u in one.holders and v not in one.holders})
    known = [problem.distances([first]) for first in firsts]
    most = [max(far.get(rank, Fraction(0)) for rank in missing) for far in known]
    each = [
        frozenset(rank for rank in missing if far.get(rank) == last)
        for far, last in zip(known, most, strict=True)
    ]
    for _, ranks in sorted(enumerate(each), key=lambda some: (len(some[1]), some[0])):
        yield ranks


def narrowed(problem: FluidProblem, goals: frozenset[int]) -> FluidProblem:
    """Return a problem in which only these ranks want anything."""
    few = (replace(one, wanted=one.wanted & goals) for one in problem.commodities)
    return replace(problem, commodities=tuple(few))
