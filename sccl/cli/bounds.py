"""``sccl bounds``: what no algorithm can beat, and why."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from rich.console import Console

from sccl.bounds import Certificate, LowerBounds, bounds_json, lower_bounds
from sccl.cli import options
from sccl.cli.report import out, print_json, reported
from sccl.collectives import resolve as resolve_collective
from sccl.topo import resolve as resolve_topology


@reported
def bounds(
    collective: options.Collective,
    topo: options.Topo,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Lower bounds on steps and on R/C, with certificates to check by hand."""
    topology = resolve_topology(topo)
    spec = resolve_collective(collective, topology.ranks, root)
    found = lower_bounds(topology, spec)
    if json:
        print_json(
            {"schema": 1, "topology": topology.name, "collective": spec.name} | bounds_json(found)
        )
    else:
        _print(out(), found, topology.name)


def _print(console: Console, found: LowerBounds, machine: str) -> None:
    other, certificate = found.dual, found.certificate
    console.print(f"{other.original.name} on {machine}", style="bold", markup=False)
    if not other.is_identity:
        console.print(f"certified on its dual, {found.problem}")
    if found.scope:
        console.print(f"class: {found.scope}")
    pair = found.pair
    sources = ", ".join(str(s) for s in pair.sources)
    console.print(
        f"S >= {found.steps}: chunk {pair.chunk} starts on rank {sources} and rank {pair.rank} is "
        f"{pair.steps} link(s) away" + (", twice" if other.phases == 2 else "")
    )
    console.print(f"R/C >= {found.bandwidth}: {explain(found)}", soft_wrap=True)
    if certificate.kind != "cut":
        _print_prices(console, certificate, len(found.machine.constraints()))


def _print_prices(console: Console, certificate: Certificate, constraints: int) -> None:
    by_price: dict[Fraction, list[str]] = defaultdict(list)
    for name, price in certificate.prices:
        by_price[price].append(name)
    console.print("prices (what a transfer over an edge costs; constraints not named are free):")
    for price, names in sorted(by_price.items()):
        everything = len(names) == constraints
        text = "every link" if everything else ", ".join(names)
        console.print(f"  {price}: {text}", markup=False, soft_wrap=True)


def explain(found: LowerBounds) -> str:
    """Return the bandwidth certificate as a sentence."""
    certificate, unit = found.certificate, found.dual.spec.unit
    split = f"with C={unit} "
    if certificate.kind == "lengths":
        return (
            f"{split}the shortest paths of all chunks, at the prices below, cost "
            f"{certificate.value} times what one round can carry"
        )
    texts = []
    for cut in certificate.cuts:
        inside = "{" + ", ".join(str(r) for r in cut.ranks) + "}"
        weight = f" (weight {cut.weight})" if len(certificate.cuts) > 1 else ""
        texts.append(f"{cut.chunks} chunks must enter ranks {inside}{weight}")
    total = sum(c.weight * c.chunks for c in certificate.cuts)
    capacity = total / certificate.value
    what = "at most" if len(texts) == 1 else "together at most"
    return f"{split}{' and '.join(texts)}, {what} {capacity} can in a round"
