"""Shared resources of a fabric: pipes, and the representatives to check."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.topo import resolve_topology
from sccl.training.fabric_names import resolve_fabric
from sccl.training.options.fabric_resources import build_pipes, group_pipes, stream_load
from sccl.training.types.fabric import MAX_STREAMS, Channel, Fabric, SharedBudget
from tests.kit.nightly import times


def test_pipes_are_links_what_they_share_and_streams() -> None:
    pipes = build_pipes(resolve_fabric("hgx2x4"))
    assert len(pipes.names) == len(set(pipes.names)) == 128 + 72 + 64 + 2 * 32
    assert len(pipes.capacity) == 128 + 72 + 64
    assert pipes.names[0] == "gpu: rank 0 to NVSwitch 0"
    assert pipes.names[-1] == "cpu: streams of rank 31"


def test_loads_are_exact_and_rounded_up() -> None:
    """1,000 bytes over links of 1 GB/s that share 2 GB/s with others, in 4 us."""
    pair = resolve_topology("full:2@1GB+3us")
    bus = SharedBudget("bus", (("one", (0, 1)), ("two", (0, 1))), 2.0)
    pipes = build_pipes(Fabric("pair", (Channel("one", pair), Channel("two", pair)), (bus,)))
    carried = pipes.pipe_bytes(1, np.array([1000, 0]))
    by_name = dict(zip(pipes.names, pipes.loads(carried, 4000).tolist(), strict=False))
    assert {name: load for name, load in by_name.items() if load} == {
        "two: rank 0 to rank 1": 250,
        "bus": 125,
    }
    assert pipes.loads(carried, 3999).max() == 251
    large = pipes.loads(carried * 2**50, 4000 * 2**30)
    assert large.max() == 250 * 2**20


def test_no_more_motifs_fit_than_there_are_streams() -> None:
    for streams in range(1, MAX_STREAMS + 1):
        load = stream_load(Channel("one", resolve_topology("full:2"), streams=streams))
        assert 1000 // load <= streams
        assert streams > 31 or 1000 // load == streams


@settings(max_examples=times(60))
@given(st.lists(st.lists(st.integers(0, 3), min_size=32, max_size=32), min_size=1, max_size=6))
def test_sampled_fit_implies_full_fit(rows: list[list[int]]) -> None:
    """Any set of motifs that does not overload classes overloads no pipe."""
    pipes = build_pipes(resolve_fabric("hgx2"))
    width = len(pipes.names)
    loads = [np.array([row[k % 32] * 250 for k in range(width)]) for row in rows]
    classes = group_pipes(pipes, loads, [k % 2 for k in range(len(rows))])
    for some in range(1, 2 ** len(rows)):
        chosen = [load for k, load in enumerate(loads) if some >> k & 1]
        if all(sum(one.load(load) for load in chosen) <= 1000 for one in classes):
            assert (np.stack(chosen).sum(axis=0) <= 1000).all()


def test_classes_of_ranks_that_do_the_same_are_one() -> None:
    pipes = build_pipes(resolve_fabric("hgx2x4"))
    row = np.zeros(len(pipes.names), np.int64)
    row[[0, 2, 4]], other = 500, row * 0
    other[6] = 300
    classes = group_pipes(pipes, [row, other], [0, 1])
    assert [(pipes.names[c.pipes[0]], len(c.pipes)) for c in classes] == [
        ("gpu: rank 0 to NVSwitch 0", 3),
        ("gpu: rank 3 to NVSwitch 0", 1),
    ]
