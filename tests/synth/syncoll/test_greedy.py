"""The greedy: algorithms are right, the same each time, and there for what the papers list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.paper import load_table
from benchmarks.rows import question
from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unsat
from sccl.core.instance import Instance
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import farthest_pair
from sccl.solvers.effort import Effort
from sccl.synth.syncoll import solve_cpsat
from sccl.synth.syncoll.greedy import schedule_greedily
from sccl.synth.syncoll.solve import solve
from sccl.synth.syncoll.solve_cadical import answer as cadical
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies

NAMES = ("allgather", "alltoall", "broadcast", "gather", "scatter")


@settings(max_examples=times(60))
@given(st.data())
def test_what_is_listed_is_right_and_the_same_each_time(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=6))
    spec = named_spec(data.draw(st.sampled_from(NAMES)), topology.ranks)
    collective = spec.at(spec.unit * data.draw(st.integers(1, 3)))
    least = max(farthest_pair(topology, collective).steps, 1)
    steps = least + data.draw(st.integers(-1, 2))
    if steps < 1:
        return
    instance = Instance(topology, collective, steps, steps + data.draw(st.integers(0, 5)))
    found = schedule_greedily(instance)
    assert schedule_greedily(instance) == found
    if found is not None:
        assert violations(found) == []
        assert (found.steps, found.rounds) == (instance.steps, instance.rounds)
        assert steps >= least


@settings(max_examples=times(20, by_day=10))
@given(st.data())
def test_what_another_solver_refutes_is_not_found(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=4))
    spec = named_spec(data.draw(st.sampled_from(NAMES)), topology.ranks)
    collective = spec.at(spec.unit)
    steps = max(farthest_pair(topology, collective).steps, 1)
    instance = Instance(topology, collective, steps, steps + data.draw(st.integers(0, 1)))
    if isinstance(cadical(instance, Effort()), Unsat):
        assert schedule_greedily(instance) is None


@pytest.mark.parametrize("table", ["table4", "table5"])
def test_rows_of_the_papers_tables_take_no_model(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(solve_cpsat, "encode")
    for row in load_table(table).rows:
        if row.collective != "alltoall":
            for instance in question(row).instances:
                answer = solve(instance)
                assert isinstance(answer, Sat), row


def test_budgets_and_what_is_too_far_are_left_alone() -> None:
    shared, plain = resolve_topology("z52-pcie"), resolve_topology("dgx1")
    collective = named_spec("allgather", 8).at(1)
    assert shared.budgets
    assert schedule_greedily(Instance(shared, collective, 4, 9)) is None
    assert schedule_greedily(Instance(plain, collective, 1, 9)) is None
