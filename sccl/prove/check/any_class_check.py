"""Lower bounds for every allreduce: sends between groups, cuts through time, a broadcast in it.

They hold for algorithms whose sends each carry contributions to one chunk, reduced or not: files of
algorithms have no others. :mod:`sccl.prove.bounds.any_class` has the argument for groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sccl.collectives import embedded_broadcast
from sccl.core.collective import Collective
from sccl.core.files.claims import Claim, EveryWire
from sccl.core.topology import Topology, constraint_name
from sccl.errors import CollectiveError
from sccl.prove.check.case import Case
from sccl.prove.check.constraint_prices import (
    StepPrices,
    common_denominator,
    constraint_finder,
    fraction_text,
    step_price_bound,
)
from sccl.prove.check.rules import require_rule
from sccl.prove.check.step_counts import farthest_chunk
from sccl.prove.check.timed_cut_bounds import timed_cut_bound
from sccl.prove.check.timed_trees import Spend


def check_any_class(case: Case, claim: EveryWire, spend: Spend) -> str:
    """Return how a claim was checked.

    Raises:
        ValueError: it is not proved.
        TooMuchError: it takes too much work to say.
    """
    require_rule(case, claim)
    collective = case.spec.at(case.spec.unit)
    machine = case.topology.reversed() if claim.on_reversed else case.topology
    key_of = constraint_finder(machine)
    prices = [(key_of(name), step, Fraction(price)) for name, step, price in claim.prices]
    if claim.groups:
        proved = _group_bound(machine, collective, claim.groups, prices, spend)
        how = "sends between groups"
    elif claim.steps is None:
        raise ValueError("a claim for every number of steps is proved by groups only")
    elif claim.cuts:
        cuts = [(labels, Fraction(weight)) for labels, weight in claim.cuts]
        proved = timed_cut_bound(machine, collective, claim.steps, cuts, prices, spend)
        how = "cuts through time"
    else:
        roots = claim.roots if claim.root is None else (claim.root,)
        spend(case.spec.pattern_chunks)
        try:
            inner = embedded_broadcast(case.spec, roots)
        except CollectiveError:
            raise ValueError("it has neither groups nor cuts, nor ranks as roots") from None
        proved = step_price_bound(machine, inner.at(inner.unit), claim.steps, prices, spend)
        how = f"cheapest timed trees from rank{'s' if len(roots) > 1 else ''} "
        how += ", ".join(map(str, roots))
    if proved < Fraction(claim.at_least):
        raise ValueError(f"that proves only R/C >= {fraction_text(proved)}")
    return how


def _group_bound(
    machine: Topology,
    reduced: Collective,
    groups: Sequence[Sequence[int]],
    prices: StepPrices,
    spend: Spend,
) -> Fraction:
    """Return the lower bound on R/C by the sends between groups, or into a single one.

    Args:
        reduced: the allreduce.

    Raises:
        ValueError: the groups do not contain each rank once, or a link between them costs less than
            1.
    """
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    ranks = [rank for group in groups for rank in group]
    is_partition = len(groups) > 1
    apart = len(ranks) == len(of) and all(groups) and of.keys() <= set(range(machine.ranks))
    if not apart or (len(of) == machine.ranks) != is_partition:
        raise ValueError("groups take in every rank once, a single one some of them alone")
    constraints = {c.key: c for c in machine.constraints()}
    scale = common_denominator([price for _, _, price in prices])
    costs, bought = dict.fromkeys(machine.edges, 0), 0
    for key, _, price in prices:
        if price < 0 or key not in constraints:
            name = constraint_name(key)[:60]
            raise ValueError(
                f"price {fraction_text(price)} of {name!r}: no such constraint, or below 0"
            )
        spend(1 + len(constraints[key].edges))
        bought += int(price * scale) * constraints[key].chunks_per_round
        for edge in constraints[key].edges:
            costs[edge] += int(price * scale)
    spend(len(costs))
    for (u, v), cost in costs.items():
        crosses = of.get(u) != of.get(v) if is_partition else v in of and u not in of
        if crosses and cost < scale:
            raise ValueError(f"link {u}->{v} leads from group to group and costs less than 1")
    if not bought:
        raise ValueError("nothing has a price")
    sends = 0
    for (held, _), chunks in reduced.chunk_classes().items():
        spend(1 + len(held))
        touched = {of.get(rank) for rank in held}
        sends += reduced.amount(chunks) * (len(touched) - 1) * (2 if is_partition else 1)
    return Fraction(sends * scale, bought * reduced.chunks)


def any_class_lower_bound(
    case: Case, claims: Iterable[Claim], steps: int, spend: Spend
) -> Fraction | None:
    """Return the lower bound on R/C of an allreduce of S steps by claims. None: impossible.

    Raises:
        TooMuchError: that takes too much work.
    """
    if steps < farthest_chunk(case.topology, case.unit, spend)[0]:
        return None
    bounds = [claim for claim in claims if isinstance(claim, EveryWire)]
    spend(1 + len(bounds))
    return max(
        (Fraction(c.at_least) for c in bounds if c.steps is None or c.steps >= steps),
        default=Fraction(0),
    )
