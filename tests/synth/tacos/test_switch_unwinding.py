"""TACOS on machines with switch nodes: as they are, or unwound as the paper has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import AlphaModel
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import CollectiveError, InputError, UnreachableError
from sccl.judge import violations
from sccl.sim import replay
from sccl.synth.network import routes
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import specs
from tests.kit.tacos import found, schedule
from tests.kit.timed import is_right, switches


@st.composite
def switched(draw: st.DrawFn) -> Topology:
    """Return a machine with one to three switches of any kind, whose costs are a few ticks."""
    ranks, hubs = draw(st.integers(2, 4)), draw(st.lists(switches(), min_size=1, max_size=3))
    nodes = ranks + len(hubs)
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if u != v]
    around = [(r, ranks) for r in range(ranks)] + [(ranks, r) for r in range(ranks)]
    edges = sorted({*around, *draw(st.lists(st.sampled_from(pairs), unique=True))})
    alpha, speed = st.sampled_from([0.0, 1e-6, 3e-6]), st.sampled_from([250.0, 500.0, 1000.0])
    links = tuple(Link(u, v, draw(st.integers(1, 2)), draw(alpha), draw(speed)) for u, v in edges)
    named_hubs = tuple(replace(hub, name=f"hub {i}") for i, hub in enumerate(hubs))
    budgets: tuple[Budget, ...] = ()
    if draw(st.booleans()):
        shared = draw(st.lists(st.sampled_from(edges), unique=True, min_size=1))
        budgets = (Budget("bus", tuple(shared), draw(st.integers(1, 2)), draw(speed)),)
    return Topology("switched", ranks, links, 0.0, 1000.0, budgets=budgets, switches=named_hubs)


@settings(max_examples=times(60, by_day=30))
@given(st.data())
def test_schedules_over_switches_are_right_and_no_faster_than_the_bound(
    data: st.DataObject,
) -> None:
    topology = data.draw(switched())
    spec = data.draw(specs(topology.ranks))
    told: dict[str, object] = {"alpha": data.draw(st.sampled_from(AlphaModel)).value}
    told["switch_degree"] = data.draw(st.integers(0, 3))
    told["improve"] = data.draw(st.sampled_from([0.0, 0.01]))
    size, chunks = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 2))
    try:
        best = found(topology, spec, size, chunks=chunks, seed=data.draw(st.integers(0, 9)), **told)
    except CollectiveError as error:  # of a combining one of the user's own
        assume("reduces and ends with" not in str(error))
        raise
    plan = schedule(best)
    assert violations(plan) == []
    assert is_right(plan)
    assert best.bound.value <= best.objective


def star(ranks: int, hub: Switch, speeds: tuple[float, float] = (50.0, 50.0)) -> Topology:
    """Return ranks around a switch, each with a link of some speed to it, and one from it."""
    links = [Link(r, ranks, 1, 0.25, speeds[0]) for r in range(ranks)]
    links += [Link(ranks, r, 1, 0.25, speeds[1]) for r in range(ranks)]
    return Topology("star", ranks, tuple(links), 0.25, 50.0, switches=(hub,))


def test_switches_that_one_rank_sends_to_are_unwound() -> None:
    edges = [(0, 2), (1, 2), (2, 0), (2, 1), (0, 3), (3, 1)]
    links = tuple(Link(u, v, 1, 0.25, 250.0) for u, v in edges)
    hubs = tuple(Switch(name, False, None, False) for name in ("both ways", "one way"))
    machine = Topology("hubs", 2, links, 0.25, 250.0, switches=hubs)
    best = found(machine, named_spec("allgather", 2), 8, switch_degree=1)
    assert violations(schedule(best)) == []


HUBS = [Switch("plain"), Switch("copies", copies=True), Switch("stores", False, None, False)]


@pytest.mark.parametrize("ranks", [2, 4, 7, 16])
@pytest.mark.parametrize("alpha", ["occupies", "travels"])
@pytest.mark.parametrize("hub", HUBS, ids=lambda hub: hub.name)
def test_ports_of_a_switch_are_in_use_all_the_time(ranks: int, alpha: str, hub: Switch) -> None:
    for collective in ("allgather", "reducescatter", "alltoall"):
        best = found(star(ranks, hub), named_spec(collective, ranks), restarts=4, alpha=alpha)
        assert best.gap is not None
        assert best.gap <= (0.0 if hub.cut_through else 0.3)


@pytest.mark.parametrize("name", ["dgx2", "dgx-h100", "switch:8x18", "switch:16"])
def test_so_are_those_that_budgets_stand_for(name: str) -> None:
    machine = resolve_topology(name)
    for collective in ("allgather", "alltoall"):
        best = found(machine, named_spec(collective, machine.ranks), 1 << 26, chunks=4)
        assert best.gap is not None
        assert best.gap <= 0.01


def test_switched_transfer_is_one_message_of_two_rows() -> None:
    plan = schedule(found(star(3, Switch("hub"), (50.0, 25.0)), named_spec("broadcast", 3)))
    assert plan.message is not None
    assert plan.message.tolist() == [0, 0, 1, 1]
    assert len(set((plan.end - plan.start).tolist())) == 1
    assert replay(plan).finish == plan.finish


def test_only_where_it_comes_to_a_rank_is_a_chunk_reduced() -> None:
    plan = schedule(found(star(4, Switch("hub")), named_spec("allreduce", 4)))
    into_switch = [plan.topology.links[link].dst == 4 for link in plan.link.tolist()]
    assert not any(r for r, into in zip(plan.reduce.tolist(), into_switch, strict=True) if into)
    assert any(plan.reduce.tolist())


def test_switches_lead_to_switches() -> None:
    """Two leaves of two ranks, joined by two spines that each carry half of the crossing data."""
    links = [(r, 4 + r // 2) for r in range(4)]
    links += [(leaf, spine) for leaf in (4, 5) for spine in (6, 7)]
    both = [Link(*edge, 1, 0.5, 10.0) for u, v in links for edge in ((u, v), (v, u))]
    hubs = tuple(Switch(name) for name in ("leaf 0", "leaf 1", "spine 0", "spine 1"))
    pod = Topology("pod", 4, tuple(both), 0.5, 10.0, switches=hubs)
    best = found(pod, named_spec("alltoall", 4), chunks=4)
    plan = schedule(best)
    used = {pod.links[link].edge for link in plan.link.tolist()}
    assert {(4, 6), (4, 7), (5, 6), (5, 7)} <= used
    assert best.gap is not None
    assert best.gap <= 0.1


def test_too_many_ways_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_SENDS", 11)
    assert found(star(3, Switch("hub")), named_spec("allgather", 3)).is_optimal
    with pytest.raises(InputError, match="'star': its switches join ranks in more than 11 ways"):
        found(star(4, Switch("hub")), named_spec("allgather", 4))


def test_switch_that_leads_nowhere_joins_nobody() -> None:
    links = (Link(0, 2, 1, 0.0, 1.0), Link(1, 2, 1, 0.0, 1.0))
    blind = Topology("blind", 2, links, 0.0, 1.0, switches=(Switch("hub"),))
    with pytest.raises(UnreachableError, match="no path"):
        found(blind, named_spec("allgather", 2))


@pytest.mark.parametrize("alpha", ["occupies", "travels"])
@pytest.mark.parametrize(
    "name", ["switch2d:4x2", pytest.param("rfs:2x2x4", marks=pytest.mark.nightly), "star"]
)
def test_switches_as_they_are_are_not_behind_the_best_degree(name: str, alpha: str) -> None:
    machine = star(6, Switch("hub")) if name == "star" else resolve_topology(name)
    for collective in ("allgather", "allreduce", "alltoall"):
        spec = named_spec(collective, machine.ranks)
        size = machine.ranks << 20
        direct = found(machine, spec, size, alpha=alpha, improve=0.05)
        for degree in range(1, machine.ranks):
            unwound = found(machine, spec, size, alpha=alpha, switch_degree=degree)
            assert violations(schedule(unwound)) == []
            assert direct.objective <= unwound.objective


def test_unwound_switch_of_degree_1_is_a_ring() -> None:
    plan = schedule(found(star(5, Switch("hub")), named_spec("allgather", 5), switch_degree=1))
    assert plan.message is not None
    edges = [plan.topology.links[link].edge for link in plan.link.tolist()]
    for message in set(plan.message.tolist()):
        (src, _), (_, dst) = (
            edge for edge, m in zip(edges, plan.message.tolist(), strict=True) if m == message
        )
        assert dst == (src + 1) % 5


def test_machine_without_switches_stays() -> None:
    with pytest.raises(InputError, match="'ring:4' has no switch nodes to unwind: leave it out"):
        found(resolve_topology("ring:4"), named_spec("allgather", 4), switch_degree=1)
