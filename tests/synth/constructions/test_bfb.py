"""Allgather breadth first on machines of any kind: as algorithms, written out or by symmetry."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat, Unknown
from sccl.core.graphs import distances
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.judge import steps, violations
from sccl.synth import constructions
from sccl.synth.constructions import bfb, bfb_costs
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.topo.symmetry.regular_groups import find_semiregular_group
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def question(machine: Topology, c: int, r: int, *, longer: int = 0) -> Instance:
    far = max(max(distances(machine.successors(), [u])) for u in range(machine.ranks))
    return Instance(machine, named_spec("allgather", machine.ranks).at(c), far + longer, r)


def answered(machine: Topology, c: int, r: int, *, symmetry: str = "auto") -> Sat | None:
    asked = question(machine, c, r)
    found = constructions.answer(asked, candidate_groups(machine, asked.collective, symmetry))
    return found if isinstance(found, Sat) else None


@settings(max_examples=times(80), deadline=None)
@given(topologies(max_ranks=7), st.integers(1, 4), st.sampled_from(["auto", "none"]))
def test_bfb_costs_are_attained_on_any_machine(machine: Topology, c: int, symmetry: str) -> None:
    plain = replace(machine, budgets=())
    if any(-1 in distances(plain.successors(), [r]) for r in range(plain.ranks)):
        return
    least = [ceil(c * cost) for cost in bfb_costs.step_costs(plain)]
    for more in (0, 2):
        found = answered(plain, c, sum(least) + more, symmetry=symmetry)
        assert found is not None
        assert steps.violations(expand_algorithm(found.algorithm)) == []
        assert found.algorithm.rounds_per_step == (least[0] + more, *least[1:])
    if sum(least) > len(least):
        assert answered(plain, c, sum(least) - 1, symmetry=symmetry) is None


@pytest.mark.parametrize(
    ("text", "c", "s", "r", "orbits"),
    [
        ("slimfly:5", 1, 2, 7, 10),
        ("kautz:4x64", 1, 3, 21, 16),
        ("debruijn:4x256", 1, 4, 85, 64),
        ("linegraph:2:circulant:16:3,4", 1, 5, 65, 8),
        ("cayley:64x4^15:1.0,0.1", 2, 14, 255, 1),
        ("mesh:4x10", 12, 12, 253, 10),
        ("product:dgx1_x_ring:4", 8, 4, 33, 4),
        ("cayley:128x8^15:36.3,53.4,89.5,109.2", 4, 7, 1023, 1),
    ],
)
def test_on_machines_of_many_kinds(text: str, c: int, s: int, r: int, orbits: int) -> None:
    """One rank of each orbit has sends, and the judge executes those of all."""
    machine = resolve_topology(text)
    found = answered(machine, c, r)
    assert found is not None
    made = found.algorithm
    assert isinstance(made, SymmetricAlgorithm)
    assert (made.steps, made.bandwidth_cost) == (s, Fraction(r, c))
    assert made.num_sends == c * machine.ranks * (machine.ranks - 1)
    assert len({sent.chunk % machine.ranks for sent in made.sends}) == orbits
    assert violations(made) == []
    assert violations(replace(made, sends=made.sends[1:]))


def test_without_symmetry_all_is_written_out() -> None:
    machine = resolve_topology("kautz:3x20")
    cost = bfb_costs.step_costs(machine)
    c = lcm(*(each.denominator for each in cost))
    found = answered(machine, c, int(sum(cost) * c), symmetry="none")
    assert found is not None
    assert isinstance(found.algorithm, Algorithm)
    assert len(found.algorithm.sends) == c * 20 * 19
    assert violations(found.algorithm) == []


def test_symmetry_that_fixes_a_rank_gives_no_free_group() -> None:
    assert find_semiregular_group([(1, 2, 3, 0)], 4) is not None
    assert find_semiregular_group([(1, 0, 3, 2)], 4) is not None
    assert find_semiregular_group([(1, 0, 2, 3)], 4) is None
    assert find_semiregular_group([(1, 2, 3, 0), (0, 3, 2, 1)], 4) is None


def test_too_many_sends_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = resolve_topology("kautz:3x20")
    assert answered(machine, 1, 99, symmetry="none") is not None
    monkeypatch.setattr(bfb, "MAX_TABLE_ROWS", 20 * 19 - 1)
    assert answered(machine, 1, 99, symmetry="none") is None


def test_solvers_are_asked_with_more_steps_and_fewer_rounds() -> None:
    machine = resolve_topology("slimfly:5")
    assert constructions.answer(question(machine, 1, 20, longer=1), ()) is None
    assert answered(machine, 1, 6) is None


def test_bfb_without_solver_reports_known_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a sweep does not ask for all that is cheaper, one by one."""
    machine = resolve_topology("dragonfly:4x5")
    asked = question(machine, 4, 22)
    monkeypatch.setattr(solve, "MAX_VARIABLES", 10)
    found = solve.solve(asked)
    known = constructions.cost_without_search(machine, asked.collective)
    assert isinstance(found, Unknown)
    assert known is not None
    assert found.best == known.bandwidth > Fraction(22, 4)


@pytest.mark.parametrize(
    "base",
    ["ring:5", "ring:8", "circulant:16:3,4", "kautz:2x12", "torus:4x4", "hypercube:3", "full:4"],
)
def test_expanded_machines_need_no_expanded_schedules(base: str) -> None:
    """Steps and R/C of the schedules that grow with graphs (Zhao et al., NSDI 2025, Table 2)."""
    machine = resolve_topology(base)
    n, d = machine.ranks, len(machine.links) // machine.ranks
    cost = bfb_costs.step_costs(machine)
    s, part = len(cost), sum(cost) * d / n
    for name, steps_, ranks, degree, whole in (
        (f"linegraph:{base}", s + 1, d * n, d, part + Fraction(1, n)),
        (f"copies:2:{base}", s + 1, 2 * n, 2 * d, part + Fraction(1, 2 * n)),
        (f"power:2:{base}", 2 * s, n * n, 2 * d, part * Fraction(n * n - 1, n * (n - 1))),
    ):
        made = bfb_costs.step_costs(resolve_topology(name))
        assert len(made) <= steps_
        assert sum(made) <= whole * ranks / degree
