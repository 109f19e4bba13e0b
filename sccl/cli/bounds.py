"""``sccl bounds``: lower bounds for any algorithm, and their proofs."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds, PriceProof
from sccl.core.files.bounds import bounds_to_wire, proved_limit_to_wire
from sccl.core.files.outputs import output_head, question_digests
from sccl.core.step_limit import LimitProof, StepLimit
from sccl.core.topology import Topology, constraint_name
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.settings import build_effort
from sccl.synth.constructions import ConstructionCost
from sccl.synth.packing.by_steps.limits_by_steps import check_size, step_limit
from sccl.tasks.bounds import any_family_bound, attained_cost, attained_part
from sccl.view.text.reasons import explain_bandwidth, explain_steps

_MAX_SHOWN = 8  # cuts, and ranks of each

_EQUAL_HALVES = "composed of equal halves"
"""The class of allreduces that :func:`lower_bounds` is about: not all that ``pareto`` composes."""


@report_errors
def bounds(
    about: StepProblemOptions,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Also compute the limit of R/C for this S over all k and C; for "
            "allreduce, a bound for all families."
        ),
    ] = None,
    timeout: options.LimitTimeout = None,
    json: options.Json = False,
) -> None:
    """Compute lower bounds on S and R/C without a search, with proofs to check by hand.

    It also prints algorithms in the fewest steps that need no search: breadth first (BFB) or by
    dimensions for an allgather, by coloring for an alltoall. An allreduce has bounds for all
    algorithms and for compositions of equal halves.

    Exit code 0: done, 2: bad input, 3: the limit for --steps is known only between bounds.
    """
    effort = build_effort(timeout, 0)
    subject = load_problem(about)
    topology, spec = subject.topology, subject.spec
    if steps is not None:
        check_size(topology, spec, steps)
    class_bounds = lower_bounds(topology, spec)
    attained = attained_cost(topology, spec)
    overall_bounds = any_class_bounds(topology, spec) if dual_of(spec).phases == 2 else None
    limit = overall_limit = None
    if steps is not None:
        with err().status(escape(f"limit of {spec.name} on {topology.name} for S={steps}")):
            if overall_bounds is not None:
                overall_limit = any_family_bound(topology, spec, overall_bounds, steps)
            if overall_bounds is None or (steps % 2 == 0 and steps >= class_bounds.steps):
                limit = step_limit(topology, spec, steps, class_bounds, effort.seconds).limit
                limit.require_consistent()
    if json:
        found_json = msgspec.to_builtins(bounds_to_wire(class_bounds))
        if overall_bounds is not None:
            found_json = msgspec.to_builtins(bounds_to_wire(overall_bounds)) | {
                "classes": [{"class": _EQUAL_HALVES, **found_json}]
            }
        names = {"topology": topology.name, "collective": spec.name}
        both = {"limit": limit, "every": overall_limit}
        more = {
            name: msgspec.to_builtins(proved_limit_to_wire(value))
            for name, value in both.items()
            if value is not None
        }
        if attained:
            more |= {"attained": msgspec.to_builtins(attained_part(attained))}
        start = output_head("bounds", question_digests(topology, spec))
        print_json(start | names | found_json | more)
    else:
        if overall_bounds is not None:
            _print_any_family(out(), overall_bounds, topology, spec, overall_limit)
        _print(out(), class_bounds, topology, spec)
        if attained:
            _print_attained(out(), attained, class_bounds)
        if limit:
            _print_limit(out(), limit, class_bounds.scope)
    unknown = limit is not None and limit.lower != limit.upper
    raise typer.Exit(ExitCode.UNKNOWN if unknown else ExitCode.OK)


def _print_attained(console: Console, attained: ConstructionCost, bounds: AlgorithmBounds) -> None:
    best = (attained.steps, attained.bandwidth) == (bounds.steps, bounds.bandwidth)
    met = ", which meets both bounds" if best else ""
    console.print(
        f"attained without search, {attained.construction}: S = {attained.steps}, "
        f"R/C = {attained.bandwidth}{met}",
        soft_wrap=True,
    )


def _print_limit(console: Console, limit: StepLimit, scope: str) -> None:
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


def _print_any_family(
    console: Console,
    overall_bounds: AlgorithmBounds,
    topology: Topology,
    spec: Spec,
    overall_limit: StepLimit | None,
) -> None:
    console.print(f"{spec.name} on {topology.name}, every algorithm", style="bold", markup=False)
    console.print(f"S >= {overall_bounds.steps}: {explain_steps(overall_bounds, spec)}")
    console.print(
        f"R/C >= {overall_bounds.bandwidth}: {explain_bandwidth(overall_bounds, spec)}",
        soft_wrap=True,
    )
    if overall_limit is not None:
        _print_limit(console, overall_limit, "")
    console.print()


def _print(console: Console, class_bounds: AlgorithmBounds, topology: Topology, spec: Spec) -> None:
    priced = class_bounds.evidence
    assert isinstance(priced, PriceProof)
    of_class = f", {_EQUAL_HALVES}" if class_bounds.scope else ""
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
