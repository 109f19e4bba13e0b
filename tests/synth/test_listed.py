"""Algorithms by lists: they are right, the same each time, and there for what the papers list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.paper import load_table
from benchmarks.rows import question
from sccl.collectives import named
from sccl.core.answer import Sat, Unsat
from sccl.core.instance import Instance
from sccl.judge import violations
from sccl.prove.bounds.steps import farthest_pair
from sccl.solvers.effort import Effort
from sccl.synth.ksync import cpsat, time_indexed
from sccl.synth.ksync.cadical import answer as cadical
from sccl.synth.ksync.listed import listed
from sccl.topo import resolve
from tests.kit.nightly import times
from tests.kit.strategies import topologies

NAMES = ("allgather", "alltoall", "broadcast", "gather", "scatter")


@settings(max_examples=times(60))
@given(st.data())
def test_what_is_listed_is_right_and_the_same_each_time(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=6))
    spec = named(data.draw(st.sampled_from(NAMES)), topology.ranks)
    collective = spec.at(spec.unit * data.draw(st.integers(1, 3)))
    least = max(farthest_pair(topology, collective).steps, 1)
    steps = least + data.draw(st.integers(-1, 2))
    if steps < 1:
        return
    instance = Instance(topology, collective, steps, steps + data.draw(st.integers(0, 5)))
    found = listed(instance)
    assert listed(instance) == found
    if found is not None:
        assert violations(found) == []
        assert (found.steps, found.rounds) == (instance.steps, instance.rounds)
        assert steps >= least


@settings(max_examples=times(20, by_day=10))
@given(st.data())
def test_what_another_solver_refutes_is_not_found(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=4))
    spec = named(data.draw(st.sampled_from(NAMES)), topology.ranks)
    collective = spec.at(spec.unit)
    steps = max(farthest_pair(topology, collective).steps, 1)
    instance = Instance(topology, collective, steps, steps + data.draw(st.integers(0, 1)))
    if isinstance(cadical(instance, Effort()), Unsat):
        assert listed(instance) is None


@pytest.mark.parametrize("table", ["table4", "table5"])
def test_rows_of_the_papers_tables_take_no_model(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(time_indexed, "encode")
    for row in load_table(table).rows:
        if row.collective != "alltoall":
            for instance in question(row).instances:
                assert isinstance(cpsat.answer(instance, Effort()), Sat), row


def test_budgets_and_what_is_too_far_are_left_alone() -> None:
    shared, plain = resolve("z52-pcie"), resolve("dgx1")
    collective = named("allgather", 8).at(1)
    assert shared.budgets
    assert listed(Instance(shared, collective, 4, 9)) is None
    assert listed(Instance(plain, collective, 1, 9)) is None
