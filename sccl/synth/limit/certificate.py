"""What proves a limit: prices of constraints in steps. :mod:`sccl.prove.check.prices` checks it.

If the constraints' prices, times what each carries in a round, add up to at most 1 in every step,
then R rounds buy at most R, however they are spread over the steps. So if the timed trees of all
chunks together cost at least D per C, whatever trees they are, then R/C >= D. Likewise for rounds
per step that are given: if they buy at most 1, then D * C <= 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.limit import Prices
from sccl.core.topology import constraint_name
from sccl.synth.limit.solve import Limit


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
    prices: Prices
    rounds: tuple[int, ...] | None = None


def certificate(limit: Limit) -> LimitCertificate | None:
    """Return what proves ``limit.lower``; None if the bandwidth bound does."""
    if not limit.prices:
        return None
    resources = limit.problem.resources
    prices = [(key, step, price) for i, step, price in limit.prices for key in resources[i].keys]
    prices.sort(key=lambda priced: (constraint_name(priced[0]), priced[1]))
    return LimitCertificate(limit.problem.steps, limit.lower, tuple(prices), limit.problem.rounds)
