"""Classical algorithms: judged for all numbers of ranks, with the costs of their sources."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.algorithm import Algorithm
from sccl.errors import (
    CollectiveError,
    InputError,
    JudgeError,
    ParameterError,
    TooLargeError,
    TopologyError,
    UnknownNameError,
)
from sccl.judge import violations
from sccl.synth import baselines
from sccl.synth.baselines import Pattern, make_pattern, to_algorithm, to_logical_algorithm
from sccl.synth.baselines.pattern import pattern_conversion, rings, send_pattern
from sccl.synth.baselines.pattern.rings import find_ring, find_rings, ring_edges
from sccl.topo import resolve_topology
from tests.kit.baselines import ALL, ONLY_ON, pattern, request
from tests.kit.nightly import times


@pytest.mark.parametrize("name", baselines.names())
def test_judge_accepts_every_pattern(name: str) -> None:
    """On fully connected machines. Patterns for other machines have separate tests."""
    for collective in baselines.load(name).COLLECTIVES:
        assert accepted(name, collective, range(2, 18)) >= (4 if name not in ONLY_ON else 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "collective"), ALL)
def test_judge_accepts_patterns_of_a_level_more(name: str, collective: str) -> None:
    """By day 15, 16 and 17 ranks are the last before a power of two, at one, and after it."""
    assert accepted(name, collective, (31, 32)) >= (1 if name not in ONLY_ON else 0)


def accepted(name: str, collective: str, sizes: Iterable[int]) -> int:
    """Return the numbers of ranks with a pattern, each of which passes verification."""
    count = 0
    for ranks in sizes:
        try:
            made = pattern(name, collective, f"full:{ranks}", root=ranks // 3)
        except InputError:
            continue
        assert violations(to_logical_algorithm(made)) == []
        count += 1
    return count


@given(st.data())
@settings(max_examples=times(40), deadline=None)
def test_judge_accepts_them_cut_into_pieces(data: st.DataObject) -> None:
    name, collective = data.draw(st.sampled_from(ALL))
    ranks = data.draw(st.integers(2, 12))
    pieces = data.draw(st.integers(1, 5))
    root = data.draw(st.integers(0, ranks - 1))
    try:
        made = pattern(name, collective, f"full:{ranks}", pieces, root)
    except InputError:
        return
    assert made.collective.chunks % pieces == 0
    assert violations(to_logical_algorithm(made)) == []


STEPS: dict[tuple[str, str], Callable[[int], int]] = {
    ("ring", "allgather"): lambda n: n - 1,
    ("ring", "reducescatter"): lambda n: n - 1,
    ("ring", "allreduce"): lambda n: 2 * (n - 1),
    ("ring", "broadcast"): lambda n: n - 1,
    ("ring-both", "allreduce"): lambda n: 2 * (n - 1),
    ("direct", "allreduce"): lambda _: 2,
    ("direct", "alltoall"): lambda _: 1,
    ("recursive-doubling", "allreduce"): lambda n: int(log2(n)) + 2 * (n & (n - 1) > 0),
    ("halving-doubling", "allreduce"): lambda n: 2 * int(log2(n)) + 2 * (n & (n - 1) > 0),
    ("bruck", "allgather"): lambda n: ceil(log2(n)),
    ("bruck", "alltoall"): lambda n: ceil(log2(n)),
    ("binomial-tree", "broadcast"): lambda n: ceil(log2(n)),
    ("binomial-tree", "scatter"): lambda n: ceil(log2(n)),
    ("binomial-tree", "allreduce"): lambda n: 2 * ceil(log2(n)),
    ("double-binary-tree", "broadcast"): lambda n: int(log2(n - 1)) + 1,
    ("double-binary-tree", "allreduce"): lambda n: 2 * (int(log2(n - 1)) + 1),
    ("blueconnect", "allreduce"): lambda _: 2,
    ("multitree", "allreduce"): lambda _: 2,
    ("bfb", "allreduce"): lambda _: 2,
}


@pytest.mark.parametrize("key", STEPS, ids="-".join)
def test_steps_are_those_of_the_source(key: tuple[str, str]) -> None:
    for ranks in range(2, 18):
        assert pattern(*key, f"full:{ranks}").steps == STEPS[key](ranks), ranks


def test_no_rank_sends_more_than_it_must() -> None:
    """n - 1 shards in each phase, in all: the bandwidth bound of the complete graph."""
    phases = {"allgather": 1, "reducescatter": 1, "allreduce": 2}
    for name, collective in ALL:
        if collective in phases and (collective != "allreduce" or name in {"ring", "bruck"}):
            made = pattern(name, collective, ONLY_ON.get(name, "full:8"))
            ranks, chunks = made.collective.ranks, made.collective.num_chunks
            assert made.num_sends == phases[collective] * chunks * (ranks - 1), (name, collective)


def test_blocks_double() -> None:
    made = pattern("recursive-doubling", "allgather", "full:16")
    first = {step: count for (step, src), count in _by_rank(made).items() if src == 5}
    assert first == {0: 1, 1: 2, 2: 4, 3: 8}
    whole = pattern("recursive-doubling", "allreduce", "full:16")
    assert set(_by_rank(whole).values()) == {16}
    halves = pattern("halving-doubling", "allreduce", "full:16")
    sizes = [{n for (step, _), n in _by_rank(halves).items() if step == s} for s in range(8)]
    assert sizes == [{8}, {4}, {2}, {1}, {1}, {2}, {4}, {8}]


@pytest.mark.parametrize("exponent", [1, 2, 3])
def test_trivance_triples_and_loads_a_ring_alike_in_each_step(exponent: int) -> None:
    """Distances are thirds of one another, so each step loads links as the first does."""
    ranks = 3**exponent
    made = pattern("trivance", "allgather", f"full:{ranks}")
    assert violations(to_logical_algorithm(made)) == []
    assert made.steps == exponent
    first = [count for (_, src), count in sorted(_by_rank(made).items()) if src == ranks // 2]
    assert first == [2 * 3**step for step in range(exponent)]
    over = to_algorithm(made, resolve_topology(f"routed:ring:{ranks}"))
    assert over.rounds_per_step == (3 ** (exponent - 1),) * exponent


def _by_rank(made: Pattern) -> Counter[tuple[int, int]]:
    return Counter(zip(made.step.tolist(), made.src.tolist(), strict=True))


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_brucks_ranks_have_one_peer_in_each_step(collective: str) -> None:
    made = pattern("bruck", collective, "full:11")
    way = 2**made.step if collective == "alltoall" else -(2**made.step)
    assert ((made.dst - made.src - way) % 11 == 0).all()


def test_brucks_alltoall_sends_half_in_each_step() -> None:
    assert set(_by_rank(pattern("bruck", "alltoall", "full:16")).values()) == {8}


@pytest.mark.parametrize(
    ("collective", "pieces", "costs"),
    [
        ("allgather", 1, (6, 7, 7)),
        ("reducescatter", 1, (48, 7, 7)),
        ("allreduce", 1, (48, 14, 14)),
        ("broadcast", 3, (18, 9, 9)),
        ("reduce", 3, (18, 9, 9)),
    ],
)
def test_rings_of_nccl_on_a_dgx1(collective: str, pieces: int, costs: tuple[int, int, int]) -> None:
    """SCCL, Table 3, with m = 3 pieces."""
    asked = request(collective, "dgx1")
    found = to_algorithm(make_pattern("multi-ring", asked, pieces), asked.topology)
    assert (found.collective.chunks, found.steps, found.rounds) == costs


@given(st.lists(st.integers(2, 7), min_size=1, max_size=3), st.booleans())
@settings(max_examples=times(40), deadline=None)
def test_grids_have_rings_over_links(sides: list[int], wraps: bool) -> None:
    even, flat = any(side % 2 == 0 for side in sides), len(sides) == 1
    exists = (wraps or (even and not flat)) or sides == [2]
    machine = resolve_topology(f"{'torus' if wraps else 'mesh'}:{'x'.join(map(str, sides))}")
    order = find_ring(machine)
    assert sorted(order) == list(range(machine.ranks))
    assert (set(ring_edges(order)) <= machine.edges) == exists


@pytest.mark.parametrize("sides", [(3, 5), (5, 3), (3, 3, 5), (3, 7, 9), (5, 5)])
def test_tori_of_odd_sides_need_no_search(sides: tuple[int, ...]) -> None:
    machine = resolve_topology("torus:" + "x".join(map(str, sides)))
    assert set(ring_edges(rings._odd_torus_ring(sides))) <= machine.edges


@pytest.mark.parametrize(
    ("topology", "count"),
    [("dgx1", 6), ("torus:32x32", 4), ("torus:5x3", 4), ("hypercube:4", 4), ("mesh:3x3", 1)],
)
def test_rings_share_no_lane(topology: str, count: int) -> None:
    machine = resolve_topology(topology)
    found = find_rings(machine)
    assert len(found) == count
    used = Counter(edge for order in found for edge in ring_edges(order))
    lanes = machine.lanes()
    if count > 1:
        assert all(used[edge] <= lanes[edge] for edge in used)


def test_ring_is_an_algorithm_of_its_machine() -> None:
    asked = request("allreduce", "torus:4x4")
    found = to_algorithm(make_pattern("ring", asked), asked.topology)
    assert (found.steps, found.rounds) == (30, 30)
    both = to_algorithm(make_pattern("ring-both", asked), asked.topology)
    assert (both.collective.chunks, both.rounds) == (32, 30)


def test_rounds_are_those_of_the_fullest_budget() -> None:
    asked = request("allgather", "switch:4x2")
    found = to_algorithm(make_pattern("direct", asked), asked.topology)
    assert found.rounds_per_step == (2,)  # 3 chunks leave each rank over 2 lanes


def test_hops_that_are_no_links_are_rejected() -> None:
    asked = request("allgather", "ring:8")
    with pytest.raises(TopologyError, match=r"from rank 0 to 2, .* 'ring:8' has no link"):
        to_algorithm(make_pattern("direct", asked), asked.topology)
    with pytest.raises(CollectiveError, match="the pattern is for 8 ranks"):
        to_algorithm(make_pattern("direct", asked), resolve_topology("ring:9"))


@pytest.mark.parametrize("name", [name for name in baselines.names() if name not in ONLY_ON])
def test_each_send_counts(name: str) -> None:
    """The judge finds every dropped send, and every one that is made twice."""
    for collective in set(baselines.load(name).COLLECTIVES) - {"alltoall"}:
        right = to_logical_algorithm(pattern(name, collective, "full:4"))
        for number, send in enumerate(right.sends):
            dropped = (*right.sends[:number], *right.sends[number + 1 :])
            assert violations(replace(right, sends=dropped))
            doubled = (*right.sends, send)
            assert _wrong(replace(right, sends=doubled), send.reduce)


def _wrong(doubled: Algorithm, reduces: bool) -> bool:
    kinds = {v.kind for v in violations(doubled)}
    spare = max(doubled.rounds_per_step) > 1  # a copy too much may fit where another link has more
    return "double-count" in kinds if reduces else spare or "bandwidth" in kinds


def test_algorithms_are_their_files() -> None:
    assert {"ring", "ring-both", "multi-ring", "binomial-tree"} <= set(baselines.names())
    for name in baselines.names():
        found = baselines.load(name)
        assert name == found.NAME
        assert found.SOURCE
        assert found.COLLECTIVES


def test_name_that_does_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'ring'"):
        make_pattern("rings", request("allgather", "full:4"))


def test_pattern_outside_its_source_is_rejected() -> None:
    with pytest.raises(CollectiveError, match="ring does not define alltoall: give one of"):
        make_pattern("ring", request("alltoall", "full:4"))
    with pytest.raises(ParameterError, match="such as 4 or 8, and there are 6"):
        make_pattern("halving-doubling", request("allgather", "full:6"))
    with pytest.raises(ParameterError, match="pieces is 0"):
        make_pattern("ring", request("allgather", "full:6"), 0)
    with pytest.raises(TooLargeError, match="up to 4096"):
        make_pattern("ring", request("allgather", "ring:5000"))


def test_too_many_sends_are_rejected_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_pattern, "MAX_ROWS", 100)
    with pytest.raises(TooLargeError, match="has 132 sends; this version makes up to 100"):
        make_pattern("direct", request("allgather", "full:12"))


@pytest.mark.parametrize("column", ["step", "chunk", "src", "dst"])
def test_columns_stay_in_range(column: str) -> None:
    made = pattern("ring", "allgather", "full:3")
    broken = getattr(made, column).copy()
    broken[-1] = -1 if column == "step" else 99
    with pytest.raises(ParameterError, match=f"{column} is (-1|99), expected 0 to"):
        replace(made, **{column: broken})


def test_columns_are_sorted() -> None:
    made = pattern("ring", "allgather", "full:3")
    with pytest.raises(ParameterError, match="row 1: it is out of order or repeats row 0"):
        replace(made, chunk=made.chunk[::-1].copy())
    rows = list(zip(made.step, made.chunk, made.src, made.dst, strict=True))
    assert all(a < b for a, b in itertools.pairwise(rows))


def test_same_bytes_twice() -> None:
    for name, collective in ALL:
        if name in ONLY_ON or collective == "alltoall":
            continue
        first, again = (pattern(name, collective, ONLY_ON.get(name, "full:8"), 2) for _ in range(2))
        assert first.chunk.tobytes() == again.chunk.tobytes()
        assert first.dst.tobytes() == again.dst.tobytes()


@pytest.mark.parametrize("few", [0, 10**9])
def test_every_pattern_passes_verification(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By compiled code and without: a defect of an algorithm is never handed on."""
    asked = request("allreduce", "full:5")
    right = baselines.load("ring").COLLECTIVES["allreduce"](asked, 1)
    kept = np.arange(right.num_sends) != 7
    columns = {
        name: getattr(right, name)[kept] for name in ("step", "chunk", "src", "dst", "reduce")
    }
    monkeypatch.setattr(pattern_conversion, "MAX_INTERPRETED_SENDS", few)
    monkeypatch.setitem(
        baselines.load("ring").COLLECTIVES, "allreduce", lambda *_: replace(right, **columns)
    )
    with pytest.raises(JudgeError, match="a classical algorithm returned an algorithm that fails"):
        make_pattern("ring", asked)
    monkeypatch.setitem(baselines.load("ring").COLLECTIVES, "allreduce", lambda *_: right)
    assert make_pattern("ring", asked) is right
