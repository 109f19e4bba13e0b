"""Unreachable demands are named, with links that would make them reachable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.topology import Link, Topology
from sccl.errors import UnreachableError
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.common.reachability import unreachable_error
from tests.kit.nightly import times


def joined(ranks: int, *edges: tuple[int, int]) -> Topology:
    links = tuple(Link(src, dst, 1, 1.0, 1.0) for src, dst in edges)
    return Topology("apart", ranks, links, 1.0, 1.0)


@pytest.mark.parametrize("name", ["teccl", "tacos", "limits-time"])
def test_planner_reports_missing_links_and_a_remedy(name: str) -> None:
    machine = joined(4, (0, 1), (1, 0), (2, 3), (3, 2))
    request = Request(machine, named_spec("alltoall", 4), 4000)
    with pytest.raises(UnreachableError, match=r"no path leads from .* add 2 links: \d->\d, \d->"):
        registry.plan(registry.load(name), request)


def test_link_that_others_make_superfluous_is_not_asked_for() -> None:
    error = unreachable_error(joined(3, (0, 1), (1, 2)), named_spec("gather", 3))
    assert str(error).endswith("add 1 link: 2->0")


def test_many_missing_pairs_are_abbreviated() -> None:
    error = unreachable_error(joined(8, (0, 1), (1, 0)), named_spec("broadcast", 8))
    assert "from rank 0 to rank 2, where broadcast needs its data" in str(error)
    assert str(error).endswith("add links, as 0->2, 0->3, 0->4, 0->5")


@settings(max_examples=times(40))
@given(st.data())
def test_with_the_links_that_are_named_all_can_come(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 4))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    edges = data.draw(st.sets(st.sampled_from(pairs), min_size=1))
    collective = data.draw(st.sampled_from(["allgather", "reduce", "scatter", "allreduce"]))
    spec = named_spec(collective, ranks)
    error = unreachable_error(joined(ranks, *sorted(edges)), spec)
    if error is not None and "links, as" not in str(error):
        added = {(int(a), int(b)) for a, b in re.findall(r"(\d)->(\d)", str(error))}
        assert not added & edges
        assert unreachable_error(joined(ranks, *sorted(edges | added)), spec) is None
