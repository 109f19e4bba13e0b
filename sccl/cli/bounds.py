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
from sccl.cli.report import ExitCode, err, out, print_json, reported
from sccl.cli.subject import SubjectOptions, subject_from
from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Bounds, Priced
from sccl.core.files.bounds import bounds_to_wire, proved_limit_to_wire
from sccl.core.limit import LimitProof, StepLimit
from sccl.core.topology import Topology, constraint_name
from sccl.prove.bounds import any_bounds, lower_bounds
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.direct import Attained
from sccl.synth.limit.steps import check_size, step_limit
from sccl.synth.settings import checked_effort
from sccl.tasks.bounds import attained_of, attained_part, bound_of_every
from sccl.tasks.outputs import head, question_digests
from sccl.view.text.reasons import explain, explain_steps

_SHOWN = 8  # cuts, and ranks of each

_EQUAL_HALVES = "composed of equal halves"
"""The class of allreduces that :func:`lower_bounds` is about: not all that ``pareto`` composes."""


@reported
def bounds(
    about: SubjectOptions,
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
    """Compute lower bounds on S and R/C, with proofs that you can check by hand.

    It also prints algorithms in the fewest steps that need no search: breadth first (BFB) or by
    dimensions for an allgather, by coloring for an alltoall. An allreduce has bounds for all
    algorithms and for compositions of equal halves.

    Exit code 0: done, 2: bad input, 3: the limit for --steps is known only between bounds.
    """
    effort = checked_effort(timeout, 0)
    subject = subject_from(about)
    topology, spec = subject.topology, subject.spec
    if steps is not None:
        check_size(topology, spec, steps)
    found = lower_bounds(topology, spec)
    attained = attained_of(topology, spec)
    whole = any_bounds(topology, spec) if has_classes(spec) else None
    limit = every = None
    if steps is not None:
        with err().status(escape(f"limit of {spec.name} on {topology.name} for S={steps}")):
            if whole is not None:
                every = bound_of_every(topology, spec, whole, steps)
            if whole is None or (steps % 2 == 0 and steps >= found.steps):
                limit = step_limit(topology, spec, steps, found, effort.seconds).limit
                limit.require_consistent()
    if json:
        found_json = msgspec.to_builtins(bounds_to_wire(found))
        if whole is not None:
            found_json = msgspec.to_builtins(bounds_to_wire(whole)) | {
                "classes": [{"class": _EQUAL_HALVES, **found_json}]
            }
        names = {"topology": topology.name, "collective": spec.name}
        both = {"limit": limit, "every": every}
        more = {
            name: msgspec.to_builtins(proved_limit_to_wire(one))
            for name, one in both.items()
            if one is not None
        }
        if attained:
            more |= {"attained": msgspec.to_builtins(attained_part(attained))}
        start = head("bounds", question_digests(topology, spec))
        print_json(start | names | found_json | more)
    else:
        if whole is not None:
            _print_any(out(), whole, topology, spec, every)
        _print(out(), found, topology, spec)
        if attained:
            _print_attained(out(), attained, found)
        if limit:
            _print_limit(out(), limit, found.scope)
    unknown = limit is not None and limit.lower != limit.upper
    raise typer.Exit(ExitCode.UNKNOWN if unknown else ExitCode.OK)


def _print_attained(console: Console, attained: Attained, bounds: Bounds) -> None:
    best = (attained.steps, attained.bandwidth) == (bounds.steps, bounds.bandwidth)
    met = ", which meets both bounds" if best else ""
    console.print(
        f"attained without search, {attained.by}: S = {attained.steps}, "
        f"R/C = {attained.bandwidth}{met}",
        soft_wrap=True,
    )


def _print_limit(console: Console, limit: StepLimit, scope: str) -> None:
    of_class = " in that class" if scope else ""
    if limit.upper is None:
        console.print(f"S = {limit.steps}: R/C >= {limit.lower} for every k, C and class")
    elif limit.lower == limit.upper:
        console.print(
            f"S = {limit.steps}: R/C >= {limit.lower} for every k and C{of_class}; this bound is "
            "tight: algorithms attain it or approach it arbitrarily closely"
        )
    else:
        console.print(
            f"S = {limit.steps}: R/C >= {limit.lower} ({float(limit.lower):.5g}) for every k and "
            f"C{of_class}; best algorithm: {float(limit.best):.5g}"
        )
    for proof in limit.proofs:
        if proof.cuts:
            _print_cuts(console, proof)
            continue
        if not proof.prices:
            console.print("proved by the bandwidth bound above")
            continue
        console.print(
            f"proved by prices of links and budgets in each step, which buy at most one round a "
            f"round; the timed trees of all chunks of {proof.collective} cost at least "
            f"{proof.bound} per C, whatever they are (all prices: --json)"
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
    for cut in sorted(proof.cuts, key=lambda cut: (-cut.weight, cut.labels))[:_SHOWN]:
        ranks: dict[int, list[str]] = defaultdict(list)
        for rank, label in enumerate(cut.labels):
            ranks[label].append(str(rank))
        inside = []
        for time in sorted(ranks):
            begin = "never" if time > proof.steps else f"from {time}"
            some, more = ", ".join(ranks[time][:_SHOWN]), len(ranks[time]) - _SHOWN
            inside.append(f"{begin}: {some}{f' and {more} more' if more > 0 else ''}")
        text = f"  {cut.weight}: ranks inside {'; '.join(inside)}"
        console.print(text, markup=False, soft_wrap=True)
    if len(proof.cuts) > _SHOWN:
        console.print(f"  and {len(proof.cuts) - _SHOWN} more")


def _print_any(
    console: Console, found: Bounds, topology: Topology, spec: Spec, every: StepLimit | None
) -> None:
    console.print(f"{spec.name} on {topology.name}, every algorithm", style="bold", markup=False)
    console.print(f"S >= {found.steps}: {explain_steps(found, spec)}")
    console.print(f"R/C >= {found.bandwidth}: {explain(found, spec)}", soft_wrap=True)
    if every is not None:
        _print_limit(console, every, "")
    console.print()


def _print(console: Console, found: Bounds, topology: Topology, spec: Spec) -> None:
    priced = found.evidence
    assert isinstance(priced, Priced)
    of_class = f", {_EQUAL_HALVES}" if found.scope else ""
    title = f"{spec.name} on {topology.name}{of_class}"
    console.print(title, style="bold", markup=False)
    if not dual_of(spec).is_identity:
        console.print(f"certified on its dual, {priced.problem}")
    if found.scope:
        console.print(f"these bounds are of a class: {found.scope}")
    console.print(f"S >= {found.steps}: {explain_steps(found, spec)}")
    console.print(f"R/C >= {found.bandwidth}: {explain(found, spec)}", soft_wrap=True)
    if priced.kind != "cut":
        _print_prices(console, priced, len(topology.constraints()))


def _print_prices(console: Console, priced: Priced, constraints: int) -> None:
    by_price: dict[Fraction, list[str]] = defaultdict(list)
    for name, price in priced.prices:
        by_price[price].append(name)
    console.print("prices (cost of a transfer over an edge; constraints without a price are free):")
    for price, names in sorted(by_price.items()):
        everything = len(names) == constraints
        text = "every link" if everything else ", ".join(names)
        console.print(f"  {price}: {text}", markup=False, soft_wrap=True)
