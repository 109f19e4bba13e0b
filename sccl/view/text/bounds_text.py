"""Print lower bounds with their proofs."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from rich.console import Console

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds, PriceProof
from sccl.core.step_limit import LimitProof, StepLimit
from sccl.core.topology import Topology, constraint_name
from sccl.synth.constructions import ConstructionCost
from sccl.view.text.reasons import explain_bandwidth, explain_steps

_MAX_SHOWN = 8  # maximum number of cuts, and of ranks of each

EQUAL_HALVES = "composed of equal halves"
"""Class of allreduces that :func:`lower_bounds` bounds. ``pareto`` also composes unequal halves."""


def print_attained(console: Console, attained: ConstructionCost, bounds: AlgorithmBounds) -> None:
    """Print the costs that a construction attains."""
    best = (attained.steps, attained.bandwidth) == (bounds.steps, bounds.bandwidth)
    met = ", which meets both bounds" if best else ""
    console.print(
        f"attained without search, {attained.construction}: S = {attained.steps}, "
        f"R/C = {attained.bandwidth}{met}",
        soft_wrap=True,
    )


def print_limit(console: Console, limit: StepLimit, scope: str) -> None:
    """Print the limit of R/C for a number of steps, with its proofs."""
    of_class = " in that class" if scope else ""
    if limit.upper is None:
        console.print(f"S = {limit.steps}: R/C >= {limit.lower} for every k, C, and family")
    elif limit.lower == limit.upper:
        console.print(
            f"S = {limit.steps}: R/C >= {limit.lower} for every k and C{of_class}; this bound is "
            "tight: algorithms attain it or approach it arbitrarily closely"
        )
    else:
        console.print(
            f"S = {limit.steps}: R/C >= {limit.lower} ({float(limit.lower):.5g}) for every k and "
            f"C{of_class}; best algorithm: {float(limit.required_upper):.5g}"
        )
    for proof in limit.proofs:
        if proof.cuts:
            _print_cuts(console, proof)
            continue
        if not proof.prices:
            console.print("proved by the bandwidth bound above")
            continue
        console.print(
            "proved by prices of links and budgets in each step: the capacity of one round costs "
            f"at most 1, and the timed trees of all chunks of {proof.collective} cost at least "
            f"{proof.bound} per C in every algorithm (all prices: --json)"
        )
        for step in range(proof.steps):
            prices = [(p, constraint_name(key)) for key, s, p in proof.prices if s == step]
            shown = ", ".join(f"{name} {price}" for price, name in sorted(prices)[-4:])
            more = f" and {len(prices) - 4} more" if len(prices) > 4 else ""
            text = f"  step {step}: {shown}{more}"
            console.print(text, markup=False, soft_wrap=True)


def _print_cuts(console: Console, proof: LimitProof) -> None:
    prices = " and prices of shared budgets" if proof.prices else ""
    console.print(
        f"proved by cuts through time{prices}: each chunk starts on a rank that is inside at time "
        "0, and must reach a rank that never is. Ranks stay inside once they are. So each chunk "
        "must cross from a rank inside at s to one that is not inside at s+1. With these weights "
        f"a round of any step carries at most 1, and {proof.bound} per C must cross (all labels: "
        "--json)",
        soft_wrap=True,
    )
    for cut in sorted(proof.cuts, key=lambda cut: (-cut.weight, cut.labels))[:_MAX_SHOWN]:
        ranks: dict[int, list[str]] = defaultdict(list)
        for rank, label in enumerate(cut.labels):
            ranks[label].append(str(rank))
        inside = []
        for time in sorted(ranks):
            begin = "never" if time > proof.steps else f"from {time}"
            listed, more = ", ".join(ranks[time][:_MAX_SHOWN]), len(ranks[time]) - _MAX_SHOWN
            inside.append(f"{begin}: {listed}{f' and {more} more' if more > 0 else ''}")
        text = f"  {cut.weight}: ranks inside {'; '.join(inside)}"
        console.print(text, markup=False, soft_wrap=True)
    if len(proof.cuts) > _MAX_SHOWN:
        console.print(f"  and {len(proof.cuts) - _MAX_SHOWN} more")


def print_any_family(
    console: Console,
    overall_bounds: AlgorithmBounds,
    topology: Topology,
    spec: Spec,
    overall_limit: StepLimit | None,
) -> None:
    """Print the bounds for algorithms of every family."""
    console.print(f"{spec.name} on {topology.name}, every algorithm", style="bold", markup=False)
    console.print(f"S >= {overall_bounds.steps}: {explain_steps(overall_bounds, spec)}")
    console.print(
        f"R/C >= {overall_bounds.bandwidth}: {explain_bandwidth(overall_bounds, spec)}",
        soft_wrap=True,
    )
    if overall_limit is not None:
        print_limit(console, overall_limit, "")
    console.print()


def print_bounds(
    console: Console, class_bounds: AlgorithmBounds, topology: Topology, spec: Spec
) -> None:
    """Print the bounds of a class of algorithms."""
    priced = class_bounds.evidence
    assert isinstance(priced, PriceProof)
    of_class = f", {EQUAL_HALVES}" if class_bounds.scope else ""
    title = f"{spec.name} on {topology.name}{of_class}"
    console.print(title, style="bold", markup=False)
    if not dual_of(spec).is_identity:
        console.print(f"certified on its dual, {priced.problem}")
    if class_bounds.scope:
        console.print(f"these bounds hold for one family: {class_bounds.scope}")
    console.print(f"S >= {class_bounds.steps}: {explain_steps(class_bounds, spec)}")
    console.print(
        f"R/C >= {class_bounds.bandwidth}: {explain_bandwidth(class_bounds, spec)}", soft_wrap=True
    )
    if priced.kind != "cut":
        _print_prices(console, priced, len(topology.constraints()))


def _print_prices(console: Console, priced: PriceProof, constraints: int) -> None:
    by_price: dict[Fraction, list[str]] = defaultdict(list)
    for name, price in priced.prices:
        by_price[price].append(name)
    console.print("prices (cost of a transfer over an edge; constraints without a price are free):")
    for price, names in sorted(by_price.items()):
        everything = len(names) == constraints
        text = "every link" if everything else ", ".join(names)
        console.print(f"  {price}: {text}", markup=False, soft_wrap=True)
