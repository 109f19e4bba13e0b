"""Alltoall by routes that give way to one another, on machines of any kind."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.answer import Answer, Sat, Unknown
from sccl.core.graphs import distances
from sccl.core.instance import Instance, SweepRange
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.judge import steps, violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.solvers.effort import Effort
from sccl.synth import constructions
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.candidates import choose_k
from sccl.synth.common.settings import Settings
from sccl.synth.constructions import alltoall_routes
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def asked(machine: Topology, pieces: int, s: int, r: int, *, symmetry: str = "auto") -> object:
    question = named_spec("alltoall", machine.ranks).at(pieces * machine.ranks)
    return constructions.answer(
        Instance(machine, question, s, r), candidate_groups(machine, question, symmetry)
    )


@settings(max_examples=times(30, by_day=15), deadline=None)
@given(
    topologies(max_ranks=6),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from(["auto", "none"]),
)
def test_they_are_algorithms_on_any_machine(
    machine: Topology, pieces: int, more: int, symmetry: str
) -> None:
    """Budgets that links share and one-way links too."""
    far = max(max(distances(machine.successors(), [u])) for u in range(machine.ranks))
    found = asked(machine, pieces, far + more, 999, symmetry=symmetry)
    assert isinstance(found, Sat)
    made = found.algorithm
    assert steps.violations(expand_algorithm(made)) == []
    assert made.rounds == 999
    if found.group == "translations":
        return
    known = alltoall_routes.find_routes(machine, kept_by(made), pieces, far + more)
    assert known is not None
    fewest = sum(known.rounds)
    exact = asked(machine, pieces, far + more, fewest, symmetry=symmetry)
    assert isinstance(exact, Sat)
    assert exact.algorithm.rounds_per_step == known.rounds
    if fewest > far + more:
        less = asked(machine, pieces, far + more, fewest - 1, symmetry=symmetry)
        assert not isinstance(less, Sat)


def kept_by(made: AnyAlgorithm) -> tuple[tuple[int, ...], ...]:
    """Return the symmetries that an algorithm is given by."""
    if isinstance(made, SymmetricAlgorithm):
        return tuple(one.ranks for one in made.symmetries)
    return ()


@settings(max_examples=times(8, by_day=4), deadline=None)
@given(topologies(max_ranks=4), st.integers(0, 1))
def test_none_is_below_the_limit_and_most_are_near_it(machine: Topology, more: int) -> None:
    spec = named_spec("alltoall", machine.ranks)
    bounds = lower_bounds(machine, spec)
    s = bounds.steps + more
    found = alltoall_routes.find_routes(machine, (), 4, s)
    assert found is not None
    limit = step_limit(machine, spec, s, bounds).limit
    cost = Fraction(sum(found.rounds), 4 * machine.ranks)
    assert cost >= limit.lower
    assert limit.upper is not None
    assert cost <= limit.upper * Fraction(5, 4) + Fraction(s, 4 * machine.ranks)


@pytest.mark.parametrize(
    ("text", "c", "s", "r", "orbits"),
    [
        ("dgx1", 24, 2, 8, 2),
        ("dragonfly:4x5", 20, 3, 16, 1),
        ("ndv2x2", 16, 5, 64, 8),
        ("slimfly:5", 50, 2, 13, 10),
        ("cayley:16x4^7:1.0,0.1", 64, 9, 184, 1),
    ],
)
def test_they_meet_the_limit(text: str, c: int, s: int, r: int, orbits: int) -> None:
    machine = resolve_topology(text)
    found = asked(machine, c // machine.ranks, s, r)
    assert isinstance(found, Sat)
    made = found.algorithm
    assert isinstance(made, SymmetricAlgorithm)
    assert (made.steps, made.rounds) == (s, r)
    assert len({sent.chunk % machine.ranks for sent in made.sends}) == orbits
    assert violations(made) == []
    assert violations(replace(made, sends=made.sends[1:]))
    spec = named_spec("alltoall", machine.ranks)
    assert lower_bounds(machine, spec).bandwidth == Fraction(r, c)


def test_too_few_rounds_report_the_minimum() -> None:
    machine = resolve_topology("kautz:4x64")
    found = asked(machine, 1, 3, 40)
    assert isinstance(found, Unknown)
    assert found.best is not None
    assert (
        lower_bounds(machine, named_spec("alltoall", 64)).bandwidth <= found.best <= Fraction(4, 5)
    )
    again = asked(machine, 1, 3, int(found.best * 64))
    assert isinstance(again, Sat)
    assert violations(again.algorithm) == []


def test_product_costs_follow_from_factors() -> None:
    machine = resolve_topology("mesh:8x8")
    found = asked(machine, 1, 14, 128)
    assert isinstance(found, Unknown)
    assert found.best == 2
    again = asked(machine, 1, 14, 136)  # with one piece of each pair routes have to do
    assert isinstance(again, Sat)
    assert violations(again.algorithm) == []
    assert isinstance(asked(machine, 2, 14, 256), Sat)


def test_they_are_the_same_twice() -> None:
    machine = resolve_topology("mesh:4x4")
    one, other = (alltoall_routes.find_routes.__wrapped__(machine, (), 1, 7) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.rounds == other.rounds
    assert np.array_equal(one.link_of_step, other.link_of_step)


def test_far_or_large_machines_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = resolve_topology("mesh:4x4")
    assert alltoall_routes.find_routes(machine, (), 1, 5) is None
    monkeypatch.setattr(alltoall_routes, "MAX_WORK", 1000.0)
    assert alltoall_routes.find_routes(machine, (), 1, 8) is None


def test_solvers_are_not_asked_where_there_is_an_answer() -> None:
    machine = resolve_topology("slimfly:5")
    question = named_spec("alltoall", 50).at(50)
    found = solve.solve(Instance(machine, question, 2, 13))
    assert isinstance(found, Sat)
    assert found.solver == "construction"


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("ring:24", (48, 12, 144)),  # one piece of a pair half way round goes one way alone
        ("ring:34", (68, 17, 289)),
        ("mesh:5x5", (50, 8, 60)),
        ("mesh:6x6", (72, 10, 108)),
        ("circulant:33:2,5,7", (33, 4, 14)),  # its colouring takes shortest ways alone: 29/66
    ],
)
def test_sweeps_ask_no_solver_of_more_ranks(
    text: str, point: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solve, "load", _no_solver)
    machine = resolve_topology(text)
    found = find_frontier(
        machine,
        named_spec("alltoall", machine.ranks),
        SweepRange(None, point[1]),
        Settings("cpsat", Effort(10)),
    )
    assert [(p.chunks, p.steps, p.rounds) for p in found.points] == [point]


def test_bound_of_many_chunks_leaves_a_k_that_can_be_swept() -> None:
    machine = resolve_topology("dragonfly:4x9")
    spec = named_spec("alltoall", 36)
    bounds = lower_bounds(machine, spec)
    assert (bounds.bandwidth * 36).denominator > 10_000
    assert choose_k(SweepRange(), dual_of(spec), bounds).k == 19


class _NoSolver:
    def answer(self, instance: Instance, _: Effort) -> Answer:
        raise AssertionError(f"a solver was asked for R = {instance.rounds}")


def _no_solver(_: str) -> _NoSolver:
    return _NoSolver()
