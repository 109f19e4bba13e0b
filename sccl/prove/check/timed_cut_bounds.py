"""Recompute lower bounds by cuts through time, in integers.

The label of a rank, from 0 to S+1, is the time from which it is *inside*, where S+1 means never. A
holder of a chunk keeps it, so the chunk leaves only by sends: in some step s, from a rank that is
inside at time s to a rank that is not inside at time s+1. A chunk has to cross if initially only
ranks of label 0 hold it, and it has a destination of label S+1. (In an allreduce the contribution
of a rank of label 0 has to reach such a destination, whatever it is added to on its path: for each
such chunk one send crosses.) So if there are D such chunks, and a round of step s has a_s crossing
lanes, then the sum of rounds times a_s is at least D.

A proof adds such cuts with weights. The cost of a round of a step is the sum over its sends of the
weights of the cuts that each send crosses. If this is at most 1 in every step, R is at least the
weighted sum of the crossing chunks. Shared budgets may have prices in a step, for each send over
any of their links. Then a link's lanes pay only the remainder of its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology, constraint_name
from sccl.prove.check.constraint_prices import StepPrices, common_denominator, fraction_text
from sccl.prove.check.timed_trees import Spend

TimedCuts = Sequence[tuple[Sequence[int], Fraction]]
"""(label of each rank, weight)."""


def timed_cut_bound(  # noqa: PLR0913, PLR0917 - a question, and a proof in two parts
    machine: Topology,
    collective: Collective,
    steps: int,
    cuts: TimedCuts,
    prices: StepPrices,
    spend: Spend,
) -> Fraction:
    """Return the lower bound on R/C in a number of steps, by cuts through time.

    Args:
        collective: Non-combining collective, or an allreduce, also in groups.
        prices: Prices of shared budgets.

    Raises:
        ValueError: A label is invalid, a weight or a price is negative, a price is of no budget or
            step, or the capacity of a round costs more than 1 in some step.
        TooMuchError: The check takes too much work.
    """
    scale = common_denominator(
        [*(weight for _, weight in cuts), *(price for _, _, price in prices)]
    )
    lanes = machine.lanes()
    spend(2 * steps * len(lanes))
    weights: list[dict[Edge, int]] = [dict.fromkeys(lanes, 0) for _ in range(steps)]
    demand = 0
    for labels, weight in cuts:
        if weight < 0:
            raise ValueError(f"a cut has the negative weight {fraction_text(weight)}")
        if len(labels) != machine.ranks or not all(0 <= t <= steps + 1 for t in labels):
            raise ValueError(f"a cut has labels that are not one of 0 to {steps + 1} for each rank")
        scaled = int(weight * scale)
        demand += scaled * _crossing_demand(collective, labels, steps, spend)
        spend(2 * len(lanes))
        for edge in lanes:
            for step in range(labels[edge[0]], labels[edge[1]] - 1):
                weights[step][edge] += scaled
    bought = [0] * steps
    budgets = {budget.name: budget for budget in machine.budgets}
    for key, step, price in prices:
        if price < 0 or not isinstance(key, str) or key not in budgets or not 0 <= step < steps:
            raise ValueError(
                f"price {fraction_text(price)} of {constraint_name(key)[:60]!r} in step {step}: "
                "expected 0 "
                "or more, of a budget and a step that exist"
            )
        scaled = int(price * scale)
        bought[step] += scaled * budgets[key].chunks_per_round
        spend(len(budgets[key].edges))
        for edge in budgets[key].edges:
            weights[step][edge] -= scaled
    for step, of_step in enumerate(weights):
        bought[step] += sum(lanes[edge] * left for edge, left in of_step.items() if left > 0)
        if bought[step] > scale:
            value = fraction_text(Fraction(bought[step], scale))
            raise ValueError(f"a round of step {step} buys {value}, expected up to 1")
    return Fraction(demand, scale * collective.chunks)


def _crossing_demand(
    collective: Collective, labels: Sequence[int], steps: int, spend: Spend
) -> int:
    """Return the number of chunks that start inside and are demanded outside in the end.

    In an allreduce a single contribution that starts inside is enough, and several travel as one.
    """
    outside = {rank for rank, label in enumerate(labels) if label == steps + 1}
    starts = any if collective.combining else all
    count = 0
    for (holders, wanted), chunks in collective.chunk_classes().items():
        spend(2 + len(holders) + len(wanted))
        if not outside.isdisjoint(wanted) and starts(labels[rank] == 0 for rank in holders):
            count += collective.amount(chunks)
    return count
