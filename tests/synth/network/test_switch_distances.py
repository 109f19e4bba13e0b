"""Bounds for all schedules, on machines whose routes planning does not enumerate."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sccl
from sccl.collectives import named_spec
from sccl.core.clock import Clock
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import UnreachableError
from sccl.synth.network.routes import build_routes, has_dominated_routes
from sccl.synth.network.switch_distances import has_detours, nearest_ticks
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.tacos import found

FAST, SLOW = (0.1, 25.0), (10.0, 1.0)
"""Microseconds and GB/s."""

BYTES = 25_000


def around() -> Topology:
    """Return two ranks whose switches are joined by a slow link, and fast over a third switch."""
    pairs = [(0, 2), (2, 4), (4, 3), (3, 1)]
    edges = [(*pair, *FAST) for u, v in pairs for pair in ((u, v), (v, u))]
    edges += [(2, 3, *SLOW), (3, 2, *SLOW)]
    links = tuple(Link(u, v, 1, alpha, speed) for u, v, alpha, speed in sorted(edges))
    hubs = tuple(Switch(name) for name in ("left", "right", "between"))
    return Topology("around", 2, links, 0.0, 1.0, switches=hubs)


def without(topology: Topology, edges: set[tuple[int, int]]) -> Topology:
    """Return a machine that lacks some links."""
    return replace(topology, links=tuple(k for k in topology.links if k.edge not in edges))


@pytest.mark.parametrize("name", ["teccl", "tacos", "taccl"])
@pytest.mark.parametrize("collective", ["broadcast", "allreduce", "alltoall"])
@small_tacos_budget()
def test_detour_around_a_slow_link_stays_possible(name: str, collective: str) -> None:
    plan, machine = getattr(sccl, name), around()
    told = {"size": BYTES, "progress": False, "budget": 0.05}
    if name == "tacos":
        told = {"size": BYTES, "progress": False}
    fewer = without(machine, {(2, 3), (3, 2)})
    best = plan(collective, sccl.Topology(fewer), **told)
    assert best.finish_us < SLOW[0]
    assert plan(collective, sccl.Topology(machine), **told).bound_us <= best.finish_us


@st.composite
def circles(draw: st.DrawFn) -> Topology:
    """Return a machine of some ranks around switches that are joined in circles."""
    ranks, hubs = draw(st.integers(2, 4)), draw(st.integers(3, 4))
    switches = range(ranks, ranks + hubs)
    home = [draw(st.sampled_from(switches)) for _ in range(ranks)]
    both = {*enumerate(home), *((s, s + 1) for s in switches[:-1]), (switches[-1], ranks)}
    more = st.lists(st.sampled_from([(u, v) for u in switches for v in switches if u < v]))
    edges = sorted({pair for u, v in {*both, *draw(more)} for pair in ((u, v), (v, u))})
    alpha, speed = st.sampled_from([0.0, 1e-6, 9e-6]), st.sampled_from([100.0, 500.0, 1000.0])
    links = tuple(Link(u, v, 1, draw(alpha), draw(speed)) for u, v in edges)
    of = [Switch(f"hub {i}", False, None, draw(st.booleans())) for i in range(hubs)]
    return Topology("circles", ranks, links, 0.0, 1000.0, switches=tuple(of))


@settings(max_examples=times(15, by_day=8))
@given(st.data())
def test_restricted_machine_does_not_beat_the_bound(data: st.DataObject) -> None:
    machine = data.draw(circles())
    inner = [k.edge for k in machine.links if min(k.edge) >= machine.ranks]
    fewer = without(machine, data.draw(st.sets(st.sampled_from(inner), min_size=1)))
    kind = data.draw(st.sampled_from(["allgather", "alltoall", "broadcast", "allreduce"]))
    spec, size = named_spec(kind, machine.ranks), data.draw(st.integers(1, 9))
    try:
        best = found(fewer, spec, size)
    except UnreachableError:
        assume(False)  # the links that are left do not join all
    least = found(machine, spec, size).bound.value
    assert least is not None
    assert least <= best.objective


@settings(max_examples=times(60))
@given(st.data())
def test_no_way_through_switches_is_sooner(data: st.DataObject) -> None:
    machine, size = data.draw(circles()), data.draw(st.integers(1, 9))
    clock = Clock.from_topology(machine, size)
    ways = build_routes(machine, clock)
    nearest = nearest_ticks(machine, clock, ways.src, ways.dst, ways.cost)
    assert has_detours(machine)
    for u, v, ticks in zip(ways.src.tolist(), ways.dst.tolist(), nearest.tolist(), strict=True):
        others = set(range(machine.ranks)) - {u, v}
        graph = nx.DiGraph(k.edge for k in machine.links if not others & set(k.edge))
        assert ticks == min(passed(machine, size, way) for way in nx.all_simple_paths(graph, u, v))


def passed(machine: Topology, size: int, way: list[int]) -> int:
    """Return the ticks that a chunk takes over some nodes, at the pace of the slowest link."""
    alpha, bytes_pass, whole = 0, 0, 0
    clock = Clock.from_topology(machine, size)
    number = {link.edge: i for i, link in enumerate(machine.links)}
    for edge in pairwise(way):
        alpha += clock.alpha[number[edge]]
        bytes_pass = max(bytes_pass, clock.beta[0][number[edge]])
        inner = edge[1] >= machine.ranks
        if not inner or not machine.switches[edge[1] - machine.ranks].cut_through:
            whole, bytes_pass = whole + bytes_pass, 0
    return alpha + whole


def test_circles_of_switches_alone_have_detours() -> None:
    assert has_detours(around())
    assert not has_detours(without(around(), {(2, 3), (3, 2)}))
    line = without(around(), {(2, 4), (4, 2)})
    ways = build_routes(line, Clock.from_topology(line, 1))
    assert np.array_equal(
        nearest_ticks(line, Clock.from_topology(line, 1), ways.src, ways.dst, ways.cost), ways.cost
    )


def pairs(direct: float) -> Topology:
    """Return two pairs of ranks, each at a switch, and a common switch. One pair has links, too."""
    edges = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
    links = [Link(*pair, 1, 0.7, 25.0) for u, v in edges for pair in ((u, v), (v, u))]
    links += [Link(*pair, 1, 0.7, direct) for pair in ((0, 1), (1, 0))]
    hubs = tuple(Switch(name) for name in ("left", "right", "all"))
    return Topology("pairs", 4, tuple(links), 0.0, 25.0, switches=hubs)


@pytest.mark.parametrize("direct", [25.0, 5.0])
def test_way_next_to_a_link_that_is_no_slower_is_left_out_where_it_holds_others_up(
    direct: float,
) -> None:
    """It comes to a rank's link a switch sooner than others do, forwards and backwards."""
    for machine in (pairs(direct), pairs(direct).reversed()):
        ways = build_routes(machine, Clock.from_topology(machine, 1000), with_detours=False)
        ends = list(zip(ways.src.tolist(), ways.dst.tolist(), strict=True))
        assert has_dominated_routes(machine) == has_detours(machine) == (direct == 25.0)
        assert ends.count((0, 1)) == ends.count((1, 0)) == (1 if direct == 25.0 else 2)
        assert ends.count((2, 3)) == ends.count((0, 2)) == 1


def test_two_amd_chassis_take_turns_at_their_switches() -> None:
    """A crossing is over while the next one begins: 64 chunks took 25 us, one after the other."""
    amd, spec = resolve_topology("teccl-amdx2"), named_spec("broadcast", 32)
    best = found(amd, spec, 64_000, chunks=64, alpha="travels", improve=0.0)
    assert best.objective < 8
