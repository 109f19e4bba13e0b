"""What proves a limit: prices of constraints in steps, and the exact check of it.

If the constraints' prices, times what each carries in a round, add up to at most 1 in every step,
then R rounds buy at most R, however they are spread over the steps. So if the timed trees of all
chunks together cost at least D per C, whatever trees they are, then R/C >= D. Likewise for rounds
per step that are given: if they buy at most 1, then D * C <= 1.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.limit.pricing import pricer
from sccl.limit.problem import Problem, pose, pose_allreduce
from sccl.limit.solve import Limit
from sccl.limit.window import Prices, largest_scale


@dataclass(frozen=True, slots=True)
class LimitCertificate:
    """Prices that prove that R/C is at least ``value`` for every algorithm of ``steps`` steps.

    With ``rounds`` given they prove something of these rounds per step alone: C is at most
    1 / ``value``.

    Attributes:
        value: the bound that is claimed.
        prices: (constraint, step from 0, price) where a price is not 0.
    """

    steps: int
    value: Fraction
    prices: tuple[tuple[str, int, Fraction], ...]
    rounds: tuple[int, ...] | None = None


def certificate(limit: Limit) -> LimitCertificate | None:
    """Return what proves ``limit.lower``; None if the bandwidth bound does."""
    if not limit.prices:
        return None
    resources = limit.problem.resources
    prices = sorted(
        (name, step, price) for i, step, price in limit.prices for name in resources[i].names
    )
    return LimitCertificate(limit.problem.steps, limit.lower, tuple(prices), limit.problem.rounds)


def check_limit_certificate(
    topology: Topology,
    collective: Collective,
    claimed: LimitCertificate,
    *,
    exhaustive: bool = False,
    up_and_down: bool = False,
) -> Fraction:
    """Return the bound that a certificate really proves, in exact arithmetic.

    The cheapest tree of every class of chunks is computed anew: by dynamic programming for few
    ranks, else by CP-SAT.

    Args:
        collective: non-combining (or, for trees up and down, allreduce), at any C.
        exhaustive: by dynamic programming for up to 16 ranks, so that no solver is trusted.
        up_and_down: whether the trees are those of allreduce: see :func:`pose_allreduce`.

    Raises:
        ValueError: a price is negative or names no constraint or step, the prices of a step add up
            to more than 1, or their common denominator is too large.
        TimeoutError: a cheapest tree was not found in time.
    """
    constraints = {c.name: c for c in topology.constraints()}
    spent: dict[int, Fraction] = defaultdict(Fraction)
    scale = lcm(*(price.denominator for _, _, price in claimed.prices))
    if scale > largest_scale(topology.ranks):
        raise ValueError(f"the prices have the common denominator {scale}, too large to check")
    make = pose_allreduce if up_and_down else pose
    problem = make(topology, collective, claimed.steps, symmetric=False)
    number = {edge: i for i, edge in enumerate(problem.edges)}
    costs = np.zeros((len(problem.edges), claimed.steps), np.int64)
    for name, step, price in claimed.prices:
        if price < 0 or name not in constraints or not 0 <= step < claimed.steps:
            raise ValueError(f"price {price} of {name!r} in step {step}: expected 0 or more, of a "
                             "constraint and a step that exist")  # fmt: skip
        spent[step] += price * constraints[name].chunks_per_round
        for edge in constraints[name].edges:
            costs[number[edge], step] += int(price * scale)
    if claimed.rounds is not None:
        if len(claimed.rounds) != claimed.steps:
            raise ValueError(f"there are {len(claimed.rounds)} rounds for {claimed.steps} steps")
        total = sum((spent[s] * r for s, r in enumerate(claimed.rounds)), Fraction(0))
        spent = {-1: total}
    for step, total in spent.items():
        if total > 1:
            what = "all steps" if step < 0 else f"step {step}"
            raise ValueError(f"the prices of {what} buy {total}, expected up to 1")
    return _cheapest_total(problem, costs, exhaustive=exhaustive) / scale


def _cheapest_total(problem: Problem, costs: Prices, *, exhaustive: bool) -> Fraction:
    return sum(
        (
            c.chunks * pricer(problem, c, exhaustive=exhaustive).exact(costs)[0]
            for c in problem.commodities
        ),
        Fraction(0),
    )
