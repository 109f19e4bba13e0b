"""Few chunks at a limit, by whole numbers of timed trees."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.packing.by_steps.limits_by_steps import LimitWithPacking, step_limit
from sccl.synth.packing.by_steps.round_steps import IntegerPacking, round_to_few_chunks
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def limits(machine: Topology, name: str, last: int) -> list[LimitWithPacking]:
    """Return the limits from the fewest steps on, each begun with the one before."""
    spec = named_spec(name, machine.ranks)
    bounds = lower_bounds(machine, spec)
    found: list[LimitWithPacking] = []
    for steps in range(bounds.steps, last + 1):
        found.append(step_limit(machine, spec, steps, bounds, earlier=found[-1] if found else None))
    return found


def test_two_boxes_take_few_chunks() -> None:
    """They are the fewest of which R is whole."""
    found = []
    for packed in limits(resolve_topology("ndv2x2"), "allgather", 7):
        made = round_to_few_chunks(packed.packings[0], packed.limit.proofs[0])
        assert made is not None
        assert violations(made) == []
        assert made.bandwidth_cost == packed.limit.lower
        found.append((made.collective.chunks, made.steps, made.rounds))
    assert found == [(2, 5, 19), (20, 6, 167), (20, 7, 163)]


@settings(max_examples=times(25, by_day=13))
@given(topologies(max_ranks=5), st.sampled_from(("allgather", "broadcast", "alltoall", "scatter")))
def test_integer_packing_is_valid_and_at_the_limit(machine: Topology, name: str) -> None:
    spec = named_spec(name, machine.ranks)
    bounds = lower_bounds(machine, spec)
    packed = step_limit(machine, spec, bounds.steps, bounds)
    for packing in packed.packings:
        made = round_to_few_chunks(packing, packed.limit.proofs[0])
        if made is not None:
            assert violations(made) == []
            assert made.steps == bounds.steps
            assert made.bandwidth_cost == packed.limit.lower == packed.limit.upper


def test_c_at_which_rounds_are_no_whole_number_are_not_looked_at() -> None:
    (packed,) = limits(resolve_topology("dgx1"), "broadcast", 2)
    whole = IntegerPacking(packed.packings[0], packed.limit.proofs[0])
    assert packed.limit.lower == Fraction(1)
    assert whole.find_algorithm(2) is not None
    packed = limits(resolve_topology("dgx1"), "broadcast", 3)[-1]
    whole = IntegerPacking(packed.packings[0], packed.limit.proofs[0])
    assert packed.limit.lower == Fraction(9, 22)
    assert [whole.find_algorithm(chunks) is None for chunks in (21, 22)] == [True, False]


@pytest.mark.parametrize("name", ["dgx1", pytest.param("ndv2x2", marks=pytest.mark.nightly)])
def test_same_again(name: str) -> None:
    packed = limits(resolve_topology(name), "allgather", 2 if name == "dgx1" else 5)[-1]
    made = [round_to_few_chunks(packed.packings[0], packed.limit.proofs[0]) for _ in range(2)]
    assert made[0] is not None
    assert made[0] == made[1]
