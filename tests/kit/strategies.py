"""Random small machines and collectives for property-based tests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from sccl.collectives import Spec, collective_names, custom_spec, named_spec
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.graphs import distances
from sccl.core.topology import Budget, Link, Topology
from sccl.synth.network.variable_bandwidth import BandwidthInterval, VariableBandwidth


@st.composite
def topologies(draw: st.DrawFn, max_ranks: int = 4) -> Topology:
    """Return a strongly connected machine with one-way links, parallel lanes and shared buses."""
    ranks = draw(st.integers(2, max_ranks))
    order = draw(st.permutations(range(ranks)))
    cycle = {(order[i], order[(i + 1) % ranks]) for i in range(ranks)}  # keeps it connected
    others = [(u, v) for u in range(ranks) for v in range(ranks) if u != v and (u, v) not in cycle]
    extra = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    edges = sorted({*cycle, *extra})
    lanes = draw(st.lists(st.integers(1, 2), min_size=len(edges), max_size=len(edges)))
    budgets = []
    if draw(st.booleans()):
        shared = draw(st.lists(st.sampled_from(edges), unique=True, min_size=1))
        budgets.append(Budget("bus", tuple(shared), draw(st.integers(1, 2))))
    return Topology(
        name="random",
        ranks=ranks,
        links=tuple(Link(u, v, n, 1.0, 10.0) for (u, v), n in zip(edges, lanes, strict=True)),
        alpha_us=1.0,
        gb_per_s=10.0,
        budgets=tuple(budgets),
    )


@st.composite
def unequal(draw: st.DrawFn) -> Topology:
    """Return a machine whose links differ in speed, latency and lanes, and may share a bus."""
    plain = draw(topologies(max_ranks=5))
    speed, alpha = st.sampled_from([5.0, 10.0, 12.5, 40.0]), st.sampled_from([0.0, 0.7, 3.0])
    links = [replace(k, gb_per_s=draw(speed), alpha_us=draw(alpha)) for k in plain.links]
    return replace(plain, links=tuple(links))


@st.composite
def custom_specs(draw: st.DrawFn, ranks: int) -> Spec:
    """Return a custom collective in which something has to be moved."""
    chunks = draw(st.integers(1, 3))
    members = st.sets(st.integers(0, ranks - 1), min_size=1)
    pre = [draw(members) for _ in range(chunks)]
    post = [draw(members) for _ in range(chunks)]
    if all(after <= before for before, after in zip(pre, post, strict=True)):
        pre[0], post[0] = {0}, {1}
    wire = CustomCollectiveWire(
        name="mine",
        ranks=ranks,
        pre=tuple((c, r) for c, group in enumerate(pre) for r in sorted(group)),
        post=tuple((c, r) for c, group in enumerate(post) for r in sorted(group)),
    )
    return custom_spec(wire, "random")


@st.composite
def reductions(draw: st.DrawFn, ranks: int) -> Spec:
    """Draw a custom collective that reduces the values of some ranks, each on one of all ranks."""
    chunks, rank = draw(st.integers(1, 3)), st.integers(0, ranks - 1)
    pre = [sorted(draw(st.sets(rank, min_size=1))) for _ in range(chunks)]
    post = [draw(rank) for _ in range(chunks)]
    if all(group == [root] for group, root in zip(pre, post, strict=True)):
        pre[0], post[0] = [0, 1], 1
    wire = CustomCollectiveWire(
        name="sums",
        ranks=ranks,
        combining=True,
        pre=tuple((c, r) for c, group in enumerate(pre) for r in group),
        post=tuple(enumerate(post)),
    )
    return custom_spec(wire, "random")


@st.composite
def specs(draw: st.DrawFn, ranks: int) -> Spec:
    """Return a named collective, with a random root if it has one, or a custom one."""
    name = draw(st.sampled_from([*collective_names(), "custom"]))
    if name == "custom":
        return draw(custom_specs(ranks))
    rooted = name in {"broadcast", "gather", "reduce", "scatter"}
    return named_spec(name, ranks, draw(st.integers(0, ranks - 1)) if rooted else None)


def diameter(topology: Topology) -> int:
    """Return the longest shortest path."""
    successors = topology.successors()
    return max(max(distances(successors, [r])) for r in range(topology.ranks))


@st.composite
def bandwidths(draw: st.DrawFn, topology: Topology, *, lasting: bool = True) -> VariableBandwidth:
    """Return a bandwidth of a machine that varies, at whole microseconds.

    Args:
        lasting: whether it may be less for good.
    """
    edges = st.lists(st.sampled_from(sorted(topology.edges)), unique=True, max_size=3)
    found = []
    for _ in range(draw(st.integers(1, 3))):
        begin, length = draw(st.integers(0, 20)), draw(st.integers(1, 20))
        ends = not lasting or draw(st.booleans())
        found.append(
            BandwidthInterval(
                links=tuple(draw(edges)),
                from_us=Fraction(begin),
                to_us=Fraction(begin + length) if ends else None,
                fraction=draw(st.sampled_from([Fraction(n, 8) for n in (0, 0, 1, 4, 7, 8)])),
            )
        )
    return VariableBandwidth(tuple(found), "drawn")
