"""TACOS: ways are looked at from all ranks only where one may be longer than links take."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.synth.network import tick_bounds
from tests.kit.nightly import times
from tests.kit.strategies import topologies
from tests.kit.tacos import found


@settings(max_examples=times(30, by_day=15))
@given(topologies(max_ranks=6), st.sampled_from(["allgather", "allreduce", "broadcast"]))
def test_bounds_are_the_same_as_with_all_ways(machine: Topology, collective: str) -> None:
    spec = named_spec(collective, machine.ranks)
    try:
        short = found(machine, spec, 1 << 10).bound.value
    except InputError:  # no way at all
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tick_bounds, "_detour_bound", lambda _ways, _ranks: 2**61 - 1)
        assert found(machine, spec, 1 << 10).bound.value == short
