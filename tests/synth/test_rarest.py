"""Rarest first: what it finds is right, and it finds the rows of the paper."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.paper import PaperRow, load_table
from sccl.collectives import named
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.direct import rarest
from sccl.synth.ksync import cpsat
from sccl.topo import resolve
from sccl.transform import pose
from tests.kit.strategies import topologies

ROWS = [
    row
    for table in ("table4", "table5")
    for row in load_table(table).rows
    if row.collective in {"allgather", "allreduce", "broadcast"}
]


def instance_of(row: PaperRow) -> Instance:
    topology = resolve(row.topology)
    spec = named(row.collective, topology.ranks)
    return pose(topology, spec, row.chunks, row.steps, row.rounds).instances[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.topology}-{row}")
def test_the_rows_of_the_paper_are_found(row: PaperRow) -> None:
    asked = instance_of(row)
    made = rarest.algorithm(asked)
    assert made is not None
    assert violations(made) == []
    assert (made.collective, made.steps, made.rounds) == (
        asked.collective,
        asked.steps,
        asked.rounds,
    )
    answer = cpsat.answer(asked, Effort())
    assert isinstance(answer, Sat)
    assert (answer.algorithm, answer.solver) == (made, rarest.NAME)


@given(
    topologies(max_ranks=6),
    st.sampled_from(["allgather", "broadcast", "gather", "alltoall", "scatter"]),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_what_is_found_is_right(
    machine: Topology, name: str, times: int, steps: int, spare: int, seed: int
) -> None:
    spec = named(name, machine.ranks)
    (asked,) = pose(machine, spec, times * spec.unit, steps, steps + spare).instances
    made = rarest.algorithm(asked, seed)
    if made is None:
        return
    assert name in {"allgather", "broadcast"}
    assert violations(made) == []
    assert (made.steps, made.rounds) == (asked.steps, asked.rounds)
    assert made == rarest.algorithm(asked, seed)


def test_what_no_algorithm_does_is_not_found() -> None:
    asked = instance_of(PaperRow("dgx1", "allgather", 6, 2, 6, "", 0.0))
    assert rarest.algorithm(asked) is None  # 42 chunks enter a rank over 6 lanes in 6 rounds
    assert rarest.algorithm(instance_of(PaperRow("dgx1", "allgather", 1, 1, 3, "", 0.0))) is None


def test_budgets_and_large_questions_are_left_to_others() -> None:
    row = PaperRow("dgx1", "allgather", 1, 2, 2, "", 0.0)
    assert (
        rarest.algorithm(instance_of(replace(row, topology="z52-pcie", steps=4, rounds=8))) is None
    )
    assert rarest.algorithm(instance_of(replace(row, chunks=64, rounds=99))) is None


def test_matchings_are_greatest() -> None:
    """On full machines a rank takes all that it lacks, over whichever lanes."""
    for ranks, chunks in combinations(range(2, 6), 2):
        machine, spec = resolve(f"full:{ranks}"), named("allgather", ranks)
        (asked,) = pose(machine, spec, chunks, 1, chunks).instances
        assert rarest.algorithm(asked) is not None
