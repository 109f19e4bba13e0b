"""Rounds of equal links: rematching of the last ones, and assignments of a rank in one."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.arrays import BoolArray, IntArray
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.synth.common.contract import Request
from sccl.synth.network.transfers import Sends
from sccl.synth.tacos import matching_uniform, tail_rematching
from sccl.synth.tacos.bitsets import random_state
from sccl.synth.tacos.matching_problem import MatchingProblem, build_tasks
from sccl.synth.tacos.matching_uniform import log_to_sends, match_uniform
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.tail_rematching import NOT_HELD, TransversalState, match_rounds, rematch_tail
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.tacos import found


def task(topology: Topology, chunks: int = 1, collective: str = "allgather") -> MatchingProblem:
    spec = named_spec(collective, topology.ranks)
    (first,) = build_tasks(Request(topology, spec, 1 << 20), Options(chunks=chunks))
    return first.problems[0]


def greedy(of: MatchingProblem, seed: int) -> tuple[int, Sends]:
    log = match_uniform(of.net, of.demand, seed, lambda _sends, _done: None)
    return len(log.fired) * int(of.net.busy[0]), log_to_sends(log, of.net, of.demand.chunks)


@pytest.mark.parametrize(
    "name",
    ["torus:4x4", "torus:8x8", "torus:16x16", "torus:5x5x5", "torus:6x6x6", "hypercube:8"],
)
def test_bound_is_met_where_links_taken_one_by_one_miss_it(name: str) -> None:
    machine = resolve_topology(name)
    spec = named_spec("allgather", machine.ranks)
    bests = [found(machine, spec, seed=seed) for seed in range(5)]
    assert all(best.is_optimal for best in bests)
    assert violations(bests[0].plan) == []


@settings(max_examples=times(40))
@given(st.integers(0, 999), st.sampled_from(["torus:3x4", "hypercube:4", "mesh:3x3", "ring:9"]))
def test_rematched_schedule_is_valid_and_no_later(seed: int, name: str) -> None:
    of = task(resolve_topology(name), chunks=1 + seed % 2)
    finish, sends = greedy(of, seed)
    better, others = rematch_tail(of.net, of.demand, finish, sends, seed)
    assert better <= finish
    plan = of.build_schedule(others)
    assert isinstance(plan, Schedule)
    assert plan.finish == better
    assert executes_correctly(plan)
    assert violations(plan) == []


@settings(max_examples=times(40))
@given(st.data())
def test_log_is_listed_by_round_chunk_and_link(data: st.DataObject) -> None:
    net = task(resolve_topology(data.draw(st.sampled_from(["ring:3", "mesh:3x4", "ring:9"])))).net
    links, chunks = len(net.src), data.draw(st.sampled_from([1, 7, 50, 1000]))
    fired = data.draw(st.lists(st.lists(st.booleans(), min_size=links, max_size=links)))
    bits = np.zeros((len(fired), -(-links // 64)), dtype=np.uint64)
    slots = [(i, slot) for i, row in enumerate(fired) for slot in range(links) if row[slot]]
    for i, slot in slots:
        bits[i, slot // 64] |= np.uint64(1 << slot % 64)
    random = np.random.Generator(np.random.PCG64(data.draw(st.integers(0, 99))))
    log = random.integers(chunks, size=len(slots)).astype(np.uint16)
    rows = zip(slots, log.tolist(), strict=True)
    expected = sorted((i * int(net.busy[0]), c, int(net.into[slot])) for (i, slot), c in rows)
    sends = log_to_sends(matching_uniform.RoundLog(bits, log), net, chunks)
    assert list(zip(*(c.tolist() for c in sends[:3]), strict=True)) == expected
    assert not sends.reduce.any()


def test_matching_that_meets_the_bound_is_left_alone() -> None:
    of = task(resolve_topology("mesh:4x4"))
    finish, sends = greedy(of, 1)
    assert rematch_tail(of.net, of.demand, finish, sends, 1)[1] is sends


@pytest.mark.parametrize(("what", "most"), [("MAX_TABLE_ROWS", 255), ("MAX_LINKS", 3)])
def test_too_large_problem_is_skipped(
    what: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = task(resolve_topology("torus:4x4"))
    least = of.lower_bound(0)
    tries = (greedy(of, seed) for seed in range(99))
    finish, sends = next(one for one in tries if one[0] > least)
    assert rematch_tail(of.net, of.demand, finish, sends, 0)[0] == least
    monkeypatch.setattr(tail_rematching, what, most)
    assert rematch_tail(of.net, of.demand, finish, sends, 0)[1] is sends


@st.composite
def lacking(draw: st.DrawFn) -> tuple[int, TransversalState]:
    """Return a few nodes with links between them, each of which holds some of a few chunks."""
    nodes, chunks = draw(st.integers(2, 5)), draw(st.integers(1, 7))
    held = draw(
        st.lists(
            st.lists(st.booleans(), min_size=chunks, max_size=chunks),
            min_size=nodes,
            max_size=nodes,
        )
    )
    links = [
        (src, dst)
        for dst in range(nodes)
        for src in range(nodes)
        if src != dst and draw(st.booleans())
    ]
    since = np.where(np.array(held), 0, NOT_HELD).astype(np.uint16)
    node, lacks = np.nonzero(since)
    missing = np.bincount(node, minlength=nodes).astype(np.uint64)
    degree = np.bincount([dst for _, dst in links], minlength=nodes)
    state = TransversalState(
        first_slot=np.concatenate(([0], np.cumsum(degree))).astype(np.uint64),
        src=np.array([src for src, _ in links], dtype=np.uint64),
        held_since=since.reshape(-1),
        missing_start=np.cumsum(missing) - missing,
        missing_chunks=lacks.astype(np.uint32),
        missing_count=missing,
        holders=(since == 0).sum(axis=0).astype(np.uint32),
        random=random_state(draw(st.integers(0, 99))),
        sends=np.empty((max(len(lacks), 1), 3), dtype=np.uint32),
        counts=np.array([len(lacks), 0], dtype=np.uint64),
    )
    return chunks, state


def kept(state: TransversalState) -> TransversalState:
    return state._replace(**{name: column.copy() for name, column in state._asdict().items()})


@settings(max_examples=times(200))
@given(lacking())
def test_rank_gets_as_many_chunks_as_can_be_and_the_scarcest(
    given: tuple[int, TransversalState],
) -> None:
    chunks, state = given
    before = kept(state)
    match_rounds(state, np.uint64(99))
    held = (before.held_since == 0).reshape(-1, chunks)
    holders = before.holders.astype(int)
    rows = state.sends[: int(state.counts[1])].astype(int)
    rows = rows[rows[:, 0] == 0]
    assert len({slot for _, slot, _ in rows.tolist()}) == len(rows)
    for node, (first, end) in enumerate(pairwise(before.first_slot.tolist())):
        got = [chunk for _, slot, chunk in rows.tolist() if first <= slot < end]
        for _, slot, chunk in rows.tolist():
            assert not first <= slot < end or (held[int(before.src[slot]), chunk])
        assert len(set(got)) == len(got)
        assert not any(held[node, chunk] for chunk in got)
        best = _most(held, node, before.src[first:end].astype(int).tolist(), holders)
        assert (len(got), sum(holders[chunk] for chunk in got)) == best
        holders[got] += 1
        if first == end and before.missing_count[node]:
            break  # its chunk never comes, so no other is examined


def _most(held: BoolArray, node: int, sources: list[int], holders: IntArray) -> tuple[int, int]:
    """Return how many chunks can come, and how few ranks hold them altogether, then."""
    graph = nx.Graph()
    for slot, src in enumerate(sources):
        for chunk in np.flatnonzero(held[src] & ~held[node]).tolist():
            graph.add_edge(("slot", slot), ("chunk", chunk), weight=1000 - holders[chunk])
    pairs = nx.max_weight_matching(graph, maxcardinality=True)
    weight = sum(graph.edges[pair]["weight"] for pair in pairs)
    return len(pairs), 1000 * len(pairs) - weight
