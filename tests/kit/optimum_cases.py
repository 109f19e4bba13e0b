"""Random machines of 2 to 4 ranks, collectives on them, and as many bytes as fit into a time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from sccl.collectives import Spec, collective_names, custom_spec, named_spec, resolve_collective
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Switch, Topology
from tests.kit.fluid_optimum import most_bytes

ALPHAS = ((0.0,), (1.0,), (0.0, 2.0), (0.0, 1.0, 3.0), (1.0, 2.0), (0.5, 2.5), (0.1, 2.0, 5.0))
"""In microseconds. Times of a machine have few multiples of their common divisor."""

SPEEDS = ((10.0,), (1.0, 10.0), (5.0, 12.5, 40.0), (1.0, 2.0, 100.0))
"""In 10^9 bytes a second."""

MOST_SLOTS = {2: 24, 3: 16, 4: 8}
"""Steps of alpha in the time, by ranks: linear programs grow fast."""


TIMES = 3
"""Times of each machine."""


@dataclass(frozen=True, slots=True)
class Case:
    """A time in which some schedule moves so many bytes.

    Attributes:
        size_bytes: Bytes of a rank's buffer.
        us: The time.
    """

    machine: Topology
    spec: Spec
    size_bytes: int
    us: Fraction


def draw_machine(rng: random.Random, ranks: int | None = None) -> Topology:
    """Return a strongly connected machine of unequal links."""
    ranks = ranks or rng.choice((2, 3, 3, 3, 4, 4))
    order = rng.sample(range(ranks), ranks)
    edges = {(order[i - 1], order[i]) for i in range(ranks)}
    switches: tuple[Switch, ...] = ()
    if rng.random() < 0.2:
        holds = rng.random() < 0.6
        buffer = None if holds else rng.choice((0, 1))
        cut_through = not holds or rng.random() < 0.5
        switches = (Switch("hub", rng.random() < 0.5, buffer, cut_through),)
        edges = {edge for r in range(ranks) for edge in ((r, ranks), (ranks, r))}
    others = [(u, v) for u, v in product(range(ranks), repeat=2) if u != v]
    edges |= {edge for edge in others if rng.random() < rng.choice((0.2, 0.5, 0.9))}
    alphas, speeds = rng.choice(ALPHAS), rng.choice(SPEEDS)
    links = tuple(
        Link(u, v, rng.choice((1, 1, 2, 3)), rng.choice(alphas), rng.choice(speeds))
        for u, v in sorted(edges)
    )
    budgets = _draw_budgets(rng, sorted(edges), speeds)
    if any(switch.buffer_chunks is not None for switch in switches):
        budgets = ()
    chassis: tuple[tuple[int, ...], ...] = ()
    if ranks > 2 and rng.random() < 0.5:
        chassis = tuple(tuple(sorted(part)) for part in (order[:2], order[2:]))
    return Topology(
        "random", ranks, links, 1.0, 10.0, budgets=budgets, switches=switches, chassis=chassis
    )


def draw_switched(rng: random.Random, hubs: int = 1) -> Topology:
    """Return ranks around switches in a row, over unequal links, perhaps with budgets."""
    ranks = rng.choice((2, 2, 3) if hubs == 1 else (2, 3, 3, 4))
    pairs = [(rank, ranks + rng.randrange(hubs)) for rank in range(ranks)]
    pairs += [(hub, hub + 1) for hub in range(ranks, ranks + hubs - 1)]
    if hubs > 1 and rng.random() < 0.3:
        pairs.append((0, 1))
    edges = sorted({edge for u, v in pairs for edge in ((u, v), (v, u))})
    alphas = rng.choice(((0.0,), (1.0,), (0.0, 1.0, 2.0)))
    speeds = rng.choice(((1.0,), (1.0, 2.0), (1.0, 2.0, 100.0)))
    links = tuple(
        Link(u, v, rng.choice((1, 2)), rng.choice(alphas), rng.choice(speeds)) for u, v in edges
    )
    budgets = tuple(
        Budget(
            f"bus {number}",
            tuple(sorted(rng.sample(edges, rng.randint(2, len(edges))))),
            rng.choice((1, 1, 2)),
            rng.choice((1.5, 2.0, 3.0)),
        )
        for number in range(rng.randint(1, 3) if hubs == 1 else rng.choice((0, 0, 1, 2)))
    )
    switches = tuple(
        Switch(
            f"hub {number}",
            rng.random() < 0.3,
            None if budgets else rng.choice((None, None, None, 2)),
            cut_through=rng.random() < 0.8,
        )
        for number in range(hubs)
    )
    return Topology("switched", ranks, links, 1.0, 1.0, budgets=budgets, switches=switches)


def _draw_budgets(
    rng: random.Random, edges: list[Edge], speeds: tuple[float, ...]
) -> tuple[Budget, ...]:
    """Draw no budgets, budgets of the egress or ingress of each node, or some of any links."""
    kind = rng.choice(("none", "ranks", "ranks", "any", "any", "any"))
    groups: dict[str, tuple[Edge, ...]] = {}
    if kind == "ranks":
        sides = rng.choice(((0,), (1,), (0, 1)))
        for side in sides:
            for node in sorted({edge[side] for edge in edges}):
                name = f"{('egress', 'ingress')[side]} of rank {node}"
                groups[name] = tuple(edge for edge in edges if edge[side] == node)
    elif kind == "any":
        for number in range(rng.randint(1, 3)):
            count = rng.randint(1, len(edges))
            groups[f"bus {number}"] = tuple(sorted(rng.sample(edges, count)))
    rate = rng.choice((None, min(speeds), *speeds))
    return tuple(Budget(name, own, rng.choice((1, 1, 2)), rate) for name, own in groups.items())


def draw_spec(rng: random.Random, ranks: int) -> Spec:
    """Return a collective: named, in groups, of counts, or of any chunks."""
    kind = rng.choice(("named", "named", "named", "groups", "counts", "custom", "one"))
    if kind == "groups" and ranks > 2:
        order = rng.sample(range(ranks), ranks)
        size = rng.randint(2, ranks)
        groups = [order[:size]] + ([order[size:]] if ranks - size > 1 else [])
        text = "/".join(",".join(map(str, sorted(group))) for group in groups)
        name = rng.choice(("allreduce", "allreduce", "allgather", "reducescatter", "alltoall"))
        return resolve_collective(f"{name}@{text}", ranks)
    if kind in {"counts", "custom", "one"}:
        return _draw_custom(rng, ranks, kind)
    name = rng.choice(collective_names())
    rooted = name in {"broadcast", "gather", "reduce", "scatter"}
    return named_spec(name, ranks, rng.randrange(ranks) if rooted else None)


def _draw_custom(rng: random.Random, ranks: int, kind: str) -> Spec:
    """Return chunks that some ranks hold and some want, perhaps of several sizes."""
    chunks = 1 if kind == "one" else rng.randint(1, 3)
    everyone = range(ranks)
    pre: list[list[int]] = []
    post: list[list[int]] = []
    for _ in range(chunks):
        holders = rng.sample(everyone, 1 if rng.random() < 0.8 else rng.randint(1, ranks - 1))
        rest = [rank for rank in everyone if rank not in holders]
        pre.append(sorted(holders))
        wanted = rng.sample(rest, 1 if kind == "one" else rng.randint(1, len(rest)))
        post.append(sorted(wanted))
    counts = tuple(rng.choice((1, 2, 5)) for _ in range(chunks)) if kind == "counts" else ()
    wire = CustomCollectiveWire(
        name="mine",
        ranks=ranks,
        pre=tuple((c, r) for c, group in enumerate(pre) for r in group),
        post=tuple((c, r) for c, group in enumerate(post) for r in group),
        counts=counts,
    )
    return custom_spec(wire, "random")


def draw_cases(rng: random.Random) -> list[Case]:
    """Draw a machine and a collective, with the largest sizes for some times."""
    machine = draw_machine(rng)
    spec = draw_spec(rng, machine.ranks)
    cases = [fill(machine, spec, draw_time(rng, machine)) for _ in range(TIMES)]
    return [case for case in cases if case is not None]


def draw_time(rng: random.Random, machine: Topology) -> Fraction:
    """Return a time of few steps, whole or broken, that common divisors of alphas make."""
    alphas = {Fraction(str(link.alpha_us)) for link in machine.links}
    step = max(alphas)
    if step:
        parts = max(alpha.denominator for alpha in alphas)
        whole = [int(alpha * parts) for alpha in alphas if alpha]
        step = min((Fraction(n, parts) for n in whole), default=Fraction(1))
        while any((alpha / step).denominator > 1 for alpha in alphas):
            step /= 2
    step = step or Fraction(1)
    part = rng.choice((Fraction(0), Fraction(0), Fraction(1, 2), Fraction(rng.randint(1, 9), 10)))
    steps = MOST_SLOTS[machine.ranks]
    return step * (rng.randint(1, steps) + part)


def fill(machine: Topology, spec: Spec, us: Fraction) -> Case | None:
    """Return the largest size for a time, or None below 100 bytes."""
    size = int(most_bytes(machine, spec.at(spec.unit), us))
    return Case(machine, spec, size, us) if size >= 100 else None
