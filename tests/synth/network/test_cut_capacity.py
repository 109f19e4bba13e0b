"""Link capacities over time: only deciding chunk counts are listed, with equal results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.synth.network.cut_capacity import CutCapacity
from sccl.synth.packing.by_time.time_bound import TickBound, compute_time_bound
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies

MACHINES = [resolve_topology(name) for name in ("ring:5", "z52", "star:4", "rail:2x2", "torus:3x3")]

few = CutCapacity.carry_times


def every(pipes: CutCapacity, links: IntArray, tick: int, most: int) -> IntArray:
    """Return the capacity of links up to a tick, and check the listed values."""
    found = few(pipes, links, tick, 2**40)
    assert few(pipes, links, tick, most).tolist() == found[:most].tolist()
    return found


def bound(machine: Topology, collective: str, size: int, model: AlphaModel) -> TickBound | None:
    spec = named_spec(collective, machine.ranks)
    try:
        return compute_time_bound(
            machine, spec, spec.at(spec.unit), Clock.from_topology(machine, size, model)
        )
    except InputError:  # no way at all
        return None


@settings(max_examples=times(40, by_day=20), deadline=None)
@given(
    st.one_of(topologies(max_ranks=5), st.sampled_from(MACHINES)),
    st.sampled_from(["allgather", "broadcast", "reducescatter"]),
    st.integers(500, 2**20),
    st.sampled_from(AlphaModel),
)
def test_bounds_are_the_same_as_with_all_that_links_can_carry(
    machine: Topology, collective: str, size: int, model: AlphaModel
) -> None:
    listed = bound(machine, collective, size, model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CutCapacity, "carry_times", every)
        assert bound(machine, collective, size, model) == listed
